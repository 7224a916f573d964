package watcher

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/ptr"

	"github.com/lb-render/lb-render/internal/types"
)

// cluster is a Source that a test fills.
type cluster map[string]*fcache.FakeControllerSource

func newCluster(objects ...runtime.Object) cluster {
	c := cluster{}
	for _, r := range []string{ConfigMaps, Services, EndpointSlices, Nodes, Pods} {
		c[r] = fcache.NewFakeControllerSource()
	}
	for _, o := range objects {
		c.of(o).Add(o)
	}
	return c
}

func (c cluster) ListerWatcher(resource string) cache.ListerWatcher { return oldList{c[resource]} }

// oldList says that the fake does not stream its lists.
type oldList struct{ cache.ListerWatcher }

func (oldList) IsWatchListSemanticsUnSupported() bool { return true }

func (c cluster) of(o runtime.Object) *fcache.FakeControllerSource {
	switch o.(type) {
	case *v1.ConfigMap:
		return c[ConfigMaps]
	case *v1.Service:
		return c[Services]
	case *discoveryv1.EndpointSlice:
		return c[EndpointSlices]
	case *v1.Node:
		return c[Nodes]
	case *v1.Pod:
		return c[Pods]
	}
	panic(fmt.Sprintf("no resource for %T", o))
}

func (c cluster) modify(o runtime.Object) { c.of(o).Modify(o) }
func (c cluster) delete(o runtime.Object) { c.of(o).Delete(o) }

// follow starts a watcher on c that ends with the test.
func follow(t *testing.T, c cluster, opts ...Option) *Watcher {
	t.Helper()
	return followAuto(t, c, "", 0, opts...)
}

func followAuto(t *testing.T, c cluster, auto string, port int, opts ...Option) *Watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	opts = append([]Option{WithSource(c), WithTiming(time.Millisecond, 10*time.Millisecond)}, opts...)
	w, err := NewWatcher(ctx, "", "lb", "config", "green", "test", auto, port, slog.New(slog.NewTextHandler(t.Output(), nil)), opts...)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		w.Wait()
	})
	return w
}

// config is the first config of a watcher on c.
func config(t *testing.T, c cluster, opts ...Option) *types.ClusterConfig {
	t.Helper()
	return current(t, follow(t, c, opts...))
}

func current(t *testing.T, w *Watcher) *types.ClusterConfig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := w.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits for a published config that satisfies ok.
func await(t *testing.T, w *Watcher, what string, ok func(*types.ClusterConfig) bool) *types.ClusterConfig {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case u := <-w.Updates():
			if ok(u.Config) {
				return u.Config
			}
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func configMap(doc string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lb", Name: "config"}, Data: map[string]string{"green": doc}}
}

// serving is a document with one entry for default/web.
func serving(vip, fields string) *v1.ConfigMap {
	m := "config"
	if types.FamilyOf(vip) == types.IPv6 {
		m = "config6"
	}
	return configMap(fmt.Sprintf(`{%q: {%q: {"80": {"namespace": "default", "service": "web"%s}}}}`, m, vip, fields))
}

func service(ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: v1.ServiceSpec{ClusterIP: "198.51.100.1", Ports: ports}}
}

func port(name string, number int32, protocol v1.Protocol) v1.ServicePort {
	return v1.ServicePort{Name: name, Port: number, Protocol: protocol, TargetPort: intstr.FromInt32(8080)}
}

func slice(name string, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: family, Ports: ports, Endpoints: endpoints,
	}
}

func slicePort(name string, number int32, protocol v1.Protocol) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol}
}

func http8080() []discoveryv1.EndpointPort {
	return []discoveryv1.EndpointPort{slicePort("http", 8080, v1.ProtocolTCP)}
}

// ep is an endpoint; state is "ready", "terminating" (serving), "notready" or "gone" (terminating, not serving).
func ep(ip, node, state string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{
		Ready: ptr.To(state == "ready"), Serving: ptr.To(state == "ready" || state == "terminating"),
		Terminating: ptr.To(state == "terminating" || state == "gone"),
	}}
	if node != "" {
		e.NodeName = &node
	}
	return e
}

func node(name, ip string, change ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"lb": "yes"}}}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	for _, c := range change {
		c(n)
	}
	return n
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
