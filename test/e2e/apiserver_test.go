package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outage is a cluster of two API servers: the agent has the first, which the
// test takes away; the cluster goes on changing through the second.
type outage struct {
	*cluster
	t    *testing.T
	a    *agent
	p    *proxy // before the first API server
	pods []pod
	next int
}

func newOutage(t *testing.T, change ...func(*settings)) *outage {
	t.Helper()
	needControlPlane(t)
	t.Parallel()
	o := &outage{cluster: newCluster(t, 2), t: t, next: 100}
	o.pods = o.web(t, "shop", "green", 4, 1)
	o.p = newProxy(t, o.server(t, 0))
	s := settings{server: o.p.address, key: "green"}
	for _, c := range change {
		c(&s)
	}
	o.a = o.startAgent(t, s)
	eventually(t, soon, o.right)
	eventually(t, soon, o.a.isReady)
	return o
}

func (o *outage) right() error { return o.a.serves(weighted(1, o.pods...)...) }

// change replaces a pod: the first goes, a new one comes.
func (o *outage) change() {
	o.t.Helper()
	o.terminate(o.t, o.pods[0])
	o.finish(o.t, o.pods[0])
	o.next++
	o.pods = append(slices.Clone(o.pods[1:]), o.cluster.pods(o.t, "shop", "web", 1, o.next, "shop-0")...)
	o.waitSlices(o.t, "shop", "web", len(o.pods))
}

// stays is nil while the files are as they were.
func (o *outage) unchanged() func() error {
	before := map[string]string{}
	for _, f := range outputs {
		before[f] = o.a.live(f)
	}
	return func() error {
		for _, f := range outputs {
			if o.a.live(f) != before[f] {
				return fmt.Errorf("%s has changed while the API server is away", f)
			}
		}
		return nil
	}
}

// noticed waits until /readyz is red, names the server's address, and status fails.
func (o *outage) noticed(limit time.Duration, words ...string) time.Duration {
	o.t.Helper()
	took := eventually(o.t, limit, func() error { return o.a.isRed(words...) })
	eventually(o.t, soon, func() error {
		if code, _ := o.a.status(o.t); code != 1 {
			return fmt.Errorf("status: exit code %d", code)
		}
		return nil
	})
	return took
}

// healed waits until the files are right, and then holds the rest that is
// asked after each fault: green, settled, no useless reload.
func (o *outage) healed() time.Duration {
	o.t.Helper()
	took := eventually(o.t, healLimit, o.right)
	o.a.inOrder(o.t)
	return took
}

// TestAPIServerKilled: killed, and started again after 30 seconds.
func TestAPIServerKilled(t *testing.T) {
	o := newOutage(t)
	files := o.unchanged()
	o.procs["apiserver-0"].stop(syscall.SIGKILL)
	noticed := o.noticed(time.Minute, "cluster:")
	o.change()
	during(t, 30*time.Second-noticed, files)
	if n := o.a.metric(`rdei_lb_kube_connect_err_count{endpoint="services",lb="lb-render",seczone="green"}`); !(n > 0) {
		t.Error("the failures were not counted")
	}
	o.procs["apiserver-0"].start(t)
	o.waitReady(t, 0, time.Minute)
	took := o.healed()
	figure(t, "API server killed, away for 30 s: noticed after %s; files right %s after its return", noticed.Round(time.Millisecond), took.Round(time.Millisecond))
}

// TestHistoryCompacted: when the server is back, it has forgotten what the
// agent saw last: 410 Gone.
func TestHistoryCompacted(t *testing.T) {
	o := newOutage(t)
	o.change()
	o.healed()
	// A connection that is refused makes the client try the same watch again, if
	// there were events on it.
	o.p.down()
	o.procs["apiserver-0"].stop(syscall.SIGKILL)
	o.noticed(time.Minute, "cluster:")
	o.change()
	o.compact(t)
	o.procs["apiserver-0"].start(t)
	o.waitReady(t, 0, time.Minute)
	o.p.up(t)
	took := o.healed()
	if log := o.a.logged(); !strings.Contains(log, "too old resource version") {
		t.Error("the agent met no 410 Gone: this test tests nothing")
	}
	figure(t, "history compacted while the API server was away (410 Gone): files right %s after its return", took.Round(time.Millisecond))
}

// TestAPIServerHangs: two minutes of SIGSTOP. The connections stay open; what
// is written to them is taken by the kernel, and nobody answers.
func TestAPIServerHangs(t *testing.T) {
	o := newOutage(t)
	files := o.unchanged()
	started := time.Now()
	o.procs["apiserver-0"].signal(syscall.SIGSTOP)
	t.Cleanup(func() { o.procs["apiserver-0"].signal(syscall.SIGCONT) })
	noticed := o.noticed(time.Minute, "cluster:")
	o.change()
	during(t, 2*time.Minute-time.Since(started), files)
	o.procs["apiserver-0"].signal(syscall.SIGCONT)
	o.waitReady(t, 0, time.Minute)
	took := o.healed()
	figure(t, "API server stopped for 2 min (SIGSTOP): noticed after %s; files right %s after its return", noticed.Round(time.Millisecond), took.Round(time.Millisecond))
}

// TestNetwork: connections that are reset, stall, are forgotten, are slow, and end in the middle of an answer.
func TestNetwork(t *testing.T) {
	o := newOutage(t)

	// Reset, and refused for a while.
	o.p.set(func() { o.p.refuse = true })
	o.p.cut()
	noticed := o.noticed(time.Minute, "cluster:")
	o.change()
	during(t, 5*time.Second, o.unchanged())
	o.p.set(func() { o.p.refuse = false })
	took := o.healed()
	figure(t, "connections reset and refused: noticed after %s; files right %s after their return", noticed.Round(time.Millisecond), took.Round(time.Millisecond))

	// Every packet is lost for a while; what was sent is sent again.
	o.p.set(func() { o.p.stall = true })
	noticed = o.noticed(time.Minute, "cluster:")
	o.change()
	during(t, 5*time.Second, o.unchanged())
	o.p.set(func() { o.p.stall = false })
	took = o.healed()
	figure(t, "packets lost: noticed after %s; files right %s after their return", noticed.Round(time.Millisecond), took.Round(time.Millisecond))

	// The connections are forgotten by something between; new ones work.
	o.p.silence()
	o.change()
	took = eventually(t, time.Minute, o.right)
	figure(t, "open connections silently dead, new ones work: files right after %s", took.Round(time.Millisecond))
	o.healed()

	// And so are the new ones, for a while.
	o.p.set(func() { o.p.mute = true })
	o.p.silence()
	noticed = o.noticed(time.Minute, "cluster:")
	o.change()
	o.p.set(func() { o.p.mute = false })
	took = o.healed()
	figure(t, "every connection silently dead: noticed after %s; files right %s after new ones work", noticed.Round(time.Millisecond), took.Round(time.Millisecond))

	// Slow: 300 ms for each piece, in each direction.
	o.p.set(func() { o.p.delay = 300 * time.Millisecond })
	o.p.cut()
	o.change()
	took = eventually(t, soon, o.right)
	o.change()
	again := eventually(t, healLimit, o.right)
	o.p.set(func() { o.p.delay = 0 })
	figure(t, "300 ms for each packet: files right %s after a new connection, %s after a change", took.Round(time.Millisecond), again.Round(time.Millisecond))
	o.healed()

	// Cut in the middle of an answer, again and again.
	o.p.set(func() { o.p.budget = 3000 })
	o.p.cut()
	noticed = o.noticed(time.Minute, "cluster:")
	o.change()
	during(t, 5*time.Second, o.unchanged())
	o.p.set(func() { o.p.budget = 0 })
	took = o.healed()
	figure(t, "answers cut off after 3,000 bytes: noticed after %s; files right %s after they are whole", noticed.Round(time.Millisecond), took.Round(time.Millisecond))
}

// TestCertificate: the server's certificate is renewed, and then its authority changes.
func TestCertificate(t *testing.T) {
	o := newOutage(t)
	restart := func() {
		o.procs["apiserver-0"].stop(syscall.SIGKILL)
		o.procs["apiserver-0"].start(t)
		o.waitReady(t, 0, time.Minute)
	}
	o.tool(t, "certs", "--keep-ca", "--server", "0", o.dir)
	restart()
	o.change()
	took := o.healed()
	figure(t, "certificate renewed by the same authority: files right %s after its return", took.Round(time.Millisecond))

	o.tool(t, "certs", "--server", "0", o.dir) // the second goes on with the old authority, for the test and the controllers
	restart()
	noticed := o.noticed(healLimit+5*time.Second, "certificate")
	o.change()
	during(t, 3*time.Second, o.unchanged())
	o.a.write(t, "ca.crt", o.read(t, "ca.crt")+"\n")
	took = o.healed()
	figure(t, "certificate of another authority: noticed after %s; files right %s after the new ca.crt is there", noticed.Round(time.Millisecond), took.Round(time.Millisecond))
}

// TestTokenRotated: the token is revoked; the next one in tokenFile is taken up.
func TestTokenRotated(t *testing.T) {
	o := newOutage(t)
	// A token ends with its account.
	accounts := o.client.CoreV1().ServiceAccounts(cmNamespace)
	if err := accounts.Delete(background, account, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.apply(t, filepath.Join("..", "..", "examples", "kubernetes", "rbac.yaml"))
	// The server remembers for ten seconds that it found a token good, and looks when a watch begins.
	noticed := o.p.cutUntil(t, time.Minute, func() error { return o.a.isRed("Unauthorized", "credentials") })
	o.change()
	during(t, 3*time.Second, o.unchanged())
	o.a.write(t, "token", o.token(t))
	took := o.healed()
	figure(t, "token revoked: noticed after %s; files right %s after the new one is in tokenFile", noticed.Round(time.Millisecond), took.Round(time.Millisecond))

	// A new token while the old one is good: nothing is seen of it.
	before := len(o.a.logged())
	o.a.write(t, "token", o.token(t))
	o.p.cut()
	o.change()
	o.healed()
	if log := o.a.logged()[before:]; strings.Contains(log, "Unauthorized") {
		t.Errorf("a token that was renewed in time was not accepted:\n%s", log)
	}
}

// TestStartWithoutAPIServer: READY after startTimeout, the files of the last run
// in force, and then convergence.
func TestStartWithoutAPIServer(t *testing.T) {
	o := newOutage(t, func(s *settings) { s.timing = "{startTimeout: 5s}" })
	o.a.stop(syscallTERM)
	o.procs["apiserver-0"].stop(syscall.SIGKILL)
	o.change()
	socket, said := notifySocket(t)
	o.a.env = append(o.a.env, "NOTIFY_SOCKET="+socket)
	files, reloads := o.unchanged(), len(o.a.reloads())
	o.a.start(t)
	started := time.Now()
	deadline := time.After(30 * time.Second)
	for ready := false; !ready; {
		select {
		case s := <-said:
			ready = strings.Contains(s, "READY=1")
		case <-deadline:
			t.Fatal("never READY")
		}
	}
	took := time.Since(started)
	if took < 4500*time.Millisecond {
		t.Errorf("READY after %s, before startTimeout and with no API server", took)
	}
	o.noticed(time.Second, "cluster:")
	during(t, 3*time.Second, files)
	if n := len(o.a.reloads()); n != reloads {
		t.Errorf("%d reloads with nothing known", n-reloads)
	}
	o.procs["apiserver-0"].start(t)
	o.waitReady(t, 0, time.Minute)
	heal := o.healed()
	figure(t, "start without API server (startTimeout 5 s): READY after %s; files right %s after its return", took.Round(time.Millisecond), heal.Round(time.Millisecond))
}

// TestSlowList: the list of one resource, each in turn, comes 20 seconds late; until then nothing is written.
func TestSlowList(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns = "slow"
	pods := c.web(t, ns, ns, 2, 5000)
	type slow struct {
		resource string
		front    *front
		*agent
	}
	var all []slow
	for _, resource := range []string{"configmaps", "services", "endpointslices", "nodes", "pods"} {
		front := newFront(t, c, resource, 20*time.Second)
		a := c.newAgent(t, settings{server: front.address(), key: ns})
		a.write(t, "ca.crt", front.ca)
		a.start(t)
		t.Cleanup(func() {
			if code := a.stop(syscallTERM); code != 0 {
				t.Errorf("TERM: exit code %d", code)
			}
		})
		all = append(all, slow{resource, front, a})
	}
	for _, s := range all {
		asked := eventually(t, soon, func() error {
			if s.front.asked.Load() == 0 {
				return fmt.Errorf("nobody lists %s", s.resource)
			}
			return s.isRed("cluster:")
		})
		t.Logf("%s was asked for after %s", s.resource, asked)
	}
	eventually(t, 40*time.Second, func() error {
		for _, s := range all {
			red := s.isRed("cluster:")
			for _, f := range outputs {
				// What is wrong counts if the list was still held back after the look.
				if _, err := os.Stat(filepath.Join(s.dir, "live", f)); err == nil && s.front.held.Load() {
					t.Fatalf("%s was written without %s", f, s.resource)
				}
			}
			if red != nil && s.front.held.Load() {
				t.Fatalf("without %s: %v", s.resource, red)
			}
		}
		for _, s := range all {
			if s.front.held.Load() {
				return fmt.Errorf("%s is held back", s.resource)
			}
		}
		return nil
	})
	for _, s := range all {
		took := eventually(t, healLimit, func() error { return s.serves(weighted(1, pods...)...) })
		s.inOrder(t)
		figure(t, "list of %s held back for 20 s: nothing written before; files right at most %s after it came", s.resource, took.Round(time.Millisecond))
	}
}
