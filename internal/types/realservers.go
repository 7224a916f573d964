package types

import (
	"encoding/json"
	"slices"
)

// ServerPool are the eligible nodes of one family as real servers, each with
// weight 0. All listeners share it: with 10,000 listeners and 5,000 nodes, a
// list for each of them would be 50 million entries, of which all but some 100,000 are the same.
type ServerPool struct {
	servers []*RealServer // sorted by address, each address once
}

// NewServerPool returns a pool of servers, which must have weight 0, be sorted
// by address and have each address once. It keeps the list.
func NewServerPool(servers []*RealServer) *ServerPool { return &ServerPool{servers} }

// Servers lists the pool's servers, sorted by address; nil has none. Do not change it.
func (p *ServerPool) Servers() []*RealServer {
	if p == nil {
		return nil
	}
	return p.servers
}

// realServers are those of one listener: the pool, with the weighted ones in
// the place of those with the same address.
type realServers struct {
	pool     *ServerPool
	weighted []*RealServer // sorted by address
}

// RealServers are the eligible nodes with the weight of this service on each,
// sorted by address. The list is made at each call; its elements are not.
func (l *Listener) RealServers() []*RealServer {
	pool, weighted := l.servers.pool.Servers(), l.servers.weighted
	if len(pool) == 0 {
		return slices.Clone(weighted)
	}
	out := make([]*RealServer, 0, len(pool))
	for _, base := range pool {
		if len(weighted) > 0 && weighted[0].Address == base.Address {
			base, weighted = weighted[0], weighted[1:]
		}
		out = append(out, base)
	}
	return out
}

// SetRealServers says which real servers the listener has: those of the pool,
// with the weighted ones, sorted by address, in the place of those with the
// same address, which must be there. Without a pool, nil, they are all it has.
// It is for whoever makes the listener, before anybody else sees it.
func (l *Listener) SetRealServers(pool *ServerPool, weighted []*RealServer) {
	l.servers = realServers{pool, weighted}
}

// SameRealServers reports whether both have the same pool and the same weighted servers, as pointers.
func (l *Listener) SameRealServers(o *Listener) bool {
	return l.servers.pool == o.servers.pool && slices.Equal(l.servers.weighted, o.servers.weighted)
}

// Weighted lists the real servers that have endpoints of the listener, sorted
// by address. Do not change it.
func Weighted(l *Listener) []*RealServer { return l.servers.weighted }

// MarshalJSON writes the real servers as if they were a field.
func (l *Listener) MarshalJSON() ([]byte, error) {
	type fields Listener // without this method
	return json.Marshal(struct {
		*fields
		RealServers []*RealServer
	}{(*fields)(l), l.RealServers()})
}

// EndpointCount is how many endpoints receive connections, over all listeners.
func (c *ClusterConfig) EndpointCount() int {
	if c.endpoints > 0 {
		return c.endpoints
	}
	n := 0
	for _, l := range c.Listeners {
		n += len(l.Endpoints)
	}
	return n
}

// SetEndpointCount spares EndpointCount the counting, in a config that nobody else has seen yet.
func (c *ClusterConfig) SetEndpointCount(n int) { c.endpoints = n }
