package watcher

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lb-render/lb-render/internal/types"
)

// What is equal is shared: what has not changed must not look changed, since
// rendering takes a pointer for the content behind it.

// shareListener returns old if l is the same, and else l with those parts of
// old that are. old may be nil.
func shareListener(l, old *types.Listener) *types.Listener {
	if old == nil {
		return l
	}
	shareList(l.Endpoints, old.Endpoints, func(e *types.Endpoint) string { return e.Name })
	shareList(l.Draining, old.Draining, func(e *types.Endpoint) string { return e.Name })
	shareList(types.Weighted(l), types.Weighted(old), func(r *types.RealServer) string { return r.Address })
	if sameListener(l, old) {
		return old
	}
	return l
}

// shareList replaces the elements of list by equal ones of old.
func shareList[T comparable](list, old []*T, id func(*T) string) {
	if len(list) == 0 || len(old) == 0 {
		return
	}
	known := make(map[string]*T, len(old))
	for _, o := range old {
		known[id(o)] = o
	}
	for i, e := range list {
		if o := known[id(e)]; o != nil && *o == *e {
			list[i] = o
		}
	}
}

// shareService returns old if next is the same, and else next with the endpoints of old where they are.
func shareService(next, old *types.ServiceEndpoints) *types.ServiceEndpoints {
	if old == nil {
		return next
	}
	if reflect.DeepEqual(next, old) {
		return old
	}
	for i := range next.Ports {
		p := &next.Ports[i]
		for j := range old.Ports {
			if o := &old.Ports[j]; o.Name == p.Name && o.Protocol == p.Protocol {
				shareList(p.Endpoints, o.Endpoints, func(e *types.Endpoint) string { return e.Name })
			}
		}
	}
	return next
}

// sameListener compares the content; lists were shared before, so that
// elements are equal if their pointers are.
func sameListener(a, b *types.Listener) bool {
	x, y := *a, *b
	same := slices.Equal(x.Endpoints, y.Endpoints) && slices.Equal(x.Draining, y.Draining) && x.SameRealServers(&y) &&
		maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations)
	if !same {
		return false
	}
	for _, l := range []*types.Listener{&x, &y} {
		l.Endpoints, l.Draining, l.Labels, l.Annotations = nil, nil, nil, nil
		l.SetRealServers(nil, nil)
	}
	return reflect.DeepEqual(x, y)
}

func sameVIP(a, b *types.VIP) bool {
	return a.Address == b.Address && a.Family == b.Family && a.MTU == b.MTU && a.InPool == b.InPool && a.Pair == b.Pair &&
		slices.Equal(a.Listeners, b.Listeners)
}

// keepList returns old if next has the same elements.
func keepList[T comparable](next, old []T) []T {
	if slices.Equal(next, old) {
		return old
	}
	return next
}

// sameList reports whether two lists are one, or both empty. Lists that are equal have been made one by keepList.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// sameMap is sameList for ClusterConfig.Services, where nil is something else than empty.
func sameMap(a, b map[string]*types.ServiceEndpoints) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// inForceIs reports whether a means the same as what was authored when last was published.
func (w *Watcher) inForceIs(a, last *types.ClusterConfig) bool {
	if a == w.inForce {
		return true
	}
	x, errX := last.MarshalAuthored()
	y, errY := a.MarshalAuthored()
	if errX != nil || errY != nil || string(x) != string(y) {
		return false
	}
	w.inForce = a
	return true
}
