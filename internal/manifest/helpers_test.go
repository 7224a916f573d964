package manifest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree is a directory with the files given as name, text, name, text…
func tree(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		put(t, dir, files[i], files[i+1])
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// swap writes a file in one step, for tests that no state in between may disturb.
func swap(t testing.TB, dir, name, text string) {
	t.Helper()
	put(t, dir, ".new", text)
	must(t, os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: lb\ndata:\n  key: %q\n", name, value)
}

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) count(s string) int { return strings.Count(j.String(), s) }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// waitFor polls until ok; it fails the test after far too long.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// cluster is a source that runs, with an informer on one of its resources.
type cluster struct {
	*testing.T
	source   *Source
	log      *journal // of the source
	noise    *journal // of client-go
	informer cache.SharedIndexInformer
	stop     func()

	mu     sync.Mutex
	events []string
}

// follow runs a source on dir and an informer of the resource until the test ends.
func follow(t *testing.T, dir, resource string, example runtime.Object, o Options) *cluster {
	t.Helper()
	c := &cluster{T: t, log: &journal{}, noise: &journal{}}
	if o.Poll == 0 {
		o.Poll = time.Hour // events must do
	}
	if o.quiet == 0 {
		o.quiet = 5 * time.Millisecond
	}
	var err error
	c.source, err = New(dir, c.log.logger(), o)
	must(t, err)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.FromSlogHandler(c.noise.logger().Handler())))
	c.informer = cache.NewSharedIndexInformer(c.source.ListerWatcher(resource), example, 0, cache.Indexers{})
	_, err = c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.saw("add", o) },
		UpdateFunc: func(_, o any) { c.saw("update", o) },
		DeleteFunc: func(o any) { c.saw("delete", o) },
	})
	must(t, err)
	var group sync.WaitGroup
	group.Go(func() { c.source.Run(ctx) })
	group.Go(func() { c.informer.RunWithContext(ctx) })
	c.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	t.Cleanup(func() {
		c.stop()
		if c.noise.String() != "" {
			t.Errorf("the informer complains:\n%s", c.noise)
		}
	})
	synced := time.Now()
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	if d := time.Since(synced); d > 10*time.Second {
		t.Errorf("the informer took %v to sync", d)
	}
	return c
}

func (c *cluster) saw(what string, o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, what+" "+o.(object).GetName())
}

func (c *cluster) happened(event string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.events {
		if e == event {
			n++
		}
	}
	return n
}

// story is all events so far.
func (c *cluster) story() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.events, ", ")
}

// state is the informer's objects: names, and values of ConfigMaps.
func (c *cluster) state() string {
	var all []string
	for _, o := range c.informer.GetStore().List() {
		s := o.(object).GetName()
		if cm, ok := o.(*v1.ConfigMap); ok {
			s += "=" + cm.Data["key"]
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (c *cluster) becomes(want string) {
	c.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for c.state() != want {
		select {
		case <-tick.C:
		case <-deadline:
			c.Fatalf("have %q, want %q\n%s", c.state(), want, c.log)
		}
	}
}

// one decodes the one object in text.
func one[T runtime.Object](t testing.TB, text string) T {
	t.Helper()
	objects, err := Decode("test.yaml", []byte(text))
	must(t, err)
	if len(objects) != 1 {
		t.Fatalf("%d objects", len(objects))
	}
	o, ok := objects[0].(T)
	if !ok {
		t.Fatalf("got a %T", objects[0])
	}
	return o
}

func names(objects []runtime.Object) string {
	var all []string
	for _, o := range objects {
		all = append(all, describe(o.(object)))
	}
	return strings.Join(all, ", ")
}

func slicesOf(t testing.TB, s *Source) []discoveryv1.EndpointSlice {
	t.Helper()
	list, err := s.ListerWatcher("endpointslices").(*listWatch).List(everything())
	must(t, err)
	return list.(*discoveryv1.EndpointSliceList).Items
}
