package watcher

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/lb-render/lb-render/internal/types"
)

// selected are the endpoints of a listener: those that receive connections, and those that only finish theirs.
type selected struct{ endpoints, draining []*candidate }

// selectEndpoints does what kube-proxy does (KEP-1669, proxying terminating
// endpoints): the ready ones; if there are none, those that still serve
// though they terminate. Beside ready ones, those that serve and terminate
// drain; UDP has no connections to finish, so there they are dropped at once.
// node limits the endpoints to a node, "" does not.
//
// The family is the VIP's own if it has endpoints, else the other one. A ready
// endpoint of the other family is worth more than a terminating one of our own.
func selectEndpoints(all []*candidate, family, protocol, node string) selected {
	byFamily := func(f string) selected {
		var ready, terminating []*candidate
		for _, c := range all {
			switch {
			case c.family() != f || node != "" && c.node != node:
			case c.ready:
				ready = append(ready, c)
			case c.serving && c.terminating:
				terminating = append(terminating, c)
			}
		}
		switch {
		case len(ready) == 0:
			return selected{endpoints: terminating}
		case protocol == string(v1.ProtocolUDP):
			return selected{endpoints: ready}
		}
		return selected{ready, terminating}
	}
	other := types.IPv4
	if family == types.IPv4 {
		other = types.IPv6
	}
	own, cross := byFamily(family), byFamily(other)
	hasReady := func(s selected) bool { return len(s.endpoints) > 0 && s.endpoints[0].ready }
	if hasReady(own) || !hasReady(cross) && len(own.endpoints) > 0 {
		return own
	}
	return cross
}

// serverPool are the eligible nodes as destinations, and which of them each node is.
type serverPool struct {
	*types.ServerPool
	byNode map[string]*types.RealServer
	// known are the servers with a weight that there were: those of different
	// listeners are mostly the same.
	known map[types.RealServer]*types.RealServer
}

// maxKnown bounds known; thresholds make endless combinations.
const maxKnown = 50_000

// newPool makes the pool of a family; old is the one before, or nil. What is
// the same in both has the same pointer, and if all is, so is the pool.
func newPool(family string, nodes []*types.Node, old *serverPool) *serverPool {
	p := &serverPool{byNode: map[string]*types.RealServer{}, known: map[types.RealServer]*types.RealServer{}}
	if old != nil {
		p.known = old.known
	}
	byAddress := map[string]*types.RealServer{}
	var list []*types.RealServer
	for _, n := range nodes {
		address := n.IPv4
		if family == types.IPv6 {
			address = n.IPv6
		}
		if address == "" {
			continue
		}
		rs := byAddress[address]
		if rs == nil { // two nodes, one address: one destination
			rs = &types.RealServer{Address: address, Node: n.Name}
			if old != nil {
				if was := old.byNode[n.Name]; was != nil && *was == *rs {
					rs = was
				}
			}
			byAddress[address] = rs
			list = append(list, rs)
		}
		p.byNode[n.Name] = rs
	}
	if old != nil && maps.Equal(p.byNode, old.byNode) {
		return old
	}
	slices.SortFunc(list, func(a, b *types.RealServer) int { return types.CompareVIP(a.Address, b.Address) })
	if old != nil && slices.Equal(list, old.Servers()) { // of two nodes with one address, one has gone
		p.ServerPool = old.ServerPool
	} else {
		p.ServerPool = types.NewServerPool(list)
	}
	return p
}

// weighted are the real servers that have endpoints, by how many there are on
// each node. The thresholds of an entry are for the whole service; each gets its share by weight.
func (p *serverPool) weighted(weights map[string]int, o types.IPVSOptions) []*types.RealServer {
	total := 0
	of := map[*types.RealServer]int{} // weights of two nodes with one address come together
	for node, n := range weights {
		if base := p.byNode[node]; base != nil {
			of[base] += n
			total += n
		}
	}
	out := make([]*types.RealServer, 0, len(of))
	for base, weight := range of {
		rs := types.RealServer{Address: base.Address, Node: base.Node, Weight: weight}
		rs.UThreshold, rs.LThreshold = share(o.UThreshold, o.LThreshold, weight, total)
		if p.known[rs] == nil {
			if len(p.known) >= maxKnown {
				clear(p.known)
			}
			p.known[rs] = &rs
		}
		out = append(out, p.known[rs])
	}
	slices.SortFunc(out, func(a, b *types.RealServer) int { return types.CompareVIP(a.Address, b.Address) })
	return out
}

// share is one server's part of the thresholds. What the kernel cannot hold
// (16 bits) or would never leave again (lower >= upper) means none.
func share(upper, lower, weight, total int) (int, int) {
	if total == 0 || weight == 0 {
		return 0, 0
	}
	u, l := upper*weight/total, lower*weight/total
	if upper > 0 && u == 0 {
		u = 1 // a share of less than one connection is not "unlimited"
	}
	if u > 65535 {
		u = 0
	}
	if l > 65535 || l >= u {
		l = 0
	}
	return u, l
}

// excluded is the well-known label that takes a node out of load balancing, whatever its value.
const excluded = v1.LabelNodeExcludeBalancers

// applyNodes reads the nodes that have changed; a nil node is gone. Which of
// them are real servers is decided by eligible. The lock is held.
func (w *Watcher) applyNodes(changed map[string]*v1.Node) {
	for name, n := range changed {
		if n == nil {
			delete(w.allNodes, name)
			continue
		}
		next := newNode(n)
		if old := w.allNodes[name]; old == nil || !reflect.DeepEqual(next, old) {
			w.allNodes[name] = next
		}
	}
	nodes := slices.DeleteFunc(slices.Clone(w.Nodes), func(n *v1.Node) bool { _, is := changed[n.Name]; return is })
	for _, n := range changed {
		if n != nil {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	w.Nodes = nodes
}

// eligible selects the real servers among all nodes by the labels of the document.
func (w *Watcher) eligible() []*types.Node {
	var out []*types.Node
	for _, n := range w.allNodes {
		if _, out := n.Labels[excluded]; out || !n.Ready || n.IPv4 == "" && n.IPv6 == "" || w.opts.noCordoned && n.Unschedulable {
			continue
		}
		all := true
		for k, v := range w.authored.NodeLabels {
			got, ok := n.Labels[k]
			all = all && ok && got == v
		}
		if all {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *types.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// nodeAddrV6 is where a cluster without IPv6 in its node status keeps a
// node's address, with - in the place of :, which a label cannot have.
const nodeAddrV6 = "rdei.io/node-addr-v6"

func newNode(n *v1.Node) *types.Node {
	out := &types.Node{Name: n.Name, Labels: n.Labels, Unschedulable: n.Spec.Unschedulable, Zone: n.Labels[v1.LabelTopologyZone]}
	for _, c := range n.Status.Conditions {
		out.Ready = out.Ready || c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}
	for _, a := range n.Status.Addresses {
		out.Addresses = append(out.Addresses, types.NodeAddress{Type: string(a.Type), Address: a.Address})
		if a.Type != v1.NodeInternalIP {
			continue
		}
		switch canonical, family := canonicalIP(a.Address); {
		case family == types.IPv4 && out.IPv4 == "":
			out.IPv4 = canonical
		case family == types.IPv6 && out.IPv6 == "":
			out.IPv6 = canonical
		}
	}
	if label := n.Labels[nodeAddrV6]; out.IPv6 == "" && label != "" {
		if canonical, family := canonicalIP(strings.ReplaceAll(label, "-", ":")); family == types.IPv6 {
			out.IPv6 = canonical
		}
	}
	return out
}

// canonicalIP returns "" and "" for what is no address.
func canonicalIP(s string) (address, family string) {
	vip, err := types.ParseVIP(s, "")
	if err != nil {
		return "", ""
	}
	return vip, types.FamilyOf(vip)
}

// allServiceEndpoints is ClusterConfig.Services, if some template wants it: the
// same map as before if nothing in it has changed.
func (w *Watcher) allServiceEndpoints(keep, all bool, dirty map[string]struct{}) map[string]*types.ServiceEndpoints {
	if !keep {
		return nil
	}
	old := w.services
	if old == nil || all {
		out := make(map[string]*types.ServiceEndpoints, len(w.AllServices))
		for k, svc := range w.AllServices {
			out[k] = shareService(w.serviceEndpoints(svc), old[k])
		}
		if old != nil && maps.Equal(out, old) {
			return old
		}
		return out
	}
	out, own := old, false
	for k := range dirty {
		var now *types.ServiceEndpoints
		if svc := w.AllServices[k]; svc != nil {
			now = shareService(w.serviceEndpoints(svc), old[k])
		}
		if now == old[k] {
			continue
		}
		if !own { // the old one is published
			out, own = maps.Clone(old), true
		}
		if now == nil {
			delete(out, k)
		} else {
			out[k] = now
		}
	}
	return out
}

func (w *Watcher) serviceEndpoints(svc *v1.Service) *types.ServiceEndpoints {
	out := &types.ServiceEndpoints{}
	for _, p := range svc.Spec.Ports {
		if p.Protocol == "" {
			p.Protocol = v1.ProtocolTCP
		}
		sp := types.ServicePort{Name: p.Name, Port: int(p.Port), Protocol: string(p.Protocol)}
		if list := w.joinedOf(key(svc)).ports[portKey{p.Name, string(p.Protocol)}]; len(list) > 0 {
			four := selectEndpoints(list, types.IPv4, sp.Protocol, "").endpoints
			six := selectEndpoints(list, types.IPv6, sp.Protocol, "").endpoints
			both := slices.Concat(four, six)
			slices.SortFunc(both, func(a, b *candidate) int { return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.port, b.port)) })
			both = slices.Compact(both) // the same list twice where there is one family
			names := endpointNames(both)
			for _, c := range both {
				sp.Endpoints = append(sp.Endpoints, w.endpoint(c, names[c], 1))
			}
		}
		out.Ports = append(out.Ports, sp)
	}
	slices.SortFunc(out.Ports, func(a, b types.ServicePort) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return out
}
