package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/lb-render/lb-render/internal/types"
)

// silent is a Source that never says anything: its watcher builds when the test says so.
type silent struct{}

func (silent) ListerWatcher(string) cache.ListerWatcher {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return nil, wait(ctx)
		},
		WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			return nil, wait(ctx)
		},
	}
}

// still returns a watcher without a cluster, which the test feeds and builds by itself.
func still(t testing.TB, opts ...Option) *Watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWatcher(ctx, "", "lb", "config", "green", "test", "default/auto:80", 8080, slog.New(slog.DiscardHandler), append([]Option{WithSource(silent{})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		w.Wait()
	})
	return w
}

func (w *Watcher) store(o runtime.Object) cache.ReflectorStore {
	switch o.(type) {
	case *v1.ConfigMap:
		return w.stores.configMaps
	case *v1.Service:
		return w.stores.services
	case *discoveryv1.EndpointSlice:
		return w.stores.slices
	case *v1.Node:
		return w.stores.nodes
	case *v1.Pod:
		return w.stores.pods
	}
	panic(fmt.Sprintf("no store for %T", o))
}

func feed(t testing.TB, w *Watcher, o runtime.Object) {
	t.Helper()
	if err := w.store(o).Add(o.DeepCopyObject()); err != nil {
		t.Fatal(err)
	}
}

// randomObject makes one of a few objects: new, or the next version of one that is there.
func randomObject(rng *rand.Rand) runtime.Object {
	states := []string{"ready", "ready", "terminating", "notready", "gone"}
	svc := fmt.Sprintf("s%d", rng.IntN(6))
	if rng.IntN(20) == 0 {
		svc = "auto"
	}
	switch rng.IntN(12) {
	case 0, 1:
		s := service(port("http", int32(80+rng.IntN(2)), v1.ProtocolTCP))
		s.Name = svc
		if rng.IntN(3) == 0 {
			s.Spec.Ports = append(s.Spec.Ports, port("dns", 53, v1.ProtocolUDP), port("dns", 53, v1.ProtocolTCP))
		}
		if rng.IntN(4) == 0 {
			s.Annotations = map[string]string{"a": fmt.Sprint(rng.IntN(2)), v1.LastAppliedConfigAnnotation: "{}"}
		}
		return s
	case 2, 3, 4, 5, 6:
		family, address := discoveryv1.AddressTypeIPv4, "10.0.0."
		if rng.IntN(4) == 0 {
			family, address = discoveryv1.AddressTypeIPv6, "2001:db8:1::"
		}
		var eps []discoveryv1.Endpoint
		for range rng.IntN(4) {
			e := ep(address+fmt.Sprint(1+rng.IntN(6)), string(rune('a'+rng.IntN(5))), states[rng.IntN(len(states))])
			if rng.IntN(2) == 0 {
				e.TargetRef = &v1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("p%d", rng.IntN(3))}
			}
			eps = append(eps, e)
		}
		ports := http8080()
		if rng.IntN(3) == 0 {
			ports = append(ports, slicePort("dns", 5353, v1.ProtocolUDP))
		}
		s := slice(fmt.Sprintf("%s-%s%d", svc, family, rng.IntN(2)), family, ports, eps...)
		s.Labels[discoveryv1.LabelServiceName] = svc
		return s
	case 7, 8:
		return node(string(rune('a'+rng.IntN(5))), fmt.Sprintf("203.0.113.%d", 1+rng.IntN(4)), func(n *v1.Node) {
			n.Labels["x"] = fmt.Sprint(rng.IntN(2))
			if rng.IntN(3) == 0 {
				n.Status.Conditions[0].Status = v1.ConditionFalse
			}
			if rng.IntN(3) == 0 {
				n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: fmt.Sprintf("2001:db8:2::%d", 1+rng.IntN(4))})
			}
			n.Spec.Unschedulable = rng.IntN(4) == 0
		})
	case 9, 10:
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", rng.IntN(6)), Labels: map[string]string{"app": svc}},
			Spec: v1.PodSpec{NodeName: []string{"", "a", "b", "c"}[rng.IntN(4)]}}
	}
	return configMap(randomDocument(rng))
}

// randomDocument is sometimes broken, as a whole or in an entry.
func randomDocument(rng *rand.Rand) string {
	if rng.IntN(8) == 0 {
		return "{"
	}
	doc := map[string]any{"vipPool": []string{"192.0.2.1", "192.0.2.9", "2001:db8::9"}[:rng.IntN(4)], "mtuConfig": map[string]string{"192.0.2.1": fmt.Sprint(1400 + rng.IntN(2))}}
	if rng.IntN(3) == 0 {
		doc["labels"] = map[string]string{"x": "1"}
	}
	four, six := map[string]any{}, map[string]any{}
	for range rng.IntN(12) {
		def := map[string]any{"namespace": "default", "service": fmt.Sprintf("s%d", rng.IntN(7)), "portName": []string{"http", "dns", "80", ""}[rng.IntN(4)]}
		switch rng.IntN(6) {
		case 0:
			def["ipvsOptions"] = map[string]any{"uThreshold": rng.IntN(50), "lThreshold": rng.IntN(20), "scheduler": "wlc"}
		case 1:
			def["ipvsOptions"] = map[string]any{"scheduler": "nonsense"}
		case 2:
			def["udpEnabled"] = true
		}
		m, vip := four, fmt.Sprintf("192.0.2.%d", 1+rng.IntN(4))
		if rng.IntN(3) == 0 {
			m, vip = six, fmt.Sprintf("2001:db8::%d", 1+rng.IntN(3))
		}
		ports, _ := m[vip].(map[string]any)
		if ports == nil {
			ports = map[string]any{}
			m[vip] = ports
		}
		ports[fmt.Sprint(80+rng.IntN(3))] = def
	}
	doc["config"], doc["config6"] = four, six
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// asText is all of a watcher's state that anybody can see.
func asText(t testing.TB, w *Watcher) string {
	t.Helper()
	pods := map[string][]string{}
	for n, list := range w.AllPodsByNode {
		for _, p := range list {
			pods[n] = append(pods[n], p.Name)
		}
	}
	c := w.ClusterConfig
	if c == nil {
		c = &types.ClusterConfig{}
	}
	authored, err := c.MarshalAuthored()
	b, err2 := json.MarshalIndent([]any{string(authored), c.VIPs, c.Listeners, c.Nodes, c.Node, c.Problems, c.Services, c.EndpointCount(),
		w.AllServices, w.AllEndpoints, w.AllPods, pods, append([]*v1.Node{}, w.Nodes...)}, "", " ")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestIncrementalEqualsFresh: whatever the changes were and however they were
// gathered, the state is the one that a watcher has which sees just the last
// version of each object; and what is equal in two configs has one pointer.
func TestIncrementalEqualsFresh(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		opts := []Option{WithAllServices(seed%3 == 0), WithExcludeCordoned(seed%2 == 0), WithNode("a"), WithNodeScope(seed%5 == 0)}
		w := still(t, opts...)
		objects := map[string]runtime.Object{}
		var valid []*v1.ConfigMap // all documents in order: the last valid entries depend on them
		id := func(o runtime.Object) string { return fmt.Sprintf("%T %s", o, key(o.(metav1.Object))) }
		for step := range 60 {
			for range 1 + rng.IntN(4) {
				o := randomObject(rng)
				if cm, ok := o.(*v1.ConfigMap); ok {
					feed(t, w, o)
					w.build(false) // each document is read, however fast the next one comes
					valid = append(valid, cm)
					objects[id(o)] = o
					continue
				}
				if _, there := objects[id(o)]; there && rng.IntN(3) == 0 {
					delete(objects, id(o))
					if err := w.store(o).Delete(o); err != nil {
						t.Fatal(err)
					}
					continue
				}
				objects[id(o)] = o
				feed(t, w, o)
			}
			last := w.ClusterConfig
			if rng.IntN(10) == 0 {
				w.build(true)
			} else {
				w.build(false)
			}
			checkShared(t, w.ClusterConfig, last)
			if step%6 != 0 {
				continue
			}
			fresh := still(t, opts...)
			for _, cm := range valid {
				feed(t, fresh, cm)
				fresh.build(false)
			}
			for _, o := range objects {
				feed(t, fresh, o)
			}
			fresh.build(true)
			if got, want := asText(t, w), asText(t, fresh); got != want {
				t.Fatalf("seed %d, step %d: the state is not that of a fresh watcher: %s", seed, step, firstDifference(got, want))
			}
		}
	}
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	around := func(l []string) string { return strings.Join(l[max(0, i-8):min(len(l), i+8)], "\n") }
	return fmt.Sprintf("line %d\n got %s\nwant %s", i, around(g), around(w))
}

// checkShared compares two configs that follow one another: different ones
// differ in something, equal parts are one, and lists are in their order.
func checkShared(t *testing.T, next, last *types.ClusterConfig) {
	t.Helper()
	if next == last || last == nil {
		return
	}
	if types.Equal(next, last) {
		t.Error("a config that means the same was published")
	}
	old := map[string]*types.Listener{}
	for _, l := range last.Listeners {
		old[l.Name] = l
	}
	for _, l := range next.Listeners {
		o := old[l.Name]
		if o == nil || o == l {
			continue
		}
		if reflect.DeepEqual(l, o) {
			t.Errorf("listener %s is the same and has another pointer", l.Name)
		}
		for _, e := range l.Endpoints {
			for _, f := range o.Endpoints {
				if *e == *f && e != f {
					t.Errorf("endpoint %s is the same and has another pointer", e.Name)
				}
			}
		}
		for _, r := range l.RealServers() {
			for _, s := range o.RealServers() {
				if *r == *s && r != s {
					t.Errorf("real server %s is the same and has another pointer", r.Address)
				}
			}
		}
	}
	for _, v := range next.VIPs {
		for _, o := range last.VIPs {
			if v != o && reflect.DeepEqual(v, o) {
				t.Errorf("VIP %s is the same and has another pointer", v.Address)
			}
		}
	}
	for _, n := range next.Nodes {
		for _, o := range last.Nodes {
			if n != o && reflect.DeepEqual(n, o) {
				t.Errorf("node %s is the same and has another pointer", n.Name)
			}
		}
	}
	if !slices.IsSortedFunc(next.VIPs, func(a, b *types.VIP) int { return types.CompareVIP(a.Address, b.Address) }) {
		t.Error("the VIPs are not sorted")
	}
}

// TestUntouchedStaysUntouched: an event reaches the listeners of its service,
// and nothing else; what changes nothing publishes nothing.
func TestUntouchedStaysUntouched(t *testing.T) {
	w := still(t)
	feed(t, w, configMap(`{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "a"}, "81": {"namespace": "default", "service": "b"}}, "192.0.2.2": {"80": {"namespace": "default", "service": "b"}}}}`))
	for _, name := range []string{"a", "b"} {
		s := service(port("http", 80, v1.ProtocolTCP))
		s.Name = name
		feed(t, w, s)
		sl := slice(name, discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "n", "ready"))
		sl.Labels[discoveryv1.LabelServiceName] = name
		feed(t, w, sl)
	}
	feed(t, w, node("n", "203.0.113.1"))
	w.build(true)
	before := w.ClusterConfig

	parsed := w.authored
	again := configMap(w.ConfigMap.Data["green"])
	again.ResourceVersion, again.Data["other"] = "2", "x"
	beat := node("n", "203.0.113.1")
	beat.ResourceVersion = "3"
	beat.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
	beat.Status.Conditions = append(beat.Status.Conditions, v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse})
	beat.Status.Images = []v1.ContainerImage{{Names: []string{"x"}}}
	for _, o := range []runtime.Object{again, beat} {
		feed(t, w, o)
		if d := w.stores.take(); len(d.nodes)+len(d.services)+len(d.pods) > 0 || !d.since.IsZero() {
			t.Errorf("%T: nothing we use has changed, and something is dirty: %+v", o, d)
		}
		w.build(false)
		if w.ClusterConfig != before {
			t.Errorf("%T: nothing we use has changed, and a config was published", o)
		}
	}
	if w.authored != parsed {
		t.Error("the document was parsed again though it is the same")
	}

	sl := slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.2", "n", "ready"))
	sl.Labels[discoveryv1.LabelServiceName] = "a"
	feed(t, w, sl)
	w.build(false)
	after := w.ClusterConfig
	for i, name := range []string{"tcp_192.0.2.1_80", "tcp_192.0.2.1_81", "tcp_192.0.2.2_80"} {
		if l := after.Listeners[i]; l.Name != name || (l == before.Listeners[i]) != (i > 0) {
			t.Errorf("listener %s: the same pointer is %t", l.Name, l == before.Listeners[i])
		}
	}
	if after.VIPs[0] == before.VIPs[0] || after.VIPs[1] != before.VIPs[1] || !sameList(after.Nodes, before.Nodes) {
		t.Error("more or less than the one VIP has changed")
	}
	// A node that changes in what no real server has leaves all listeners as they are.
	feed(t, w, node("n", "203.0.113.1", func(n *v1.Node) { n.Labels["new"] = "label" }))
	w.build(false)
	if got := w.ClusterConfig; got.Nodes[0] == after.Nodes[0] || !sameList(got.Listeners, after.Listeners) {
		t.Error("a node's label is not there, or it changed the listeners")
	}
}

// TestWarningsGoWithTheirSlices: a slice that is gone leaves nothing, and one of its name is warned of anew.
func TestWarningsGoWithTheirSlices(t *testing.T) {
	w := still(t)
	odd := slice("odd", discoveryv1.AddressTypeIPv4, []discoveryv1.EndpointPort{{}}, ep("10.0.0.1", "n", "ready"))
	for range 3 {
		feed(t, w, odd)
		w.build(false)
		if len(w.warnings) != 1 {
			t.Fatalf("warnings: %v", w.warnings)
		}
		if err := w.store(odd).Delete(odd); err != nil {
			t.Fatal(err)
		}
		w.build(false)
		if len(w.warnings) != 0 {
			t.Fatalf("the slice is gone, and its warning is kept: %v", w.warnings)
		}
	}
}

// TestStripped: what is not used is gone, what repeats is there once, and doing it twice does nothing.
func TestStripped(t *testing.T) {
	w := still(t)
	pod := func(name string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web", "hash": "1"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}, Annotations: map[string]string{"a": "b"}, CreationTimestamp: metav1.Now()},
			Spec:   v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c"}}, HostNetwork: true},
			Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}}, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, Message: "x"}, {Type: v1.PodScheduled}}},
		}
	}
	feed(t, w, pod("p"))
	feed(t, w, pod("q"))
	p, q := w.stores.pods.objects["default/p"], w.stores.pods.objects["default/q"]
	want := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": "web", "hash": "1"}},
		Spec:       v1.PodSpec{NodeName: "n", HostNetwork: true},
		Status:     v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}}, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("left of a pod is\n%+v\nwant\n%+v", p, want)
	}
	if reflect.ValueOf(p.Labels).Pointer() != reflect.ValueOf(q.Labels).Pointer() || &p.Status.Conditions[0] != &q.Status.Conditions[0] {
		t.Error("two pods of one workload have labels or conditions of their own")
	}
	if again := w.stores.pods.strip(p.DeepCopy()); !reflect.DeepEqual(again, want) {
		t.Errorf("stripped twice it is %+v", again)
	}
}
