package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// churn makes pods ready and not, in turn, at a rate in changes per second,
// until the returned function is called; it returns how many changes there were.
// Then every pod is ready again.
func (c *cluster) churn(t *testing.T, pods []pod, rate int) (stop func() int) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	n := 0
	next := make(chan int)
	failed := workers(next, func(i int) error { return c.setReady(pods[i%len(pods)], i/len(pods)%2 == 1) })
	go func() { // ends with done
		defer close(ended)
		defer close(next)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for ; ; n++ {
			select {
			case <-done:
				return
			case <-tick.C:
				next <- n
			}
		}
	}()
	end := sync.OnceValue(func() error {
		close(done)
		<-ended
		return failed()
	})
	t.Cleanup(func() { _ = end() })
	return func() int {
		t.Helper()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		inParallel(t, len(pods), func(i int) error { return c.setReady(pods[i], true) })
		return n
	}
}

// look calls do again and again, until the returned function is called or the
// test ends. The first error fails the test.
func look(t *testing.T, pause time.Duration, do func() error) (stop func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with done
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			if err := do(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(done)
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

// ownTemplates gives an agent copies of the shipped templates that begin and end
// with a hash of what they say. The IPVS rules, which nothing checks, get 4 MB between: writing them takes a while.
func (a *agent) ownTemplates(t *testing.T) {
	t.Helper()
	dir := filepath.Join(a.dir, "templates")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	shipped, err := filepath.Glob(filepath.Join("..", "..", "templates", "*.tmpl"))
	if err != nil || len(shipped) == 0 {
		t.Fatal(err, shipped)
	}
	for _, path := range shipped {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "{{ $sum := toJson .Listeners | sha256sum }}# {{ $sum }}{{ \"\\n\" }}", "\n# {{ $sum }}\n"
		if filepath.Base(path) == "ipvs.rules.tmpl" {
			end = "\n{{ repeat 50000 \"# a line that is there to make the file longer than it would be, and nothing else\\n\" }}" + end
		}
		a.write(t, filepath.Join("templates", filepath.Base(path)), begin+string(text)+end)
	}
	config, err := os.ReadFile(filepath.Join(a.dir, "lb-render.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(config)) {
		if strings.HasPrefix(line, "templateDir:") {
			line = "templateDir: templates\n"
		}
		b.WriteString(line)
	}
	a.write(t, "lb-render.yaml", b.String())
}

// isWhole is nil if a file begins and ends with the same hash.
func isWhole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	begin := make([]byte, len("# \n")+2*sha256.Size)
	end := make([]byte, len(begin))
	if _, err = io.ReadFull(f, begin); err == nil {
		if _, err = f.Seek(-int64(len(end)), io.SeekEnd); err == nil {
			_, err = io.ReadFull(f, end)
		}
	}
	if err != nil || string(begin) != string(end) {
		return fmt.Errorf("%s is not whole: it begins with %q and ends with %q: %v", path, begin, end, err)
	}
	return nil
}

// TestKilled: the agent is killed at random moments, 50 times, while pods come
// and go, and started again each time.
func TestKilled(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns, kills = "killed", 50
	pods := c.web(t, ns, ns, 8, 6000)
	a := c.newAgent(t, settings{key: ns, timing: "{quiet: 50ms, maxWait: 300ms}"})
	a.ownTemplates(t)
	if err := os.Remove(filepath.Join(a.dir, "versions")); err != nil {
		t.Fatal(err)
	}
	a.start(t)
	eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	a.waitReady(t)
	stop := c.churn(t, pods[:6], 20) // two stay, so that there is always somebody

	looks := 0
	stopLooking := look(t, time.Millisecond, func() error {
		looks++
		for _, f := range outputs {
			if err := isWhole(filepath.Join(a.dir, "live", f)); err != nil {
				return err
			}
		}
		return nil
	})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	left := 0
	for i := range kills {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // the random moment
		if !a.running() {
			t.Fatalf("kill %d: the agent has ended by itself", i)
		}
		a.stop(syscall.SIGKILL)
		if a.nothingStaged() != nil {
			left++ // killed in the middle of a transaction
		}
		a.start(t)
	}
	changes := stop()
	c.waitSlices(t, ns, "web", len(pods))
	took := eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	eventually(t, soon, a.settled)
	stopLooking()
	last := map[string]string{}
	for _, r := range a.reloads() {
		last[r.file] = r.hash
	}
	for _, f := range outputs {
		if got := sum(a.live(f)); got != last[f] {
			t.Errorf("the last reload of %s was for other content", f)
		}
	}
	if code, _ := a.status(t); code != 0 {
		t.Errorf("status: exit code %d", code)
	}
	if code := a.stop(syscallTERM); code != 0 {
		t.Errorf("TERM: exit code %d", code)
	}
	figure(t, "killed %d times during %d changes (%d times with a staged file left, which the next start swept): files were whole in all of %d looks, and right %s after the end",
		kills, changes, left, looks, took.Round(time.Millisecond))
}

// TestTwoAgents: the same cluster, seen in different order and at different
// times, gives equal bytes.
func TestTwoAgents(t *testing.T) {
	c := sharedCluster(t)
	t.Parallel()
	const ns = "twins"
	pods := c.web(t, ns, ns, 12, 7000)
	var b strings.Builder
	fmt.Fprintf(&b, "labels: {example.org/lb: %s}\nconfig:\n  192.0.2.10:\n", ns)
	for i := range 5 {
		name := fmt.Sprintf("s%d", i)
		c.service(t, ns, name, nil)
		pods = append(pods, c.pods(t, ns, name, 4, 7100+10*i, ns+"-0", ns+"-1")...)
		fmt.Fprintf(&b, "    %d: {namespace: %s, service: %s, portName: http}\n", 8000+i, ns, name)
	}
	c.config(t, ns, b.String())
	slow := newProxy(t, c.server(t, 0))
	slow.set(func() { slow.delay = 70 * time.Millisecond })
	agents := []*agent{
		c.startAgent(t, settings{key: ns}),
		c.startAgent(t, settings{key: ns, server: slow.address, timing: "{quiet: 10ms, maxWait: 50ms}"}),
	}
	equal := func() error {
		for _, f := range outputs {
			if one, two := agents[0].live(f), agents[1].live(f); one == "" || one != two {
				return fmt.Errorf("%s: %d bytes and %d bytes that differ", f, len(one), len(two))
			}
		}
		return nil
	}
	for range 4 {
		stop := c.churn(t, pods, 40)
		time.Sleep(3 * time.Second) // how long the churn lasts
		stop()
		eventually(t, soon, func() error {
			for _, a := range agents {
				if err := a.settled(); err != nil {
					return err
				}
			}
			return equal()
		})
	}
	for _, a := range agents {
		a.inOrder(t)
	}
	// And one that begins now, with lists and no history.
	agents[1] = c.startAgent(t, settings{key: ns})
	eventually(t, soon, equal)
	agents[1].inOrder(t)
}
