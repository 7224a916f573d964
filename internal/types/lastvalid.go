package types

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// KeepLastValid puts the last valid version in the place of every entry of the
// document that is not valid now, and notes in its problems what is served
// instead. last is the result of an earlier call, or nil. An entry that is
// neither in the document nor a wrong spelling of one that is, is gone.
//
// A key that is wrong does not say which entry it was. It is taken for the
// entry that is missing now and is nearest to it: the same address in another
// spelling or in the other family's map, the same VIP or port and the same service.
func (d *Document) KeepLastValid(last *ClusterConfig) *ClusterConfig {
	if last == nil {
		return d.Config
	}
	for _, b := range d.bad {
		kept := false
		switch b.section {
		case "vipPool":
			kept = d.keepPool(b, last)
		case "mtuConfig":
			kept = keepText(b, last.MTUConfig, d.Config.MTUConfig, lenientVIP)
		case "mtuConfig6":
			kept = keepText(b, last.MTUConfig6, d.Config.MTUConfig6, lenientVIP)
		case "labels":
			kept = keepText(b, last.NodeLabels, d.Config.NodeLabels, func(k string) string { return k })
		case "ipv6":
			kept = keepText(b, last.IPV6, d.Config.IPV6, lenientVIP)
		case "config":
			kept = d.keepEntry(b, last.Config, last.Config6, d.Config.Config, d.Config.Config6)
		case "config6":
			kept = d.keepEntry(b, last.Config6, last.Config, d.Config.Config6, d.Config.Config)
		}
		if !kept {
			continue
		}
		for i := b.problem; i < b.problem+b.count; i++ {
			if d.Problems[i].Served == ServedNothing {
				d.Problems[i].Served = ServedLastValid
			}
		}
	}
	return d.Config
}

func (d *Document) keepPool(b badEntry, last *ClusterConfig) bool {
	set := map[string]bool{}
	if b.whole { // the whole list
		for _, v := range last.VIPPool {
			set[v] = true
		}
	} else if v := lenientVIP(b.key); slices.Contains(last.VIPPool, v) {
		set[v] = true
	} else if missing := without(last.VIPPool, d.Config.VIPPool); len(missing) == 1 {
		set[missing[0]] = true // one is missing, and here is one that is no address
	}
	d.Config.VIPPool = sortedVIPs(set, d.Config.VIPPool...)
	return len(set) > 0
}

func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(others, s) })
}

func keepText(b badEntry, last, now map[string]string, canonical func(string) string) bool {
	if b.whole { // the whole map
		maps.Copy(now, last)
		return len(last) > 0
	}
	k := canonical(b.key)
	v, known := last[k]
	if _, there := now[k]; known && !there {
		now[k] = v
	}
	return known
}

func (d *Document) keepEntry(b badEntry, last, lastOther, now, nowOther map[string]PortMap) bool {
	if b.whole { // the whole map
		for vip, ports := range last {
			for port, def := range ports {
				put(now, vip, port, def)
			}
		}
		return len(last) > 0
	}
	vip := lenientVIP(b.key)
	if b.port == "" { // all ports of a VIP
		for port, def := range last[vip] {
			put(now, vip, port, def)
		}
		return len(last[vip]) > 0
	}
	if def, known := last[vip][b.port]; known {
		put(now, vip, b.port, def)
		return true
	}
	if def, known := lastOther[vip][b.port]; known {
		put(nowOther, vip, b.port, def)
		return true
	}
	if b.def.Service == "" {
		return false
	}
	// The key itself is not that of any entry: look for one that is missing
	// now, has the same service, and the same VIP or port.
	for _, v := range slices.SortedFunc(maps.Keys(last), CompareVIP) {
		for _, port := range slices.Sorted(maps.Keys(last[v])) {
			def := last[v][port]
			_, there := now[v][port]
			if !there && (v == vip || port == b.port) && def.Namespace == b.def.Namespace && def.Service == b.def.Service && def.PortName == b.def.PortName {
				put(now, v, port, def)
				return true
			}
		}
	}
	return false
}

// put adds an entry unless a valid one is there.
func put(m map[string]PortMap, vip, port string, def *ServiceDef) {
	if m[vip] == nil {
		m[vip] = PortMap{}
	}
	if m[vip][port] == nil {
		m[vip][port] = def
	}
}

// MarshalAuthored returns the authored part as canonical JSON: equal meaning,
// equal bytes. Parse reads it back.
func (c *ClusterConfig) MarshalAuthored() ([]byte, error) {
	a := *c // encoding/json sorts the keys of maps; the pool is a set
	a.VIPPool = sortedVIPs(nil, c.VIPPool...)
	a.MTUConfig, a.MTUConfig6 = orEmpty(c.MTUConfig), orEmpty(c.MTUConfig6)
	a.NodeLabels, a.IPV6 = orEmpty(c.NodeLabels), orEmpty(c.IPV6)
	a.Config, a.Config6 = withoutEmpty(c.Config), withoutEmpty(c.Config6)
	b, err := json.Marshal(&a)
	if err != nil {
		return nil, fmt.Errorf("writing the cluster config as JSON: %w", err)
	}
	return b, nil
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// withoutEmpty drops VIPs without a port: they mean the same as no VIP.
func withoutEmpty(m map[string]PortMap) map[string]PortMap {
	out := make(map[string]PortMap, len(m))
	for vip, ports := range m {
		if len(ports) > 0 {
			out[vip] = ports
		}
	}
	return out
}

// CompareVIP orders addresses: IPv4 before IPv6, then by number; what is no address comes last, by text.
func CompareVIP(a, b string) int {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	switch {
	case errX != nil && errY != nil:
		return strings.Compare(a, b)
	case errX != nil:
		return 1
	case errY != nil:
		return -1
	}
	return x.Compare(y)
}

// sortedVIPs returns the set and the others, sorted, each once.
func sortedVIPs(set map[string]bool, others ...string) []string {
	out := append([]string{}, others...)
	out = slices.AppendSeq(out, maps.Keys(set))
	slices.SortFunc(out, CompareVIP)
	return slices.Compact(out)
}
