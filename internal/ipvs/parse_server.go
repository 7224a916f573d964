package ipvs

import (
	"math"
	"net/netip"
)

// parseServer reads an -a line.
func (p *parser) parseServer(g *given) {
	key, at, ok := p.parseKey(g)
	var service *Service
	if ok {
		if p.last >= len(p.services) || p.services[p.last].ServiceKey != key {
			if i, found := p.index[key]; found {
				p.last = i
				service = &p.services[i]
			}
		} else {
			service = &p.services[p.last]
		}
		if service == nil && !p.broken {
			p.reportf(at, "no service %s above this line: its -A line comes before its real servers", key)
		}
	}
	s := Server{Forward: Direct, Weight: 1}
	if a, given := g.oneOf(p, optMasquerade, optTunneling, optDirect); given {
		switch a.option.id {
		case optMasquerade:
			s.Forward = Masquerade
		case optTunneling:
			s.Forward = Tunneling
		}
	}
	s.Tunnel = p.tunnel(g, s.Forward)
	for _, n := range []struct {
		id   optionID
		into *uint32
	}{{optWeight, &s.Weight}, {optUpper, &s.Upper}, {optLower, &s.Lower}} {
		if g.has[n.id] {
			value, _ := p.number(g.args[n.id], 0, math.MaxInt32)
			*n.into = uint32(value)
		}
	}
	if s.Lower > s.Upper {
		p.reportf(g.args[optLower].value.column, "-y %d is over -x %d: the lower threshold, where new connections begin again, is at most the upper one", s.Lower, s.Upper)
	}
	if !g.has[optServer] {
		p.report(g.command, "no real server: -r ADDRESS:PORT")
		return
	}
	a := g.args[optServer]
	addr, port, hasPort, readable := p.addrPort(a)
	if !readable || service == nil {
		return
	}
	s.ServerKey, s.place = ServerKey{addr, port}, p.at(a.value.column)
	if !hasPort {
		s.Port = key.Port
	}
	switch {
	case addr.IsUnspecified(), addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		p.reportf(a.value.column, "%s is no address of a single host", addr)
	case addr.Is6() != key.IPv6 && s.Forward != Tunneling:
		p.reportf(a.value.column, "%s and service %s are of different families, which is for tunnels (-i) only", addr, key)
	}
	if key.FWMark == 0 && s.Forward != Masquerade && s.Port != key.Port {
		p.warnf(a.value.column, "port %d becomes %d: direct routing and tunnels cannot change the port of the service (ipvsadm does the same)", s.Port, key.Port)
		s.Port = key.Port
	}
	service.Servers = append(service.Servers, s)
}

func (p *parser) tunnel(g *given, forward Forward) Tunnel {
	var t Tunnel
	if forward != Tunneling {
		for _, id := range []optionID{optTunnelType, optTunnelPort, optTunnelNoChecksum, optTunnelChecksum, optTunnelRemoteChecksum} {
			if g.has[id] {
				p.reportf(g.args[id].column, "%s is for tunnels: it needs -i", g.args[id].option)
			}
		}
		return t
	}
	if a := g.args[optTunnelType]; g.has[optTunnelType] {
		switch a.value.text {
		case "ipip":
		case "gue":
			t.Type = GUE
		case "gre":
			t.Type = GRE
		default:
			p.reportf(a.value.column, "unknown tunnel type %s: ipip, gue or gre", quote(a.value.text))
			return t
		}
	}
	if a := g.args[optTunnelPort]; g.has[optTunnelPort] {
		port, _ := p.number(a, 1, math.MaxUint16)
		t.Port = uint16(port)
		if t.Type != GUE {
			p.reportf(a.column, "--tun-port is for --tun-type gue")
		}
	} else if t.Type == GUE {
		p.reportf(g.args[optTunnelType].column, "--tun-type gue needs --tun-port: the UDP port where the server decapsulates")
	}
	if a, ok := g.oneOf(p, optTunnelNoChecksum, optTunnelChecksum, optTunnelRemoteChecksum); ok {
		switch {
		case t.Type == IPIP:
			p.reportf(a.column, "%s is for --tun-type gue and gre", a.option)
		case t.Type == GRE && a.option.id == optTunnelRemoteChecksum:
			p.reportf(a.column, "%s is for --tun-type gue", a.option)
		}
		switch a.option.id {
		case optTunnelChecksum:
			t.Checksum = Checksum
		case optTunnelRemoteChecksum:
			t.Checksum = RemoteChecksum
		}
	}
	return t
}
