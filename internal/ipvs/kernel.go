package ipvs

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/cloudflare/ipvs"
	"github.com/cloudflare/ipvs/netmask"
	"golang.org/x/sys/unix"
)

// UnavailableError is why this process cannot use IPVS at all.
type UnavailableError struct {
	Reason string
	Err    error // the kernel's
}

func (e *UnavailableError) Error() string { return e.Reason }

func (e *UnavailableError) Unwrap() error { return e.Err }

// unavailable finds out whether an error means that IPVS cannot be used at all.
func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return &UnavailableError{"no rights to use IPVS: this needs CAP_NET_ADMIN (run it as root; in a systemd unit, see lb-render.service.d/ipvs.conf)", err}
	case errors.Is(err, os.ErrNotExist):
		return &UnavailableError{"the kernel has no IPVS: load it with \"modprobe ip_vs\" (and at each boot by a line ip_vs in a file of /etc/modules-load.d)", err}
	case errors.Is(err, unix.EAFNOSUPPORT):
		return &UnavailableError{"cannot use netlink: a systemd unit must allow AF_NETLINK in RestrictAddressFamilies", err}
	}
	return err
}

// errRaced says that the table is not what it was when it was read: what was to
// be added is there already, or what was to be edited or deleted is gone. The
// next reading tells.
var errRaced = errors.New("the table was changed meanwhile")

// Kernel is the IPVS table of the network namespace that the process is in.
type Kernel struct {
	client ipvs.Client
	// engines finds the persistence engines, which the library does not read.
	engines *engineReader
}

// OpenKernel connects to the kernel, and sees whether the table may be read and
// changed. The error is an *UnavailableError if there is no IPVS, or no right to it.
func OpenKernel() (*Kernel, error) {
	client, err := ipvs.New()
	if err != nil {
		return nil, unavailable(err)
	}
	k := &Kernel{client: client}
	if k.engines, err = newEngineReader(); err == nil {
		_, err = client.Info()
	}
	if err != nil {
		k.Close()
		return nil, unavailable(err)
	}
	return k, nil
}

// Close ends the connection.
func (k *Kernel) Close() error {
	var err error
	if c, ok := k.client.(io.Closer); ok { // the interface lacks it
		err = c.Close()
	}
	if k.engines != nil {
		err = errors.Join(err, k.engines.close())
	}
	return err
}

// Read reads the part of the table that is in scope. The kernel gives the
// services and then the servers of each, in parts that go on at a position: what others
// change meanwhile may be seen in part, twice or not at all. A Sync that misses
// something so has success once too early; the next one, or a verify, finds it.
func (k *Kernel) Read(scope *Scope) (*Rules, error) {
	services, err := k.client.Services()
	if errors.Is(err, os.ErrNotExist) { // the library's word for an empty list
		return &Rules{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the services of the kernel: %w", unavailable(err))
	}
	engines, err := k.engines.read()
	if err != nil {
		return nil, fmt.Errorf("reading the services of the kernel: %w", unavailable(err))
	}
	rules := &Rules{}
	for i := range services {
		s := fromKernelService(&services[i].Service)
		s.Engine = engines[s.ServiceKey]
		if !scope.Owns(s.ServiceKey) {
			continue
		}
		servers, err := k.client.Destinations(services[i].Service)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("reading the real servers of %s: %w", s.ServiceKey, err)
		}
		for j := range servers {
			s.Servers = append(s.Servers, fromKernelServer(&servers[j]))
		}
		rules.Services = append(rules.Services, s)
	}
	rules.normalize()
	return rules, nil
}

// Do makes one change. The error is errRaced if the table is not what the
// change takes it for, an *UnavailableError without the right to it, and otherwise what
// the kernel has against the change.
func (k *Kernel) Do(op *Op) error {
	service := toKernelService(op.Service)
	var err error
	switch op.Verb {
	case AddService:
		err = k.client.CreateService(service)
	case EditService:
		err = k.client.UpdateService(service)
	case DeleteService:
		err = k.client.RemoveService(service)
	case AddServer:
		err = k.client.CreateDestination(service, toKernelServer(op.Server))
	case EditServer:
		err = k.client.UpdateDestination(service, toKernelServer(op.Server))
	case DeleteServer:
		err = k.client.RemoveDestination(service, toKernelServer(op.Server))
	}
	return explain(op, err)
}

// explain says what an answer of the kernel means for an operation
// (net/netfilter/ipvs/ip_vs_ctl.c).
func explain(op *Op, err error) error {
	var errno unix.Errno
	if err == nil {
		return nil
	}
	if !errors.As(err, &errno) {
		return err
	}
	adds := op.Verb == AddService || op.Verb == AddServer
	switch {
	case errno == unix.EPERM, errno == unix.EACCES:
		return unavailable(err)
	case errno == unix.EEXIST && adds:
		return errRaced
	case errno == unix.ENOENT && (op.Verb == AddService || op.Verb == EditService):
		return fmt.Errorf("the kernel has no scheduler %s: it is in the module ip_vs_%s (%w)", op.Service.Scheduler, op.Service.Scheduler, errno)
	case errno == unix.ESRCH, errno == unix.ENOENT:
		return errRaced
	case errno == unix.EINVAL && op.Server != nil && op.Server.Address.Is6() != op.Service.IPv6:
		return fmt.Errorf("the kernel refuses it: real servers of another family than the service's do not work while an IPVS sync daemon runs, and not before Linux 3.18 (%w)", errno)
	case errno == unix.EINVAL && op.Server != nil:
		return fmt.Errorf("the kernel refuses it: is %s an address of a single host, and is it reachable in its family here? (%w)", op.Server.Address, errno)
	}
	return fmt.Errorf("the kernel refuses it: %w", errno)
}

func fromKernelService(k *ipvs.Service) Service {
	s := Service{
		ServiceKey: ServiceKey{IPv6: k.Family == ipvs.INET6},
		Scheduler:  strings.Clone(k.Scheduler),
		Flags:      Flags(k.Flags) & knownFlags,
		Timeout:    k.Timeout,
	}
	if k.FWMark != 0 {
		s.FWMark = k.FWMark
	} else {
		s.Address, s.Port, s.Protocol = k.Address, k.Port, Protocol(k.Protocol)
	}
	if k.Family == ipvs.INET6 {
		s.Netmask = uint32(k.Netmask.Bits())
	} else {
		s.Netmask = maskNumber(k.Netmask.AsSlice())
	}
	return s
}

func toKernelService(s *Service) ipvs.Service {
	k := ipvs.Service{
		Address:   s.Address,
		Port:      s.Port,
		Protocol:  ipvs.Protocol(s.Protocol),
		FWMark:    s.FWMark,
		Family:    ipvs.INET,
		Scheduler: s.Scheduler,
		Flags:     ipvs.Flags(s.Flags),
		Timeout:   s.Timeout,
		Netmask:   netmask.MaskFrom4([4]byte{byte(s.Netmask >> 24), byte(s.Netmask >> 16), byte(s.Netmask >> 8), byte(s.Netmask)}),
	}
	if s.IPv6 {
		k.Family, k.Netmask = ipvs.INET6, netmask.MaskFrom(int(s.Netmask), 128)
	}
	return k
}

func maskNumber(b []byte) uint32 {
	var n uint32
	for _, c := range b {
		n = n<<8 | uint32(c)
	}
	return n
}

func fromKernelServer(k *ipvs.DestinationExtended) Server {
	return Server{
		ServerKey:   ServerKey{k.Address, k.Port},
		Forward:     Forward(k.FwdMethod & 7), // IP_VS_CONN_F_FWD_MASK
		Weight:      k.Weight,
		Upper:       k.UpperThreshold,
		Lower:       k.LowerThreshold,
		Tunnel:      Tunnel{TunnelType(k.TunnelType), k.TunnelPort, TunnelChecksum(k.TunnelFlags)},
		connections: k.ActiveConnections + k.InactiveConnections + k.PersistentConnections,
	}
}

func toKernelServer(s *Server) ipvs.Destination {
	k := ipvs.Destination{
		Address:        s.Address,
		Port:           s.Port,
		Family:         ipvs.INET,
		FwdMethod:      ipvs.ForwardType(s.Forward),
		Weight:         s.Weight,
		UpperThreshold: s.Upper,
		LowerThreshold: s.Lower,
		TunnelType:     ipvs.TunnelType(s.Tunnel.Type),
		TunnelPort:     s.Tunnel.Port,
		TunnelFlags:    ipvs.TunnelFlags(s.Tunnel.Checksum),
	}
	if s.Address.Is6() {
		k.Family = ipvs.INET6
	}
	return k
}

// keyOf makes a key of the attributes of a service.
func keyOf(family, protocol uint16, address []byte, port uint16, mark uint32) ServiceKey {
	key := ServiceKey{IPv6: family == uint16(ipvs.INET6)}
	if mark != 0 {
		key.FWMark = mark
		return key
	}
	if !key.IPv6 && len(address) >= 4 {
		address = address[:4]
	}
	key.Address, _ = netip.AddrFromSlice(address)
	key.Port, key.Protocol = port, Protocol(protocol)
	return key
}
