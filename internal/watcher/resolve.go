package watcher

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/lb-render/lb-render/internal/types"
)

// entry is one VIP and port of the document, or of the auto service.
type entry struct {
	vip, family string
	port        int
	def         *types.ServiceDef
}

// resolved is what became of an entry.
type resolved struct {
	listeners []*types.Listener
	problems  []types.Problem
}

// resolve builds the ClusterConfig. all resolves every entry anew, otherwise
// only those of the dirty services; the others are what they were.
func (w *Watcher) resolve(all bool, dirty map[string]struct{}) *types.ClusterConfig {
	a := w.authored
	c := &types.ClusterConfig{
		VIPPool: a.VIPPool, MTUConfig: a.MTUConfig, MTUConfig6: a.MTUConfig6, NodeLabels: a.NodeLabels, IPV6: a.IPV6,
		Config: a.Config, Config6: a.Config6, Node: w.allNodes[w.opts.node], Nodes: w.nodes,
	}
	c.Problems = append(c.Problems, w.problems...)
	if all {
		w.nodes = w.eligible()
		c.Nodes = w.nodes
	}
	now := make(map[string]resolved, len(w.resolved))
	for _, e := range w.entries() {
		id := resolvedID(e.vip, e.port)
		r, known := w.resolved[id]
		service := e.def.Namespace + "/" + e.def.Service
		if _, touched := dirty[service]; all || touched || !known {
			r = w.resolveEntry(e)
		}
		now[id] = r
		c.Listeners = append(c.Listeners, r.listeners...)
		c.Problems = append(c.Problems, r.problems...)
	}
	w.resolved = now
	w.RLock()
	keep := w.keepAll
	w.RUnlock()
	c.Services = w.allServiceEndpoints(keep, all, dirty)
	return c
}

// entries lists the document's entries and those of the auto service, by VIP and port.
func (w *Watcher) entries() []entry {
	var out []entry
	taken := map[string]bool{}
	add := func(m map[string]types.PortMap, family string) {
		for vip, ports := range m {
			for port, def := range ports {
				n, err := strconv.Atoi(port)
				if err != nil {
					continue // types.Parse lets none through
				}
				if n == w.AutoPort {
					taken[vip] = true
				}
				own, other := def.IPV4Enabled, def.IPV6Enabled
				if family == types.IPv6 {
					own, other = other, own
				}
				if own || !other { // limited to the other family: switched off here
					out = append(out, entry{vip, family, n, def})
				}
			}
		}
	}
	// An entry that is invalid is one all the same: its port is not free.
	for _, p := range w.problems {
		if p.Port == strconv.Itoa(w.AutoPort) {
			taken[p.VIP] = true
		}
	}
	add(w.authored.Config, types.IPv4)
	add(w.authored.Config6, types.IPv6)
	if w.auto != nil {
		for _, vip := range w.authored.VIPPool {
			if !taken[vip] {
				out = append(out, entry{vip, types.FamilyOf(vip), w.AutoPort, w.auto})
			}
		}
	}
	slices.SortFunc(out, func(a, b entry) int {
		if c := types.CompareVIP(a.vip, b.vip); c != 0 {
			return c
		}
		return a.port - b.port
	})
	return out
}

func resolvedID(vip string, port int) string { return vip + " " + strconv.Itoa(port) }

// resolveEntry makes the listeners of one entry: one for each protocol.
func (w *Watcher) resolveEntry(e entry) resolved {
	var r resolved
	service := e.def.Namespace + "/" + e.def.Service
	problem := func(reason types.Reason, format string, args ...any) {
		r.problems = append(r.problems, types.Problem{
			VIP: e.vip, Port: strconv.Itoa(e.port), Service: service, Reason: reason,
			Message: fmt.Sprintf(format, args...), Served: types.ServedNothing,
		})
	}
	svc := w.AllServices[service]
	if svc == nil {
		problem(types.NoSuchService, "there is no service %s", service)
		return r
	}
	if svc.Spec.Type == v1.ServiceTypeExternalName {
		problem(types.NoEndpoint, "service %s is an ExternalName: a name in DNS has no endpoints to send connections to", service)
		return r
	}
	ports, err := portsOf(svc, e.def)
	if err != nil {
		problem(types.NoSuchPort, "service %s %v", service, err)
	}
	for _, p := range ports {
		l := w.listener(e, svc, p)
		switch {
		case l != nil:
			r.listeners = append(r.listeners, l)
		case w.opts.nodeScope:
			// not ours: another host has the endpoints
		default:
			problem(types.NoEndpoint, "port %s of service %s has no ready endpoint", describePort(p), service)
		}
	}
	for i := range r.problems {
		if len(r.listeners) > 0 { // of two protocols, one
			r.problems[i].Served = types.ServedRest
		}
	}
	return r
}

// portsOf selects the ports of a service that an entry means: by name, then by
// number, and of these one for each protocol that is wanted.
func portsOf(svc *v1.Service, def *types.ServiceDef) ([]v1.ServicePort, error) {
	match := func(same func(v1.ServicePort) bool) []v1.ServicePort {
		var out []v1.ServicePort
		for _, p := range svc.Spec.Ports {
			if p.Protocol == "" {
				p.Protocol = v1.ProtocolTCP
			}
			if same(p) {
				out = append(out, p)
			}
		}
		slices.SortFunc(out, func(a, b v1.ServicePort) int { return strings.Compare(string(a.Protocol), string(b.Protocol)) })
		return out
	}
	var found []v1.ServicePort
	if def.PortName == "" {
		found = match(func(v1.ServicePort) bool { return true })
	} else if found = match(func(p v1.ServicePort) bool { return p.Name == def.PortName }); len(found) == 0 {
		found = match(func(p v1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == def.PortName })
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("has no port %q; it has %s", def.PortName, describePorts(match(func(v1.ServicePort) bool { return true })))
	}
	if def.PortName == "" && slices.ContainsFunc(found, func(p v1.ServicePort) bool { return p.Port != found[0].Port }) {
		return nil, fmt.Errorf("has several ports; portName must say which of %s", describePorts(found))
	}
	want := map[v1.Protocol]bool{v1.ProtocolTCP: def.TCPEnabled, v1.ProtocolUDP: def.UDPEnabled}
	if !def.TCPEnabled && !def.UDPEnabled {
		for _, p := range found {
			want[p.Protocol] = true
		}
	}
	var out []v1.ServicePort
	var missing []string
	for _, protocol := range slices.Sorted(maps.Keys(want)) {
		if !want[protocol] {
			continue
		}
		of := slices.DeleteFunc(slices.Clone(found), func(p v1.ServicePort) bool { return p.Protocol != protocol })
		switch {
		case len(of) == 1:
			out = append(out, of[0])
		case len(of) == 0:
			missing = append(missing, fmt.Sprintf("has no %s port %q; it has %s", protocol, def.PortName, describePorts(found)))
		default:
			missing = append(missing, fmt.Sprintf("has several ports; portName must say which of %s", describePorts(of)))
		}
	}
	if len(missing) > 0 {
		return out, fmt.Errorf("%s", strings.Join(missing, "; "))
	}
	return out, nil
}

func describePort(p v1.ServicePort) string {
	s := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	if p.Name != "" {
		s = p.Name + " (" + s + ")"
	}
	return s
}

func describePorts(ports []v1.ServicePort) string {
	if len(ports) == 0 {
		return "none"
	}
	var out []string
	for _, p := range ports {
		out = append(out, describePort(p))
	}
	return strings.Join(out, ", ")
}

// listener resolves one port of an entry; nil if it has no endpoint.
func (w *Watcher) listener(e entry, svc *v1.Service, p v1.ServicePort) *types.Listener {
	service := key(svc)
	var candidates []*candidate
	if j := w.joined[service]; j != nil {
		candidates = j.ports[portKey{p.Name, string(p.Protocol)}]
	}
	served := selectEndpoints(candidates, e.family, string(p.Protocol), w.localOnly())
	if len(served.endpoints) == 0 {
		return nil
	}
	o := e.def.IPVSOptions
	l := &types.Listener{
		Name: listenerName(e.vip, e.port, string(p.Protocol)), VIP: e.vip, Family: e.family, MTU: w.mtu(e.vip), Port: e.port,
		Protocol: string(p.Protocol), Namespace: svc.Namespace, Service: svc.Name, PortName: e.def.PortName,
		ProxyProtocol: e.def.ProxyProtocolEnabled, Scheduler: o.Scheduler, SchedulerFlags: o.Flags,
		ForwardingMethod: o.ForwardingMethod, UThreshold: o.UThreshold, LThreshold: o.LThreshold,
		ClusterIP: svc.Spec.ClusterIP, ServicePort: int(p.Port), NodePort: int(p.NodePort),
		SessionAffinity: string(svc.Spec.SessionAffinity), ExternalTrafficPolicy: string(svc.Spec.ExternalTrafficPolicy),
		Labels: svc.Labels, Annotations: svc.Annotations,
	}
	if l.Scheduler == "" {
		l.Scheduler = types.DefaultScheduler
	}
	if l.Scheduler == "mh" && l.SchedulerFlags == "" {
		l.SchedulerFlags = "flag-1,flag-2" // fallback and port: what makes Maglev hashing consistent and even
	}
	if l.ForwardingMethod == "" {
		l.ForwardingMethod = "g"
	}
	if l.SessionAffinity == "" {
		l.SessionAffinity = string(v1.ServiceAffinityNone)
	}
	if l.SessionAffinity == string(v1.ServiceAffinityClientIP) {
		l.SessionAffinityTimeout = int(v1.DefaultClientIPServiceAffinitySeconds)
		if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			l.SessionAffinityTimeout = int(*c.ClientIP.TimeoutSeconds)
		}
	}
	names := endpointNames(served.endpoints, served.draining)
	for _, c := range served.endpoints {
		l.Endpoints = append(l.Endpoints, w.endpoint(c, names[c], 1))
	}
	for _, c := range served.draining {
		l.Draining = append(l.Draining, w.endpoint(c, names[c], 0))
	}
	// A node's weight is what the whole cluster has there, whatever this host's scope.
	weights := map[string]int{}
	for _, c := range selectEndpoints(candidates, e.family, string(p.Protocol), "").endpoints {
		weights[c.node]++
	}
	l.RealServers = w.realServers(e.family, weights, o)
	return l
}

// localOnly is the node that endpoints must be on, or "" for any.
func (w *Watcher) localOnly() string {
	if w.opts.nodeScope {
		return w.opts.node
	}
	return ""
}

func (w *Watcher) mtu(vip string) int {
	m := w.authored.MTUConfig[vip]
	if m == "" {
		m = w.authored.MTUConfig6[vip]
	}
	n, _ := strconv.Atoi(m) // validated; "" is 0
	return n
}

func (w *Watcher) endpoint(c *candidate, name string, weight int) *types.Endpoint {
	return &types.Endpoint{
		Name: name, IP: c.addr.String(), Port: c.port, Family: c.family(), Node: c.node, Zone: c.zone, Hostname: c.hostname,
		Pod: c.pod, Weight: weight, Ready: c.ready, Serving: c.serving, Terminating: c.terminating,
		Local: c.node != "" && c.node == w.opts.node,
	}
}

// listenerName is unique as VIP, port and protocol are, and stays the same
// whatever is behind it: a daemon sees a changed service, not another one.
func listenerName(vip string, port int, protocol string) string {
	return strings.ToLower(protocol) + "_" + strings.ReplaceAll(vip, ":", "-") + "_" + strconv.Itoa(port)
}

// vips groups the listeners by VIP. Every VIP that is mentioned anywhere is there.
func (w *Watcher) vips(listeners []*types.Listener) []*types.VIP {
	a := w.authored
	pool := map[string]bool{}
	set := map[string]bool{}
	for _, v := range a.VIPPool {
		pool[v], set[v] = true, true
	}
	for v := range a.Config {
		set[v] = true
	}
	for v := range a.Config6 {
		set[v] = true
	}
	pair := map[string]string{}
	for _, four := range slices.Sorted(maps.Keys(a.IPV6)) {
		pair[four] = a.IPV6[four]
		if _, taken := pair[a.IPV6[four]]; !taken {
			pair[a.IPV6[four]] = four
		}
	}
	of := map[string][]*types.Listener{}
	for _, l := range listeners {
		of[l.VIP] = append(of[l.VIP], l)
	}
	out := make([]*types.VIP, 0, len(set))
	for _, v := range slices.SortedFunc(maps.Keys(set), types.CompareVIP) {
		out = append(out, &types.VIP{Address: v, Family: types.FamilyOf(v), MTU: w.mtu(v), InPool: pool[v], Pair: pair[v], Listeners: of[v]})
	}
	return out
}

func splitKey(k string) (namespace, name string) {
	namespace, name, _ = strings.Cut(k, "/")
	return namespace, name
}

// endpointNames gives each endpoint a name that is unique among them and does
// not depend on which others there are, as far as can be: the pod's name, or the address.
// A pod that is there with several ports or addresses has them in its names.
func endpointNames(lists ...[]*candidate) map[*candidate]string {
	all := slices.Concat(lists...)
	pods := map[string]int{}
	for _, c := range all {
		pods[c.pod]++
	}
	names := make(map[*candidate]string, len(all))
	taken := map[string]bool{}
	for _, c := range all {
		name := c.pod
		if name == "" || pods[name] > 1 || !safeName(name) {
			name = addrName(c.addr) + "-" + strconv.Itoa(c.port)
			if c.pod != "" && safeName(c.pod) {
				name = c.pod + "-" + name
			}
		}
		for base, n := name, 2; taken[name]; n++ { // a pod may be called like an address
			name = base + "-" + strconv.Itoa(n)
		}
		taken[name] = true
		names[c] = name
	}
	return names
}

func addrName(a netip.Addr) string {
	return "ip-" + strings.NewReplacer(":", "-", ".", "-").Replace(a.String())
}

// safeName reports whether s is made of what HAProxy allows in a server's name
// and every other place of ours: [A-Za-z0-9_.-].
func safeName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}) < 0
}
