package watcher

import (
	"slices"

	"github.com/lb-render/lb-render/internal/types"
)

// resolve brings the entries of the dirty services up to date and returns the
// ClusterConfig, and whether it differs from the last one. All that is the
// same in both is shared, down to the lists. all and nodes say what else has changed.
func (w *Watcher) resolve(all, nodes bool, dirty map[string]struct{}) (*types.ClusterConfig, bool) {
	last := w.ClusterConfig
	replanned := w.planned != w.authored
	if nodes || replanned || all {
		all = w.updatePools() || all
	}
	var before map[string]*types.Listener
	if replanned {
		before = w.listenersByName()
		w.plan, w.planned = w.newPlan(), w.authored
		w.results = make([]resolved, len(w.plan.entries))
	}
	var changed []int
	problems := replanned // whether some entry has other problems than before
	update := func(i int) {
		r := w.resolveEntry(w.plan.entries[i])
		for k, l := range r.listeners {
			old := before[l.Name]
			if !replanned {
				old = w.results[i].listener(l.Name)
			}
			r.listeners[k] = shareListener(l, old)
		}
		if r.same(w.results[i]) {
			return
		}
		changed = append(changed, i)
		problems = problems || !slices.Equal(r.problems, w.results[i].problems)
		w.results[i] = r
	}
	if all || replanned {
		for i := range w.plan.entries {
			update(i)
		}
	} else {
		for service := range dirty {
			for _, i := range w.plan.byService[service] {
				update(i)
			}
		}
		slices.Sort(changed)
	}

	a := w.authored
	next := &types.ClusterConfig{
		VIPPool: a.VIPPool, MTUConfig: a.MTUConfig, MTUConfig6: a.MTUConfig6, NodeLabels: a.NodeLabels, IPV6: a.IPV6,
		Config: a.Config, Config6: a.Config6, Node: w.allNodes[w.opts.node], Nodes: w.nodes,
	}
	w.RLock()
	keep := w.keepAll
	w.RUnlock()
	w.services = w.allServiceEndpoints(keep, all, dirty)
	next.Services = w.services
	if last == nil || replanned {
		w.assemble(next, last)
	} else {
		w.patch(next, last, changed, problems)
	}
	differs := last == nil || last.Node != next.Node || !sameList(last.Nodes, next.Nodes) || !sameList(last.VIPs, next.VIPs) ||
		!sameList(last.Problems, next.Problems) || !sameMap(last.Services, next.Services) || !w.inForceIs(a, last)
	if differs {
		w.inForce = a
	}
	return next, differs
}

// listener returns the listener of that name, or nil.
func (r resolved) listener(name string) *types.Listener {
	for _, l := range r.listeners {
		if l.Name == name {
			return l
		}
	}
	return nil
}

func (w *Watcher) listenersByName() map[string]*types.Listener {
	out := map[string]*types.Listener{}
	for _, r := range w.results {
		for _, l := range r.listeners {
			out[l.Name] = l
		}
	}
	return out
}

// updatePools selects the real servers anew, and reports whether that makes
// every listener another one.
func (w *Watcher) updatePools() bool {
	if now := w.eligible(); !slices.Equal(now, w.nodes) {
		w.nodes = now
	}
	changed := false
	for _, family := range []string{types.IPv4, types.IPv6} {
		p := newPool(family, w.nodes, w.pools[family])
		changed = changed || p != w.pools[family]
		w.pools[family] = p
	}
	return changed
}

// assemble puts together the lists of next from nothing; last may be nil.
func (w *Watcher) assemble(next, last *types.ClusterConfig) {
	w.flatten(next)
	old := map[string]*types.VIP{}
	if last != nil {
		for _, v := range last.VIPs {
			old[v.Address] = v
		}
	}
	next.VIPs = make([]*types.VIP, len(w.plan.vips))
	for i := range w.plan.vips {
		next.VIPs[i] = w.vip(i, old[w.plan.vips[i].address])
	}
	next.Problems = w.allProblems()
	if last != nil {
		next.VIPs, next.Problems = keepList(next.VIPs, last.VIPs), keepList(next.Problems, last.Problems)
	}
}

// patch does the same from the lists of last, of which only the entries in
// changed are others; problems says whether some of these have other problems.
func (w *Watcher) patch(next, last *types.ClusterConfig, changed []int, problems bool) {
	next.Listeners, next.VIPs, next.Problems = last.Listeners, last.VIPs, last.Problems
	next.SetEndpointCount(last.EndpointCount())
	if len(changed) == 0 {
		return
	}
	if !w.replaceListeners(next, changed) {
		w.flatten(next)
	}
	next.VIPs = slices.Clone(last.VIPs)
	done := -1
	for _, i := range changed {
		if v := w.plan.entries[i].vip; v != done { // those of a VIP come one after the other
			next.VIPs[v], done = w.vip(v, last.VIPs[v]), v
		}
	}
	next.VIPs = keepList(next.VIPs, last.VIPs)
	if problems {
		next.Problems = keepList(w.allProblems(), last.Problems)
	}
}

// flatten lists the listeners of all entries, and notes where those of each begin.
func (w *Watcher) flatten(next *types.ClusterConfig) {
	w.starts = w.starts[:0]
	next.Listeners = nil
	endpoints := 0
	for _, r := range w.results {
		w.starts = append(w.starts, len(next.Listeners))
		next.Listeners = append(next.Listeners, r.listeners...)
		for _, l := range r.listeners {
			endpoints += len(l.Endpoints)
		}
	}
	w.starts = append(w.starts, len(next.Listeners))
	next.SetEndpointCount(endpoints)
}

// replaceListeners puts the changed ones in the places of the old ones. It
// returns false where there are more of them now, or fewer.
func (w *Watcher) replaceListeners(next *types.ClusterConfig, changed []int) bool {
	for _, i := range changed {
		if w.starts[i+1]-w.starts[i] != len(w.results[i].listeners) {
			return false
		}
	}
	listeners, endpoints := slices.Clone(next.Listeners), next.EndpointCount()
	for _, i := range changed {
		for k, l := range w.results[i].listeners {
			at := &listeners[w.starts[i]+k]
			endpoints += len(l.Endpoints) - len((*at).Endpoints)
			*at = l
		}
	}
	next.Listeners = listeners
	next.SetEndpointCount(endpoints)
	return true
}

// vip is the i-th VIP of the plan with its listeners; old itself if it is the same.
func (w *Watcher) vip(i int, old *types.VIP) *types.VIP {
	p := &w.plan.vips[i]
	v := &types.VIP{Address: p.address, Family: p.family, MTU: p.mtu, InPool: p.inPool, Pair: p.pair}
	for _, r := range w.results[p.first:p.after] {
		v.Listeners = append(v.Listeners, r.listeners...)
	}
	if old != nil && sameVIP(v, old) {
		return old
	}
	return v
}

// allProblems lists those of the document, then those of the entries.
func (w *Watcher) allProblems() []types.Problem {
	var out []types.Problem
	out = append(out, w.problems...)
	for _, r := range w.results {
		out = append(out, r.problems...)
	}
	return out
}
