//lint:file-ignore SA1019 the documented API of this package is in terms of v1.Endpoints; they are made from EndpointSlices and never watched

package watcher

import (
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lb-render/lb-render/internal/types"
)

// ConfigIPCount is how many IPv4 addresses the cluster config has entries for.
func (w *Watcher) ConfigIPCount() int {
	return countOf(w, func(c *types.ClusterConfig) int { return len(c.Config) })
}

// ConfigIPCount6 is how many IPv6 addresses the cluster config has entries for.
func (w *Watcher) ConfigIPCount6() int {
	return countOf(w, func(c *types.ClusterConfig) int { return len(c.Config6) })
}

// VIPPoolCount is how many VIPs are configured in the pool.
func (w *Watcher) VIPPoolCount() int {
	return countOf(w, func(c *types.ClusterConfig) int { return len(c.VIPPool) })
}

// ServiceDefinitionCount is how many port configs the current config has, both families together.
func (w *Watcher) ServiceDefinitionCount() int {
	return countOf(w, func(c *types.ClusterConfig) int {
		n := 0
		for _, m := range []map[string]types.PortMap{c.Config, c.Config6} {
			for _, ports := range m {
				n += len(ports)
			}
		}
		return n
	})
}

func countOf(w *Watcher, count func(*types.ClusterConfig) int) int {
	w.RLock()
	defer w.RUnlock()
	if w.ClusterConfig == nil {
		return 0
	}
	return count(w.ClusterConfig)
}

// EndpointCount is how many endpoint addresses the watcher knows, ready or not:
// each address of a service once, whatever the number of its ports.
func (w *Watcher) EndpointCount() int {
	w.RLock()
	defer w.RUnlock()
	n := 0
	for _, ep := range w.AllEndpoints {
		n += len(addressesOf(ep, func(v1.EndpointPort) bool { return true }, true))
	}
	return n
}

// ServiceCount is how many services the watcher knows.
func (w *Watcher) ServiceCount() int {
	w.RLock()
	defer w.RUnlock()
	return len(w.AllServices)
}

// Services returns a copy of the map of all services, by "namespace/name".
func (w *Watcher) Services() map[string]*v1.Service {
	w.RLock()
	defer w.RUnlock()
	return maps.Clone(w.AllServices)
}

// addressesOf lists the addresses of ep behind the ports that match, each once.
func addressesOf(ep *v1.Endpoints, match func(v1.EndpointPort) bool, notReady bool) []v1.EndpointAddress {
	if ep == nil {
		return nil
	}
	var out []v1.EndpointAddress
	seen := map[string]bool{}
	add := func(list []v1.EndpointAddress) {
		for _, a := range list {
			if !seen[a.IP] {
				seen[a.IP] = true
				out = append(out, a)
			}
		}
	}
	for _, s := range ep.Subsets {
		if slices.ContainsFunc(s.Ports, match) {
			add(s.Addresses)
			if notReady {
				add(s.NotReadyAddresses)
			}
		}
	}
	return out
}

// portMatcher matches the endpoint ports behind a service's port, which is
// given by name, by number in digits, or as "" for the only one. The lock is held.
func (w *Watcher) portMatcher(namespace, service, port string) func(v1.EndpointPort) bool {
	name, protocol := port, v1.Protocol("")
	if svc := w.AllServices[namespace+"/"+service]; svc != nil {
		if ports, err := portsOf(svc, &types.ServiceDef{PortName: port}); err == nil {
			name = ports[0].Name
			if len(ports) == 1 {
				protocol = ports[0].Protocol
			}
		}
	}
	return func(p v1.EndpointPort) bool { return p.Name == name && (protocol == "" || p.Protocol == protocol) }
}

// ready lists the ready addresses of a service's port. The lock is held.
func (w *Watcher) ready(namespace, service, port string) []v1.EndpointAddress {
	return addressesOf(w.AllEndpoints[namespace+"/"+service], w.portMatcher(namespace, service, port), false)
}

func onNode(node string) func(v1.EndpointAddress) bool {
	return func(a v1.EndpointAddress) bool { return a.NodeName != nil && *a.NodeName == node }
}

func filter(list []v1.EndpointAddress, keep func(v1.EndpointAddress) bool) []v1.EndpointAddress {
	var out []v1.EndpointAddress
	for _, a := range list {
		if keep(a) {
			out = append(out, a)
		}
	}
	return out
}

// GetEndpointAddressesForNode lists the ready addresses of all services on a node, by service.
func (w *Watcher) GetEndpointAddressesForNode(node string) []v1.EndpointAddress {
	w.RLock()
	defer w.RUnlock()
	var out []v1.EndpointAddress
	for _, k := range slices.Sorted(maps.Keys(w.AllEndpoints)) {
		all := addressesOf(w.AllEndpoints[k], func(v1.EndpointPort) bool { return true }, false)
		out = append(out, filter(all, onNode(node))...)
	}
	return out
}

// GetEndpointAddressesForService lists the ready addresses of a service's
// port, which is given by name, by number in digits, or as "" for the only one.
func (w *Watcher) GetEndpointAddressesForService(service, namespace, port string) []v1.EndpointAddress {
	w.RLock()
	defer w.RUnlock()
	return w.ready(namespace, service, port)
}

// GetLocalServiceWeight is the share, from 0 to 1, of the service's ready
// endpoints that is on the node; 0 when the service has none.
func (w *Watcher) GetLocalServiceWeight(node, namespace, service, port string) float64 {
	w.RLock()
	defer w.RUnlock()
	all := w.ready(namespace, service, port)
	if len(all) == 0 {
		return 0
	}
	return float64(len(filter(all, onNode(node)))) / float64(len(all))
}

// GetPodIPsOnNode lists the service's ready pod addresses on the node.
func (w *Watcher) GetPodIPsOnNode(node, service, namespace, port string) []string {
	w.RLock()
	defer w.RUnlock()
	var out []string
	for _, a := range filter(w.ready(namespace, service, port), onNode(node)) {
		out = append(out, a.IP)
	}
	return out
}

// NodeHasServiceRunning reports whether any pod of the service's port is ready on the node.
func (w *Watcher) NodeHasServiceRunning(node, namespace, service, port string) bool {
	w.RLock()
	defer w.RUnlock()
	return slices.ContainsFunc(w.ready(namespace, service, port), onNode(node))
}

// GetPortNumberForService is the number of the port behind the VIP: what the
// endpoints listen on, or the Service's numeric target port while it has
// none. It is 0 if unknown, and the lowest where the endpoints differ.
func (w *Watcher) GetPortNumberForService(namespace, service, port string) int32 {
	w.RLock()
	defer w.RUnlock()
	match := w.portMatcher(namespace, service, port)
	var lowest int32
	if ep := w.AllEndpoints[namespace+"/"+service]; ep != nil {
		for _, s := range ep.Subsets {
			for _, p := range s.Ports {
				if match(p) && (lowest == 0 || p.Port < lowest) {
					lowest = p.Port
				}
			}
		}
	}
	if svc := w.AllServices[namespace+"/"+service]; svc != nil && lowest == 0 {
		if ports, err := portsOf(svc, &types.ServiceDef{PortName: port}); err == nil {
			if t := ports[0].TargetPort; t.StrVal == "" && t.IntVal > 0 {
				return t.IntVal
			} else if t.StrVal == "" {
				return ports[0].Port // the API's default: the same number
			}
		}
	}
	return lowest
}

// HasConfigChanged reports whether the two configs differ in meaning; the
// order of anything does not count. Nothing changes to a nil config, and any
// config is a change from none.
func (w *Watcher) HasConfigChanged(current, new *types.ClusterConfig) bool {
	switch {
	case new == nil:
		return false
	case current == nil:
		return true
	}
	return !types.Equal(current, new)
}

// ServiceExistsInConfig reports whether config has an entry, of either family,
// for the port of the service. port is as the entry has it in portName.
func (w *Watcher) ServiceExistsInConfig(config *types.ClusterConfig, service, namespace, port string) bool {
	return hasEntry(config, func(d *types.ServiceDef) bool {
		return d.Namespace == namespace && d.Service == service && d.PortName == port
	})
}

// ServiceIsConfigured reports whether the current config has any entry, of either family, for the service.
func (w *Watcher) ServiceIsConfigured(service, namespace string) bool {
	w.RLock()
	defer w.RUnlock()
	return hasEntry(w.ClusterConfig, func(d *types.ServiceDef) bool { return d.Namespace == namespace && d.Service == service })
}

func hasEntry(c *types.ClusterConfig, match func(*types.ServiceDef) bool) bool {
	if c == nil {
		return false
	}
	for _, m := range []map[string]types.PortMap{c.Config, c.Config6} {
		for _, ports := range m {
			for _, def := range ports {
				if match(def) {
					return true
				}
			}
		}
	}
	return false
}

// ServiceHasValidEndpoints reports whether the service has any ready address.
func (w *Watcher) ServiceHasValidEndpoints(ns, svc string) bool {
	w.RLock()
	defer w.RUnlock()
	return len(addressesOf(w.AllEndpoints[ns+"/"+svc], func(v1.EndpointPort) bool { return true }, false)) > 0
}

// SubsetIPsForService lists the ready addresses of the service over all its
// ports, sorted as its joined slices are. It reads what the last build made, and looks up nothing.
func (w *Watcher) SubsetIPsForService(service, namespace string) []string {
	w.RLock()
	defer w.RUnlock()
	var out []string
	for _, a := range addressesOf(w.AllEndpoints[namespace+"/"+service], func(v1.EndpointPort) bool { return true }, false) {
		out = append(out, a.IP)
	}
	slices.SortFunc(out, types.CompareVIP)
	return out
}

// Counts is what a person wants to see first of a watcher's state.
func (w *Watcher) counts() map[string]string {
	return map[string]string{
		"services": strconv.Itoa(w.ServiceCount()), "endpoints": strconv.Itoa(w.EndpointCount()),
		"vipPool": strconv.Itoa(w.VIPPoolCount()), "entries": strconv.Itoa(w.ServiceDefinitionCount()),
	}
}

// Objects returns all watched objects, in no particular order, without what
// is not used of them. They are shared: change nothing in them.
func (w *Watcher) Objects() []runtime.Object {
	s := w.stores
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []runtime.Object
	for _, o := range s.configMaps.objects {
		out = append(out, o)
	}
	for _, o := range s.services.objects {
		out = append(out, o)
	}
	for _, o := range s.slices.objects {
		out = append(out, o)
	}
	for _, o := range s.nodes.objects {
		out = append(out, o)
	}
	for _, o := range s.pods.objects {
		out = append(out, o)
	}
	return out
}
