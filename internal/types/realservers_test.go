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
