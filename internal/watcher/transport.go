package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// How long a connection may be silent. client-go's own limits (30 s to dial, a
// ping after 30 s of silence, 15 s for its answer) let a host serve dead endpoints for
// most of a minute. A ping is 17 bytes.
const (
	resolveTimeout = 15 * time.Second // a resolver asks the second server after 5 s
	dialTimeout    = 4 * time.Second  // for each address. A SYN that is lost is sent again after 1 s, and after 3 s
	tlsTimeout     = 4 * time.Second
	silence        = 10 * time.Second // then a ping is sent,
	pingTimeout    = 5 * time.Second  // and without an answer the connection is given up
	keepAliveTCP   = 15 * time.Second // for a server without HTTP/2, where there are no pings
	steady         = time.Second      // a watch that lasted so long works, though it has said nothing
	lasting        = 30 * time.Second // one that lasted so long may end without being a failure
	overtime       = 30 * time.Second // what a server gets beyond the timeout that a watch asks for
)

// newTransport makes what all lists and watches of an API source share, so that
// they share a connection. What it meets is reported to the call that is in the
// request's context. done closes what is idle.
func newTransport(config *rest.Config) (rt http.RoundTripper, done func(), err error) {
	config = rest.CopyConfig(config)
	if config.Dial == nil {
		config.Dial = dial
	}
	tc, err := config.TransportConfig()
	if err != nil {
		return nil, nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, nil, err
	}
	proxy := tc.Proxy
	if proxy == nil {
		proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	base := &http.Transport{
		DialContext: tc.DialHolder.Dial, Proxy: proxy, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: tlsTimeout,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout},
		IdleConnTimeout: 90 * time.Second, DisableCompression: tc.DisableCompression,
	}
	rt = observed{base}
	if tc.BearerTokenFile != "" {
		if tc.HasBasicAuth() {
			return nil, nil, errors.New("the kubeconfig has a username and a token; one of them is too many")
		}
		// client-go reads it once a minute; with a token that was revoked, that is too late.
		rt = &bearer{next: rt, file: tc.BearerTokenFile}
		tc.BearerToken, tc.BearerTokenFile = "", ""
	}
	if rt, err = transport.HTTPWrappersForConfig(tc, rt); err != nil {
		return nil, nil, err
	}
	return rt, base.CloseIdleConnections, nil
}

// dial gives each address of a host its own time, and the resolver another.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAliveTCP}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return d.DialContext(ctx, network, address)
	}
	resolving, cancel := context.WithTimeout(ctx, resolveTimeout)
	addresses, err := net.DefaultResolver.LookupHost(resolving, host)
	cancel()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addresses {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a, port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// bearer sends the token that is in a file now. Lists and watches are few
// enough for a read each. While there is none in the file, as when it is written,
// the last one is sent, until the server does not take it.
type bearer struct {
	next http.RoundTripper
	file string

	mu   sync.Mutex
	last string
}

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := b.read()
	b.mu.Lock()
	if err == nil {
		b.last = token
	} else {
		token = b.last
	}
	b.mu.Unlock()
	if token == "" {
		err = fmt.Errorf("reading the token: %w", err)
		callOf(req).fail(err)
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	resp, nextErr := b.next.RoundTrip(req)
	if err != nil && nextErr == nil && resp.StatusCode == http.StatusUnauthorized {
		b.mu.Lock()
		b.last = "" // from now on what is wrong with the file is what is told
		b.mu.Unlock()
	}
	return resp, nextErr
}

func (b *bearer) read() (string, error) {
	data, err := os.ReadFile(b.file)
	token := strings.TrimSpace(string(data))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", b.file)
	}
	return token, err
}

// call is one list or watch as the network sees it. client-go tries again by
// itself, for ten seconds and more, and then gives out a failed watch as an empty one;
// an operator wants to know at the first failure, and until it is over.
type call struct {
	watch bool

	mu     sync.Mutex // held while it reports, so that what is said last is what is true
	report func(error)
	met    bool // the transport had to do with it
	failed bool // and what it reported last was a failure
	works  bool // success was reported
	cut    bool // the connection has ended
	back   bool // client-go has given its result
	over   bool // nobody waits for it any more
	body   io.Closer
	begun  time.Time
	timers []*time.Timer
}

type callKey struct{}

func (c *call) in(ctx context.Context) context.Context { return context.WithValue(ctx, callKey{}, c) }

// callOf is never nil: what nobody asked about is reported to nobody.
func callOf(req *http.Request) *call {
	if c, ok := req.Context().Value(callKey{}).(*call); ok {
		return c
	}
	return &call{report: func(error) {}}
}

// returned says whether a transport had to do with the call, and whether a
// failure was the last that it reported; client-go has given its result.
func (c *call) returned() (met, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = true
	return c.met, c.failed
}

func (c *call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met, c.failed, c.works = true, true, false
	c.stopTimers()
	c.report(err)
}

// overdue is a failure, if there is no answer yet, and no other failure.
func (c *call) overdue(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.met && !c.back {
		c.report(err)
	}
}

// refused: the server says no. client-go reads the reason out of the body and gives it as the result.
func (c *call) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met, c.failed = true, false
}

// answered: the server has begun to answer. Whether a watch works shows a
// little later; one that outlives the time that it asked for does not.
func (c *call) answered(body io.Closer, limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met, c.failed, c.begun, c.body = true, false, time.Now(), body
	if !c.watch || c.over {
		return
	}
	c.timers = append(c.timers, time.AfterFunc(steady, c.succeed))
	if limit > 0 {
		c.timers = append(c.timers, time.AfterFunc(limit+overtime, func() { body.Close() }))
	}
}

func (c *call) succeed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.works && !c.failed && !c.over {
		c.works = true
		c.report(nil)
	}
}

// ended: a watch's answer is over.
func (c *call) ended(server string, err error) {
	c.mu.Lock()
	c.cut = true
	works, lasted := c.works, time.Since(c.begun)
	c.mu.Unlock()
	switch {
	case works && lasted > lasting:
		// Proxies end what is silent for a minute. If it is more than that, the next try tells.
	case !errors.Is(err, io.EOF):
		c.fail(fmt.Errorf("%s: %w", server, err))
	case !works && lasted < steady:
		c.fail(fmt.Errorf("%s: the server ends the watch as soon as it has begun", server))
	}
}

// close: the client wants no more of it.
func (c *call) close() {
	c.mu.Lock()
	c.over = true
	c.stopTimers()
	body := c.body
	c.mu.Unlock()
	if body != nil {
		_ = body.Close()
	}
}

func (c *call) stopTimers() {
	for _, t := range c.timers {
		t.Stop()
	}
	c.timers = nil
}

// observed reports what happens to requests to the call that they belong to.
type observed struct{ next http.RoundTripper }

func (o observed) RoundTrip(req *http.Request) (*http.Response, error) {
	c, server := callOf(req), req.URL.Scheme+"://"+req.URL.Host
	resp, err := o.next.RoundTrip(req)
	switch {
	case err != nil:
		if req.Context().Err() == nil {
			c.fail(fmt.Errorf("%s: %w", server, err))
		}
	case resp.StatusCode >= 400:
		c.refused()
		if resp.Header.Get("Retry-After") != "" { // client-go tries again by itself
			c.fail(fmt.Errorf("%s: the server answers %s", server, resp.Status))
		}
	case resp.StatusCode < 300:
		seconds, _ := strconv.Atoi(req.URL.Query().Get("timeoutSeconds"))
		c.answered(resp.Body, time.Duration(seconds)*time.Second)
		if c.watch {
			resp.Body = &watchBody{ReadCloser: resp.Body, call: c, req: req, server: server}
		}
	}
	return resp, err
}

// watchBody is the answer to a watch, which has no end as long as all is well.
type watchBody struct {
	io.ReadCloser
	call   *call
	req    *http.Request
	server string
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.call.succeed()
	}
	if err != nil && b.req.Context().Err() == nil && !b.call.isOver() {
		b.call.ended(b.server, err)
	}
	return n, err
}

func (b *watchBody) Close() error {
	b.call.close()
	return nil
}

func (c *call) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

func (c *call) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}
