package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

// sizes are those that benchmarks run at, as parts of Full.
var sizes = []int{1, 10, 100}

func sizeName(n int) string { return fmt.Sprintf("size=1of%d", n) }

// generated makes each cluster once.
var generated = func() func(n int) *Cluster {
	var mu sync.Mutex
	made := map[int]*Cluster{}
	return func(n int) *Cluster {
		mu.Lock()
		defer mu.Unlock()
		if made[n] == nil {
			made[n] = Generate(Full.Over(n))
		}
		return made[n]
	}
}()

// source is a watcher.Source in memory: what comes behind a client that has
// decoded everything. Pods are left out; nothing that is rendered needs them.
type source struct {
	cluster *Cluster
	slices  *watch.FakeWatcher
}

func newSource(c *Cluster) *source { return &source{c, watch.NewFake()} }

// ListerWatcher implements watcher.Source.
func (s *source) ListerWatcher(resource string) cache.ListerWatcher {
	return notStreamed{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return s.list(resource), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			if resource == watcher.EndpointSlices {
				return s.slices, nil
			}
			return watch.NewFake(), nil
		},
	}}
}

// list copies, since the objects are the watcher's own from then on.
func (s *source) list(resource string) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: s.cluster.ResourceVersion}
	switch resource {
	case watcher.ConfigMaps:
		return &v1.ConfigMapList{ListMeta: meta, Items: []v1.ConfigMap{*s.cluster.ConfigMap.DeepCopy()}}
	case watcher.Services:
		l := &v1.ServiceList{ListMeta: meta}
		for _, o := range s.cluster.Services {
			l.Items = append(l.Items, *o.DeepCopy())
		}
		return l
	case watcher.EndpointSlices:
		l := &discoveryv1.EndpointSliceList{ListMeta: meta}
		for _, o := range s.cluster.EndpointSlices {
			l.Items = append(l.Items, *o.DeepCopy())
		}
		return l
	case watcher.Nodes:
		l := &v1.NodeList{ListMeta: meta}
		for _, o := range s.cluster.Nodes {
			l.Items = append(l.Items, *o.DeepCopy())
		}
		return l
	}
	return &v1.PodList{ListMeta: meta}
}

// notStreamed says that the lists cannot be streamed.
type notStreamed struct{ cache.ListerWatcher }

func (notStreamed) IsWatchListSemanticsUnSupported() bool { return true }

// follow starts a watcher on s that ends with the benchmark. It does not wait for further changes.
func (s *source) follow(ctx context.Context) (*watcher.Watcher, error) {
	return watcher.NewWatcher(ctx, "", ConfigMapNamespace, ConfigMapName, ConfigKey, "bench", "", 0, slog.New(slog.DiscardHandler),
		watcher.WithSource(s), watcher.WithPods(watcher.PodsNone), watcher.WithTiming(0, 0))
}

// live is a cluster that is followed, and changes one slice at a time.
type live struct {
	*source
	watcher *watcher.Watcher
	config  *types.ClusterConfig
	n       int // changes so far
}

func newLive(b *testing.B, c *Cluster) *live {
	b.Helper()
	s := newSource(c)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := s.follow(ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		s.slices.Stop()
		w.Wait()
	})
	l := &live{source: s, watcher: w, config: (<-w.Updates()).Config}
	if n := len(l.config.Listeners); n != len(c.Services) {
		b.Fatalf("%d listeners, want one for each of %d services", n, len(c.Services))
	}
	return l
}

// next is the next version of some slice, never the same one twice in a row.
func (l *live) next() *discoveryv1.EndpointSlice {
	l.n++
	return l.cluster.ChangedSlice(l.n*7919%len(l.cluster.EndpointSlices), l.n)
}

// change changes services and returns the config in which all of them have changed.
func (l *live) change(services int) *types.ClusterConfig {
	before := l.config
	for range services {
		l.slices.Modify(l.next())
	}
	for changed := 0; changed < services; {
		l.config = (<-l.watcher.Updates()).Config
		changed = 0
		for i, x := range l.config.Listeners {
			if x != before.Listeners[i] {
				changed++
			}
		}
	}
	return l.config
}
