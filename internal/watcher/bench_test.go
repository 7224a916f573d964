package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lb-render/lb-render/test/bench"
)

// generated returns a watcher that has the generated cluster in its stores, and has built nothing yet.
func generated(b *testing.B, c *bench.Cluster) *Watcher {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := c.ConfigMap
	w, err := NewWatcher(ctx, "", m.Namespace, m.Name, bench.ConfigKey, "bench", "", 0, slog.New(slog.DiscardHandler), WithSource(silent{}), WithPods(PodsNone))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		w.Wait()
	})
	feed(b, w, m)
	for _, list := range [][]runtime.Object{objects(c.Services), objects(c.EndpointSlices), objects(c.Nodes)} {
		for _, o := range list {
			feed(b, w, o)
		}
	}
	return w
}

func objects[T runtime.Object](list []T) []runtime.Object {
	out := make([]runtime.Object, len(list))
	for i, o := range list {
		out[i] = o
	}
	return out
}

// BenchmarkBuild is what the ClusterConfig costs: from nothing; and, from the
// event on, after one slice of one service has changed, and after a node's
// heartbeat that changes nothing.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		c := bench.Generate(bench.Full.Over(n))
		b.Run(fmt.Sprintf("all/size=1of%d", n), func(b *testing.B) {
			var w *Watcher
			bench.Rounds(b, func() { w = generated(b, c) }, func() { w.build(true) })
		})
		b.Run(fmt.Sprintf("slice/size=1of%d", n), func(b *testing.B) {
			w := generated(b, c)
			w.build(true)
			i := 0
			var slice *discoveryv1.EndpointSlice
			prepare := func() {
				i++
				slice = c.ChangedSlice(i*7919%len(c.EndpointSlices), i)
			}
			change := func() {
				last := w.ClusterConfig
				if err := w.stores.slices.Update(slice); err != nil {
					b.Fatal(err)
				}
				w.build(false)
				if w.ClusterConfig == last {
					b.Fatal("nothing has changed")
				}
			}
			// Until the heap has its size: pages that the kernel has to find first cost more than all the rest.
			for range 4000 {
				prepare()
				change()
			}
			bench.Rounds(b, prepare, change)
		})
		b.Run(fmt.Sprintf("heartbeat/size=1of%d", n), func(b *testing.B) {
			w := generated(b, c)
			w.build(true)
			i := 0
			var node *v1.Node
			bench.Rounds(b, func() {
				i++
				node = c.Nodes[i%len(c.Nodes)].DeepCopy()
				node.ResourceVersion = fmt.Sprint(i)
			}, func() {
				last := w.ClusterConfig
				if err := w.stores.nodes.Update(node); err != nil {
					b.Fatal(err)
				}
				w.build(false)
				if w.ClusterConfig != last {
					b.Fatal("a heartbeat has changed something")
				}
			})
		})
	}
}
