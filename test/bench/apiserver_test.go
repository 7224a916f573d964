package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var allLists = []Lists{Streamed, Paged, Whole}

// recorded notes the requests to a Server.
type recorded struct {
	next http.Handler
	mu   sync.Mutex
	all  []*http.Request
}

func (r *recorded) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.all = append(r.all, req)
	r.mu.Unlock()
	r.next.ServeHTTP(w, req)
}

// lists counts the requests for a list of pods, and those of them that go on with one.
func (r *recorded) lists() (lists, pages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.all {
		if q := req.URL.Query(); req.URL.Path == "/api/v1/pods" && q.Get("watch") == "" {
			lists++
			if q.Get("continue") != "" {
				pages++
			}
		}
	}
	return lists, pages
}

// asked holds that pods were listed in the way that the server offers: 1,500 at once, or by 500.
func (r *recorded) asked(t *testing.T, l Lists) {
	t.Helper()
	want := map[Lists][2]int{Streamed: {0, 0}, Paged: {3, 2}, Whole: {1, 0}}[l]
	if lists, pages := r.lists(); lists != want[0] || pages != want[1] {
		t.Errorf("%d lists of pods, of which %d go on with one; want %v", lists, pages, want)
	}
}

// TestReflectors reads the cluster with client-go: what arrives is what was generated.
func TestReflectors(t *testing.T) {
	size := Full.Over(100)
	for _, l := range allLists {
		t.Run(string(l), func(t *testing.T) {
			c := Generate(size)
			server := NewServer(c, l)
			requests := &recorded{next: server}
			api := httptest.NewServer(requests)
			defer api.Close()
			ctx, cancel := context.WithCancel(t.Context())
			var reflectors sync.WaitGroup
			defer reflectors.Wait()
			defer cancel()
			follow := func(gv schema.GroupVersion, resource string, selector fields.Selector, example runtime.Object) cache.Store {
				path := "/api"
				if gv.Group != "" {
					path = "/apis"
				}
				config := &rest.Config{Host: api.URL, APIPath: path, ContentConfig: rest.ContentConfig{GroupVersion: &gv, ContentType: runtime.ContentTypeProtobuf,
					NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion()}}
				client, err := rest.RESTClientFor(config)
				if err != nil {
					t.Fatal(err)
				}
				ns := metav1.NamespaceAll
				if resource == "configmaps" {
					ns = ConfigMapNamespace
				}
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				r := cache.NewReflectorWithOptions(cache.NewListWatchFromClient(client, resource, ns, selector), example, store, cache.ReflectorOptions{Name: resource})
				reflectors.Go(func() { r.RunWithContext(ctx) })
				return store
			}
			node := nodeName(7)
			stores := []struct {
				store cache.Store
				want  []runtime.Object
			}{
				{follow(v1.SchemeGroupVersion, "configmaps", fields.OneTermEqualSelector("metadata.name", ConfigMapName), &v1.ConfigMap{}), []runtime.Object{c.ConfigMap}},
				{follow(v1.SchemeGroupVersion, "services", fields.Everything(), &v1.Service{}), objects(c.Services)},
				{follow(v1.SchemeGroupVersion, "nodes", fields.Everything(), &v1.Node{}), objects(c.Nodes)},
				{follow(discoveryv1.SchemeGroupVersion, "endpointslices", fields.Everything(), &discoveryv1.EndpointSlice{}), objects(c.EndpointSlices)},
				{follow(v1.SchemeGroupVersion, "pods", fields.Everything(), &v1.Pod{}), c.pods("")},
				{follow(v1.SchemeGroupVersion, "pods", fields.OneTermEqualSelector("spec.nodeName", node), &v1.Pod{}), c.pods(node)},
			}
			for _, s := range stores {
				eventually(t, soon, func() error { return holds(s.store, s.want) })
			}
			slices := stores[3].store
			changed, gone := c.ChangedSlice(3, 0), c.EndpointSlices[4]
			server.Push("endpointslices", watch.Modified, changed)
			server.Push("endpointslices", watch.Deleted, gone)
			eventually(t, soon, func() error {
				got, _, _ := slices.Get(changed)
				_, there, _ := slices.Get(gone)
				if !equality.Semantic.DeepEqual(got.(*discoveryv1.EndpointSlice).Endpoints, changed.Endpoints) || there {
					return fmt.Errorf("got %v", got)
				}
				return nil
			})
			server.Push("pods", watch.Modified, c.Pod(58)) // of another node
			server.Push("pods", watch.Deleted, c.Pod(57))
			eventually(t, soon, func() error {
				if all, some := len(stores[4].store.ListKeys()), len(stores[5].store.ListKeys()); all != size.Pods-1 || some != 29 {
					return fmt.Errorf("%d pods, %d on the node", all, some)
				}
				return nil
			})
		})
	}
}

// TestWatchGoesOn: a client that comes back gets what it has not seen.
func TestWatchGoesOn(t *testing.T) {
	c := Generate(Full.Over(100))
	s := NewServer(c, Paged)
	for n := range 3 {
		s.Push("endpointslices", watch.Modified, c.ChangedSlice(0, n))
	}
	r := s.resources["/apis/discovery.k8s.io/v1/endpointslices"]
	for n := range 4 {
		if got := r.after(version(c.Size.objects() + n)); got != n {
			t.Errorf("after %d events comes event %d", n, got)
		}
	}
}

func objects[T runtime.Object](list []T) (out []runtime.Object) {
	for _, o := range list {
		out = append(out, o)
	}
	return out
}

// pods are those on a node, "" for all of them.
func (c *Cluster) pods(node string) (out []runtime.Object) {
	for i := range c.Size.Pods {
		if node == "" || nodeName(c.nodeOf(i)) == node {
			out = append(out, c.Pod(i))
		}
	}
	return out
}

// holds is nil when the store has just these objects, but for their TypeMeta, which the client takes off.
func holds(s cache.Store, want []runtime.Object) error {
	if n := len(s.ListKeys()); n != len(want) {
		return fmt.Errorf("%d objects, want %d", n, len(want))
	}
	for _, o := range want {
		o = o.DeepCopyObject()
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		got, there, err := s.Get(o)
		if err != nil || !there {
			return fmt.Errorf("%v is not there: %v", o, err)
		}
		got.(runtime.Object).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if !equality.Semantic.DeepEqual(got, o) {
			return fmt.Errorf("got\n%v\nwant\n%v", got, o)
		}
	}
	return nil
}

// TestScriptedServer runs lb-render on the server, with every kind of list.
func TestScriptedServer(t *testing.T) {
	binary := needBinary(t)
	for _, l := range allLists {
		t.Run(string(l), func(t *testing.T) {
			c := Generate(Full.Over(100))
			server := NewServer(c, l)
			requests := &recorded{next: server}
			api := httptest.NewServer(requests)
			defer api.Close()
			a := startAgent(t, binary, api.URL, "all", "")
			defer a.stop(t)
			eventually(t, time.Minute, a.isReady)
			eventually(t, soon, func() error { return a.has("\nlisten ", c.Size.Services) })
			eventually(t, soon, func() error { return a.has("\n    server ", c.Size.endpoints()) })
			if l == Whole {
				l = Paged // lb-render does not ask in the way that is answered in one piece
			}
			requests.asked(t, l)
			server.Push("endpointslices", watch.Modified, c.ChangedSlice(42, 7))
			eventually(t, soon, func() error { return a.has(" "+MovedAddress(7)+":8080 ", 1) })
		})
	}
}
