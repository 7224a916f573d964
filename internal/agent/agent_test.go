package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/template"
	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeCluster publishes what a test wants.
type fakeCluster struct {
	updates chan watcher.Update
	mu      sync.Mutex
	status  watcher.Status
	keep    bool
}

func newFake() *fakeCluster {
	return &fakeCluster{updates: make(chan watcher.Update), status: watcher.Status{Synced: true}}
}

func (f *fakeCluster) Updates() <-chan watcher.Update { return f.updates }

func (f *fakeCluster) Status() watcher.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fakeCluster) KeepAllServices(keep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep = keep
}

// serving is a config of one listener with n endpoints.
func serving(n int) *types.ClusterConfig {
	l := &types.Listener{Name: "tcp_192.0.2.1_80"}
	for i := range n {
		l.Endpoints = append(l.Endpoints, &types.Endpoint{IP: fmt.Sprintf("203.0.113.%d", i)})
	}
	return &types.ClusterConfig{Listeners: []*types.Listener{l}}
}

// runAgent runs an agent with one output, which lists endpoints, until the test ends.
func runAgent(t *testing.T, f *fakeCluster, change func(*Settings, *Options)) (a *Agent, dir string) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, "t.tmpl")
	if err := os.WriteFile(file, []byte("{{ range .Listeners }}{{ len .Endpoints }} endpoints{{ end }}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &Settings{
		ClusterKey: "one", Templates: template.Options{Dir: dir}, StartTimeout: time.Minute, RuntimeDir: dir,
		Cluster: func(context.Context, prometheus.Registerer) (Cluster, error) { return f, nil },
		Outputs: []OutputSettings{{
			Options:   output.Options{Name: "o", Files: []output.File{{Name: "f", Path: filepath.Join(dir, "out")}}, RuntimeDir: dir},
			Templates: map[string]string{"f": "t.tmpl"},
		}},
		Guard: Guard{MaxLoss: 1, Hold: time.Hour},
	}
	o := Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: prometheus.NewRegistry(), Version: "test"}
	o.Load = func() (*Settings, error) { return s, nil }
	if change != nil {
		change(s, &o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a, dir
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond) // between looks
	}
	t.Fatalf("timed out waiting for %s", what)
}

func contains(path, text string) func() bool {
	return func() bool {
		data, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(data), text)
	}
}

func TestHeldAndBackAgain(t *testing.T) {
	f := newFake()
	a, dir := runAgent(t, f, nil)
	send := func(n int) { f.updates <- watcher.Update{Config: serving(n), Since: time.Now()} }
	send(20)
	eventually(t, "20", contains(filepath.Join(dir, "out"), "20 endpoints"))
	send(0)
	eventually(t, "the hold", func() bool { return a.Status().Guard != nil })
	if s := a.Status(); s.InSync || !strings.Contains(strings.Join(s.Reasons, ""), "20 of 20 endpoints are gone at once") {
		t.Errorf("status %+v", s)
	}
	send(1) // back, if only partly: losing 19 of 20 is not losing all
	eventually(t, "1", contains(filepath.Join(dir, "out"), "1 endpoints"))
	eventually(t, "no hold", func() bool { return a.Status().Guard == nil })
	send(0) // of less than ten nothing is held
	eventually(t, "0", contains(filepath.Join(dir, "out"), "0 endpoints"))
}

func TestTooMuch(t *testing.T) {
	for _, c := range []struct {
		maxLoss   float64
		before, n int
		held      bool
	}{
		{1, 10, 0, true}, {1, 9, 0, false}, {1, 100, 1, false}, {1, 0, 0, false}, {1, 10, 20, false},
		{0.5, 10, 5, false}, {0.5, 10, 4, true}, {0.5, 9, 0, false}, {0.5, 100, 49, true},
		{0, 100, 0, false},
	} {
		if got := (Guard{MaxLoss: c.maxLoss}).tooMuch(c.before, c.n) != ""; got != c.held {
			t.Errorf("maxLoss %v, %d -> %d: held %v, want %v", c.maxLoss, c.before, c.n, got, c.held)
		}
	}
}

func TestStatusSaysWhy(t *testing.T) {
	f := newFake()
	f.status.Synced = false
	f.status.Resources = map[string]watcher.ResourceStatus{"nodes": {Err: errors.New("forbidden")}}
	a, dir := runAgent(t, f, nil)
	has := func(text string) func() bool {
		return func() bool { return strings.Contains(strings.Join(a.Status().Reasons, "\n"), text) }
	}
	eventually(t, "the resource", has("nodes: forbidden"))
	f.mu.Lock()
	f.status = watcher.Status{Synced: true, ConfigError: errors.New("no such ConfigMap")}
	f.mu.Unlock()
	eventually(t, "the ConfigMap", has("no such ConfigMap"))
	eventually(t, "the output", has("output o: not rendered yet"))
	f.mu.Lock()
	f.status = watcher.Status{Synced: true}
	f.mu.Unlock()
	f.updates <- watcher.Update{Config: serving(3), Since: time.Now()}
	eventually(t, "sync", func() bool { return a.Status().InSync })

	get := func(path string) (int, string) {
		rec := httptest.NewRecorder()
		a.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		body, _ := io.ReadAll(rec.Result().Body)
		return rec.Code, string(body)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok", "/status": `"endpoints": 3`,
		"/metrics": "lb_render_endpoints 3",
	} {
		if code, body := get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, code, want, body)
		}
	}
	_, metrics := get("/metrics")
	for _, series := range []string{
		`lb_render_build_info{`, `lb_render_render_duration_seconds_count{output="o"} 1`, `lb_render_renders_total{output="o",result="success"} 1`,
		`lb_render_transactions_total{output="o",result="success"} 1`, `lb_render_output_in_sync{output="o"} 1`,
		`lb_render_output_failing_since_timestamp_seconds{output="o"} 0`, `lb_render_output_last_success_timestamp_seconds{output="o"} 1`,
		`lb_render_output_info{hash="`, `lb_render_change_latency_seconds_count 0`, `lb_render_listeners 1`, `lb_render_problems{reason="invalid"} 0`,
		`lb_render_source_last_event_timestamp_seconds 0`, `lb_render_config_valid 1`, `lb_render_guard_holding 0`, `lb_render_drift_total{output="o"} 0`,
	} {
		if !strings.Contains(metrics, series) {
			t.Errorf("no series %s", series)
		}
	}
	// The output's directory goes: the transaction fails, and says so.
	if err := os.Remove(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.updates <- watcher.Update{Config: serving(4), Since: time.Now()}
	eventually(t, "the failure", has("output o: failing in "))
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "output o") {
		t.Errorf("/readyz: %d %s", code, body)
	}
}

// TestStalledLoop: /healthz is about the loop, not about the outputs.
func TestStalledLoop(t *testing.T) {
	a := &Agent{opts: Options{Registry: prometheus.NewRegistry()}}
	a.beat.Store(time.Now().Add(-time.Hour).UnixNano())
	rec := httptest.NewRecorder()
	a.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("code %d", rec.Code)
	}
}

func TestBuildReportsEverything(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.tmpl": "{{ now }}", "b.tmpl": "{{ nope }}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := func(name, tmpl, reload string) OutputSettings {
		return OutputSettings{Options: output.Options{Name: name, RuntimeDir: dir, Files: []output.File{{Name: "f", Path: filepath.Join(dir, name)}}},
			Templates: map[string]string{"f": tmpl}, Reload: &Command{Args: []string{reload}}}
	}
	_, err := Build(&Settings{Outputs: []OutputSettings{out("a", "a.tmpl", "{{ .Nope }}"), out("b", "b.tmpl", "{{"), out("c", "missing.tmpl", "true")},
		Templates: template.Options{Dir: dir}}, nil, nil, Hooks{})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"a.tmpl:1", "now", "b.tmpl:1", "nope", "missing.tmpl", "reload command of output b", "Nope"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %s in\n%v", want, err)
		}
	}
}

// TestSlowOutputHoldsNobodyUp: an output whose reload takes long does not delay the other, nor the end of the agent beyond itself.
func TestSlowOutputHoldsNobodyUp(t *testing.T) {
	f := newFake()
	_, dir := runAgent(t, f, func(s *Settings, _ *Options) {
		slow := s.Outputs[0]
		slow.Options.Name = "slow"
		slow.Options.Files = []output.File{{Name: "f", Path: filepath.Join(s.RuntimeDir, "slow-out")}}
		slow.Reload = &Command{Args: []string{"while ! test -e " + filepath.Join(s.RuntimeDir, "go-on") + "; do sleep 0.05; done"}, Shell: true, Timeout: time.Minute}
		s.Outputs = append(s.Outputs, slow)
	})
	for n := range 5 {
		f.updates <- watcher.Update{Config: serving(n + 1), Since: time.Now()}
		eventually(t, "the fast output", contains(filepath.Join(dir, "out"), fmt.Sprintf("%d endpoints", n+1)))
	}
	if contains(filepath.Join(dir, "slow-out"), "5 endpoints")() {
		t.Error("the slow output was not slow")
	}
	if err := os.WriteFile(filepath.Join(dir, "go-on"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slow output to have the newest", contains(filepath.Join(dir, "slow-out"), "5 endpoints"))
}

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	one := fingerprint([]string{file})
	if one != fingerprint([]string{file}) {
		t.Error("it does not match itself")
	}
	write("b")
	if fingerprint([]string{file}) == one {
		t.Error("another content matches")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := fingerprint([]string{file}); got == one || got == "" {
		t.Error("a missing file matches")
	}
}
