package ipvs

import (
	"net/netip"
	"strconv"
)

// String is the rules in their canonical form, a line each in the syntax of
// ipvsadm-save(8) -n: services and servers sorted, defaults left out, but for
// the scheduler, the port, the way and the weight. Unlike ipvsadm-save it has
// the thresholds.
func (r *Rules) String() string {
	b := make([]byte, 0, 64*r.Len())
	for i := range r.Services {
		s := &r.Services[i]
		b = append(append(b, "-A "...), s.options()...)
		b = append(b, '\n')
		for j := range s.Servers {
			b = append(append(b, "-a "...), s.selector()...)
			b = append(append(b, ' '), s.Servers[j].options()...)
			b = append(b, '\n')
		}
	}
	return string(b)
}

// selector is the option that names the service.
func (k ServiceKey) selector() string {
	if k.FWMark != 0 {
		s := "-f " + strconv.FormatUint(uint64(k.FWMark), 10)
		if k.IPv6 {
			s += " -6"
		}
		return s
	}
	option := "-t "
	switch k.Protocol {
	case UDP:
		option = "-u "
	case SCTP:
		option = "--sctp-service "
	}
	return option + netip.AddrPortFrom(k.Address, k.Port).String()
}

// String is the service for messages, like 192.0.2.1:80/TCP.
func (k ServiceKey) String() string {
	switch {
	case k.FWMark != 0 && k.IPv6:
		return "fwmark " + strconv.FormatUint(uint64(k.FWMark), 10) + " (IPv6)"
	case k.FWMark != 0:
		return "fwmark " + strconv.FormatUint(uint64(k.FWMark), 10)
	}
	return netip.AddrPortFrom(k.Address, k.Port).String() + "/" + k.Protocol.String()
}

// String is the server for messages, like 192.0.2.1:80.
func (k ServerKey) String() string { return netip.AddrPortFrom(k.Address, k.Port).String() }

// options are those of an -A or -E line.
func (s *Service) options() string {
	b := []byte(s.selector())
	b = append(append(b, " -s "...), s.Scheduler...)
	if s.Flags&Persistent != 0 {
		b = strconv.AppendUint(append(b, " -p "...), uint64(s.Timeout), 10)
	}
	if s.Netmask != hostNetmask(s.IPv6) {
		b = append(b, " -M "...)
		if s.IPv6 {
			b = strconv.AppendUint(b, uint64(s.Netmask), 10)
		} else {
			m := s.Netmask
			b = netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).AppendTo(b)
		}
	}
	if s.Engine != "" {
		b = append(append(b, " --pe "...), s.Engine...)
	}
	if s.Flags&OnePacket != 0 {
		b = append(b, " -o"...)
	}
	if names := schedulerFlagNames(s.Scheduler, s.Flags); names != "" {
		b = append(append(b, " -b "...), names...)
	}
	return string(b)
}

// options are those of an -a or -e line, without the service.
func (s *Server) options() string {
	b := append([]byte("-r "), s.ServerKey.String()...)
	switch s.Forward {
	case Masquerade:
		b = append(b, " -m"...)
	case Tunneling:
		b = append(b, " -i"...)
	default: // ipvsadm-save, too, writes local and bypass so
		b = append(b, " -g"...)
	}
	b = strconv.AppendUint(append(b, " -w "...), uint64(s.Weight), 10)
	if s.Upper != 0 {
		b = strconv.AppendUint(append(b, " -x "...), uint64(s.Upper), 10)
	}
	if s.Lower != 0 {
		b = strconv.AppendUint(append(b, " -y "...), uint64(s.Lower), 10)
	}
	switch s.Tunnel.Type {
	case GUE:
		b = append(b, " --tun-type gue"...)
	case GRE:
		b = append(b, " --tun-type gre"...)
	}
	if s.Tunnel.Port != 0 {
		b = strconv.AppendUint(append(b, " --tun-port "...), uint64(s.Tunnel.Port), 10)
	}
	switch s.Tunnel.Checksum {
	case Checksum:
		b = append(b, " --tun-csum"...)
	case RemoteChecksum:
		b = append(b, " --tun-remcsum"...)
	}
	return string(b)
}
