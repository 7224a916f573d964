package watcher

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/lb-render/lb-render/internal/types"
)

// The fake source of client-go never ends its broadcaster.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"))
}

func small() cluster {
	return newCluster(
		configMap(`{"vipPool": ["192.0.2.1"], "config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web", "portName": "http"}},
			"192.0.2.2": {"80": {"namespace": "default", "service": "web"}}},
			"config6": {"2001:db8::1": {"80": {"namespace": "default", "service": "web"}}}}`),
		service(port("http", 80, v1.ProtocolTCP)),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "a", "ready"), ep("10.0.0.2", "b", "ready"), ep("10.0.0.3", "b", "ready"), ep("10.0.0.4", "a", "notready")),
		node("a", "203.0.113.1"), node("b", "203.0.113.2"),
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p1"}, Spec: v1.PodSpec{NodeName: "a"}},
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p2"}, Spec: v1.PodSpec{NodeName: "b"}},
	)
}

func TestDocumentedAPI(t *testing.T) {
	w := follow(t, small())
	c := current(t, w)
	ips := func(list []v1.EndpointAddress) []string {
		var out []string
		for _, a := range list {
			out = append(out, a.IP)
		}
		return out
	}
	other := &types.ClusterConfig{VIPPool: []string{"192.0.2.2", "192.0.2.1"}}
	same := &types.ClusterConfig{VIPPool: []string{"192.0.2.1", "192.0.2.2"}}
	six := &types.ClusterConfig{VIPPool: same.VIPPool, Config6: map[string]types.PortMap{"2001:db8::1": {"80": {Service: "x"}}}}
	for name, got := range map[string][2]any{
		"ConfigIPCount":                         {w.ConfigIPCount(), 2},
		"ConfigIPCount6":                        {w.ConfigIPCount6(), 1},
		"EndpointCount":                         {w.EndpointCount(), 4},
		"ServiceCount":                          {w.ServiceCount(), 1},
		"VIPPoolCount":                          {w.VIPPoolCount(), 1},
		"ServiceDefinitionCount":                {w.ServiceDefinitionCount(), 3},
		"GetEndpointAddressesForNode":           {ips(w.GetEndpointAddressesForNode("b")), []string{"10.0.0.2", "10.0.0.3"}},
		"GetEndpointAddressesForService":        {ips(w.GetEndpointAddressesForService("web", "default", "http")), []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		"GetEndpointAddressesForService number": {ips(w.GetEndpointAddressesForService("web", "default", "80")), []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		"GetEndpointAddressesForService none":   {len(w.GetEndpointAddressesForService("web", "default", "nope")), 0},
		"GetLocalServiceWeight":                 {w.GetLocalServiceWeight("b", "default", "web", "http"), 2.0 / 3},
		"GetLocalServiceWeight none":            {w.GetLocalServiceWeight("b", "default", "nope", "http"), 0.0},
		"GetPodIPsOnNode":                       {w.GetPodIPsOnNode("a", "web", "default", "http"), []string{"10.0.0.1"}},
		"GetPortNumberForService":               {w.GetPortNumberForService("default", "web", "http"), int32(8080)},
		"GetPortNumberForService unknown":       {w.GetPortNumberForService("default", "web", "nope"), int32(0)},
		"HasConfigChanged nil new":              {w.HasConfigChanged(c, nil), false},
		"HasConfigChanged nil current":          {w.HasConfigChanged(nil, c), true},
		"HasConfigChanged itself":               {w.HasConfigChanged(c, c), false},
		"HasConfigChanged order":                {w.HasConfigChanged(same, other), false},
		"HasConfigChanged IPv6":                 {w.HasConfigChanged(same, six), true},
		"NodeHasServiceRunning":                 {w.NodeHasServiceRunning("a", "default", "web", "http"), true},
		"NodeHasServiceRunning not":             {w.NodeHasServiceRunning("c", "default", "web", "http"), false},
		"ServiceExistsInConfig":                 {w.ServiceExistsInConfig(c, "web", "default", "http"), true},
		"ServiceExistsInConfig not":             {w.ServiceExistsInConfig(c, "web", "default", "https"), false},
		"ServiceExistsInConfig six":             {w.ServiceExistsInConfig(six, "x", "", ""), true},
		"ServiceIsConfigured":                   {w.ServiceIsConfigured("web", "default"), true},
		"ServiceIsConfigured not":               {w.ServiceIsConfigured("default", "web"), false},
		"ServiceHasValidEndpoints":              {w.ServiceHasValidEndpoints("default", "web"), true},
		"ServiceHasValidEndpoints not":          {w.ServiceHasValidEndpoints("default", "nope"), false},
		"SubsetIPsForService":                   {w.SubsetIPsForService("web", "default"), []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
	} {
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s = %v, want %v", name, got[0], got[1])
		}
	}
	services := w.Services()
	delete(services, "default/web")
	w.RLock()
	defer w.RUnlock()
	if w.AllServices["default/web"] == nil || len(w.AllEndpoints["default/web"].Subsets) != 1 || len(w.AllPods) != 2 ||
		len(w.AllPodsByNode["a"]) != 1 || w.ConfigMap == nil || w.ClusterConfig != c || len(w.Nodes) != 2 || w.Nodes[0].Name != "a" {
		t.Errorf("exported fields: %+v", w.AllEndpoints)
	}
}

func TestPodsModes(t *testing.T) {
	for mode, want := range map[PodsMode]int{PodsAll: 2, PodsNode: 1, PodsNone: 0} {
		w := follow(t, small(), WithPods(mode), WithNode("a"))
		current(t, w)
		w.RLock()
		if len(w.AllPods) != want {
			t.Errorf("pods: %s keeps %d, want %d", mode, len(w.AllPods), want)
		}
		w.RUnlock()
	}
}

func TestPodMovesAndGoes(t *testing.T) {
	c := small()
	w := follow(t, c)
	current(t, w)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p1"}, Spec: v1.PodSpec{NodeName: "b"}}
	c.modify(pod)
	eventually(t, "the pod on its new node", func() bool {
		w.RLock()
		defer w.RUnlock()
		return len(w.AllPodsByNode["b"]) == 2 && len(w.AllPodsByNode["a"]) == 0
	})
	c.delete(pod)
	eventually(t, "the pod gone", func() bool {
		w.RLock()
		defer w.RUnlock()
		return len(w.AllPodsByNode["b"]) == 1 && len(w.AllPods) == 1
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond) // between looks; the condition decides
	}
	t.Fatalf("timed out waiting for %s", what)
}

func TestWhatIsEqualIsShared(t *testing.T) {
	c := small()
	two := service(port("http", 80, v1.ProtocolTCP))
	two.Name = "two"
	c.of(two).Add(two)
	c.modify(configMap(`{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web"}, "81": {"namespace": "default", "service": "two"}}}}`))
	other := slice("two-a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.1.1", "a", "ready"), ep("10.0.1.2", "b", "ready"))
	other.Labels[discoveryv1.LabelServiceName] = "two"
	c.of(other).Add(other)
	w := follow(t, c)
	before := await(t, w, "both listeners", func(c *types.ClusterConfig) bool { return len(c.Listeners) == 2 })
	changed := slice("two-a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.1.1", "a", "ready"), ep("10.0.1.3", "b", "ready"))
	changed.Labels[discoveryv1.LabelServiceName] = "two"
	c.modify(changed)
	after := await(t, w, "the change", func(c *types.ClusterConfig) bool { return c.Listeners[1].Endpoints[1].IP == "10.0.1.3" })
	if before.Listeners[0] != after.Listeners[0] {
		t.Error("a listener that did not change has another pointer")
	}
	if before.Listeners[1] == after.Listeners[1] || before.VIPs[0] == after.VIPs[0] {
		t.Error("what changed has the same pointer")
	}
	if before.Listeners[1].Endpoints[0] != after.Listeners[1].Endpoints[0] || before.Listeners[1].RealServers()[0] != after.Listeners[1].RealServers()[0] {
		t.Error("an endpoint or real server that did not change has another pointer")
	}
	if before.Listeners[1].Endpoints[1].IP != "10.0.1.2" {
		t.Error("a published config was changed")
	}
	// A heartbeat, and a slice that says the same once more, publish nothing.
	beat := node("a", "203.0.113.1", func(n *v1.Node) {
		n.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
		n.ResourceVersion = "77"
	})
	c.modify(beat)
	c.modify(changed.DeepCopy())
	c.modify(node("b", "203.0.113.2", func(n *v1.Node) { n.Labels["x"] = "y" }))
	last := await(t, w, "the label", func(c *types.ClusterConfig) bool { return c.Nodes[1].Labels["x"] == "y" })
	if last.Nodes[0] != after.Nodes[0] || last.Listeners[1] != after.Listeners[1] || last.VIPs[0] != after.VIPs[0] {
		t.Error("a heartbeat changed a pointer")
	}
}

// TestSameListenerLooksAtEveryField makes sure that a field added to Listener is compared.
func TestSameListenerLooksAtEveryField(t *testing.T) {
	typ := reflect.TypeFor[types.Listener]()
	for i := range typ.NumField() {
		var a, b types.Listener
		switch f := reflect.ValueOf(&b).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(1)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Struct:
			if typ.Field(i).Name != "servers" {
				t.Fatalf("field %s: teach this test its kind", typ.Field(i).Name)
			}
			b.SetRealServers(types.NewServerPool(nil), nil)
			if sameListener(&a, &b) {
				t.Error("another pool of real servers goes unseen")
			}
			b.SetRealServers(nil, []*types.RealServer{{}})
		default:
			t.Fatalf("field %s: teach this test its kind", typ.Field(i).Name)
		}
		if sameListener(&a, &b) {
			t.Errorf("a different %s goes unseen", typ.Field(i).Name)
		}
	}
}

func TestBrokenAndMissingConfigMap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "last-valid.json")
	c := small()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWatcher(ctx, "", "lb", "config", "green", "test", "", 0, nil, WithSource(c), WithTiming(time.Millisecond, time.Millisecond), WithLastValid(file, false))
	if err != nil {
		t.Fatal(err)
	}
	await(t, w, "the start", func(c *types.ClusterConfig) bool { return len(c.Listeners) == 3 })
	more := slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.9", "a", "ready"))
	round := 0
	for name, breakIt := range map[string]func(){
		"broken":  func() { c.modify(configMap("{")) },
		"no key":  func() { c.modify(&v1.ConfigMap{ObjectMeta: configMap("").ObjectMeta}) },
		"removed": func() { c.delete(configMap("")) },
	} {
		breakIt()
		eventually(t, name+" to be noticed", func() bool { return w.Status().ConfigError != nil })
		round++
		more.Endpoints[0].Addresses = []string{fmt.Sprintf("10.9.0.%d", round)}
		c.modify(more.DeepCopy())
		got := await(t, w, "endpoints to flow", func(c *types.ClusterConfig) bool {
			return c.Listeners[0].Endpoints[0].IP == more.Endpoints[0].Addresses[0]
		})
		if len(got.Listeners) != 3 {
			t.Errorf("%s: %d listeners, want the 3 of the last valid document", name, len(got.Listeners))
		}
		if name != "removed" { // mend it
			c.modify(configMap(`{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web"}}}}`))
		} else {
			c.of(configMap("")).Add(configMap(`{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web"}}}}`))
		}
		await(t, w, "the mended document", func(c *types.ClusterConfig) bool { return len(c.Listeners) == 1 })
		if err := w.Status().ConfigError; err != nil {
			t.Error(err)
		}
		three := `{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web"}, "81": {"namespace": "default", "service": "web"}, "82": {"namespace": "default", "service": "web"}}}}`
		c.modify(configMap(three))
		await(t, w, "three again", func(c *types.ClusterConfig) bool { return len(c.Listeners) == 3 })
	}
	cancel()
	w.Wait()
	// Across a restart: the document is broken, and then there is an entry gone bad.
	c.modify(configMap("{"))
	if got := config(t, c, WithLastValid(file, true)); len(got.Listeners) != 3 {
		t.Errorf("after a restart: %d listeners, want 3", len(got.Listeners))
	}
	c.modify(configMap(`{"config": {"192.0.2.1": {"80": null}}}`))
	got := config(t, c, WithLastValid(file, true))
	if len(got.Listeners) != 1 || got.Problems[0].Served != types.ServedLastValid {
		t.Errorf("after a restart: %+v, %+v", got.Listeners, got.Problems)
	}
	// A file that is damaged, or of another ConfigMap, is not used and does no harm.
	file = filepath.Join(t.TempDir(), "damaged.json")
	for _, content := range []string{"{", `{"configMap": "a/b", "key": "c", "config": {}}`, `{"configMap": "lb/config", "key": "green", "config": []}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := config(t, c, WithLastValid(file, true)); len(got.Listeners) != 0 {
			t.Errorf("%s was used", content)
		}
	}
}

func TestNoDocumentNothingPublished(t *testing.T) {
	c := small()
	c.delete(configMap(""))
	w := follow(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := w.Config(ctx); err == nil || !strings.Contains(err.Error(), "ConfigMap lb/config does not exist") {
		t.Errorf("Config() = %v", err)
	}
	select {
	case u := <-w.Updates():
		t.Errorf("published %+v", u)
	default:
	}
}

// gate holds a resource's list back.
type gate struct {
	cluster
	resource string
	open     chan struct{}
}

func (g gate) ListerWatcher(resource string) cache.ListerWatcher {
	lw := g.cluster.ListerWatcher(resource)
	if resource == g.resource {
		return oldList{&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				select {
				case <-g.open:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return cache.ToListerWatcherWithContext(lw).ListWithContext(ctx, o)
			},
			WatchFuncWithContext: cache.ToListerWatcherWithContext(lw).WatchWithContext,
		}}
	}
	return lw
}

func TestNothingIsBuiltBeforeEveryList(t *testing.T) {
	for _, resource := range []string{ConfigMaps, Services, EndpointSlices, Nodes, Pods} {
		g := gate{small(), resource, make(chan struct{})}
		w := follow(t, g.cluster, WithSource(g))
		eventually(t, "the other lists", func() bool {
			n := 0
			for _, r := range w.Status().Resources {
				if r.Listed {
					n++
				}
			}
			return n == 4
		})
		select {
		case <-w.built:
			t.Errorf("built before %s were listed", resource)
		default:
		}
		if got := w.Status().Waiting(); got != resource+": not listed yet" {
			t.Errorf("Waiting() = %q", got)
		}
		close(g.open)
		current(t, w)
	}
}

// TestOrderDoesNotMatter: two watchers that get the same objects in different order publish equal configs.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		objects := randomCluster(rng)
		var want string
		for range 3 {
			rng.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
			w := follow(t, newCluster())
			for _, o := range objects {
				w.opts.source.(cluster).of(o).Add(o.DeepCopyObject())
			}
			var got string
			eventually(t, "all objects", func() bool {
				w.stores.mu.Lock()
				listed := len(w.stores.slices.objects)
				w.stores.mu.Unlock()
				w.RLock()
				defer w.RUnlock()
				if w.ClusterConfig == nil {
					return false
				}
				b, err := json.Marshal([]any{w.ClusterConfig.VIPs, w.ClusterConfig.Problems, w.ClusterConfig.Nodes, w.AllEndpoints})
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
				return want == "" && len(w.AllServices) == 8 && len(w.Nodes) == 4 && listed == 16 || got == want
			})
			if want == "" {
				fresh := follow(t, newCluster(objects...))
				c := current(t, fresh)
				b, _ := json.Marshal([]any{c.VIPs, c.Problems, c.Nodes, fresh.AllEndpoints})
				want = string(b)
			}
		}
	}
}

// randomCluster has 8 services in 16 slices whose endpoints overlap and disagree.
func randomCluster(rng *rand.Rand) []runtime.Object {
	states := []string{"ready", "terminating", "notready", "gone"}
	objects := []runtime.Object{}
	doc := `{"config": {`
	for s := range 8 {
		svc := service(port("http", 80, v1.ProtocolTCP))
		svc.Name = fmt.Sprintf("s%d", s)
		objects = append(objects, svc)
		doc += fmt.Sprintf(`"192.0.2.%d": {"80": {"namespace": "default", "service": "s%d"}, "81": {"namespace": "default", "service": "s%d"}},`, s+1, s, rng.IntN(9))
		for i := range 2 {
			var eps []discoveryv1.Endpoint
			for range rng.IntN(5) {
				e := ep(fmt.Sprintf("10.0.%d.%d", s, rng.IntN(6)), string(rune('a'+rng.IntN(5))), states[rng.IntN(4)])
				if rng.IntN(2) == 0 {
					e.TargetRef = &v1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("p%d", rng.IntN(3))}
				}
				eps = append(eps, e)
			}
			sl := slice(fmt.Sprintf("s%d-%d", s, i), discoveryv1.AddressTypeIPv4, http8080(), eps...)
			sl.Labels[discoveryv1.LabelServiceName] = svc.Name
			objects = append(objects, sl)
		}
	}
	for i := range 4 {
		objects = append(objects, node(string(rune('a'+i)), fmt.Sprintf("203.0.113.%d", rng.IntN(3)+1)))
	}
	return append(objects, configMap(strings.TrimSuffix(doc, ",")+"}}"))
}

func TestArguments(t *testing.T) {
	for says, call := range map[string]func() (*Watcher, error){
		"must all be given": func() (*Watcher, error) {
			return NewWatcher(t.Context(), "", "", "", "", "", "", 0, nil, WithSource(newCluster()))
		},
		"namespace/service:port": func() (*Watcher, error) {
			return NewWatcher(t.Context(), "", "a", "b", "c", "", "web", 71, nil, WithSource(newCluster()))
		},
		"out of range": func() (*Watcher, error) {
			return NewWatcher(t.Context(), "", "a", "b", "c", "", "a/b:c", 0, nil, WithSource(newCluster()))
		},
		"reading the kubeconfig": func() (*Watcher, error) {
			return NewWatcher(t.Context(), filepath.Join(t.TempDir(), "none"), "a", "b", "c", "", "", 0, nil)
		},
		"not a pod of a cluster": func() (*Watcher, error) {
			return NewWatcher(t.Context(), "", "a", "b", "c", "", "", 0, nil)
		},
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one with %q", err, says)
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := small()
	w := follow(t, c, WithRegisterer(reg))
	current(t, w)
	current(t, follow(t, c, WithRegisterer(reg))) // a second one in the process
	c.modify(configMap(`{"config": {"192.0.2.7": {"80": {"namespace": "default", "service": "web"}}}}`))
	await(t, w, "the new document", func(c *types.ClusterConfig) bool { return len(c.Config) == 1 })
	c.modify(configMap("{"))
	eventually(t, "the error", func() bool { return w.Status().ConfigError != nil })
	w.metrics.WatchErr("pods", io.EOF)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "lb" && l.GetValue() != "test" || l.GetName() == "seczone" && l.GetValue() != "green" {
					t.Errorf("%s: label %s=%s", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
		if f.GetName() == "rdei_lb_cluster_config_info" && len(f.Metric) != 1 {
			t.Errorf("%d info series, want the current one only", len(f.Metric))
		}
	}
	want := []string{"rdei_lb_cluster_config_info", "rdei_lb_kube_connect_err_count", "rdei_lb_watch_backoff_duration",
		"rdei_lb_watch_cluster_config_count", "rdei_lb_watch_data_count", "rdei_lb_watch_init_count", "rdei_lb_watch_init_latency_microseconds"}
	if !slices.Equal(names, want) {
		t.Errorf("series %q\nwant   %q", names, want)
	}
}

func TestDebugWebServer(t *testing.T) {
	w := follow(t, small())
	current(t, w)
	addr, err := w.StartDebugWebServer()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Errorf("listens on %s, want loopback", addr)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/watcherDump": `"tcp_192.0.2.1_80"`, "/debug/pprof/goroutine?debug=1": "goroutine profile"} {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("%s has no %s:\n%.500s", path, want, body)
		}
	}
}

func TestAllServicesOnRequest(t *testing.T) {
	c := newCluster(configMap("{}"), service(port("http", 80, v1.ProtocolTCP)), slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "", "ready")),
		slice("b", discoveryv1.AddressTypeIPv6, http8080(), ep("2001:db8::1", "", "ready")))
	w := follow(t, c)
	if got := current(t, w); got.Services != nil {
		t.Error("services are kept unasked")
	}
	w.KeepAllServices(true)
	got := await(t, w, "services", func(c *types.ClusterConfig) bool { return c.Services != nil })
	p := got.Services["default/web"].Ports[0]
	if p.Name != "http" || p.Port != 80 || len(p.Endpoints) != 2 {
		t.Errorf("port %+v", p)
	}
	c.modify(slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "", "ready"), ep("10.0.0.2", "", "ready")))
	await(t, w, "a third endpoint", func(c *types.ClusterConfig) bool { return len(c.Services["default/web"].Ports[0].Endpoints) == 3 })
}

func TestServicesAreShared(t *testing.T) {
	c := newCluster(configMap("{}"), service(port("http", 80, v1.ProtocolTCP)), slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "", "ready"), ep("10.0.0.2", "", "ready")))
	w := follow(t, c, WithAllServices(true))
	before := current(t, w).Services["default/web"]
	c.of(node("a", "203.0.113.1")).Add(node("a", "203.0.113.1"))
	same := await(t, w, "the node", func(c *types.ClusterConfig) bool { return len(c.Nodes) == 1 }).Services["default/web"]
	if same != before {
		t.Error("a service that did not change has another pointer")
	}
	c.modify(slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "", "ready"), ep("10.0.0.3", "", "ready")))
	after := await(t, w, "the endpoint", func(c *types.ClusterConfig) bool {
		return c.Services["default/web"].Ports[0].Endpoints[1].IP == "10.0.0.3"
	}).Services["default/web"]
	if after.Ports[0].Endpoints[0] != before.Ports[0].Endpoints[0] {
		t.Error("an endpoint that did not change has another pointer")
	}
}

// TestServicesOfNone: a cluster without a service has none, which is not the same as not having been asked.
func TestServicesOfNone(t *testing.T) {
	w := follow(t, newCluster(configMap("{}")))
	current(t, w)
	w.KeepAllServices(true)
	await(t, w, "the empty map", func(c *types.ClusterConfig) bool { return c.Services != nil })
}

// TestDumpHoldsNothingUp: a client that does not read leaves the watcher alone.
func TestDumpHoldsNothingUp(t *testing.T) {
	w := follow(t, small())
	current(t, w)
	stuck, release := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.dump(stuckWriter{stuck, release}, nil)
	}()
	<-stuck
	w.noteEvent() // needs the lock
	close(release)
	<-done
}

type stuckWriter struct{ stuck, release chan struct{} }

func (s stuckWriter) Header() http.Header { return http.Header{} }
func (s stuckWriter) WriteHeader(int)     {}
func (s stuckWriter) Write(b []byte) (int, error) {
	close(s.stuck)
	<-s.release
	return len(b), nil
}

func TestWarningNamesTheSlice(t *testing.T) {
	var log strings.Builder
	sl := slice("odd", discoveryv1.AddressTypeIPv4, []discoveryv1.EndpointPort{{Name: ptr.To("http")}}, ep("10.0.0.1", "", "ready"))
	ctx, cancel := context.WithCancel(context.Background())
	w, err := NewWatcher(ctx, "", "lb", "config", "green", "test", "", 0, textLogger(&log), WithSource(newCluster(configMap("{}"), sl)))
	if err != nil {
		t.Fatal(err)
	}
	current(t, w)
	cancel()
	w.Wait()
	if got := log.String(); strings.Count(got, "default/odd") != 1 || !strings.Contains(got, "no number") {
		t.Errorf("log: %s", got)
	}
}

// TestRelist: after a list anew (410 Gone, a restart of the server), what is not in it is gone, and what is the same is no change.
func TestRelist(t *testing.T) {
	c := small()
	w := follow(t, c)
	current(t, w)
	s := w.stores.services
	two := service(port("http", 80, v1.ProtocolTCP))
	two.Name = "two"
	if err := s.Replace([]any{service(port("http", 80, v1.ProtocolTCP)), two}, "7"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new service", func() bool { return w.ServiceCount() == 2 })
	w.stores.take()
	if err := s.Replace([]any{two}, "8"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old service gone", func() bool { return w.Services()["default/web"] == nil && w.ServiceCount() == 1 })
	if err := s.Replace([]any{"nonsense"}, "9"); err == nil {
		t.Error("a list of something else is taken")
	}
}

// TestUpdateThatWasNotTaken: its place is taken by the newer one, which keeps the time of the older change.
func TestUpdateThatWasNotTaken(t *testing.T) {
	w := &Watcher{updates: make(chan Update, 1)}
	early := time.Now()
	one, two := &types.ClusterConfig{}, &types.ClusterConfig{}
	w.publish(Update{one, early})
	w.publish(Update{two, early.Add(time.Second)})
	if u := <-w.updates; u.Config != two || !u.Since.Equal(early) {
		t.Errorf("got %+v", u)
	}
}
