package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const resync = 2 * time.Second

// TestAgent: the whole agent, with examples/ipvs as it is shipped but for the
// cluster and the resync, follows its manifests, and repairs the table.
func TestAgent(t *testing.T) {
	start(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("project")); err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(dir, "examples", "ipvs")
	manifests := filepath.Join(example, "manifests")
	config := filepath.Join(example, "lb-render.yaml")
	replace(t, config, "timing: {resync: 1m}", fmt.Sprintf("timing: {resync: %s}", resync))
	if text, err := os.ReadFile(config); err != nil || !strings.Contains(string(text), "ipvs, diff") {
		t.Fatalf("the example has no verify command: %v\n%s", err, text)
	}
	if err := os.MkdirAll("/etc/ipvs", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll("/etc/ipvs") })
	golden, err := os.ReadFile(filepath.Join(example, "golden", "ipvs.rules"))
	if err != nil {
		t.Fatal(err)
	}
	want := stateOf(t, string(golden))["netlink"]

	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	agent := exec.Command("lb-render", "run", "-c", config, "--manifests", manifests)
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }() // ends with the agent, which the test ends
	defer func() {
		agent.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the agent's end: %v", err)
			}
		case <-time.After(soon):
			t.Error("the agent does not end")
			agent.Process.Kill()
			<-ended
		}
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("the agent: %v\n%s", err, text)
		}
	}()
	is := func(want []string) func() error {
		return func() error {
			if len(ended) > 0 {
				t.Fatal("the agent has ended")
			}
			if d := difference(rawDump(t), want); d != "" {
				return fmt.Errorf("the table has (+) and lacks (-)\n%s", d)
			}
			return nil
		}
	}
	waitFor(t, soon, is(want))

	t.Run("a pod more", func(t *testing.T) {
		replace(t, filepath.Join(manifests, "services.yaml"), "{addresses: [198.51.100.104], nodeName: node-c, conditions: {ready: false}}",
			"{addresses: [198.51.100.104], nodeName: node-b, conditions: {ready: true}}")
		took := waitFor(t, soon, func() error {
			return has(t, "-a -t 192.0.2.20:80 -r 203.0.113.2:80 -i -w 2 --tun-type ipip")
		})
		t.Logf("in the kernel after %s", took.Round(time.Millisecond))
	})
	t.Run("a service more", func(t *testing.T) {
		replace(t, filepath.Join(manifests, "lb-config.yaml"), `"192.0.2.21": {`, `"192.0.2.21": {
          "8080": {"namespace": "shop", "service": "web", "portName": "http", "ipvsOptions": {"forwardingMethod": "g"}},`)
		waitFor(t, soon, func() error { return has(t, "-A -t 192.0.2.21:8080 -s wrr") })
		waitFor(t, soon, func() error { return has(t, "-a -t 192.0.2.21:8080 -r 203.0.113.1:8080 -g -w 2") })
	})
	t.Run("a flushed table", func(t *testing.T) {
		rules, err := os.ReadFile("/etc/ipvs/ipvs.rules")
		if err != nil {
			t.Fatal(err)
		}
		before := rawDump(t)
		must(t, "lb-render", "ipvs", "diff", "/etc/ipvs/ipvs.rules")
		must(t, "ipvsadm", "-C")
		took := waitFor(t, soon, is(before))
		figure(t, "agent: a flushed table is whole again %s later, with resync %s", took.Round(time.Millisecond), resync)
		if now, err := os.ReadFile("/etc/ipvs/ipvs.rules"); err != nil || string(now) != string(rules) {
			t.Errorf("the file has changed: %v", err)
		}
	})
	t.Run("an edit by hand", func(t *testing.T) {
		before := rawDump(t)
		restore(t, "-A -t 192.0.2.99:80 -s rr\n-e -t 192.0.2.20:80 -r 203.0.113.1:80 -i -w 77\n-d -t 192.0.2.21:80 -r 203.0.113.2\n")
		waitFor(t, soon, is(before))
	})
	t.Run("in sync", func(t *testing.T) {
		waitFor(t, soon, func() error {
			if r := run(t, "lb-render", "status", "-c", config, "--manifests", manifests); r.code != 0 {
				return fmt.Errorf("%s", r)
			}
			return nil
		})
	})
}

// has is nil when ipvsadm saves the line.
func has(t *testing.T, line string) error {
	t.Helper()
	saved := must(t, "ipvsadm", "-Sn")
	if !strings.Contains(saved, line+"\n") {
		return fmt.Errorf("no %s in\n%s", line, saved)
	}
	return nil
}

// replace edits a file, as an editor does that writes a new one.
func replace(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old); n != 1 {
		t.Fatalf("%q is %d times in %s:\n%s", old, n, path, text)
	}
	if err := os.WriteFile(path+".new", []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
