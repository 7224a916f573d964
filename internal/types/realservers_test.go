package types

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestRealServers(t *testing.T) {
	a, b, c := &RealServer{Address: "192.0.2.1", Node: "a"}, &RealServer{Address: "192.0.2.2", Node: "b"}, &RealServer{Address: "192.0.2.3", Node: "c"}
	heavy := &RealServer{Address: "192.0.2.2", Node: "b", Weight: 5}
	pool := NewServerPool([]*RealServer{a, b, c})
	for _, tc := range []struct {
		name           string
		pool           *ServerPool
		weighted, want []*RealServer
	}{
		{"nothing", nil, nil, nil},
		{"an empty pool", NewServerPool(nil), nil, nil},
		{"no pool", nil, []*RealServer{heavy}, []*RealServer{heavy}},
		{"no endpoints", pool, nil, []*RealServer{a, b, c}},
		{"endpoints on one", pool, []*RealServer{heavy}, []*RealServer{a, heavy, c}},
	} {
		var l Listener
		l.SetRealServers(tc.pool, tc.weighted)
		got := l.RealServers()
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
		if len(got) > 0 { // the list is the caller's own
			got[0] = nil
			if !slices.Equal(l.RealServers(), tc.want) {
				t.Errorf("%s: a caller has changed the listener", tc.name)
			}
		}
	}
	var x, y Listener
	x.SetRealServers(pool, []*RealServer{heavy})
	y.SetRealServers(pool, []*RealServer{{Address: "192.0.2.2", Node: "b", Weight: 5}})
	if x.SameRealServers(&y) {
		t.Error("other pointers are the same servers")
	}
	y.SetRealServers(pool, []*RealServer{heavy})
	if !x.SameRealServers(&y) {
		t.Error("the same pointers are not the same servers")
	}
	doc, err := json.Marshal([]*Listener{&x})
	if err != nil || !strings.Contains(string(doc), `"Name":"","VIP":""`) || !strings.Contains(string(doc), `"RealServers":[{"Address":"192.0.2.1","Node":"a","Weight":0`) {
		t.Errorf("%v, as JSON it is %s", err, doc)
	}
}

func TestEndpointCount(t *testing.T) {
	c := &ClusterConfig{Listeners: []*Listener{{Endpoints: make([]*Endpoint, 2)}, {Endpoints: make([]*Endpoint, 3), Draining: make([]*Endpoint, 4)}}}
	if n := c.EndpointCount(); n != 5 {
		t.Errorf("counted %d, want 5", n)
	}
	c.SetEndpointCount(7)
	if n := c.EndpointCount(); n != 7 {
		t.Errorf("told 7, it says %d", n)
	}
}

// TestEqualWithPools: it is the servers that count, however they are kept.
func TestEqualWithPools(t *testing.T) {
	a, b := &RealServer{Address: "192.0.2.1"}, &RealServer{Address: "192.0.2.2"}
	heavy := &RealServer{Address: "192.0.2.2", Weight: 1}
	with := func(pool *ServerPool, weighted ...*RealServer) *ClusterConfig {
		l := &Listener{Name: "x"}
		l.SetRealServers(pool, weighted)
		return &ClusterConfig{Listeners: []*Listener{l}, VIPs: []*VIP{{Listeners: []*Listener{l}}}}
	}
	pool := NewServerPool([]*RealServer{a, b})
	for _, c := range []struct {
		what string
		x, y *ClusterConfig
		want bool
	}{
		{"one pool", with(pool, heavy), with(pool, heavy), true},
		{"equal pools", with(pool, heavy), with(NewServerPool([]*RealServer{{Address: "192.0.2.1"}, {Address: "192.0.2.2"}}), &RealServer{Address: "192.0.2.2", Weight: 1}), true},
		{"a pool and a list", with(pool, heavy), with(nil, a, heavy), true},
		{"another weight", with(pool, heavy), with(pool, &RealServer{Address: "192.0.2.2", Weight: 2}), false},
		{"another pool", with(pool), with(NewServerPool([]*RealServer{a})), false},
		{"a pool and another list", with(pool), with(nil, a), false},
	} {
		if got := Equal(c.x, c.y); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
	var many [2]ClusterConfig
	servers := make([]*RealServer, 5000)
	for i := range servers {
		servers[i] = &RealServer{Node: "n"}
	}
	large := NewServerPool(servers)
	for k := range many {
		for range 10_000 {
			l := &Listener{}
			l.SetRealServers(large, nil)
			many[k].Listeners = append(many[k].Listeners, l)
		}
		many[k].VIPs = []*VIP{{Listeners: many[k].Listeners}}
	}
	if allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			Equal(&many[0], &many[1])
		}
	}).AllocedBytesPerOp(); allocated > 100<<20 {
		t.Errorf("comparing 10,000 listeners of one pool allocates %d MB", allocated>>20)
	}
}
