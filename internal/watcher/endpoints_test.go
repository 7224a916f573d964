package watcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/lb-render/lb-render/internal/types"
)

// lines says what a config serves: one line a listener, its endpoints, and behind | those that drain.
func lines(c *types.ClusterConfig) []string {
	var out []string
	for _, l := range c.Listeners {
		list := func(eps []*types.Endpoint) string {
			var s []string
			for _, e := range eps {
				s = append(s, fmt.Sprintf("%s:%d", e.IP, e.Port))
			}
			return strings.Join(s, " ")
		}
		out = append(out, strings.TrimSuffix(l.Name+": "+list(l.Endpoints)+" | "+list(l.Draining), " | "))
	}
	for _, p := range c.Problems {
		served := ""
		if p.Served != types.ServedNothing {
			served = ", served: " + p.Served
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s%s", p.VIP, p.Port, p.Service, p.Reason, served))
	}
	return out
}

func TestEndpointSemantics(t *testing.T) {
	const four, six, fqdn = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN
	tcp, udp := v1.ProtocolTCP, v1.ProtocolUDP
	web := service(port("http", 80, tcp))
	http := `, "portName": "http"`
	v4 := serving("192.0.2.1", http)
	objs := func(o ...runtime.Object) []runtime.Object { return o }
	many := func() []runtime.Object {
		out := objs(v4, web)
		for s := range 15 {
			var eps []discoveryv1.Endpoint
			for e := range 100 {
				eps = append(eps, ep(fmt.Sprintf("10.1.%d.%d", s, e), "n", "ready"))
			}
			out = append(out, slice(fmt.Sprintf("web-%d", s), four, http8080(), eps...))
		}
		return out
	}
	bare := discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}}
	headless := service(port("http", 80, tcp))
	headless.Spec.ClusterIP = v1.ClusterIPNone
	external := service()
	external.Spec.Type, external.Spec.ExternalName = v1.ServiceTypeExternalName, "example.org"
	noNumber := discoveryv1.EndpointPort{Name: ptr.To("http"), Protocol: &tcp}
	dns := service(port("dns", 53, udp), port("dns-tcp", 53, tcp))
	dnsSlice := slice("a", four, []discoveryv1.EndpointPort{slicePort("dns", 5353, udp), slicePort("dns-tcp", 5300, tcp)}, ep("10.0.0.1", "", "ready"))
	twoPorts := service(port("http", 80, tcp), port("admin", 81, tcp))
	named8080 := service(port("8080", 5016, tcp), port("other", 8080, tcp))
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"same address, ready first": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "n", "ready")), slice("b", four, http8080(), ep("10.0.0.1", "n", "notready"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"same address, ready last": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "n", "notready")), slice("b", four, http8080(), ep("10.0.0.1", "n", "ready"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"same address, one copy drains, the other is in between": {objs(v4, web, slice("z", four, http8080(), between("10.0.0.1")), slice("a", four, http8080(), ep("10.0.0.1", "n", "terminating"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"the same in the other order": {objs(v4, web, slice("a", four, http8080(), between("10.0.0.1")), slice("z", four, http8080(), ep("10.0.0.1", "n", "terminating"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"which of two, of two protocols": {objs(serving("192.0.2.1", ""), service(port("http", 80, tcp), port("dns", 53, udp)), slice("a", four, http8080(), bare)),
			[]string{"192.0.2.1 80 default/web: no such port"}},
		"TCP and UDP on one number, unnamed": {objs(serving("192.0.2.1", ""), dns, dnsSlice),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:5300", "udp_192.0.2.1_80: 10.0.0.1:5353"}},
		"no conditions at all": {objs(v4, web, slice("a", four, http8080(), bare)), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"no port name": {objs(serving("192.0.2.1", ""), service(port("", 80, tcp)), slice("a", four, []discoveryv1.EndpointPort{{Port: ptr.To(int32(9))}}, bare)),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:9"}},
		"no port number": {objs(v4, web, slice("a", four, []discoveryv1.EndpointPort{noNumber}, bare), slice("b", four, http8080(), ep("10.0.0.2", "", "ready"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.2:8080"}},
		"no nodeName": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "", "ready"))), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"all terminating": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "", "terminating"), ep("10.0.0.2", "", "gone"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"one draining beside one ready, TCP": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "", "terminating"), ep("10.0.0.2", "", "ready"), ep("10.0.0.3", "", "gone"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.2:8080 | 10.0.0.1:8080"}},
		"one draining beside one ready, UDP": {objs(v4, service(port("http", 80, udp)), slice("a", four, []discoveryv1.EndpointPort{slicePort("http", 8080, udp)},
			ep("10.0.0.1", "", "terminating"), ep("10.0.0.2", "", "ready"))), []string{"udp_192.0.2.1_80: 10.0.0.2:8080"}},
		"all terminating, UDP": {objs(v4, service(port("http", 80, udp)), slice("a", four, []discoveryv1.EndpointPort{slicePort("http", 8080, udp)},
			ep("10.0.0.1", "", "terminating"))), []string{"udp_192.0.2.1_80: 10.0.0.1:8080"}},
		"two numbers for one port name": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "", "ready")),
			slice("b", four, []discoveryv1.EndpointPort{slicePort("http", 9090, tcp)}, ep("10.0.0.2", "", "ready"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080 10.0.0.2:9090"}},
		"TCP and UDP on one number, by digits": {objs(serving("192.0.2.1", `, "portName": "53"`), dns, dnsSlice),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:5300", "udp_192.0.2.1_80: 10.0.0.1:5353"}},
		"TCP and UDP on one number, UDP wanted": {objs(serving("192.0.2.1", `, "portName": "53", "udpEnabled": true`), dns, dnsSlice),
			[]string{"udp_192.0.2.1_80: 10.0.0.1:5353"}},
		"TCP wanted of a UDP port": {objs(serving("192.0.2.1", `, "portName": "dns", "tcpEnabled": true`), dns, dnsSlice),
			[]string{"192.0.2.1 80 default/web: no such port"}},
		"TCP and UDP wanted of a TCP port": {objs(serving("192.0.2.1", `, "tcpEnabled": true, "udpEnabled": true`), web, slice("a", four, http8080(), bare)),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080", "192.0.2.1 80 default/web: no such port, served: the rest of it"}},
		"dual stack, IPv4 VIP": {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "", "ready")), slice("b", six, http8080(), ep("2001:db8::a", "", "ready"))),
			[]string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"dual stack, IPv6 VIP": {objs(serving("2001:db8::1", http), web, slice("a", four, http8080(), ep("10.0.0.1", "", "ready")), slice("b", six, http8080(), ep("2001:db8:0::a", "", "ready"))),
			[]string{"tcp_2001-db8--1_80: 2001:db8::a:8080"}},
		"IPv6 VIP, IPv4 endpoints": {objs(serving("2001:db8::1", http), web, slice("a", four, http8080(), ep("10.0.0.1", "", "ready"))),
			[]string{"tcp_2001-db8--1_80: 10.0.0.1:8080"}},
		"FQDN slice": {objs(v4, web, slice("a", fqdn, http8080(), ep("example.org", "", "ready"))),
			[]string{"192.0.2.1 80 default/web: no endpoint"}},
		"FQDN slice with what looks like an address": {objs(v4, web, slice("a", fqdn, http8080(), ep("10.0.0.1", "", "ready"))),
			[]string{"192.0.2.1 80 default/web: no endpoint"}},
		"headless":        {objs(v4, headless, slice("a", four, http8080(), ep("10.0.0.1", "", "ready"))), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"ExternalName":    {objs(v4, external), []string{"192.0.2.1 80 default/web: no endpoint"}},
		"unnamed port":    {objs(serving("192.0.2.1", ""), service(port("", 80, tcp)), slice("a", four, []discoveryv1.EndpointPort{slicePort("", 8080, tcp)}, bare)), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"single port":     {objs(serving("192.0.2.1", ""), web, slice("a", four, http8080(), bare)), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"which of two":    {objs(serving("192.0.2.1", ""), twoPorts, slice("a", four, http8080(), bare)), []string{"192.0.2.1 80 default/web: no such port"}},
		"portName digits": {objs(serving("192.0.2.1", `, "portName": "80"`), twoPorts, slice("a", four, http8080(), bare)), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
		"a name in digits goes before a number": {objs(serving("192.0.2.1", `, "portName": "8080"`), named8080,
			slice("a", four, []discoveryv1.EndpointPort{slicePort("8080", 1, tcp), slicePort("other", 2, tcp)}, bare)), []string{"tcp_192.0.2.1_80: 10.0.0.1:1"}},
		"no such port":    {objs(serving("192.0.2.1", `, "portName": "nope"`), web, slice("a", four, http8080(), bare)), []string{"192.0.2.1 80 default/web: no such port"}},
		"no such service": {objs(v4, slice("a", four, http8080(), bare)), []string{"192.0.2.1 80 default/web: no such service"}},
		"no endpoint":     {objs(v4, web, slice("a", four, http8080(), ep("10.0.0.1", "", "notready"))), []string{"192.0.2.1 80 default/web: no endpoint"}},
		"switched off":    {objs(serving("192.0.2.1", http+`, "ipv6Enabled": true`), web, slice("a", four, http8080(), bare)), nil},
		"not an address":  {objs(v4, web, slice("a", four, http8080(), ep("nonsense", "", "ready"), ep("fe80::1%eth0", "", "ready"), bare)), []string{"tcp_192.0.2.1_80: 10.0.0.1:8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lines(config(t, newCluster(c.objects...))); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	t.Run("1500 endpoints in 15 slices", func(t *testing.T) {
		c := config(t, newCluster(many()...))
		if n := c.EndpointCount(); n != 1500 {
			t.Errorf("%d endpoints, want 1500", n)
		}
	})
}

// between serves, and is neither ready nor terminating: nobody uses it.
func between(ip string) discoveryv1.Endpoint {
	e := ep(ip, "n", "notready")
	e.Conditions.Serving = ptr.To(true)
	return e
}

func TestEndpointNamesAreUnique(t *testing.T) {
	pod := func(e discoveryv1.Endpoint, name string) discoveryv1.Endpoint {
		e.TargetRef = &v1.ObjectReference{Kind: "Pod", Name: name}
		return e
	}
	c := config(t, newCluster(serving("192.0.2.1", ""), service(port("http", 80, v1.ProtocolTCP)),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), pod(ep("10.0.0.1", "", "ready"), "one"), pod(ep("10.0.0.2", "", "terminating"), "two"),
			ep("10.0.0.3", "", "ready"), pod(ep("10.0.0.4", "", "ready"), "ip-10-0-0-3-8080")),
		slice("b", discoveryv1.AddressTypeIPv4, []discoveryv1.EndpointPort{slicePort("http", 9090, v1.ProtocolTCP)}, pod(ep("10.0.0.1", "", "ready"), "one"))))
	var got []string
	for _, e := range append(c.Listeners[0].Endpoints, c.Listeners[0].Draining...) {
		got = append(got, e.Name)
	}
	want := []string{"one-ip-10-0-0-1-8080", "one-ip-10-0-0-1-9090", "ip-10-0-0-3-8080", "ip-10-0-0-3-8080-2", "two"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNodeScope(t *testing.T) {
	doc := configMap(`{"config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web"}, "81": {"namespace": "default", "service": "gone"}}}}`)
	c := config(t, newCluster(doc, service(port("http", 80, v1.ProtocolTCP)), node("a", "203.0.113.1"),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "a", "ready"), ep("10.0.0.2", "b", "ready"))), WithNode("a"), WithNodeScope(true))
	want := []string{"tcp_192.0.2.1_80: 10.0.0.1:8080", "192.0.2.1 81 default/gone: no such service"}
	if got := lines(c); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.Node == nil || c.Node.Name != "a" || !c.Listeners[0].Endpoints[0].Local {
		t.Errorf("node %+v, endpoint %+v", c.Node, c.Listeners[0].Endpoints[0])
	}
	elsewhere := config(t, newCluster(serving("192.0.2.1", ""), service(port("http", 80, v1.ProtocolTCP)),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.2", "b", "ready"))), WithNode("a"), WithNodeScope(true))
	if got := lines(elsewhere); len(got) != 0 {
		t.Errorf("a listener without an endpoint here is neither served nor a problem; got %q", got)
	}
}

func TestRealServers(t *testing.T) {
	label := func(k, v string) func(*v1.Node) { return func(n *v1.Node) { n.Labels[k] = v } }
	notReady := func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse }
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	objects := []runtime.Object{
		configMap(`{"labels": {"lb": "yes"}, "config": {"192.0.2.1": {"80": {"namespace": "default", "service": "web", "ipvsOptions": {"uThreshold": 100, "lThreshold": 10}}}},
			"config6": {"2001:db8::1": {"80": {"namespace": "default", "service": "web", "ipvsOptions": {"uThreshold": 300000, "scheduler": "mh"}}}}}`),
		service(port("http", 80, v1.ProtocolTCP)),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "a", "ready"), ep("10.0.0.2", "a", "ready"), ep("10.0.0.3", "c", "ready"), ep("10.0.0.4", "b", "notready")),
		node("a", "203.0.113.1", label("rdei.io/node-addr-v6", "2001-db8--a")), node("b", "203.0.113.2"), node("c", "203.0.113.3", cordoned),
		node("d", "203.0.113.4", notReady), node("e", "203.0.113.5", label(v1.LabelNodeExcludeBalancers, "false")),
		node("f", "203.0.113.6", label("lb", "no")), node("g", "not-an-address"),
	}
	servers := func(l *types.Listener) string {
		var s []string
		for _, r := range l.RealServers() {
			s = append(s, fmt.Sprintf("%s w%d %d/%d", r.Address, r.Weight, r.UThreshold, r.LThreshold))
		}
		return strings.Join(s, ", ")
	}
	c := config(t, newCluster(objects...))
	if got, want := servers(c.Listeners[0]), "203.0.113.1 w2 66/6, 203.0.113.2 w0 0/0, 203.0.113.3 w1 33/3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l6 := c.Listeners[1]
	if got, want := servers(l6), "2001:db8::a w2 0/0"; got != want { // a share over 65535 means none
		t.Errorf("got %s, want %s", got, want)
	}
	if l6.Scheduler != "mh" || l6.SchedulerFlags != "flag-1,flag-2" || c.Listeners[0].Scheduler != "wrr" || c.Listeners[0].ForwardingMethod != "g" {
		t.Errorf("defaults: %+v, %+v", c.Listeners[0], l6)
	}
	c = config(t, newCluster(objects...), WithExcludeCordoned(true))
	if got, want := servers(c.Listeners[0]), "203.0.113.1 w2 100/10, 203.0.113.2 w0 0/0"; got != want {
		t.Errorf("without cordoned: got %s, want %s", got, want)
	}
}

// TestNodesWithOneAddress: IPVS knows destinations by address, so two nodes that share one are one, with the weight of both.
func TestNodesWithOneAddress(t *testing.T) {
	c := config(t, newCluster(serving("192.0.2.1", ""), service(port("http", 80, v1.ProtocolTCP)), node("a", "203.0.113.1"), node("b", "203.0.113.1"),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "a", "ready"), ep("10.0.0.2", "b", "ready"))))
	if rs := c.Listeners[0].RealServers(); len(rs) != 1 || rs[0].Weight != 2 {
		t.Errorf("%d real servers, the first %+v", len(rs), rs[0])
	}
}

func TestAutoService(t *testing.T) {
	doc := configMap(`{"vipPool": ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"], "config": {"192.0.2.2": {"71": {"namespace": "default", "service": "other"}}, "192.0.2.3": {"71": null}}}`)
	w := followAuto(t, newCluster(doc, service(port("http", 80, v1.ProtocolTCP)),
		slice("a", discoveryv1.AddressTypeIPv4, http8080(), ep("10.0.0.1", "", "ready"))), "default/web:http", 71)
	want := []string{"tcp_192.0.2.1_71: 10.0.0.1:8080", "tcp_2001-db8--1_71: 10.0.0.1:8080", "192.0.2.3 71 : invalid", "192.0.2.2 71 default/other: no such service"}
	c := current(t, w)
	if got := lines(c); !slices.Equal(got, want) || c.Listeners[0].ForwardingMethod != "i" {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(c.VIPs) != 4 || !c.VIPs[0].InPool || c.VIPs[3].Family != types.IPv6 {
		t.Errorf("VIPs %+v", c.VIPs)
	}
}
