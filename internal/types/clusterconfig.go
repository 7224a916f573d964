// Package types holds the ClusterConfig, the one value that travels from the
// watcher to the templates, and all that it is made of.
//
// An operator writes the first part of it by hand, as one key of a ConfigMap:
// Parse reads that document, validates every entry for itself and says where
// each fault is; KeepLastValid puts the last valid version in the place of an
// entry that went bad. The second part (Node, VIPs, Listeners, Nodes,
// Problems) is what the watcher resolved from the cluster.
//
// Published values are immutable. A Listener, Endpoint, RealServer or Node
// whose content is the same as in the previous ClusterConfig is the same
// pointer, so "has it changed" is one comparison. For that reason a Listener
// points neither at its VIP nor at its siblings.
//
// The package does no I/O, starts no goroutine and imports nothing of ours.
package types

import "net/netip"

// Families as the discovery API spells them.
const (
	IPv4 = "IPv4"
	IPv6 = "IPv6"
)

// ClusterConfig is what one host should serve. The zero value serves nothing.
type ClusterConfig struct {
	// VIPPool lists every VIP this load balancer may serve, canonical and sorted.
	VIPPool []string `json:"vipPool"`
	// MTUConfig and MTUConfig6 map a VIP to the MTU of the path behind it, in bytes, as decimal text.
	MTUConfig  map[string]string `json:"mtuConfig"`
	MTUConfig6 map[string]string `json:"mtuConfig6"`
	// NodeLabels must all be on a node for it to be a real server; none means every node qualifies.
	NodeLabels map[string]string `json:"labels"`
	// IPV6 pairs an IPv4 VIP with the IPv6 VIP of the same name.
	IPV6 map[string]string `json:"ipv6"`
	// Config holds the IPv4 VIPs, Config6 the IPv6 ones.
	Config  map[string]PortMap `json:"config"`
	Config6 map[string]PortMap `json:"config6"`

	// Node is this host as a Kubernetes node; nil on a host that is not one.
	Node *Node `json:"-"`
	// VIPs are sorted by address, IPv4 first.
	VIPs []*VIP `json:"-"`
	// Listeners are sorted by VIP, port and protocol.
	Listeners []*Listener `json:"-"`
	// Nodes are the eligible real servers, sorted by name.
	Nodes []*Node `json:"-"`
	// Problems lists every entry that is not served as it is written.
	Problems []Problem `json:"-"`
	// Services holds the endpoints of every service of the cluster by
	// "namespace/name", for the template function endpoints. It is nil unless
	// some template calls that function.
	Services map[string]*ServiceEndpoints `json:"-"`

	endpoints int // over all listeners; 0 if they have not been counted
}

// PortMap maps a port, as decimal text, to the service behind it.
type PortMap map[string]*ServiceDef

// ServiceDef is one entry of the operator's document: the service behind one VIP and port.
type ServiceDef struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	// PortName is the name of a port of the service, or its number in digits,
	// or empty for a service with a single port.
	PortName    string      `json:"portName"`
	IPVSOptions IPVSOptions `json:"ipvsOptions"`
	// IPV4Enabled and IPV6Enabled limit an entry to a family. Both false means
	// the family of the map the entry is in.
	IPV4Enabled bool `json:"ipv4Enabled"`
	IPV6Enabled bool `json:"ipv6Enabled"`
	// TCPEnabled and UDPEnabled choose the protocols. Both false means the
	// protocol of the Service's port.
	TCPEnabled           bool `json:"tcpEnabled"`
	UDPEnabled           bool `json:"udpEnabled"`
	ProxyProtocolEnabled bool `json:"proxyProtocolEnabled"`
}

// IPVSOptions are the scheduling options of a ServiceDef, as ipvsadm(8) names them.
type IPVSOptions struct {
	// Scheduler is empty for the default, wrr.
	Scheduler string `json:"scheduler"`
	// Flags is "flag-1", "flag-2", … in ascending order, joined by commas.
	Flags string `json:"flags"`
	// ForwardingMethod is g (direct routing), i (tunnel) or m (masquerade); empty means g.
	ForwardingMethod string `json:"forwardingMethod"`
	// UThreshold and LThreshold are connection thresholds for the whole
	// service; 0 means none.
	UThreshold int `json:"uThreshold"`
	LThreshold int `json:"lThreshold"`
}

// VIP is one virtual address and what it serves.
type VIP struct {
	Address string
	Family  string // IPv4 or IPv6
	MTU     int    // bytes; 0 if none is configured
	InPool  bool   // whether vipPool lists it
	Pair    string // the VIP of the other family, or ""
	// Listeners are the same pointers as in ClusterConfig.Listeners, in the same order.
	Listeners []*Listener
}

// Listener is one VIP, port and protocol, and the service behind it.
type Listener struct {
	// Name is unique and stable and made of [A-Za-z0-9_.-] only, so that it is
	// safe as an identifier in HAProxy and keepalived and as a file name:
	// tcp_192.0.2.10_80, udp_2001-db8--1_53.
	Name     string
	VIP      string
	Family   string // of the VIP
	MTU      int    // of the VIP, bytes; 0 if none is configured
	Port     int    // 1–65535
	Protocol string // TCP, UDP or SCTP

	Namespace string
	Service   string
	PortName  string // as the entry has it: a name, digits or ""

	ProxyProtocol    bool
	Scheduler        string // never empty
	SchedulerFlags   string // "flag-1,flag-2" or ""
	ForwardingMethod string // g, i or m
	UThreshold       int    // of the whole service; 0 none
	LThreshold       int

	ClusterIP              string // "" or "None" for a headless service
	ServicePort            int    // the port of the Service
	NodePort               int    // 0 if the Service has none
	SessionAffinity        string // None or ClientIP
	SessionAffinityTimeout int    // seconds; 0 without affinity
	ExternalTrafficPolicy  string // Cluster, Local or ""
	Labels                 map[string]string
	Annotations            map[string]string

	// Endpoints receive connections; sorted by address and port.
	Endpoints []*Endpoint
	// Draining still serve while they terminate and receive no new
	// connections: their weight is 0. Sorted likewise, TCP only.
	Draining []*Endpoint
	servers  realServers // see RealServers
}

// Endpoint is one address and port behind a listener.
type Endpoint struct {
	// Name is the pod's name, or made from the address where there is none. It is
	// unique in its listener and made of [A-Za-z0-9_.-] only.
	Name        string
	IP          string
	Port        int
	Family      string
	Node        string // "" if unknown
	Zone        string
	Hostname    string
	Pod         string // the pod's name, "" if the endpoint is none
	Weight      int    // 1, or 0 for one that drains
	Ready       bool
	Serving     bool
	Terminating bool
	Local       bool // on this host's node
}

// RealServer is a node as a destination of an IPVS service.
type RealServer struct {
	Address    string
	Node       string
	Weight     int // ready endpoints of the service on the node; 0 drains
	UThreshold int // this server's share; 0 none
	LThreshold int
}

// Node is a Kubernetes node, as far as a load balancer cares.
type Node struct {
	Name          string
	IPv4          string // InternalIP, or ""
	IPv6          string // InternalIP, or the label rdei.io/node-addr-v6, or ""
	Addresses     []NodeAddress
	Zone          string
	Labels        map[string]string
	Ready         bool
	Unschedulable bool
}

// NodeAddress is one address of a node, as its status lists it.
type NodeAddress struct {
	Type    string // InternalIP, ExternalIP, Hostname, …
	Address string
}

// ServiceEndpoints are the endpoints of one service, port by port.
type ServiceEndpoints struct {
	Ports []ServicePort // sorted by name, then protocol
}

// ServicePort is one port of a Service and the endpoints behind it.
type ServicePort struct {
	Name      string
	Port      int // of the Service; 0 if no Service declares it
	Protocol  string
	Endpoints []*Endpoint
}

// Reason says why an entry is not served as it is written.
type Reason string

// The reasons there are.
const (
	Invalid       Reason = "invalid"
	Conflict      Reason = "conflict"
	NoSuchService Reason = "no such service"
	NoSuchPort    Reason = "no such port"
	NoEndpoint    Reason = "no endpoint"
	// UnknownKey marks a key that means nothing to us: a typing error, or meant
	// for another program. The rest of the entry is served.
	UnknownKey Reason = "unknown key"
)

// What is served in the place of an entry with a problem.
const (
	ServedNothing   = "nothing"
	ServedLastValid = "its last valid version"
	ServedRest      = "the rest of it"
)

// Problem is one entry that is not served as it is written.
type Problem struct {
	VIP     string `json:"vip,omitempty"`
	Port    string `json:"port,omitempty"`
	Service string `json:"service,omitempty"` // namespace/name
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Served is one of the Served… constants.
	Served string `json:"served"`
	// Place is the path to the fault in the document, and Line its line from
	// 1; "" and 0 where the fault is in the cluster and not in the document.
	Place string `json:"place,omitempty"`
	Line  int    `json:"line,omitempty"`
}

// FamilyOf returns IPv4 or IPv6, or "" if address is neither.
func FamilyOf(address string) string {
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ""
	case a.Is4():
		return IPv4
	default:
		return IPv6
	}
}
