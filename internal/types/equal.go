package types

import (
	"bytes"
	"reflect"
)

// Equal reports whether two configs mean the same: the authored parts
// whatever their order, the resolved parts entry by entry. nil equals only nil.
func Equal(a, b *ClusterConfig) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if !reflect.DeepEqual(a.Node, b.Node) || !reflect.DeepEqual(a.Nodes, b.Nodes) ||
		!reflect.DeepEqual(a.VIPs, b.VIPs) || !reflect.DeepEqual(a.Problems, b.Problems) ||
		!reflect.DeepEqual(a.Services, b.Services) {
		return false
	}
	x, errX := a.MarshalAuthored()
	y, errY := b.MarshalAuthored()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// EndpointCount is how many endpoints receive connections, over all listeners.
func (c *ClusterConfig) EndpointCount() int {
	n := 0
	for _, l := range c.Listeners {
		n += len(l.Endpoints)
	}
	return n
}
