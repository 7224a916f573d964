//lint:file-ignore SA1019 the documented API of this package is in terms of v1.Endpoints; they are made from EndpointSlices and never watched

package watcher

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lb-render/lb-render/internal/types"
)

// portKey is what joins the slices of a service: they agree on a port's name
// and protocol, while each has its own number for it.
type portKey struct{ name, protocol string }

// candidate is one address and port of a service, before any selection.
type candidate struct {
	addr                        netip.Addr
	ip                          string // addr as text
	port                        int
	ready, serving, terminating bool
	node, zone, hostname, pod   string
	nodeName                    *string // node, where the slice has it; nil if it is unknown
	target                      *v1.ObjectReference
}

func (c *candidate) family() string {
	if c.addr.Is4() {
		return types.IPv4
	}
	return types.IPv6
}

// joined are all endpoints of a service, sorted by address and port.
type joined struct{ ports map[portKey][]*candidate }

// join puts the slices of one service together. One address, port and
// protocol counts once; the readiest copy wins, whatever the order.
func (w *Watcher) join(all []*discoveryv1.EndpointSlice) *joined {
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	type where struct {
		portKey
		addr netip.Addr
		port int
	}
	best := map[where]*candidate{}
	for _, s := range all {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue // a name is nothing that a load balancer can send packets to
		}
		warning := ""
		for _, p := range s.Ports {
			if p.Port == nil {
				// The API allows it ("all ports"); no listener can be made of it.
				warning = "a port of the slice has no number; it is left out"
				continue
			}
			k := portKey{protocol: string(v1.ProtocolTCP)}
			if p.Name != nil {
				k.name = *p.Name
			}
			if p.Protocol != nil {
				k.protocol = string(*p.Protocol)
			}
			for i := range s.Endpoints {
				c := newCandidate(&s.Endpoints[i], int(*p.Port))
				if c == nil {
					warning = "an endpoint of the slice has no valid address; it is left out"
					continue
				}
				at := where{k, c.addr, c.port}
				if old := best[at]; old == nil || compareCopies(c, old) > 0 {
					best[at] = c
				}
			}
		}
		w.warnSlice(key(s), warning)
	}
	j := &joined{ports: map[portKey][]*candidate{}}
	for at, c := range best {
		j.ports[at.portKey] = append(j.ports[at.portKey], c)
	}
	for _, list := range j.ports {
		slices.SortFunc(list, func(a, b *candidate) int {
			return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.port, b.port))
		})
	}
	return j
}

// joinedOf are the joined endpoints of a service: those that apply has made for
// this build, or else from its slices as they are now.
func (w *Watcher) joinedOf(service string) *joined {
	if j := w.joined[service]; j != nil {
		return j
	}
	s := w.stores
	s.mu.Lock()
	var all []*discoveryv1.EndpointSlice
	for _, slice := range s.byService[service] {
		all = append(all, slice)
	}
	s.mu.Unlock()
	return w.join(all)
}

// warnSlice logs a fault of a slice once, until it changes.
func (w *Watcher) warnSlice(slice, warning string) {
	if w.warnings[slice] == warning {
		return
	}
	if warning == "" {
		delete(w.warnings, slice)
		return
	}
	w.warnings[slice] = warning
	w.logger.Warn(warning, "endpointSlice", slice)
}

// newCandidate reads an endpoint as the discovery API says: no ready means
// ready, no serving means as ready, no terminating means false. Of several
// addresses, which stand for the same endpoint, the first is taken, as kube-proxy does.
func newCandidate(e *discoveryv1.Endpoint, port int) *candidate {
	if len(e.Addresses) == 0 {
		return nil
	}
	addr, err := netip.ParseAddr(e.Addresses[0])
	if err != nil || addr.Zone() != "" {
		return nil
	}
	c := &candidate{addr: addr.Unmap(), port: port, ip: e.Addresses[0]}
	if canonical := c.addr.String(); canonical != c.ip {
		c.ip = canonical // else the slice's own text, which is there anyway
	}
	c.ready = e.Conditions.Ready == nil || *e.Conditions.Ready
	c.serving = c.ready
	if e.Conditions.Serving != nil {
		c.serving = *e.Conditions.Serving
	}
	c.terminating = e.Conditions.Terminating != nil && *e.Conditions.Terminating
	if e.NodeName != nil && *e.NodeName != "" {
		c.node, c.nodeName = *e.NodeName, e.NodeName
	}
	if e.Zone != nil {
		c.zone = *e.Zone
	}
	if e.Hostname != nil {
		c.hostname = *e.Hostname
	}
	c.target = e.TargetRef
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		c.pod = e.TargetRef.Name
	}
	return c
}

// compareCopies orders two copies of one endpoint by how ready they are, and
// then by anything, so that the winner does not depend on arrival.
func compareCopies(a, b *candidate) int {
	rank := func(c *candidate) int {
		switch {
		case c.ready && !c.terminating:
			return 4
		case c.ready:
			return 3
		case c.serving && c.terminating: // it drains, or serves where nothing is ready
			return 2
		case c.serving:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.node, b.node), cmp.Compare(a.pod, b.pod),
		cmp.Compare(a.zone, b.zone), cmp.Compare(a.hostname, b.hostname))
}

// endpoints gives the joined slices the form of a v1 Endpoints object, whatever its size.
func (j *joined) endpoints(service string) *v1.Endpoints {
	ns, name := splitKey(service)
	out := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	type group struct {
		portKey
		port int
	}
	subsets := map[group]*v1.EndpointSubset{}
	var order []group
	for k, list := range j.ports {
		for i, c := range list {
			g := group{k, c.port}
			if subsets[g] == nil {
				subsets[g] = &v1.EndpointSubset{Ports: []v1.EndpointPort{{Name: k.name, Port: int32(c.port), Protocol: v1.Protocol(k.protocol)}}}
				order = append(order, g)
			}
			a := v1.EndpointAddress{IP: c.ip, Hostname: c.hostname, TargetRef: c.target, NodeName: c.nodeName}
			if c.ready {
				if subsets[g].Addresses == nil {
					subsets[g].Addresses = make([]v1.EndpointAddress, 0, len(list)-i)
				}
				subsets[g].Addresses = append(subsets[g].Addresses, a)
			} else {
				subsets[g].NotReadyAddresses = append(subsets[g].NotReadyAddresses, a)
			}
		}
	}
	slices.SortFunc(order, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port))
	})
	out.Subsets = make([]v1.EndpointSubset, 0, len(order))
	for _, g := range order {
		out.Subsets = append(out.Subsets, *subsets[g])
	}
	return out
}
