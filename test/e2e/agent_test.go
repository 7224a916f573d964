package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// agent is an lb-render with three outputs, whose daemons are played by a script
// that keeps what it was given.
type agent struct {
	*process
	dir    string
	listen string
	binary string
}

// The outputs, by their file.
const (
	haproxy    = "haproxy.cfg"
	keepalived = "keepalived.conf"
	ipvs       = "ipvs.rules"
)

var outputs = []string{haproxy, keepalived, ipvs}

// settings of an agent that tests change.
type settings struct {
	server      string // host:port; the cluster's first API server
	key         string
	binary      string // raceBinary
	timing      string
	pods        string
	minInterval time.Duration
	node        string // the node: section
	env         []string
}

// reloadScript plays a daemon: it takes the file whole, and notes that it did.
const reloadScript = `#!/bin/sh
set -e
n=$(basename "$2")
cp "$2" "$1/loaded/.$n.$$"
mv "$1/loaded/.$n.$$" "$1/loaded/$n"
if [ -d "$1/versions" ]; then cp "$2" "$1/versions/$n.$(date +%s.%N)"; fi
echo "$n $(sha256sum < "$2" | cut -d' ' -f1)" >> "$1/reload.log"
`

// newAgent writes a config, with the rights that we ship; start starts it.
func (c *cluster) newAgent(t *testing.T, s settings) *agent {
	t.Helper()
	dir := t.TempDir()
	a := &agent{dir: dir, listen: fmt.Sprint("127.0.0.1:", nextPorts(1)), binary: s.binary}
	if a.binary == "" {
		a.binary = raceBinary
	}
	if s.server == "" {
		s.server = c.server(t, 0)
	}
	if s.timing == "" {
		s.timing = "{startTimeout: 10s}"
	}
	if s.pods == "" {
		s.pods = "all"
	}
	if s.node == "" {
		s.node = "{}"
	}
	for _, d := range []string{"loaded", "versions", "live"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.write(t, "reload.sh", reloadScript)
	a.write(t, "token", c.token(t))
	a.write(t, "ca.crt", c.read(t, "ca.crt")+"\n")
	a.write(t, "kubeconfig", fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://%s\", certificate-authority: ca.crt}}]\n"+
		"users: [{name: u, user: {tokenFile: token}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", s.server))
	templates, err := filepath.Abs(filepath.Join("..", "..", "templates"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: {kubeconfig: kubeconfig}\nconfigMap: {namespace: %s, name: %s, key: %s}\npods: %s\nnode: %s\ntiming: %s\n", cmNamespace, cmName, s.key, s.pods, s.node, s.timing)
	fmt.Fprintf(&b, "templateDir: %s\nhttp: {listen: %q}\nstateDir: state\nruntimeDir: run\nlog: {level: debug}\nparams: {interface: lo}\noutputs:\n", templates, a.listen)
	for _, o := range []struct{ file, template, check string }{
		{haproxy, "haproxy.cfg.tmpl", "haproxy -c -q -f {{ .Staged }}"},
		{keepalived, "keepalived-ipvs.conf.tmpl", "keepalived -t -f {{ .Staged }}"},
		{ipvs, "ipvs.rules.tmpl", ""},
	} {
		name, _, _ := strings.Cut(o.file, ".")
		fmt.Fprintf(&b, "  - name: %s\n    files: [{template: %s, path: live/%s, mode: \"0644\", allowEmpty: true}]\n", name, o.template, o.file)
		fmt.Fprintf(&b, "    reload: {command: [sh, %s/reload.sh, %s, \"{{ .Path }}\"], minInterval: %s}\n", dir, dir, s.minInterval)
		daemon, _, _ := strings.Cut(o.check, " ")
		if _, err := exec.LookPath(daemon); o.check != "" && err == nil {
			fmt.Fprintf(&b, "    check: {command: %q}\n", o.check)
		} else if o.check != "" && os.Getenv("CI") != "" {
			t.Fatalf("no %s", daemon)
		}
	}
	a.write(t, "lb-render.yaml", b.String())
	a.process = &process{name: "agent", argv: []string{a.binary, "run", "-c", filepath.Join(dir, "lb-render.yaml")},
		// A race ends the agent at once, which no test takes for an end of its own.
		env: append([]string{"GORACE=halt_on_error=1", "NOTIFY_SOCKET="}, s.env...), log: filepath.Join(dir, "agent.log")}
	t.Cleanup(func() {
		a.stop(syscall.SIGKILL)
		log := a.logged()
		if strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") || strings.Contains(log, "fatal error:") {
			t.Errorf("the agent broke:\n%s", tail(log, 60))
		} else if t.Failed() {
			t.Logf("the agent's last lines:\n%s", tail(withoutDebug(log), 25))
		}
	})
	return a
}

// startAgent starts a new one, and ends it with the test; that must be clean.
func (c *cluster) startAgent(t *testing.T, s settings) *agent {
	t.Helper()
	a := c.newAgent(t, s)
	a.start(t)
	t.Cleanup(func() {
		if !a.running() {
			t.Error("the agent had ended by itself")
		} else if code := a.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("TERM: exit code %d", code)
		}
	})
	return a
}

func (a *agent) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (a *agent) logged() string {
	data, _ := os.ReadFile(filepath.Join(a.dir, "agent.log"))
	return string(data)
}

func withoutDebug(log string) string {
	var out []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=DEBUG") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// live is a file as it is on disk, "" if it is not there.
func (a *agent) live(file string) string {
	data, _ := os.ReadFile(filepath.Join(a.dir, "live", file))
	return string(data)
}

// loaded is what the daemon was last given.
func (a *agent) loaded(file string) string {
	data, _ := os.ReadFile(filepath.Join(a.dir, "loaded", file))
	return string(data)
}

// cli runs another lb-render, as it is shipped, on the agent's config.
func (a *agent) cli(args ...string) (stdout, stderr string, code int) {
	c := exec.Command(plainBinary, append(args, "-c", filepath.Join(a.dir, "lb-render.yaml"))...)
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		return "", err.Error(), -1
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

var local = &http.Client{Timeout: 5 * time.Second}

func (a *agent) get(path string) (int, string) {
	resp, err := local.Get("http://" + a.listen + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// isReady is nil when /readyz is green.
func (a *agent) isReady() error {
	if code, body := a.get("/readyz"); code != http.StatusOK {
		return fmt.Errorf("/readyz: %d %s", code, body)
	}
	return nil
}

// isRed is nil when /readyz is red, and its reason has every one of the words.
func (a *agent) isRed(words ...string) error {
	code, body := a.get("/readyz")
	if code != http.StatusServiceUnavailable {
		return fmt.Errorf("/readyz: %d %s", code, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			return fmt.Errorf("/readyz does not say %q: %s", w, body)
		}
	}
	return nil
}

func (a *agent) waitReady(t *testing.T) {
	t.Helper()
	eventually(t, soon, a.isReady)
}

// metric is the value of a series, as it is written on /metrics. If it is not
// there it is no number, which is equal to none.
func (a *agent) metric(series string) float64 {
	_, body := a.get("/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v
		}
	}
	return math.NaN()
}

type reload struct{ file, hash string }

// reloads are those of all outputs, in their order.
func (a *agent) reloads() []reload {
	data, _ := os.ReadFile(filepath.Join(a.dir, "reload.log"))
	var all []reload
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 {
			all = append(all, reload{f[0], f[1]})
		}
	}
	return all
}

func (a *agent) reloadsOf(file string) int {
	n := 0
	for _, r := range a.reloads() {
		if r.file == file {
			n++
		}
	}
	return n
}

// noUselessReload: no daemon was given what it had.
func (a *agent) noUselessReload(t *testing.T) {
	t.Helper()
	last := map[string]string{}
	for i, r := range a.reloads() {
		if last[r.file] == r.hash {
			t.Errorf("reload %d, of %s, changed nothing", i+1, r.file)
		}
		last[r.file] = r.hash
	}
}

// servers are the servers of an haproxy.cfg, "IP:PORT weight N", sorted.
func servers(cfg string) []string {
	var out []string
	for line := range strings.Lines(cfg) {
		if f := strings.Fields(line); len(f) >= 5 && f[0] == "server" {
			out = append(out, f[2]+" "+f[4])
		}
	}
	slices.Sort(out)
	return out
}

// serves is nil when the haproxy.cfg that is live and loaded has just these
// servers, "IP:PORT WEIGHT", in whatever order.
func (a *agent) serves(want ...string) error {
	slices.Sort(want)
	for name, got := range map[string]string{"live": a.live(haproxy), "loaded": a.loaded(haproxy)} {
		if s := servers(got); !slices.Equal(s, want) {
			if len(s)+len(want) > 20 {
				return fmt.Errorf("%s has %d servers, want %d", name, len(s), len(want))
			}
			return fmt.Errorf("%s has servers %q, want %q", name, s, want)
		}
	}
	return nil
}

// settled is nil when every file is what a render would write now, the daemons
// have it, and nothing staged is left.
func (a *agent) settled() error {
	if out, stderr, code := a.cli("diff"); code != 0 {
		return fmt.Errorf("diff: exit code %d: %s%s", code, tail(out, 20), stderr)
	}
	for _, file := range outputs {
		if a.loaded(file) != a.live(file) {
			return fmt.Errorf("the daemon of %s has other content", file)
		}
	}
	return a.nothingStaged()
}

// inOrder holds what is asked at the end of a test: the files are what a fresh
// render gives, and everything that tells of it says so.
func (a *agent) inOrder(t *testing.T) {
	t.Helper()
	eventually(t, soon, a.settled)
	eventually(t, soon, a.isReady)
	a.noUselessReload(t)
	for _, file := range outputs {
		name, _, _ := strings.Cut(file, ".")
		if v := a.metric(fmt.Sprintf("lb_render_output_in_sync{output=%q}", name)); v != 1 {
			t.Errorf("lb_render_output_in_sync of %s is %v", name, v)
		}
		if v := a.metric(fmt.Sprintf("lb_render_output_failing_since_timestamp_seconds{output=%q}", name)); v != 0 {
			t.Errorf("lb_render_output_failing_since_timestamp_seconds of %s is %v", name, v)
		}
	}
	if v := a.metric("lb_render_config_valid"); v != 1 {
		t.Errorf("lb_render_config_valid is %v", v)
	}
	if code, s := a.status(t); code != 0 {
		t.Errorf("status: exit code %d: %v", code, s)
	}
}

func (a *agent) nothingStaged() error {
	if left, _ := filepath.Glob(filepath.Join(a.dir, "live", ".*")); len(left) > 0 {
		return fmt.Errorf("staged files are left: %q", left)
	}
	return nil
}

// status is `lb-render status`: its exit code, and the answer.
func (a *agent) status(t *testing.T) (int, map[string]any) {
	t.Helper()
	out, stderr, code := a.cli("status", "-o", "json")
	var s map[string]any
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("status: %v: %s %s", err, out, stderr)
	}
	return code, s
}

// notifySocket plays systemd's; what is sent comes on the channel.
func notifySocket(t *testing.T) (path string, said <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lbr") // a socket's path is limited to 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		socket.Close()
		os.RemoveAll(dir)
	})
	ch := make(chan string, 1000)
	go func() { // ends with the socket
		buf := make([]byte, 4096)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			ch <- string(buf[:n])
		}
	}()
	return path, ch
}

// sum is a content's hash, as the reload script has it.
func sum(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }
