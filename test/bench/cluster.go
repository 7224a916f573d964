package bench

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Size is how much there is of everything in a cluster.
type Size struct{ Services, EndpointsPerService, Nodes, Pods int }

// Full is the size that lb-render is made for.
var Full = Size{Services: 10_000, EndpointsPerService: 10, Nodes: 5_000, Pods: 150_000}

// Over is the n-th part of s, in which a service has as many endpoints as in the whole.
func (s Size) Over(n int) Size {
	return Size{s.Services / n, s.EndpointsPerService, s.Nodes / n, s.Pods / n}
}

// endpoints is how many pods are behind a service; they are the first ones.
func (s Size) endpoints() int { return s.Services * s.EndpointsPerService }

// Where the operator's document is, which is where lb-render looks for it by default.
const (
	ConfigMapNamespace = "platform-load-balancer"
	ConfigMapName      = "lb-config"
	ConfigKey          = "green"
)

// portsPerVIP is what a VIP is usually shared by.
const portsPerVIP = 20

// Cluster is everything that an API server would hand out. Its objects are
// complete, as decoded from the wire with their TypeMeta. Change nothing in them.
type Cluster struct {
	Size           Size
	ConfigMap      *v1.ConfigMap
	Services       []*v1.Service
	EndpointSlices []*discoveryv1.EndpointSlice // one of each service, in the order of Services
	Nodes          []*v1.Node
	// ResourceVersion is that of the newest object, and so of every list.
	ResourceVersion string

	pod, worker *podTemplate // behind a service, or not
}

// Generate makes the cluster of a size. The same size gives the same bytes. It
// panics for a size that cannot be: every endpoint is a pod, and a node has room for 250.
func Generate(s Size) *Cluster {
	if s.endpoints() > s.Pods || s.Pods > 250*s.Nodes || s.Nodes > 1<<15 {
		panic(fmt.Sprintf("bench: no cluster can be of the size %+v", s))
	}
	c := &Cluster{Size: s, ResourceVersion: version(s.objects())}
	c.pod, c.worker = newPodTemplate("app"), newPodTemplate("worker")
	for i := range s.Nodes {
		c.Nodes = append(c.Nodes, c.node(i))
	}
	for i := range s.Services {
		c.Services = append(c.Services, c.service(i))
		c.EndpointSlices = append(c.EndpointSlices, c.endpointSlice(i))
	}
	c.ConfigMap = c.configMap()
	return c
}

// Objects have resource versions as if they had been created in this order.
func (s Size) objects() int          { return s.podVersion(s.Pods) }
func (s Size) nodeVersion(i int) int { return 1 + i }
func (s Size) serviceVersion(i int) int {
	return s.nodeVersion(s.Nodes) + 2*i // and then its slice
}
func (s Size) podVersion(i int) int { return s.serviceVersion(s.Services) + i }

// version is the resource version of the n-th object; that of etcd counts all writes there ever were.
func version(n int) string { return strconv.Itoa(481_000_000 + n) }

// The networks of the cluster. The VIPs are of the range for benchmarks (RFC 2544).
var (
	nodeNet    = netip.MustParseAddr("10.0.16.0")
	serviceNet = netip.MustParseAddr("10.96.0.1")
	movedNet   = netip.MustParseAddr("10.112.0.1") // endpoints of ChangedSlice
	podNet     = netip.MustParseAddr("10.128.0.2") // a /24 of each node
	vipNet     = netip.MustParseAddr("198.18.0.1")
)

// address is the i-th one from first on.
func address(first netip.Addr, i int) string {
	b := first.As4()
	n := int(b[1])<<16 | int(b[2])<<8 | int(b[3]) + i
	return netip.AddrFrom4([4]byte{b[0], byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// configMap has an entry for each service. There is room for it: the 10,000 of
// Full make 0.8 MB, and a ConfigMap may have 1 MiB.
func (c *Cluster) configMap() *v1.ConfigMap {
	type options struct {
		Scheduler string `json:"scheduler"`
	}
	type entry struct {
		Namespace     string   `json:"namespace"`
		Service       string   `json:"service"`
		PortName      string   `json:"portName"`
		ProxyProtocol bool     `json:"proxyProtocolEnabled,omitempty"`
		Options       *options `json:"ipvsOptions,omitempty"`
	}
	var document struct {
		VIPPool []string                    `json:"vipPool"`
		Config  map[string]map[string]entry `json:"config"`
	}
	document.Config = map[string]map[string]entry{}
	for i, s := range c.Services {
		vip := address(vipNet, i/portsPerVIP)
		if i%portsPerVIP == 0 {
			document.VIPPool = append(document.VIPPool, vip)
			document.Config[vip] = map[string]entry{}
		}
		e := entry{Namespace: s.Namespace, Service: s.Name, PortName: "http", ProxyProtocol: i%10 == 7}
		switch i % 8 {
		case 3:
			e.Options = &options{"wlc"}
		case 5:
			e.Options = &options{"mh"}
		}
		document.Config[vip][strconv.Itoa(8000+i%portsPerVIP)] = e
	}
	data, err := json.Marshal(document) // sorted by key
	if err != nil {
		panic(err) // strings are always marshalled
	}
	m := &v1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta("configmap", 0, ConfigMapNamespace, ConfigMapName, version(0)),
		Data:       map[string]string{ConfigKey: string(data)},
	}
	m.ManagedFields = []metav1.ManagedFieldsEntry{managed("kubectl-create", "v1", "", m.CreationTimestamp, map[string]any{"data": m.Data})}
	return m
}
