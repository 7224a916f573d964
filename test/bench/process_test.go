package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soon is for what comes at once, on a machine that may be busy.
const soon = 30 * time.Second

// eventually waits until do is content, and fails the test with its last complaint
// after limit, or at once for one that is no use waiting for.
func eventually(tb testing.TB, limit time.Duration, do func() error) {
	tb.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if errors.Is(err, errEnded) || time.Now().After(end) {
			tb.Fatalf("waited for up to %s: %v", limit, err)
		}
	}
}

// needBinary is the path of the lb-render under test.
func needBinary(tb testing.TB) string {
	tb.Helper()
	binary := os.Getenv("LB_RENDER_BIN")
	if binary == "" {
		binary = filepath.Join("..", "..", "bin", "lb-render")
	}
	binary, err := filepath.Abs(binary)
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil && os.Getenv("CI") != "" {
		tb.Fatalf("no lb-render: %v; in CI there must be one", err)
	} else if err != nil {
		tb.Skipf("no lb-render: %v; make build, or set LB_RENDER_BIN", err)
	}
	return binary
}

// process is a running "lb-render run" with one output, an haproxy.cfg without a daemon.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	ended   chan struct{} // closed when it has
	listen  string
	file    string // the output
	log     string

	seen    os.FileInfo // the version of the file that
	content []byte      // was read
}

var errEnded = errors.New("lb-render has ended by itself")

// startAgent runs the binary on a server. pods is as in its config; node is this host, "" for none.
func startAgent(tb testing.TB, binary, url, pods, node string) *process {
	tb.Helper()
	dir := tb.TempDir()
	a := &process{listen: freeAddress(tb), file: filepath.Join(dir, "haproxy.cfg"), log: filepath.Join(dir, "agent.log"), ended: make(chan struct{})}
	if err := WriteKubeconfig(filepath.Join(dir, "kubeconfig"), url); err != nil {
		tb.Fatal(err)
	}
	templates, err := filepath.Abs(filepath.Join("..", "..", "templates"))
	if err != nil {
		tb.Fatal(err)
	}
	// The host is never limited to its own endpoints: what is rendered is the same for every value of pods.
	// And changes come one at a time: there are none to gather.
	config := fmt.Sprintf(`cluster: {kubeconfig: kubeconfig}
configMap: {namespace: %s, name: %s, key: %s}
node: {name: %q, scope: cluster}
pods: %s
timing: {quiet: 10ms}
templateDir: %s
http: {listen: %q}
stateDir: state
runtimeDir: run
outputs:
  - name: cfg
    files: [{template: haproxy.cfg.tmpl, path: haproxy.cfg, mode: "0644"}]
`, ConfigMapNamespace, ConfigMapName, ConfigKey, node, pods, templates, a.listen)
	configFile := filepath.Join(dir, "lb-render.yaml")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	log, err := os.Create(a.log)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command(binary, "run", "--config", configFile)
	// NOTIFY_SOCKET is of whoever runs the tests.
	a.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET=")
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing outlives the tests
	a.started = time.Now()
	if err := a.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() { // ends with the process
		_ = a.cmd.Wait() // stop looks at the state
		close(a.ended)
	}()
	tb.Cleanup(func() {
		select {
		case <-a.ended:
		default: // the test has failed before stop
			_ = a.cmd.Process.Kill()
			<-a.ended
		}
		if data, err := os.ReadFile(a.log); tb.Failed() && err == nil {
			tb.Logf("the agent's log:\n%s", data[max(0, len(data)-4000):])
		}
	})
	return a
}

// freeAddress is one on loopback that nobody listens on.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// stop ends the agent as systemd does, which must be clean.
func (a *process) stop(tb testing.TB) {
	tb.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		tb.Errorf("TERM: %v", err)
	}
	select {
	case <-a.ended:
	case <-time.After(soon):
		tb.Errorf("still there %s after TERM", soon)
		return // Cleanup kills it
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		tb.Errorf("TERM: exit code %d", code)
	}
}

// isReady is nil when /readyz is green.
func (a *process) isReady() error {
	select {
	case <-a.ended:
		return errEnded
	default:
	}
	resp, err := (&http.Client{Timeout: soon}).Get("http://" + a.listen + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s %s %v", resp.Status, body, err)
	}
	return nil
}

// has is nil when the file has text just n times. The file is read only if it is another one than before.
func (a *process) has(text string, n int) error {
	select {
	case <-a.ended:
		return errEnded
	default:
	}
	now, err := os.Stat(a.file)
	if err != nil {
		return err
	}
	if a.seen == nil || !os.SameFile(a.seen, now) || !a.seen.ModTime().Equal(now.ModTime()) {
		if a.content, err = os.ReadFile(a.file); err != nil {
			return err
		}
		a.seen = now
	}
	if got := bytes.Count(a.content, []byte(text)); got != n {
		return fmt.Errorf("the file has %q %d times, want %d", text, got, n)
	}
	return nil
}

// peakRSS is the most memory that the agent ever had resident, in MiB (proc(5), VmHWM).
func (a *process) peakRSS(tb testing.TB) float64 {
	tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				tb.Fatal(err)
			}
			return kB / 1024
		}
	}
	tb.Fatalf("no VmHWM in\n%s", data)
	return 0
}
