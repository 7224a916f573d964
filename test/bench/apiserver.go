package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// Lists is how a Server lets its objects be listed.
type Lists string

const (
	// Streamed: as the initial events of a watch (WatchList, KEP-3157).
	Streamed Lists = "watchlist"
	// Paged: a server without WatchList, which takes limit and continue at their word.
	Paged Lists = "paged"
	// Whole: a server without WatchList that answers from its watch cache; that
	// ignores the limit of a list at resourceVersion 0, with which a reflector
	// begins (computeListLimit in apiserver's cacher.go).
	Whole Lists = "whole"
)

// Server is an http.Handler that hands out a Cluster as an API server does. The
// lists are always of the cluster as it was generated; what was pushed since is
// the beginning of every watch.
type Server struct {
	lists     Lists
	cluster   *Cluster
	resources map[string]*collection // by path
}

// NewServer serves c.
func NewServer(c *Cluster, l Lists) *Server {
	s := &Server{lists: l, cluster: c, resources: map[string]*collection{}}
	core, discovery := v1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion
	add := func(path string, gv schema.GroupVersion, kind string, n int, at func(i int) object) *collection {
		r := &collection{gvk: gv.WithKind(kind), n: n, at: at, changed: make(chan struct{}), version: c.Size.objects()}
		r.fields = func(i int) fields.Set { return fieldsOf(at(i)) }
		s.resources[path] = r
		return r
	}
	add("/api/v1/namespaces/"+ConfigMapNamespace+"/configmaps", core, "ConfigMap", 1, func(int) object { return c.ConfigMap })
	add("/api/v1/services", core, "Service", len(c.Services), func(i int) object { return c.Services[i] })
	add("/api/v1/nodes", core, "Node", len(c.Nodes), func(i int) object { return c.Nodes[i] })
	add("/apis/discovery.k8s.io/v1/endpointslices", discovery, "EndpointSlice", len(c.EndpointSlices), func(i int) object { return c.EndpointSlices[i] })
	pods := add("/api/v1/pods", core, "Pod", c.Size.Pods, func(i int) object { return c.Pod(i) })
	pods.fields = func(i int) fields.Set { // of 150,000 pods, without making them
		return fields.Set{"metadata.name": c.podName(i), "spec.nodeName": nodeName(c.nodeOf(i))}
	}
	return s
}

// object is one that can be marshalled, as all of the API's can.
type object interface {
	runtime.Object
	metav1.Object
	runtime.ProtobufReverseMarshaller
}

// collection is what a path serves.
type collection struct {
	gvk    schema.GroupVersionKind
	n      int
	at     func(i int) object
	fields func(i int) fields.Set // of at(i), for selectors

	mu      sync.Mutex
	version int           // of the newest object
	pushed  []pushed      // in the order of their versions
	changed chan struct{} // closed, and replaced, by a push
}

// pushed is an event that every watch gets, as it is written on the wire.
type pushed struct {
	version int
	fields  fields.Set
	frame   []byte
}

func fieldsOf(o object) fields.Set {
	s := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if p, ok := o.(*v1.Pod); ok {
		s["spec.nodeName"] = p.Spec.NodeName
	}
	return s
}

// Push lets every watch of a resource ("endpointslices") have an event, those that
// begin later too. The object gets the next resource version, as in etcd. It
// panics for a resource that there is not.
func (s *Server) Push(resourceName string, event watch.EventType, obj runtime.Object) {
	for path, r := range s.resources {
		if !strings.HasSuffix(path, "/"+resourceName) {
			continue
		}
		o := obj.DeepCopyObject().(object)
		o.GetObjectKind().SetGroupVersionKind(r.gvk)
		r.push(event, o)
		return
	}
	panic("bench: there are no " + resourceName)
}

func (r *collection) push(event watch.EventType, o object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	o.SetResourceVersion(version(r.version))
	r.pushed = append(r.pushed, pushed{r.version, fieldsOf(o), frame(event, o)})
	close(r.changed)
	r.changed = make(chan struct{})
}

// since returns the events from the next-th on, what is closed when there are more, and the newest version.
func (r *collection) since(next int) (events []pushed, changed <-chan struct{}, newest int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pushed[next:], r.changed, r.version
}

// after is the index of the first event that is newer than a resource version.
func (r *collection) after(resourceVersion string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.pushed, func(p pushed) bool { return version(p.version) > resourceVersion }) // of the same length
	if i < 0 {
		return len(r.pushed)
	}
	return i
}

// ServeHTTP answers lists and watches in protobuf, and everything else as it deserves.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r, known := s.resources[req.URL.Path]
	q := req.URL.Query()
	selector, err := fields.ParseSelector(q.Get("fieldSelector"))
	switch {
	case !known:
		refuse(w, apierrors.NewNotFound(schema.GroupResource{}, req.URL.Path))
	case req.Method != http.MethodGet:
		refuse(w, apierrors.NewMethodNotSupported(schema.GroupResource{}, req.Method))
	case err != nil:
		refuse(w, apierrors.NewBadRequest(err.Error()))
	case !strings.Contains(req.Header.Get("Accept"), runtime.ContentTypeProtobuf):
		refuse(w, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, req.Method, schema.GroupResource{}, "", "protobuf only", 0, true))
	case q.Get("watch") == "true" && q.Get("sendInitialEvents") == "true" && s.lists != Streamed:
		refuse(w, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")}))
	case q.Get("watch") == "true":
		r.watch(w, req, selector)
	default:
		first, _ := strconv.Atoi(q.Get("continue"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		if s.lists == Whole && q.Get("resourceVersion") == "0" {
			limit = 0
		}
		r.list(w, selector, first, limit, s.cluster.ResourceVersion)
	}
}

// refuse answers with an error, in JSON, which any client reads.
func refuse(w http.ResponseWriter, err apierrors.APIStatus) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client is gone
}

// bookmark is the object of a bookmark, which has just a resource version.
func (r *collection) bookmark(resourceVersion string) object {
	o, err := scheme.New(r.gvk)
	if err != nil {
		panic(err) // it is one of those that NewServer names
	}
	o.GetObjectKind().SetGroupVersionKind(r.gvk)
	m, err := apimeta.Accessor(o)
	if err != nil {
		panic(err)
	}
	m.SetResourceVersion(resourceVersion)
	m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return o.(object)
}

// WriteKubeconfig writes a kubeconfig for the server at url, which may be without TLS.
func WriteKubeconfig(path, url string) error {
	return os.WriteFile(path, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", url), 0o600)
}
