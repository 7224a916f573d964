package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// apiServer plays the part of an API server that matters here: lists, watches
// that stay open, and refusals. (The real one has its own suite.)
type apiServer struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string][]map[string]any // by path
	closed   map[string]chan struct{}    // lists that wait until the channel is closed
	refused  map[string]bool             // paths that are forbidden
	requests []*http.Request
	done     chan struct{}
}

const configMapsPath = "/api/v1/namespaces/platform-load-balancer/configmaps"

var kinds = map[string][2]string{
	configMapsPath:     {"v1", "ConfigMapList"},
	"/api/v1/services": {"v1", "ServiceList"},
	"/api/v1/nodes":    {"v1", "NodeList"},
	"/api/v1/pods":     {"v1", "PodList"},
	"/apis/discovery.k8s.io/v1/endpointslices": {"discovery.k8s.io/v1", "EndpointSliceList"},
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{objects: map[string][]map[string]any{}, closed: map[string]chan struct{}{}, refused: map[string]bool{}, done: make(chan struct{})}
	s.objects[configMapsPath] = []map[string]any{{
		"metadata": map[string]any{"namespace": "platform-load-balancer", "name": "lb-config", "resourceVersion": "1"},
		"data":     map[string]any{"green": `{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web"}}}}`},
	}}
	s.objects["/api/v1/services"] = []map[string]any{{
		"metadata": map[string]any{"namespace": "default", "name": "web", "resourceVersion": "1"},
		"spec":     map[string]any{"ports": []any{map[string]any{"name": "http", "port": 80, "protocol": "TCP"}}},
	}}
	s.objects["/apis/discovery.k8s.io/v1/endpointslices"] = []map[string]any{{
		"metadata":    map[string]any{"namespace": "default", "name": "web-1", "resourceVersion": "1", "labels": map[string]any{"kubernetes.io/service-name": "web"}},
		"addressType": "IPv4", "ports": []any{map[string]any{"name": "http", "port": 8080, "protocol": "TCP"}},
		"endpoints": []any{map[string]any{"addresses": []any{"203.0.113.1"}}},
	}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		close(s.done)
		s.Close()
	})
	return s
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	kind, known := kinds[r.URL.Path]
	s.mu.Lock()
	s.requests = append(s.requests, r)
	wait, refused := s.closed[r.URL.Path], s.refused[r.URL.Path]
	list := map[string]any{"apiVersion": kind[0], "kind": kind[1], "metadata": map[string]any{"resourceVersion": "5"}, "items": s.objects[r.URL.Path]}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case !known:
		http.NotFound(w, r)
	case refused:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"%s is forbidden"}`, r.URL.Path)
	case q.Get("sendInitialEvents") == "true": // as a server does that cannot stream lists
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.Get("watch") != "":
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-s.done:
		}
	default:
		if wait != nil {
			select {
			case <-wait:
			case <-r.Context().Done():
				return
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}

// kubeconfig writes one for the server.
func (s *apiServer) kubeconfig(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "kubeconfig")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %s, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: secret}}]\n"+
		"contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", s.URL, base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startAgent runs the agent in dir and ends it, cleanly, with the test.
func startAgent(t *testing.T, dir string, args ...string) (log func() string) {
	t.Helper()
	cmd := exec.Command("lb-render", append([]string{"run"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LB_RENDER_CONFIG=lb-render.yaml")
	file, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log = func() string { return read(t, file.Name()) }
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, log())
		}
		file.Close()
	})
	return log
}

func eventually(t *testing.T, what string, ok func() bool, log func() string) {
	t.Helper()
	for range 1500 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond) // between looks
	}
	t.Fatalf("timed out waiting for %s\n%s", what, log())
}

// TestNothingIsWrittenBeforeEveryList holds back one resource after the other.
func TestNothingIsWrittenBeforeEveryList(t *testing.T) {
	for path := range kinds {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := newAPIServer(t)
			gate := make(chan struct{})
			s.closed[path] = gate
			dir := fixture(t)
			log := startAgent(t, dir, "--kubeconfig", s.kubeconfig(t, dir))
			eventually(t, "the other watches", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				watched := map[string]bool{}
				for _, r := range s.requests {
					if q := r.URL.Query(); q.Get("watch") != "" && q.Get("sendInitialEvents") == "" {
						watched[r.URL.Path] = true
					}
				}
				return len(watched) == len(kinds)-1
			}, log)
			if got := read(t, filepath.Join(dir, "out/lb.cfg")); got != "" {
				t.Errorf("written before %s were listed:\n%s", path, got)
			}
			close(gate)
			eventually(t, "the file", func() bool { return strings.Contains(read(t, filepath.Join(dir, "daemon.cfg")), "203.0.113.1") }, log)
		})
	}
}

// TestRequests: the ConfigMap is asked for by name, as RBAC wants it, and everything as protobuf.
func TestRequests(t *testing.T) {
	s := newAPIServer(t)
	dir := fixture(t)
	out, err := lbRender(t, dir, nil, "render", "--kubeconfig", s.kubeconfig(t, dir))
	if err != nil || !strings.Contains(out, "tcp_192.0.2.1_80: 203.0.113.1") {
		t.Fatal(out, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		selector := r.URL.Query().Get("fieldSelector")
		if r.URL.Path == configMapsPath && selector != "metadata.name=lb-config" {
			t.Errorf("%s: field selector %q", r.URL, selector)
		}
		if accept := r.Header.Get("Accept"); !strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf") {
			t.Errorf("%s: Accept %q", r.URL, accept)
		}
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s, %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
	}
}

// TestMissingRight: a right that is missing is named, and giving it back heals without a restart.
func TestMissingRight(t *testing.T) {
	s := newAPIServer(t)
	s.refused["/api/v1/nodes"] = true
	dir := fixture(t)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	replaceIn(t, filepath.Join(dir, "lb-render.yaml"), `listen: ""`, `listen: "127.0.0.1:`+port+`"`)
	kubeconfig := s.kubeconfig(t, dir)
	log := startAgent(t, dir, "--kubeconfig", kubeconfig)
	ready := func() string {
		resp, err := http.Get("http://127.0.0.1:" + port + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.Status + string(body)
	}
	eventually(t, "the right to be named", func() bool {
		got := ready()
		return strings.HasPrefix(got, "503") && strings.Contains(got, "nodes: /api/v1/nodes is forbidden; grant list and watch on nodes")
	}, log)
	// A refusal is not waited out, for a minute by default: it would be the same later.
	for _, more := range [][]string{nil, {"--timeout", "1s"}} {
		out, err := lbRender(t, dir, nil, append([]string{"render", "--kubeconfig", kubeconfig}, more...)...)
		if err == nil || !strings.Contains(out, "reading the cluster: ") || !strings.Contains(out, "grant list and watch on nodes") || strings.Contains(out, "deadline") != (more != nil) {
			t.Errorf("render: %v\n%s", err, out)
		}
	}
	s.mu.Lock()
	s.refused["/api/v1/nodes"] = false
	s.mu.Unlock()
	eventually(t, "the agent to heal", func() bool { return strings.HasPrefix(ready(), "200") }, log)
	if n := strings.Count(log(), "cannot watch"); n != 1 {
		t.Errorf("one failure was logged %d times:\n%s", n, log())
	}
}

// TestStartsWhileTheClusterIsAway: READY comes after startTimeout, and the old files stay in force.
func TestStartsWhileTheClusterIsAway(t *testing.T) {
	s := newAPIServer(t)
	dir := fixture(t)
	if out, err := lbRender(t, dir, nil, "apply"); err != nil {
		t.Fatal(out, err)
	}
	before := read(t, filepath.Join(dir, "out/lb.cfg"))
	gate := make(chan struct{})
	for path := range kinds {
		s.closed[path] = gate
	}
	replaceIn(t, filepath.Join(dir, "lb-render.yaml"), "maxWait: 500ms", "maxWait: 500ms, startTimeout: 1s")
	log := startAgent(t, dir, "--kubeconfig", s.kubeconfig(t, dir))
	eventually(t, "READY", func() bool { return strings.Contains(log(), "msg=ready") }, log)
	if got := read(t, filepath.Join(dir, "out/lb.cfg")); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
	close(gate)
	eventually(t, "convergence", func() bool {
		return strings.Contains(read(t, filepath.Join(dir, "daemon.cfg")), "tcp_192.0.2.1_80: 203.0.113.1\n")
	}, log)
}
