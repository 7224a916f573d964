package ipvs

import (
	"cmp"
	"net/netip"
	"slices"
)

// Rules is a set of virtual services, sorted by ServiceKey.Compare, each key
// once. The zero value is the empty table.
type Rules struct {
	Services []Service
}

// Len is the number of services and real servers together: the lines of a
// rules file.
func (r *Rules) Len() int {
	n := len(r.Services)
	for i := range r.Services {
		n += len(r.Services[i].Servers)
	}
	return n
}

// place is where in a file something was said; the zero place is of what the
// kernel says. It is no part of the meaning.
type place struct{ line, column int32 }

// Equal says whether both mean the same table.
func (r *Rules) Equal(other *Rules) bool {
	return slices.EqualFunc(r.Services, other.Services, func(a, b Service) bool {
		return a.same(&b) && slices.EqualFunc(a.Servers, b.Servers, func(x, y Server) bool { return x.same(&y) })
	})
}

// normalize brings services and servers into their order, and keeps the first
// of each key. A reading of the kernel comes in parts, each of which goes on at a
// position; who is at a position changes when others write, so that one may come
// twice. The second must not be taken for one that is to be deleted.
func (r *Rules) normalize() {
	slices.SortStableFunc(r.Services, func(a, b Service) int { return a.Compare(b.ServiceKey) })
	r.Services = slices.CompactFunc(r.Services, func(a, b Service) bool { return a.ServiceKey == b.ServiceKey })
	for i := range r.Services {
		s := &r.Services[i]
		slices.SortStableFunc(s.Servers, func(a, b Server) int { return a.Compare(b.ServerKey) })
		s.Servers = slices.CompactFunc(s.Servers, func(a, b Server) bool { return a.ServerKey == b.ServerKey })
	}
}

// Protocol is the number of an IP protocol.
type Protocol uint8

// The protocols that IPVS balances. A firewall mark has none.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return "?"
}

// ServiceKey is what the kernel knows a service by: address, port and
// protocol, or a firewall mark and its family.
type ServiceKey struct {
	Address  netip.Addr // unset with FWMark
	Port     uint16     // 0 is every port; only persistent services may have it
	Protocol Protocol   // 0 with FWMark
	FWMark   uint32     // 0 is none
	IPv6     bool       // the family; with an Address it is that of the address
}

// Compare orders services: IPv4 before IPv6, then by address, port and
// protocol; firewall marks last.
func (k ServiceKey) Compare(other ServiceKey) int {
	if c := cmp.Compare(k.FWMark, other.FWMark); c != 0 {
		return c
	}
	if c := k.Address.Compare(other.Address); c != 0 {
		return c
	}
	if c := cmp.Compare(k.Port, other.Port); c != 0 {
		return c
	}
	if c := cmp.Compare(k.Protocol, other.Protocol); c != 0 {
		return c
	}
	switch {
	case k.IPv6 == other.IPv6:
		return 0
	case k.IPv6:
		return 1
	}
	return -1
}

// Service is a virtual service and its real servers.
type Service struct {
	ServiceKey
	Scheduler string
	Flags     Flags
	// Timeout of persistence in seconds; 0 without the flag Persistent.
	Timeout uint32
	// Netmask is what clients of a persistent service are grouped by: the mask
	// for IPv4 (0xffffffff groups none), the length of the prefix for IPv6
	// (128 groups none). The kernel keeps it without persistence, too.
	Netmask uint32
	// Engine is a persistence engine such as "sip". Only the kernel has it: a
	// file with --pe is refused.
	Engine  string
	Servers []Server // sorted by ServerKey.Compare, each key once

	place place
}

// same says whether a service means the same, but for its servers.
func (s *Service) same(other *Service) bool {
	return s.ServiceKey == other.ServiceKey && s.Scheduler == other.Scheduler && s.Flags == other.Flags &&
		s.Timeout == other.Timeout && s.Netmask == other.Netmask && s.Engine == other.Engine
}

// hostNetmask is the mask that groups no clients: the default.
func hostNetmask(ipv6 bool) uint32 {
	if ipv6 {
		return 128
	}
	return 0xffffffff
}

// ServerKey is what the kernel knows a real server by, within its service.
type ServerKey struct {
	Address netip.Addr
	// Port is that of the service for direct routing and tunnels, which cannot
	// change it; 0 with a firewall mark is the port of the packet.
	Port uint16
}

// Compare orders servers: IPv4 before IPv6, then by address and port.
func (k ServerKey) Compare(other ServerKey) int {
	if c := k.Address.Compare(other.Address); c != 0 {
		return c
	}
	return cmp.Compare(k.Port, other.Port)
}

// Server is a real server of a service.
type Server struct {
	ServerKey
	Forward Forward
	// Weight is the share of new connections. A server of weight 0 keeps those that
	// it has and gets none, but from persistent clients that it had before, unless
	// net.ipv4.vs.expire_quiescent_template is 1.
	Weight uint32
	// Upper is the number of connections at which the server gets no new ones, until
	// it has less than Lower, or than three quarters of Upper if Lower is 0; 0 is no limit.
	Upper, Lower uint32
	Tunnel       Tunnel

	place       place
	connections uint32 // active, inactive and persistent; from the kernel only
}

// same says whether a server means the same.
func (s *Server) same(other *Server) bool {
	return s.ServerKey == other.ServerKey && s.Forward == other.Forward && s.Weight == other.Weight &&
		s.Upper == other.Upper && s.Lower == other.Lower && s.Tunnel == other.Tunnel
}

// Forward is the way of packets to a real server, with the kernel's numbers
// (IP_VS_CONN_F_MASQ and so on in linux/ip_vs.h).
type Forward uint8

// Local and bypass, 1 and 4, are of old kernels' making and cannot be asked for.
const (
	Masquerade Forward = 0
	Tunneling  Forward = 2
	Direct     Forward = 3
)

// Tunnel is the encapsulation of a server with Forward Tunneling. The zero
// value is IPIP.
type Tunnel struct {
	Type     TunnelType
	Port     uint16 // of GUE; 0 otherwise
	Checksum TunnelChecksum
}

// TunnelType is the kind of a tunnel, with the kernel's numbers.
type TunnelType uint8

// The tunnels of Linux 5.3 and later; before there was IPIP only.
const (
	IPIP TunnelType = 0
	GUE  TunnelType = 1
	GRE  TunnelType = 2
)

// TunnelChecksum says how the checksum of a GUE or GRE header is made.
type TunnelChecksum uint16

// The values are bits in the kernel, of which ipvsadm sets at most one.
const (
	NoChecksum     TunnelChecksum = 0
	Checksum       TunnelChecksum = 1
	RemoteChecksum TunnelChecksum = 2 // remote checksum offload; GUE only
)
