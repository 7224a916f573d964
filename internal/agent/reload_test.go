package agent

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/template"
	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

// reloading is an agent whose settings a test changes while it runs.
type reloading struct {
	*Agent
	dir    string
	signal chan struct{}
	mu     sync.Mutex
	load   func() (*Settings, error)
}

func startReloading(t *testing.T, f Cluster, poll time.Duration) *reloading {
	t.Helper()
	r := &reloading{dir: t.TempDir(), signal: make(chan struct{})}
	r.write(t, "t.tmpl", "{{ range .Listeners }}{{ len .Endpoints }} endpoints{{ end }}\n")
	r.load = func() (*Settings, error) { return r.settings(f, "one"), nil }
	a, err := New(Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: prometheus.NewRegistry(), Version: "test", Poll: poll,
		Load: func() (*Settings, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.load()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Agent = a
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx, r.signal) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *reloading) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settings are those of one output called o that writes the file out.
func (r *reloading) settings(f Cluster, clusterKey string) *Settings {
	return &Settings{
		ClusterKey: clusterKey, Templates: template.Options{Dir: r.dir}, StartTimeout: time.Minute,
		Cluster: func(context.Context, prometheus.Registerer) (Cluster, error) { return f, nil },
		Outputs: []OutputSettings{{
			Options: output.Options{Name: "o", Files: []output.File{{Name: "f", Path: filepath.Join(r.dir, "out")}}, RuntimeDir: r.dir,
				Backoff: output.Backoff{Min: 10 * time.Millisecond}},
			Templates: map[string]string{"f": "t.tmpl"},
		}},
		Guard: Guard{MaxLoss: 1, Hold: time.Hour},
	}
}

func (r *reloading) set(load func() (*Settings, error)) {
	r.mu.Lock()
	r.load = load
	r.mu.Unlock()
	r.signal <- struct{}{}
	r.signal <- struct{}{} // taken when the first was done
}

func (r *reloading) series() string {
	rec := httptest.NewRecorder()
	r.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}

func send(f *fakeCluster, n int) {
	f.updates <- watcher.Update{Config: serving(n), Since: time.Now()}
}

// TestAnotherClusterForgetsWhatWasHeld: what the guard held of the old cluster must not empty the outputs of the new one.
func TestAnotherClusterForgetsWhatWasHeld(t *testing.T) {
	old, other := newFake(), newFake()
	r := startReloading(t, old, time.Hour)
	send(old, 20)
	eventually(t, "20", contains(filepath.Join(r.dir, "out"), "20 endpoints"))
	send(old, 0)
	eventually(t, "the hold", func() bool { return r.Status().Guard != nil })
	r.set(func() (*Settings, error) { return r.settings(other, "two"), nil })
	if g := r.Status().Guard; g != nil {
		t.Errorf("still held: %+v", g)
	}
	// Even a guard that lets everything through has nothing to let through.
	r.set(func() (*Settings, error) {
		s := r.settings(other, "two")
		s.Guard = Guard{}
		return s, nil
	})
	send(other, 15)
	eventually(t, "15", contains(filepath.Join(r.dir, "out"), "15 endpoints"))
}

// TestGuardTurnedOff: what is held is let through when the new config has no guard.
func TestGuardTurnedOff(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, time.Hour)
	send(f, 20)
	eventually(t, "20", contains(filepath.Join(r.dir, "out"), "20 endpoints"))
	send(f, 0)
	eventually(t, "the hold", func() bool { return r.Status().Guard != nil })
	r.set(func() (*Settings, error) {
		s := r.settings(f, "one")
		s.Guard = Guard{}
		return s, nil
	})
	eventually(t, "0", contains(filepath.Join(r.dir, "out"), "0 endpoints\n"))
}

// TestRefusedOutputsLeaveNoSeries: a config that is refused must not set off alerts for outputs that never came to be.
func TestRefusedOutputsLeaveNoSeries(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, time.Hour)
	send(f, 3)
	eventually(t, "sync", func() bool { return strings.Contains(r.series(), `lb_render_output_in_sync{output="o"} 1`) })
	r.set(func() (*Settings, error) {
		s := r.settings(f, "one")
		more := s.Outputs[0]
		more.Options.Name = "phantom"
		more.Options.Files = []output.File{{Name: "f", Path: filepath.Join(r.dir, "phantom")}}
		bad := more
		bad.Options.Name, bad.Templates = "bad", map[string]string{"f": "missing.tmpl"}
		s.Outputs = append(s.Outputs, more, bad)
		return s, nil
	})
	if m := r.series(); strings.Contains(m, "phantom") || strings.Contains(m, `"bad"`) || !strings.Contains(m, `lb_render_output_in_sync{output="o"} 1`) {
		t.Errorf("series of outputs that are not there, or none of the one that is:\n%s", m)
	}
}

// TestRenamedOutputWaitsForTheOldOne: the rollback of the old one must not undo what the new one wrote to the same file.
func TestRenamedOutputWaitsForTheOldOne(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, time.Hour)
	gate, started := filepath.Join(r.dir, "go-on"), filepath.Join(r.dir, "started")
	slow := func(name, reload string) func() (*Settings, error) {
		return func() (*Settings, error) {
			s := r.settings(f, "one")
			s.Outputs[0].Options.Name = name
			s.Outputs[0].Reload = &Command{Args: []string{reload}, Shell: true, Timeout: time.Minute}
			return s, nil
		}
	}
	send(f, 1)
	eventually(t, "1", contains(filepath.Join(r.dir, "out"), "1 endpoints"))
	r.set(slow("old", fmt.Sprintf("touch %s; while ! test -e %s; do sleep 0.02; done; exit 1", started, gate)))
	send(f, 2)
	eventually(t, "the old one's reload", func() bool { _, err := os.Stat(started); return err == nil })
	r.set(slow("new", "true"))
	send(f, 3)
	r.write(t, "go-on", "")
	eventually(t, "the new one", func() bool { return r.Status().InSync })
	if !contains(filepath.Join(r.dir, "out"), "3 endpoints")() {
		t.Error("in sync, but the file is not the newest")
	}
}

// TestMinIntervalOutlivesAChangeOfOptions: it is the daemon that must not be reloaded too often, whatever its output is called or may do.
func TestMinIntervalOutlivesAChangeOfOptions(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, time.Hour)
	with := func(noRollback bool) func() (*Settings, error) {
		return func() (*Settings, error) {
			s := r.settings(f, "one")
			s.Outputs[0].Options.MinInterval, s.Outputs[0].Options.NoRollback = time.Hour, noRollback
			s.Outputs[0].Reload = &Command{Args: []string{"echo x >> " + filepath.Join(r.dir, "reloads")}, Shell: true}
			return s, nil
		}
	}
	r.set(with(false))
	send(f, 1)
	eventually(t, "the first reload", contains(filepath.Join(r.dir, "reloads"), "x"))
	eventually(t, "sync", func() bool { return r.Status().InSync })
	r.set(with(true))
	send(f, 2)
	eventually(t, "the second to wait", func() bool { s := r.Status(); return len(s.Outputs) == 1 && s.Outputs[0].Pending })
	if contains(filepath.Join(r.dir, "reloads"), "x\nx")() || contains(filepath.Join(r.dir, "out"), "2 endpoints")() {
		t.Error("reloaded again within minInterval")
	}
}

// TestTemplateThatNewlyNeedsServices waits for them and fails nothing.
func TestTemplateThatNewlyNeedsServices(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, time.Hour)
	send(f, 1)
	eventually(t, "1", contains(filepath.Join(r.dir, "out"), "1 endpoints"))
	r.write(t, "t.tmpl", `{{ len (endpoints "a" "b" "") }} of any`+"\n")
	r.set(r.load)
	f.mu.Lock()
	keep := f.keep
	f.mu.Unlock()
	if !keep {
		t.Error("the watcher was not asked for all services")
	}
	c := serving(1)
	c.Services = map[string]*types.ServiceEndpoints{}
	f.updates <- watcher.Update{Config: c, Since: time.Now()}
	eventually(t, "the new template", contains(filepath.Join(r.dir, "out"), "0 of any"))
	if m := r.series(); !strings.Contains(m, `lb_render_renders_total{output="o",result="success"}`) || strings.Contains(m, `result="error"`) {
		t.Error("a render has failed")
	}
}

// TestEditWhileLoading: an edit in the moment after a file was read is seen, though its time may be that of before.
func TestEditWhileLoading(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, 20*time.Millisecond)
	send(f, 1)
	eventually(t, "1", contains(filepath.Join(r.dir, "out"), "1 endpoints"))
	n := 0
	r.set(func() (*Settings, error) {
		s := r.settings(f, "one")
		s.Params = map[string]any{"n": n}
		n++
		return s, nil
	})
	path := filepath.Join(r.dir, "t.tmpl")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r.write(t, "t.tmpl", "edited\n")
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the edit", contains(filepath.Join(r.dir, "out"), "edited"))
}

// TestTimesInTheFuture make no reloads: files of an archive, or a clock that was wrong.
func TestTimesInTheFuture(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, 5*time.Millisecond)
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(r.dir, "t.tmpl"), future, future); err != nil {
		t.Fatal(err)
	}
	loads := 0
	r.set(func() (*Settings, error) {
		loads++
		return r.settings(f, "one"), nil
	})
	send(f, 1)
	eventually(t, "1", contains(filepath.Join(r.dir, "out"), "1 endpoints"))
	// Some polls must have passed: a file that does change shows that they have.
	for i := range 3 {
		r.write(t, "t.tmpl", fmt.Sprintf("%d\n", i))
		eventually(t, "the edit", contains(filepath.Join(r.dir, "out"), fmt.Sprintf("%d\n", i)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if loads > 20 {
		t.Errorf("loaded %d times", loads)
	}
}

// TestFailedLoadIsTriedAgain: what was missing may be a file that nobody watches.
func TestFailedLoadIsTriedAgain(t *testing.T) {
	f := newFake()
	r := startReloading(t, f, 10*time.Millisecond)
	broken := true
	r.set(func() (*Settings, error) {
		if broken {
			return nil, errors.New("broken")
		}
		return r.settings(f, "one"), nil
	})
	if r.Status().Config.Error == "" {
		t.Error("no error is shown")
	}
	r.mu.Lock()
	broken = false
	r.mu.Unlock()
	eventually(t, "the mended config", func() bool { return r.Status().Config.Error == "" })
}
