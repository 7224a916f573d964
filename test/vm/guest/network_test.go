package guest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// The network: a client and four real servers in namespaces of their own, and
// the director between them, which is the machine itself. The VIP is on its lo.
const (
	vip         = "192.0.2.1"
	servicePort = "80"
	serverPort  = "8080"
)

var realServers = []string{"198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4"}

// network makes it, with echo servers that listen.
func network(t *testing.T) {
	t.Helper()
	ip := func(args ...string) { t.Helper(); must(t, append([]string{"ip"}, args...)...) }
	for _, n := range []struct{ name, net string }{{"client", "203.0.113."}, {"server", "198.51.100."}} {
		ip("netns", "add", n.name)
		t.Cleanup(func() { must(t, "ip", "netns", "del", n.name) })
		ip("link", "add", "d-"+n.name, "type", "veth", "peer", "name", "eth0", "netns", n.name)
		ip("addr", "add", n.net+"254/24", "dev", "d-"+n.name)
		ip("link", "set", "d-"+n.name, "up")
		ip("-n", n.name, "link", "set", "lo", "up")
		ip("-n", n.name, "link", "set", "eth0", "up")
		ip("-n", n.name, "addr", "add", n.net+"1/24", "dev", "eth0")
		ip("-n", n.name, "route", "add", "default", "via", n.net+"254")
		// The namespace's end outlives it for a moment, which the next test's would collide with.
		t.Cleanup(func() { must(t, "ip", "link", "del", "d-"+n.name) })
	}
	for _, s := range realServers[1:] {
		ip("-n", "server", "addr", "add", s+"/24", "dev", "eth0")
	}
	ip("addr", "add", vip+"/32", "dev", "lo")
	t.Cleanup(func() { must(t, "ip", "addr", "del", vip+"/32", "dev", "lo") })
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	var listen []string
	for _, s := range realServers {
		listen = append(listen, net.JoinHostPort(s, serverPort))
	}
	inNamespace(t, "server", "server", listen...)
}

// peer is this binary as a client or server, in a namespace.
type peer struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// inNamespace starts one, which is ready when this returns, and ends with the test.
func inNamespace(t *testing.T, namespace, role string, args ...string) *peer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Cmd: exec.Command("ip", append([]string{"netns", "exec", namespace, self}, args...)...)}
	p.Env = append(os.Environ(), "LB_RENDER_VM_ROLE="+role)
	p.Stderr = os.Stderr
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // ip has become the peer
		p.Process.Kill()
		p.Wait()
	})
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the %s is not ready: %q %v", role, line, err)
	}
	return p
}

// serve is the real servers: it echoes on every one of the addresses, until its end.
func serve(addresses []string) int {
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			return 1
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					io.Copy(c, c)
					c.Close()
				}()
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

const (
	perSecond = 160 // new connections
	longLived = 8
	// What is missing from the table is refused at once. This is for an emulated machine on a busy host, which stalls.
	patience = 15 * time.Second
)

// outcome is what a client prints at its end.
type outcome struct {
	New, Failed     int
	Long, Alive     int
	Exchanges       int
	Slowest         time.Duration
	Errors          map[string]int
	LongLivedErrors []string
}

func (o outcome) String() string {
	return fmt.Sprintf("%d of %d failed, %d of %d alive", o.Failed, o.New, o.Alive, o.Long)
}

// load is the client: until its input ends, it makes new connections to the
// address, each of which exchanges a byte, while the long-lived ones go on
// exchanging one.
func load(address string) int {
	o := outcome{Long: longLived, Errors: map[string]int{}}
	var mu sync.Mutex
	var long []net.Conn
	for range longLived {
		c, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			err = exchange(c)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			return 1
		}
		long = append(long, c)
	}
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	var all sync.WaitGroup
	for _, c := range long {
		all.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for last := false; ; {
				err := exchange(c)
				mu.Lock()
				if err != nil {
					o.LongLivedErrors = append(o.LongLivedErrors, err.Error())
					mu.Unlock()
					return
				}
				o.Exchanges++
				if last {
					o.Alive++
					mu.Unlock()
					return
				}
				mu.Unlock()
				select {
				case <-tick.C:
				case <-stop: // once more, after the last change
					last = true
				}
			}
		})
	}
	fmt.Println("ready")
	started := time.Now()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		case <-time.After(time.Until(started.Add(time.Duration(o.New) * time.Second / perSecond))):
			o.New++
			all.Go(func() {
				begun := time.Now()
				c, err := net.DialTimeout("tcp", address, patience)
				if err == nil {
					err = exchange(c)
					c.Close()
				}
				mu.Lock()
				defer mu.Unlock()
				o.Slowest = max(o.Slowest, time.Since(begun))
				if err != nil {
					o.Failed++
					o.Errors[cause(err)]++
				}
			})
		}
	}
	all.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return 1
	}
	return 0
}

// exchange sends a byte, and gets it back.
func exchange(c net.Conn) error {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte{'x'}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// cause is an error without the ports, for counting.
func cause(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		err = e
	}
	return err.Error()
}

// finish ends the client's work, and returns what came of it.
func (p *peer) finish(t *testing.T) outcome {
	t.Helper()
	p.in.Close()
	var o outcome
	if err := json.NewDecoder(p.out).Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}
