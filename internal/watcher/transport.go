package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// How long a connection may be silent. client-go's own limits (30 s to dial, a
// ping after 30 s of silence, 15 s for its answer) let a host serve dead endpoints for
// most of a minute. A ping is 17 bytes.
const (
	dialTimeout  = 4 * time.Second // a SYN that is lost is sent again after 1 s, and after 3 s
	tlsTimeout   = 3 * time.Second
	silence      = 10 * time.Second // then a ping is sent,
	pingTimeout  = 5 * time.Second  // and without an answer the connection is given up
	steady       = time.Second      // a watch that lasted so long works, though it has said nothing
	keepAliveTCP = 15 * time.Second // for a server without HTTP/2, where there are no pings
)

// newHTTPClient makes the one client of an API source: all its watches share a
// connection. What it meets is reported to the call that is in the request's context.
func newHTTPClient(ctx context.Context, config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	tokenFile := config.BearerTokenFile
	if tokenFile != "" {
		// client-go reads it once a minute; with a token that was revoked, that is too late.
		config.BearerToken, config.BearerTokenFile = "", ""
	}
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAliveTCP}).DialContext
	}
	tc, err := config.TransportConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
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
	context.AfterFunc(ctx, base.CloseIdleConnections)
	var rt http.RoundTripper = observed{base}
	if tokenFile != "" {
		rt = bearer{rt, tokenFile}
	}
	if rt, err = transport.HTTPWrappersForConfig(tc, rt); err != nil {
		return nil, err
	}
	return &http.Client{Transport: rt}, nil
}

// bearer sends the token that is in a file now. Lists and watches are few
// enough for a read each.
type bearer struct {
	next http.RoundTripper
	file string
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	data, err := os.ReadFile(b.file)
	if err == nil && strings.TrimSpace(string(data)) == "" {
		err = fmt.Errorf("%s is empty", b.file)
	}
	if err != nil {
		err = fmt.Errorf("reading the token: %w", err)
		callOf(req).fail(err)
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(data)))
	return b.next.RoundTrip(req)
}

// call is one list or watch as the network sees it. client-go tries again by
// itself, for ten seconds and more, and then gives out a failed watch as an empty one;
// an operator wants to know at the first failure, and until it is over.
type call struct {
	report func(error)
	watch  bool

	mu     sync.Mutex
	met    bool // the transport had to do with it
	works  bool // success was reported
	begun  time.Time
	steady *time.Timer
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

// hasMet says whether a transport reports how the call goes.
func (c *call) hasMet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.met
}

func (c *call) fail(err error) {
	c.mu.Lock()
	c.met, c.works = true, false
	c.mu.Unlock()
	c.over()
	c.report(err)
}

// answered: the server has begun to answer. Whether a watch works shows a little later.
func (c *call) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met, c.begun = true, time.Now()
	if c.watch {
		c.steady = time.AfterFunc(steady, c.succeed)
	}
}

func (c *call) succeed() {
	c.mu.Lock()
	was := c.works
	c.works = true
	c.mu.Unlock()
	if !was {
		c.report(nil)
	}
}

// over: the client wants no more of it.
func (c *call) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steady != nil {
		c.steady.Stop()
	}
}

// ended: a watch's answer is over.
func (c *call) ended(server string, err error) {
	c.mu.Lock()
	works, lasted := c.works, time.Since(c.begun)
	c.mu.Unlock()
	switch {
	case !errors.Is(err, io.EOF):
		c.fail(fmt.Errorf("%s: %w", server, err))
	case !works && lasted < steady:
		c.fail(fmt.Errorf("%s: the server ends the watch as soon as it has begun", server))
	}
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
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		c.fail(fmt.Errorf("%s: the server answers %s", server, resp.Status))
	case resp.StatusCode < 300:
		c.answered()
		if c.watch {
			resp.Body = &watchBody{ReadCloser: resp.Body, call: c, req: req, server: server}
		}
	} // else a refusal, which client-go reads out of the body
	return resp, err
}

// watchBody is the answer to a watch, which has no end as long as all is well.
type watchBody struct {
	io.ReadCloser
	call   *call
	req    *http.Request
	server string
	closed atomic.Bool
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.call.succeed()
	}
	if err != nil && !b.closed.Load() && b.req.Context().Err() == nil {
		b.call.ended(b.server, err)
	}
	return n, err
}

func (b *watchBody) Close() error {
	b.closed.Store(true)
	b.call.over()
	return b.ReadCloser.Close()
}
