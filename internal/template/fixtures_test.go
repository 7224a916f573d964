package template

import (
	"fmt"
	"strings"

	"github.com/lb-render/lb-render/internal/types"
)

// shipped is where the templates of the repository are.
const shipped = "../../templates"

// fixture is a ClusterConfig made by hand and the params to render it with.
type fixture struct {
	name   string
	cc     *types.ClusterConfig
	params map[string]any
}

// listener returns a TCP listener for a VIP, named as the watcher names it.
func listener(vip string, port int, change func(*types.Listener)) *types.Listener {
	l := &types.Listener{
		VIP: vip, Family: types.FamilyOf(vip), Port: port, Protocol: "TCP",
		Namespace: "shop", Service: "web", PortName: "http",
		Scheduler: "wrr", ForwardingMethod: "g", ServicePort: port, SessionAffinity: "None",
	}
	if change != nil {
		change(l)
	}
	if l.Name == "" {
		l.Name = fmt.Sprintf("%s_%s_%d", strings.ToLower(l.Protocol), strings.ReplaceAll(l.VIP, ":", "-"), l.Port)
	}
	return l
}

func endpoint(name, ip string, port int) *types.Endpoint {
	return &types.Endpoint{Name: name, IP: ip, Port: port, Family: types.FamilyOf(ip), Pod: name, Weight: 1, Ready: true, Serving: true}
}

func draining(name, ip string, port int) *types.Endpoint {
	return &types.Endpoint{Name: name, IP: ip, Port: port, Family: types.FamilyOf(ip), Pod: name, Serving: true, Terminating: true}
}

func realServer(address string, weight int) *types.RealServer {
	return &types.RealServer{Address: address, Node: "node-" + address[len(address)-1:], Weight: weight}
}

// cluster makes a ClusterConfig of listeners, and the VIPs they are on.
func cluster(listeners ...*types.Listener) *types.ClusterConfig {
	cc := &types.ClusterConfig{Listeners: listeners}
	byVIP := map[string]*types.VIP{}
	for _, l := range listeners {
		v := byVIP[l.VIP]
		if v == nil {
			v = &types.VIP{Address: l.VIP, Family: l.Family, MTU: l.MTU, InPool: true}
			byVIP[l.VIP] = v
			cc.VIPs = append(cc.VIPs, v)
			cc.VIPPool = append(cc.VIPPool, l.VIP)
		}
		v.Listeners = append(v.Listeners, l)
	}
	return cc
}

// nasty are values that break out of every syntax that does not quote.
func nasty() []string {
	return []string{
		"a\nlisten evil\n  bind :1",
		"a\r\n}\nvirtual_server 203.0.113.1 1 {\n}\n",
		`"; quit "`, `it's`, `'''`, `""""`, `back\slash\`, `\`, "$HOME", "${HOME}", "$(id)", "`id`",
		"# comment", "! comment", "a#b!c", "{", "}", "} }", "@evil directive", "%[env(HOME)]", "%", "%%s",
		"~SEQ(x,1,9) include /etc/passwd", "include /etc/passwd", ".if 1", "läb ünï → 世界", "\x00nul\x00", "\x7f\x1b[31m", "\xff\xfe",
		"\u2028\u2029", "", " ", "\t", "-x", "--help", "..", "<no value>", "0xdeadbeef12",
		strings.Repeat("long ", 1000), strings.Repeat("x", 70000),
	}
}

func fixtures() []fixture {
	web := func(l *types.Listener) {
		l.Endpoints = []*types.Endpoint{endpoint("web-1", "198.51.100.1", 8080), endpoint("web-2", "198.51.100.2", 8080)}
		l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 1), realServer("203.0.113.2", 1), realServer("203.0.113.3", 0)})
	}
	web6 := func(l *types.Listener) {
		l.Endpoints = []*types.Endpoint{endpoint("web-1", "2001:db8:1::1", 8080), endpoint("web-2", "2001:db8:1::2", 8080)}
		l.SetRealServers(nil, []*types.RealServer{realServer("2001:db8:2::1", 1), realServer("2001:db8:2::2", 1)})
	}
	dns := func(l *types.Listener) {
		l.Protocol, l.Namespace, l.Service, l.PortName = "UDP", "kube-system", "dns", "dns"
		l.Endpoints = []*types.Endpoint{endpoint("dns-1", "198.51.100.53", 53)}
		l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 1)})
	}
	and := func(fs ...func(*types.Listener)) func(*types.Listener) {
		return func(l *types.Listener) {
			for _, f := range fs {
				f(l)
			}
		}
	}
	schedulers := []*types.Listener{}
	for i, s := range []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"} {
		schedulers = append(schedulers, listener("192.0.2.10", 8000+i, and(web, func(l *types.Listener) {
			l.Scheduler = s
			if s == "mh" {
				l.SchedulerFlags = "flag-1,flag-2"
			}
		})))
	}
	var many []*types.Listener
	for i := range 50 {
		many = append(many, listener(fmt.Sprintf("192.0.2.%d", i+1), 80, web))
	}
	for i := range 30 {
		many = append(many, listener(fmt.Sprintf("2001:db8::%x", i+1), 80, web6))
	}
	var hostile []*types.Listener
	for i, s := range nasty() {
		hostile = append(hostile, listener("192.0.2.66", 1000+i, func(l *types.Listener) {
			l.Name = fmt.Sprint(i) + s
			l.Namespace, l.Service, l.PortName = s, s, s
			l.Labels, l.Annotations = map[string]string{s: s}, map[string]string{s: s}
			e := endpoint(fmt.Sprint("e", i)+s, "198.51.100.1", 80)
			e.Node, e.Zone, e.Hostname, e.Pod = s, s, s, s
			d := draining(s, "198.51.100.2", 80)
			l.Endpoints, l.Draining = []*types.Endpoint{e}, []*types.Endpoint{d}
			r := realServer("203.0.113.1", 1)
			r.Node = s
			l.SetRealServers(nil, []*types.RealServer{r})
		}))
	}
	thresholds := func(l *types.Listener) {
		web(l)
		for _, r := range l.RealServers() {
			r.UThreshold, r.LThreshold = 1000, 500
		}
	}
	return []fixture{
		{name: "ipv4", cc: cluster(
			listener("192.0.2.10", 80, and(web, func(l *types.Listener) { l.MTU = 1500 })),
			listener("192.0.2.10", 443, and(web, func(l *types.Listener) { l.PortName = "https" })),
			listener("192.0.2.11", 80, and(web, func(l *types.Listener) { l.ForwardingMethod = "i" })))},
		{name: "ipv6", cc: cluster(listener("2001:db8::10", 80, and(web6, func(l *types.Listener) { l.MTU = 1500 })))},
		{name: "dual-stack", cc: cluster(
			listener("192.0.2.10", 80, web),
			listener("2001:db8::10", 80, web6),
			// HAProxy crosses families, and so do tunnels; direct routing does not.
			listener("2001:db8::10", 81, web),
			listener("2001:db8::10", 82, and(web, func(l *types.Listener) { l.ForwardingMethod = "i" })))},
		{name: "udp", cc: cluster(listener("192.0.2.53", 53, func(l *types.Listener) {
			l.Namespace, l.Service = "kube-system", "dns"
			l.Endpoints = []*types.Endpoint{endpoint("dns-1", "198.51.100.53", 53)}
			l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 1)})
		}), listener("192.0.2.53", 53, dns), listener("192.0.2.53", 5353, dns))},
		{name: "udp-only", cc: cluster(listener("192.0.2.53", 53, dns))},
		{name: "sctp", cc: cluster(listener("192.0.2.60", 36412, func(l *types.Listener) {
			l.Protocol, l.Service, l.ForwardingMethod = "SCTP", "mme", "m"
			l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 1)})
		}))},
		{name: "draining", cc: cluster(listener("192.0.2.10", 80, and(web, func(l *types.Listener) {
			l.Draining = []*types.Endpoint{draining("web-0", "198.51.100.9", 8080)}
		})), listener("192.0.2.10", 81, func(l *types.Listener) {
			l.Draining = []*types.Endpoint{draining("web-0", "198.51.100.9", 8080)}
			l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 1)})
		}))},
		{name: "proxy-protocol", cc: cluster(
			listener("192.0.2.10", 80, and(web, func(l *types.Listener) { l.ProxyProtocol = true })),
			listener("192.0.2.10", 81, and(web, func(l *types.Listener) {
				l.ProxyProtocol = true
				l.Draining = []*types.Endpoint{draining("web-0", "198.51.100.9", 8080)}
			})),
			listener("192.0.2.10", 82, web))},
		{name: "proxy-protocol-v1", params: map[string]any{"proxyProtocol": 1, "check": false},
			cc: cluster(listener("192.0.2.10", 80, and(web, func(l *types.Listener) { l.ProxyProtocol = true })))},
		{name: "empty", cc: &types.ClusterConfig{}},
		{name: "weights-zero", cc: cluster(listener("192.0.2.10", 80, func(l *types.Listener) {
			l.Endpoints = []*types.Endpoint{draining("web-0", "198.51.100.9", 8080)}
			l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 0), realServer("203.0.113.2", 0)})
		}), listener("192.0.2.10", 81, nil), listener("192.0.2.10", 82, web))},
		{name: "affinity", cc: cluster(
			listener("192.0.2.10", 80, and(web, func(l *types.Listener) {
				l.SessionAffinity, l.SessionAffinityTimeout = "ClientIP", 600
			})),
			listener("2001:db8::10", 80, and(web6, func(l *types.Listener) { l.SessionAffinity = "ClientIP" })))},
		{name: "schedulers", cc: cluster(schedulers...)},
		{name: "masquerade", cc: cluster(
			listener("192.0.2.10", 80, and(thresholds, func(l *types.Listener) { l.ForwardingMethod, l.NodePort = "m", 30080 })),
			listener("192.0.2.10", 81, and(thresholds, func(l *types.Listener) { l.ForwardingMethod = "m" })),
			listener("192.0.2.10", 82, and(thresholds, func(l *types.Listener) { l.NodePort = 30082 })))},
		{name: "many-vips", cc: cluster(many...)},
		{name: "hostile", cc: cluster(hostile...)},
		{name: "params", params: map[string]any{
			"maxconn": 1000000.0, "statsSocket": "/run/haproxy/admin.sock", "log": "stdout format raw local0", "timeoutClient": "10m",
			"check": true, "checkInterval": "10s", "scriptInterval": 5, "probe": true, "probeTimeout": 1, "transparent": false, "stickTableSize": "1m",
			"state": "MASTER", "priority": 150, "virtualRouterID": 7, "virtualRouterID6": 8, "anchor": "192.0.2.11", "routerID": "lb-1",
			"unicastSource": "192.0.2.1", "unicastPeers": []any{"192.0.2.2", "192.0.2.3"},
			"unicastSource6": "2001:db8::1", "unicastPeers6": []any{"2001:db8::2"}, "syncGroup": false, "noPreempt": false, "advertInterval": 2,
			"inhibitOnFailure": true, "persistenceTimeout": 300,
		}, cc: cluster(listener("192.0.2.10", 80, web), listener("192.0.2.11", 80, and(web, func(l *types.Listener) {
			l.SessionAffinity, l.SessionAffinityTimeout = "ClientIP", 60
		})), listener("2001:db8::10", 80, web6))},
	}
}
