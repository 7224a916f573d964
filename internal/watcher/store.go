package watcher

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// stores hold the only copy of each watched object, and what has changed since the last build.
type stores struct {
	mu         sync.Mutex
	services   *store[*v1.Service]
	slices     *store[*discoveryv1.EndpointSlice]
	nodes      *store[*v1.Node]
	pods       *store[*v1.Pod]
	configMaps *store[*v1.ConfigMap]

	byService map[string]map[string]*discoveryv1.EndpointSlice // service -> slice
	dirty     dirty
	wake      chan struct{}
	synced    sync.WaitGroup // one for each resource that has not been listed yet
}

// dirty says what has changed. Events carry no payload: the build looks up the newest state itself.
type dirty struct {
	services map[string]struct{}
	pods     map[string]struct{}
	nodes    map[string]struct{}
	gone     map[string]struct{} // slices that are not there any more
	since    time.Time           // of the first change; zero if there is none
}

// store is one resource. Its methods are called by the resource's reflector only.
type store[T metav1.Object] struct {
	all      *stores
	resource string
	objects  map[string]T
	strip    func(T) T
	// changed is called under the lock; one of old and new may be the zero value.
	changed func(key string, old, new T)
	event   func(resource string)
	listed  bool
}

func newStores(w *Watcher) *stores {
	s := &stores{wake: make(chan struct{}, 1), byService: map[string]map[string]*discoveryv1.EndpointSlice{}}
	s.dirty = newDirty()
	service := func(key string) { s.dirty.services[key] = struct{}{} }
	event := func(resource string) {
		w.metrics.WatchData(resource)
		w.noteEvent()
	}
	s.services = newStore(s, Services, event, newInterner().service, func(key string, _, _ *v1.Service) { service(key) })
	s.slices = newStore(s, EndpointSlices, event, newInterner().slice, func(key string, old, new *discoveryv1.EndpointSlice) {
		if of := serviceOf(old); of != "" {
			delete(s.byService[of], key)
			if len(s.byService[of]) == 0 {
				delete(s.byService, of)
			}
			service(of)
		}
		if new == nil {
			s.dirty.gone[key] = struct{}{}
		}
		if of := serviceOf(new); of != "" {
			if s.byService[of] == nil {
				s.byService[of] = map[string]*discoveryv1.EndpointSlice{}
			}
			s.byService[of][key] = new
			service(of)
		}
	})
	s.nodes = newStore(s, Nodes, event, newInterner().node, func(key string, _, _ *v1.Node) { s.dirty.nodes[key] = struct{}{} })
	s.pods = newStore(s, Pods, event, newInterner().pod, func(key string, _, _ *v1.Pod) { s.dirty.pods[key] = struct{}{} })
	s.configMaps = newStore(s, ConfigMaps, event, func(c *v1.ConfigMap) *v1.ConfigMap { return stripConfigMap(c, w.ConfigKey) },
		func(string, *v1.ConfigMap, *v1.ConfigMap) {}) // the build sees that it is another object
	return s
}

func newDirty() dirty {
	return dirty{services: map[string]struct{}{}, pods: map[string]struct{}{}, nodes: map[string]struct{}{}, gone: map[string]struct{}{}}
}

func newStore[T metav1.Object](all *stores, resource string, event func(string), strip func(T) T, changed func(string, T, T)) *store[T] {
	return &store[T]{all: all, resource: resource, objects: map[string]T{}, strip: strip, changed: changed, event: event}
}

// start begins to follow every resource and, when each has been listed once, to build.
func (w *Watcher) start(ctx context.Context, source Source) {
	s := w.stores
	type one struct {
		resource string
		example  runtime.Object
		into     cache.ReflectorStore
	}
	all := []one{
		{ConfigMaps, &v1.ConfigMap{}, s.configMaps},
		{Services, &v1.Service{}, s.services},
		{EndpointSlices, &discoveryv1.EndpointSlice{}, s.slices},
		{Nodes, &v1.Node{}, s.nodes},
	}
	if w.opts.pods != PodsNone {
		all = append(all, one{Pods, &v1.Pod{}, s.pods})
	}
	s.pods.listed = w.opts.pods == PodsNone
	s.synced.Add(len(all))
	for _, r := range all {
		w.setResource(r.resource, ResourceStatus{})
	}
	for _, r := range all {
		lw := source.ListerWatcher(r.resource)
		w.group.Go(func() { w.follow(ctx, r.resource, lw, r.example, r.into) })
	}
	synced := make(chan struct{})
	// Ends with run: when ctx is done before every list has come, the wait is released there.
	w.group.Go(func() {
		s.synced.Wait()
		close(synced)
	})
	w.group.Go(func() {
		select {
		case <-synced:
			w.run(ctx)
		case <-ctx.Done():
		}
		s.release()
	})
}

// release lets the goroutine that waits for the lists end.
func (s *stores) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range []*bool{&s.configMaps.listed, &s.services.listed, &s.slices.listed, &s.nodes.listed, &s.pods.listed} {
		if !*l {
			*l = true
			s.synced.Done()
		}
	}
}

func key(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// serviceOf names the service that a slice belongs to, or "" for none.
func serviceOf(s *discoveryv1.EndpointSlice) string {
	if s == nil {
		return ""
	}
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return ""
	}
	return s.Namespace + "/" + name
}

// Add implements cache.ReflectorStore.
func (s *store[T]) Add(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("%s: got a %T", s.resource, obj)
	}
	o = s.strip(o)
	s.event(s.resource)
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if s.put(o) {
		s.all.changed()
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store[T]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *store[T]) Delete(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("%s: got a %T", s.resource, obj)
	}
	s.event(s.resource)
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	k := key(o)
	if old, known := s.objects[k]; known {
		var none T
		delete(s.objects, k)
		s.changed(k, old, none)
		s.all.changed()
	}
	return nil
}

// Replace implements cache.ReflectorStore: the outcome of a list.
func (s *store[T]) Replace(list []any, _ string) error {
	objects := make([]T, 0, len(list))
	for _, obj := range list {
		o, ok := obj.(T)
		if !ok {
			return fmt.Errorf("%s: got a %T", s.resource, obj)
		}
		objects = append(objects, s.strip(o))
	}
	s.event(s.resource)
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	there := make(map[string]struct{}, len(objects))
	changed := false
	for _, o := range objects {
		there[key(o)] = struct{}{}
		changed = s.put(o) || changed
	}
	for k, old := range s.objects {
		if _, ok := there[k]; !ok {
			var none T
			delete(s.objects, k)
			s.changed(k, old, none)
			changed = true
		}
	}
	if changed {
		s.all.changed()
	}
	if !s.listed {
		s.listed = true
		s.all.synced.Done()
	}
	return nil
}

// Resync implements cache.ReflectorStore; nothing is derived that could be lost.
func (s *store[T]) Resync() error { return nil }

// Transformer implements cache.TransformingStore, so that a streamed list is never whole in memory.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if o, ok := obj.(T); ok {
			return s.strip(o), nil
		}
		return obj, nil
	}
}

// put stores o and reports whether it differs from what was there in anything
// that is used. If not, the old one stays: a heartbeat is no event.
func (s *store[T]) put(o T) bool {
	k := key(o)
	old, known := s.objects[k]
	if known {
		version := o.GetResourceVersion()
		o.SetResourceVersion(old.GetResourceVersion())
		if reflect.DeepEqual(old, o) {
			return false
		}
		o.SetResourceVersion(version)
	}
	s.objects[k] = o
	s.changed(k, old, o)
	return true
}

// changed wakes the builder; the lock is held.
func (s *stores) changed() {
	if s.dirty.since.IsZero() {
		s.dirty.since = time.Now()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns what is dirty and begins anew.
func (s *stores) take() dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.dirty
	s.dirty = newDirty()
	return d
}
