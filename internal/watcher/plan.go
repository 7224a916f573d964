package watcher

import (
	"maps"
	"slices"
	"strconv"

	"github.com/lb-render/lb-render/internal/types"
)

// entry is one VIP and port of the document, or of the auto service.
type entry struct {
	vip  int // index of its VIP in the plan
	port int
	def  *types.ServiceDef
}

func (e entry) service() string { return e.def.Namespace + "/" + e.def.Service }

// plannedVIP is all of a VIP that the document alone decides.
type plannedVIP struct {
	address, family string
	mtu             int
	inPool          bool
	pair            string
	first, after    int // its entries are plan.entries[first:after]
}

// plan is the document in the order in which it is served. It is made anew
// only when the document changes; what changes in the cluster is looked up in it.
type plan struct {
	vips      []plannedVIP // by address, IPv4 first
	entries   []entry      // by VIP and port, so that those of a VIP are together
	byService map[string][]int
}

// newPlan lists the document's entries and those of the auto service. Every
// VIP that is mentioned anywhere is there.
func (w *Watcher) newPlan() *plan {
	a := w.authored
	pool, set := map[string]bool{}, map[string]bool{}
	for _, v := range a.VIPPool {
		pool[v], set[v] = true, true
	}
	for _, m := range []map[string]types.PortMap{a.Config, a.Config6} {
		for v := range m {
			set[v] = true
		}
	}
	pair := map[string]string{}
	for _, four := range slices.Sorted(maps.Keys(a.IPV6)) {
		pair[four] = a.IPV6[four]
		if _, taken := pair[a.IPV6[four]]; !taken {
			pair[a.IPV6[four]] = four
		}
	}
	// An entry that is invalid is one all the same: its port is not free for the auto service.
	taken := map[string]bool{}
	for _, p := range w.problems {
		if p.Port == strconv.Itoa(w.AutoPort) {
			taken[p.VIP] = true
		}
	}
	p := &plan{byService: map[string][]int{}}
	for _, address := range sortedAddresses(set) {
		v := plannedVIP{address: address, family: types.FamilyOf(address), mtu: w.mtu(address), inPool: pool[address], pair: pair[address], first: len(p.entries)}
		p.entries = append(p.entries, w.entriesOf(address, len(p.vips), pool[address] && !taken[address])...)
		v.after = len(p.entries)
		p.vips = append(p.vips, v)
	}
	for i, e := range p.entries {
		p.byService[e.service()] = append(p.byService[e.service()], i)
	}
	return p
}

// sortedAddresses sorts by address, which is parsed once for each.
func sortedAddresses(set map[string]bool) []string {
	keys := slices.Collect(maps.Keys(set))
	slices.SortFunc(keys, types.CompareVIP)
	return keys
}

// entriesOf lists the entries of one VIP by port. auto says whether it may have one for the auto service.
func (w *Watcher) entriesOf(address string, vip int, auto bool) []entry {
	var out []entry
	add := func(ports types.PortMap, family string) {
		for port, def := range ports {
			n, err := strconv.Atoi(port)
			if err != nil {
				continue // types.Parse lets none through
			}
			auto = auto && n != w.AutoPort
			own, other := def.IPV4Enabled, def.IPV6Enabled
			if family == types.IPv6 {
				own, other = other, own
			}
			if own || !other { // limited to the other family: switched off here
				out = append(out, entry{vip, n, def})
			}
		}
	}
	add(w.authored.Config[address], types.IPv4)
	add(w.authored.Config6[address], types.IPv6)
	if w.auto != nil && auto {
		out = append(out, entry{vip, w.AutoPort, w.auto})
	}
	slices.SortFunc(out, func(a, b entry) int { return a.port - b.port })
	return out
}

func (w *Watcher) mtu(vip string) int {
	m := w.authored.MTUConfig[vip]
	if m == "" {
		m = w.authored.MTUConfig6[vip]
	}
	n, _ := strconv.Atoi(m) // validated; "" is 0
	return n
}
