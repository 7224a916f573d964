package e2e

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between an agent and its API server, and does what networks do.
// What is encrypted stays encrypted: the client verifies the server's certificate.
type proxy struct {
	address, target string

	mu       sync.Mutex
	listener net.Listener // nil while it is down
	changed  *sync.Cond
	conns    map[*proxied]struct{}
	refuse   bool          // new connections are reset
	stall    bool          // nothing passes; what came waits, as packets that are sent again do
	mute     bool          // connections that are there, or begin, pass nothing any more, ever
	delay    time.Duration // each piece waits so long
	budget   int64         // a connection is cut after so many bytes from the server; 0 is no limit
}

// proxied is one connection through a proxy.
type proxied struct {
	client, server net.Conn
	dead           bool
}

func (c *proxied) close() {
	for _, side := range []net.Conn{c.client, c.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not a friendly end
		}
		side.Close()
	}
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{address: fmt.Sprint("127.0.0.1:", nextPorts(1)), target: target, conns: map[*proxied]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.up(t)
	t.Cleanup(func() {
		p.set(func() { p.stall = false })
		p.down()
	})
	return p
}

// up listens; from down on connections are refused by the kernel.
func (p *proxy) up(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.listener = l })
	go p.accept(l) // ends with the listener
}

func (p *proxy) down() {
	p.set(func() {
		if p.listener != nil {
			p.listener.Close()
		}
		p.listener = nil
	})
	p.cut()
}

// set changes how it behaves from now on.
func (p *proxy) set(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	p.changed.Broadcast()
}

// cut resets every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// cutUntil resets every connection, every two seconds until do is content: what
// the server was told a moment ago it may not know yet when the client is back.
func (p *proxy) cutUntil(t *testing.T, limit time.Duration, do func() error) time.Duration {
	t.Helper()
	var last time.Time
	return eventually(t, limit, func() error {
		if time.Since(last) > 2*time.Second {
			p.cut()
			last = time.Now()
		}
		return do()
	})
}

// silence lets every connection that there is pass nothing any more, without
// an end, as a firewall does that has forgotten it.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.dead = true
	}
}

func (p *proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse, dead := p.refuse, p.mute
		p.mu.Unlock()
		c := &proxied{client: client, server: client, dead: dead}
		if refuse {
			c.close()
			continue
		}
		if c.server, err = net.Dial("tcp", p.target); err != nil {
			c.server = client
			c.close()
			continue
		}
		p.mu.Lock()
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		var fromServer atomic.Int64
		go p.pipe(c, c.client, c.server, nil) // both end with the connection
		go p.pipe(c, c.server, c.client, &fromServer)
	}
}

func (p *proxy) pipe(c *proxied, from, to net.Conn, count *atomic.Int64) {
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
		c.close()
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			for p.stall {
				p.changed.Wait()
			}
			delay, budget, dead := p.delay, p.budget, c.dead
			p.mu.Unlock()
			if dead {
				continue
			}
			if delay > 0 {
				time.Sleep(delay)
			}
			if count != nil && budget > 0 {
				if left := budget - count.Load(); int64(n) > left {
					_, _ = to.Write(buf[:max(0, left)])
					return
				}
				count.Add(int64(n))
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
