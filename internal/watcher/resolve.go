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

// resolved is what became of an entry.
type resolved struct {
	listeners []*types.Listener
	problems  []types.Problem
}

func (r resolved) same(o resolved) bool {
	return slices.Equal(r.listeners, o.listeners) && slices.Equal(r.problems, o.problems)
}

// resolveEntry makes the listeners of one entry: one for each protocol.
func (w *Watcher) resolveEntry(e entry) resolved {
	var r resolved
	service := e.service()
	address := w.plan.vips[e.vip].address
	problem := func(reason types.Reason, format string, args ...any) {
		r.problems = append(r.problems, types.Problem{
			VIP: address, Port: strconv.Itoa(e.port), Service: service, Reason: reason,
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
	candidates := w.joinedOf(service).ports[portKey{p.Name, string(p.Protocol)}]
	vip := &w.plan.vips[e.vip]
	served := selectEndpoints(candidates, vip.family, string(p.Protocol), w.localOnly())
	if len(served.endpoints) == 0 {
		return nil
	}
	o := e.def.IPVSOptions
	l := &types.Listener{
		Name: listenerName(vip.address, e.port, string(p.Protocol)), VIP: vip.address, Family: vip.family, MTU: vip.mtu, Port: e.port,
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
	l.Endpoints = make([]*types.Endpoint, 0, len(served.endpoints))
	for _, c := range served.endpoints {
		l.Endpoints = append(l.Endpoints, w.endpoint(c, names[c], 1))
	}
	for _, c := range served.draining {
		l.Draining = append(l.Draining, w.endpoint(c, names[c], 0))
	}
	// A node's weight is what the whole cluster has there, whatever this host's scope.
	weights := map[string]int{}
	for _, c := range selectEndpoints(candidates, vip.family, string(p.Protocol), "").endpoints {
		weights[c.node]++
	}
	pool := w.pools[vip.family]
	l.SetRealServers(pool.ServerPool, pool.weighted(weights, o))
	return l
}

// localOnly is the node that endpoints must be on, or "" for any.
func (w *Watcher) localOnly() string {
	if w.opts.nodeScope {
		return w.opts.node
	}
	return ""
}

func (w *Watcher) endpoint(c *candidate, name string, weight int) *types.Endpoint {
	return &types.Endpoint{
		Name: name, IP: c.ip, Port: c.port, Family: c.family(), Node: c.node, Zone: c.zone, Hostname: c.hostname,
		Pod: c.pod, Weight: weight, Ready: c.ready, Serving: c.serving, Terminating: c.terminating,
		Local: c.node != "" && c.node == w.opts.node,
	}
}

// listenerName is unique as VIP, port and protocol are, and stays the same
// whatever is behind it: a daemon sees a changed service, not another one.
func listenerName(vip string, port int, protocol string) string {
	return strings.ToLower(protocol) + "_" + strings.ReplaceAll(vip, ":", "-") + "_" + strconv.Itoa(port)
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
