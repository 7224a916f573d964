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
	// Listeners that share a pool of real servers are compared with the pool beside them, or
	// else 10,000 of them would be 50 million real servers. It takes pools in both.
	whole := hasPool(a) != hasPool(b)
	if !reflect.DeepEqual(a.Node, b.Node) || !reflect.DeepEqual(resolved(a, whole), resolved(b, whole)) {
		return false
	}
	x, errX := a.MarshalAuthored()
	y, errY := b.MarshalAuthored()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func hasPool(c *ClusterConfig) bool {
	return slices.ContainsFunc(c.Listeners, func(l *Listener) bool { return l.servers.pool != nil })
}

// resolved copies what was resolved into an order of its own, with nil for
// empty. whole lists all real servers of each listener, even if they are in a pool.
func resolved(c *ClusterConfig, whole bool) any {
	type listener struct {
		Listener
		Pool        []*RealServer // of those with an endpoint, another one is in RealServers
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
			l := listener{Listener: *l, Pool: l.servers.pool.Servers(), RealServers: l.servers.weighted}
			if whole {
				l.Pool, l.RealServers = nil, l.Listener.RealServers()
			}
			l.RealServers = sorted(l.RealServers, func(r *RealServer) string { return r.Address })
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
