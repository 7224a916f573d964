package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// cluster is a control plane of its own. With two API servers, the agents use
// the first, which a test may take away, and the test and the controllers the second.
type cluster struct {
	dir    string
	procs  map[string]*process
	client kubernetes.Interface
}

// process is one program of a cluster, or an agent: the test kills it, hangs it and starts it again.
type process struct {
	name string
	argv []string
	env  []string
	log  string
	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error
}

func (p *process) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(p.argv[0], p.argv[1:]...)
	c.Env = append(os.Environ(), p.env...)
	c.Stdout, c.Stderr = log, log
	// Nothing outlives the tests, however they end.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done = c, done
	p.mu.Unlock()
	go func() { // ends with the process
		err := c.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// stop ends the process by the signal and waits; it returns the exit code, -1 for a signal.
func (p *process) stop(s syscall.Signal) int {
	p.mu.Lock()
	c, done := p.cmd, p.done
	p.mu.Unlock()
	if c == nil {
		return 0
	}
	p.signal(syscall.SIGCONT)
	p.signal(s)
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		p.signal(syscall.SIGKILL)
		<-done
	}
	return c.ProcessState.ExitCode()
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

var ports struct {
	sync.Mutex
	next int
}

// nextPorts reserves n ports, below those that the kernel gives to connections.
// The first is free.
func nextPorts(n int) int {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = 20000 + os.Getpid()%30*400
	}
	for {
		first := ports.next
		ports.next += n
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first)); err == nil {
			l.Close()
			return first
		}
	}
}

// newCluster starts one, ready and with the shipped rights in it.
func newCluster(t testing.TB, servers int) *cluster {
	t.Helper()
	c := makeCluster(t)
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			c.showLogs(t)
		}
		_ = os.RemoveAll(c.dir)
	})
	c.startAll(t, servers)
	return c
}

func makeCluster(t testing.TB) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "lb-render-cluster")
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{dir: dir, procs: map[string]*process{}}
}

func (c *cluster) startAll(t testing.TB, servers int) {
	t.Helper()
	dir := c.dir
	c.tool(t, "init", "--apiservers", fmt.Sprint(servers), "--port", fmt.Sprint(nextPorts(10)), dir)
	names := []string{"etcd"}
	for i := range servers {
		names = append(names, fmt.Sprint("apiserver-", i))
	}
	for _, name := range append(names, "controller-manager") {
		c.procs[name] = &process{name: name, argv: []string{filepath.Join(dir, name)}, log: filepath.Join(dir, name+".log")}
		if name != "controller-manager" {
			c.procs[name].start(t)
		}
	}
	for i := range servers {
		c.waitReady(t, i, 2*time.Minute)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 5000, 5000
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	c.procs["controller-manager"].start(t)
	c.createNamespace(t, cmNamespace)
	c.apply(t, filepath.Join("..", "..", "examples", "kubernetes", "rbac.yaml"))
}

func (c *cluster) stop() {
	for _, name := range []string{"controller-manager", "apiserver-0", "apiserver-1", "etcd"} {
		if p := c.procs[name]; p != nil {
			p.stop(syscall.SIGKILL)
		}
	}
}

// showLogs prints the ends of the logs.
func (c *cluster) showLogs(t testing.TB) {
	for name := range c.procs {
		data, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
		if err == nil {
			t.Logf("%s, last lines:\n%s", name, tail(string(data), 5))
		}
	}
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// tool calls the controlplane program.
func (c *cluster) tool(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command(controlPlane, args...).CombinedOutput(); err != nil {
		t.Fatalf("controlplane %s: %v\n%s", args[0], err, out)
	}
}

// server is the address of an API server, host:port.
func (c *cluster) server(t testing.TB, i int) string {
	t.Helper()
	return strings.TrimPrefix(c.read(t, fmt.Sprintf("apiserver-%d.url", i)), "https://")
}

func (c *cluster) read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// ready asks an API server whether it is.
func (c *cluster) ready(t testing.TB, i int) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.read(t, "ca.crt")))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	client := &http.Client{Timeout: 2 * time.Second, Transport: transport}
	req, err := http.NewRequest(http.MethodGet, "https://"+c.server(t, i)+"/readyz", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer admin-token")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("API server %d: %s %s", i, resp.Status, body)
	}
	return nil
}

func (c *cluster) waitReady(t testing.TB, i int, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := c.ready(t, i)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.showLogs(t)
			t.Fatal(err)
		}
	}
}

// compact forgets etcd's history up to now, as the API server does every few minutes.
func (c *cluster) compact(t *testing.T) {
	t.Helper()
	post := func(path, body string) string {
		resp, err := http.Post(c.read(t, "etcd.url")+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("etcd%s: %s %s %v", path, resp.Status, answer, err)
		}
		return string(answer)
	}
	var got struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := yaml.Unmarshal([]byte(post("/v3/kv/range", `{"key":"AA=="}`)), &got); err != nil {
		t.Fatal(err)
	}
	post("/v3/kv/compaction", `{"revision":"`+got.Header.Revision+`","physical":true}`)
}

// apply puts a file of manifests into the cluster, as it is.
func (c *cluster) apply(t testing.TB, file string) {
	t.Helper()
	c.tool(t, "apply", c.dir, file)
}

var shared struct {
	sync.Mutex
	cluster *cluster
}

// sharedCluster is for tests that take nothing away: each uses a namespace and a key of its own.
func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	needControlPlane(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		shared.cluster = makeCluster(t)
		shared.cluster.startAll(t, 1)
	}
	return shared.cluster
}

func stopShared() {
	if shared.cluster != nil {
		shared.cluster.stop()
		_ = os.RemoveAll(shared.cluster.dir)
	}
}
