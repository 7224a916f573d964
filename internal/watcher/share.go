package watcher

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lb-render/lb-render/internal/types"
)

// share gives next the pointers of last wherever the content is the same, and
// groups the listeners by VIP. Rendering rests on it: what has not changed must not look changed.
func (w *Watcher) share(next, last *types.ClusterConfig) {
	known := map[string]*types.Listener{}
	vips := map[string]*types.VIP{}
	if last != nil {
		for _, l := range last.Listeners {
			known[l.Name] = l
		}
		for _, v := range last.VIPs {
			vips[v.Address] = v
		}
	}
	for i, l := range next.Listeners {
		old := known[l.Name]
		if old == nil || old == l {
			continue
		}
		shareList(l.Endpoints, old.Endpoints, func(e *types.Endpoint) string { return e.Name })
		shareList(l.Draining, old.Draining, func(e *types.Endpoint) string { return e.Name })
		shareList(l.RealServers, old.RealServers, func(r *types.RealServer) string { return r.Address })
		if sameListener(l, old) {
			next.Listeners[i] = old
			w.keepResolved(l, old)
		}
	}
	next.VIPs = w.vips(next.Listeners)
	for i, v := range next.VIPs {
		if old := vips[v.Address]; old != nil && sameVIP(v, old) {
			next.VIPs[i] = old
		}
	}
}

// keepResolved makes the next build start from the shared pointer.
func (w *Watcher) keepResolved(l, old *types.Listener) {
	r := w.resolved[resolvedID(l.VIP, l.Port)]
	for i := range r.listeners {
		if r.listeners[i] == l {
			r.listeners[i] = old
		}
	}
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
	same := slices.Equal(x.Endpoints, y.Endpoints) && slices.Equal(x.Draining, y.Draining) &&
		slices.Equal(x.RealServers, y.RealServers) && maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations)
	if !same {
		return false
	}
	for _, l := range []*types.Listener{&x, &y} {
		l.Endpoints, l.Draining, l.RealServers, l.Labels, l.Annotations = nil, nil, nil, nil, nil
	}
	return reflect.DeepEqual(x, y)
}

func sameVIP(a, b *types.VIP) bool {
	return a.Address == b.Address && a.Family == b.Family && a.MTU == b.MTU && a.InPool == b.InPool && a.Pair == b.Pair &&
		slices.Equal(a.Listeners, b.Listeners)
}

// shareNodes does the same for nodes, before anything is built from them.
func shareNodes(next, last map[string]*types.Node) {
	for name, n := range next {
		if old := last[name]; old != nil && reflect.DeepEqual(n, old) {
			next[name] = old
		}
	}
}

// differs reports whether next is worth publishing. Everything in both is shared, so pointers tell.
func (w *Watcher) differs(last, next *types.ClusterConfig) bool {
	if last.Node != next.Node || !slices.Equal(last.Nodes, next.Nodes) || !slices.Equal(last.VIPs, next.VIPs) ||
		!slices.Equal(last.Problems, next.Problems) || (last.Services == nil) != (next.Services == nil) || !maps.EqualFunc(last.Services, next.Services, sameServiceEndpoints) {
		return true
	}
	if w.authored == w.inForce {
		return false
	}
	x, errX := last.MarshalAuthored()
	y, errY := next.MarshalAuthored()
	return errX != nil || errY != nil || string(x) != string(y)
}

func sameServiceEndpoints(a, b *types.ServiceEndpoints) bool {
	return a == b || reflect.DeepEqual(a, b)
}
