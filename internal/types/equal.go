package types

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Equal reports whether two configs mean the same: the authored parts
// whatever their order, the resolved parts entry by entry. nil equals only nil.
func Equal(a, b *ClusterConfig) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if !reflect.DeepEqual(a.Node, b.Node) || !reflect.DeepEqual(resolved(a), resolved(b)) {
		return false
	}
	x, errX := a.MarshalAuthored()
	y, errY := b.MarshalAuthored()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// resolved copies what was resolved into an order of its own, with nil for empty.
func resolved(c *ClusterConfig) any {
	type listener struct {
		Listener
		RealServers []*RealServer
	}
	type vip struct {
		VIP
		Listeners []listener
	}
	var vips []vip
	for _, v := range c.VIPs {
		out := vip{VIP: *v}
		out.VIP.Listeners = nil
		for _, l := range v.Listeners {
			l := listener{*l, sorted(l.RealServers(), func(r *RealServer) string { return r.Address })}
			l.servers = realServers{}
			l.Endpoints = sorted(l.Endpoints, func(e *Endpoint) string { return e.Name })
			l.Draining = sorted(l.Draining, func(e *Endpoint) string { return e.Name })
			out.Listeners = append(out.Listeners, l)
		}
		out.Listeners = sorted(out.Listeners, func(l listener) string { return l.Name })
		vips = append(vips, out)
	}
	return []any{
		sorted(vips, func(v vip) string { return v.Address }),
		sorted(c.Nodes, func(n *Node) string { return n.Name }),
		sorted(c.Problems, func(p Problem) string { return fmt.Sprint(p) }),
		c.Services,
	}
}

func sorted[T any](list []T, id func(T) string) []T {
	if len(list) == 0 {
		return nil
	}
	return slices.SortedFunc(slices.Values(list), func(a, b T) int { return strings.Compare(id(a), id(b)) })
}
