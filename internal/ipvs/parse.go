package ipvs

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// defaultTimeout of persistence in seconds. The manual page of ipvsadm 1.31 says 300;
	// the program (IPVS_SVC_PERSISTENT_TIMEOUT in libipvs.h) takes this.
	defaultTimeout = 360
	// maxTimeout of persistence in seconds: 31 days, as in ipvsadm.
	maxTimeout = 31 * 86400
)

// Parsed is a rules file that was read.
type Parsed struct {
	Rules
	// Warnings are about lines that mean something else than they seem to say.
	Warnings []*Fault
}

// Parse reads a rules file in the syntax of ipvsadm-save(8): -A and -a lines
// with the options of ipvsadm(8) in their short and long forms. What ipvsadm
// leaves out is filled in, and what it writes in more than one way is brought
// into one form, so that two files that mean the same are Equal. Empty lines
// and lines that begin with # are skipped, and so is the word ipvsadm before a
// command.
//
// name is the file's for messages. The error has every fault of the file, each
// a *Fault; then there are no rules.
//
// It differs from "ipvsadm -R" in that names of hosts and ports are not
// resolved, a scheduler must be a known one, a service or server may be there
// once, and the order of the options of a line does not matter.
func Parse(name, text string) (*Parsed, error) {
	p := parser{file: name, index: map[ServiceKey]int{}}
	for number := 1; text != ""; number++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		p.line = number
		p.parseLine(line)
	}
	p.finish()
	if err := inOrder(p.faults); err != nil {
		return nil, err
	}
	return &Parsed{Rules: Rules{Services: p.services}, Warnings: p.warnings}, nil
}

type parser struct {
	file     string
	line     int
	services []Service
	index    map[ServiceKey]int // in services
	last     int                // service of the line before, which is that of most lines
	faults   []*Fault
	warnings []*Fault
	broken   bool // a line that may have been that of a service could not be read
	// kept from line to line, so that they need not be made anew
	words []word
	args  []argument
	given given
}

func (p *parser) at(column int) place { return place{int32(p.line), int32(column)} }

func (p *parser) report(column int, message string) {
	p.faults = append(p.faults, &Fault{p.file, p.line, column, message})
}

func (p *parser) reportf(column int, format string, args ...any) {
	p.report(column, fmt.Sprintf(format, args...))
}

func (p *parser) warnf(column int, format string, args ...any) {
	p.warnings = append(p.warnings, &Fault{p.file, p.line, column, fmt.Sprintf(format, args...)})
}

func (p *parser) parseLine(line string) {
	p.words = splitWords(p.words[:0], line)
	if len(p.words) > 0 && p.words[0].text == "ipvsadm" {
		p.words = p.words[1:]
	}
	if len(p.words) == 0 || p.words[0].text[0] == '#' {
		return
	}
	before := len(p.faults)
	p.args = splitOptions(p.args[:0], p.words, p.report)
	if len(p.args) == 0 { // and every word is reported
		p.broken = true
		return
	}
	first := p.args[0]
	if first.option.id != optAddService && first.option.id != optAddServer {
		p.broken = true
	}
	switch {
	case first.option.id == optAddService:
		p.parseService(p.sorted(serviceLine))
	case first.option.id == optAddServer:
		p.parseServer(p.sorted(serverLine))
	case len(p.faults) > before && p.faults[before].Column < first.column: // of the command, likely
	case first.option.id == optOther:
		p.reportf(first.column, "%s is no line of a rules file: it has -A and -a lines only, and says what shall be there, not what to do", first.option)
	default:
		p.reportf(first.column, "a line begins with -A (a service) or -a (a real server), not with %s", first.option)
	}
}

// sorted puts the options of the line by their id, and reports those that do not
// belong together.
func (p *parser) sorted(kind lineKind) *given {
	g := &p.given
	g.has = [optionIDs]bool{}
	for i, a := range p.args {
		o := a.option
		switch {
		case i == 0:
			g.command = a.column
		case o.id == optAddService, o.id == optAddServer:
			p.reportf(a.column, "%s after %s: a line has one command, its first option", o, kind)
		case o.on&kind == 0:
			p.reportf(a.column, "%s does not belong to %s", o, kind)
		case g.has[o.id]:
			p.reportf(a.column, "%s is there twice", o)
		default:
			g.has[o.id] = true
			g.args[o.id] = a
		}
	}
	return g
}

// given are the options of a line by their id.
type given struct {
	command int // its column
	has     [optionIDs]bool
	args    [optionIDs]argument // where has says so; elsewhere of a line before
}

// oneOf is the option among ids that is there. More than one is a fault.
func (g *given) oneOf(p *parser, ids ...optionID) (argument, bool) {
	var found argument
	ok := false
	for _, id := range ids {
		if !g.has[id] {
			continue
		}
		if ok {
			first, second := found, g.args[id]
			if second.column < first.column {
				first, second = second, first
			}
			p.reportf(second.column, "%s and %s exclude each other", first.option, second.option)
			continue
		}
		found, ok = g.args[id], true
	}
	return found, ok
}

// parseKey reads which service a line is about; at is its column.
func (p *parser) parseKey(g *given) (key ServiceKey, at int, ok bool) {
	a, ok := g.oneOf(p, optTCP, optUDP, optSCTP, optFWMark)
	if !ok {
		p.report(g.command, "no service: -t, -u or --sctp-service with ADDRESS:PORT, or -f with a firewall mark")
		return ServiceKey{}, g.command, false
	}
	if a.option.id == optFWMark {
		mark, ok := p.number(a, 1, math.MaxUint32)
		return ServiceKey{FWMark: uint32(mark), IPv6: g.has[optIPv6]}, a.value.column, ok
	}
	if six := g.args[optIPv6]; g.has[optIPv6] {
		p.reportf(six.column, "-6 belongs to -f; the address after %s says its family", a.option)
	}
	addr, port, _, ok := p.addrPort(a)
	if !ok {
		return ServiceKey{}, a.value.column, false
	}
	if addr.IsUnspecified() {
		p.reportf(a.value.column, "no packet goes to %s: write the VIP, or mark packets and use -f", addr)
		return ServiceKey{}, a.value.column, false
	}
	key = ServiceKey{Address: addr, Port: port, IPv6: addr.Is6()}
	switch a.option.id {
	case optTCP:
		key.Protocol = TCP
	case optUDP:
		key.Protocol = UDP
	default:
		key.Protocol = SCTP
	}
	return key, a.value.column, true
}

func (p *parser) parseService(g *given) {
	key, at, ok := p.parseKey(g)
	if !ok {
		p.broken = true
	}
	s := Service{ServiceKey: key, Scheduler: defaultScheduler, Netmask: hostNetmask(key.IPv6), place: p.at(g.command)}
	if a := g.args[optScheduler]; g.has[optScheduler] {
		s.Scheduler = a.value.text
		if !knownScheduler(s.Scheduler) {
			p.reportf(a.value.column, "unknown scheduler %s: one of %s", quote(s.Scheduler), strings.Join(schedulers, ", "))
		}
	}
	if g.has[optFlags] {
		s.Flags |= p.schedulerFlags(g.args[optFlags], s.Scheduler)
	}
	if a := g.args[optPersistent]; g.has[optPersistent] {
		s.Flags |= Persistent
		s.Timeout = defaultTimeout
		if a.value.column != 0 {
			seconds, _ := p.number(a, 1, maxTimeout)
			s.Timeout = uint32(seconds)
		}
	}
	if a := g.args[optNetmask]; g.has[optNetmask] && ok {
		s.Netmask = p.netmask(a, key.IPv6)
	}
	if a := g.args[optOnePacket]; g.has[optOnePacket] {
		s.Flags |= OnePacket
		if ok && key.FWMark == 0 && key.Protocol != UDP {
			p.reportf(a.column, "%s (one-packet scheduling) is for UDP and firewall marks, not for %s", a.option, key.Protocol)
		}
	}
	if a := g.args[optEngine]; g.has[optEngine] {
		p.reportf(a.column, "--pe is not supported: an edit over netlink would drop the persistence engine from a service that serves; "+
			"keep such services out of this file and out of --owned-vips")
	}
	if ok && key.FWMark == 0 && key.Port == 0 && s.Flags&Persistent == 0 {
		p.report(at, "port 0 (every port) is for persistent services: give a port, or -p")
	}
	if !ok {
		return
	}
	if first, twice := p.index[key]; twice {
		p.reportf(at, "service %s is there twice: first in line %d", key, p.services[first].place.line)
		p.last = first
		return
	}
	p.last = len(p.services)
	p.index[key] = p.last
	p.services = append(p.services, s)
}

func (p *parser) schedulerFlags(a argument, scheduler string) Flags {
	var flags Flags
	at := a.value.column
	for _, name := range strings.Split(a.value.text, ",") {
		flag, of, ok := flagByName(name)
		switch {
		case name == "": // as in flag-1,,flag-2
		case !ok:
			p.reportf(at, "unknown flag %s: flag-1, flag-2 and flag-3, or sh-fallback, sh-port, mh-fallback and mh-port", quote(name))
		case of != "" && of != scheduler:
			p.reportf(at, "flag %s is of scheduler %s, not of %s", name, of, quote(scheduler))
		}
		flags |= flag
		at += len(name) + 1
	}
	if strings.Trim(a.value.text, ",") == "" {
		p.reportf(a.value.column, "%s needs a value: %s", a.option, a.option.wants)
	}
	return flags
}

func (p *parser) netmask(a argument, ipv6 bool) uint32 {
	if ipv6 {
		length, _ := p.number(a, 1, 128)
		return uint32(length)
	}
	mask, err := netip.ParseAddr(a.value.text)
	if err != nil || !mask.Is4() {
		// ipvsadm reads 24 as 0.0.0.24.
		p.reportf(a.value.column, "%s is no mask of IPv4: write it like 255.255.255.0", quote(a.value.text))
		return 0
	}
	b := mask.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

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

// number reads the value of an option as a decimal number.
func (p *parser) number(a argument, least, most uint64) (uint64, bool) {
	n, err := strconv.ParseUint(a.value.text, 10, 64)
	if err != nil || n < least || n > most {
		p.reportf(a.value.column, "%s %s: must be a number from %d to %d", a.option, quote(a.value.text), least, most)
		return least, false
	}
	return n, true
}

// addrPort reads ADDRESS, ADDRESS:PORT or [IPV6]:PORT.
func (p *parser) addrPort(a argument) (addr netip.Addr, port uint16, hasPort, ok bool) {
	text, at := a.value.text, a.value.column
	host, portText := text, ""
	bracketed := strings.HasPrefix(text, "[")
	if bracketed {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			p.reportf(at, "%s: the bracket is not closed", quote(text))
			return addr, 0, false, false
		}
		host = text[1:end]
		rest := text[end+1:]
		if rest != "" && rest[0] != ':' {
			p.reportf(at+end+1, "%s: after the bracket comes a colon and the port", quote(text))
			return addr, 0, false, false
		}
		if rest != "" {
			hasPort, portText = true, rest[1:]
		}
	} else if i := strings.LastIndexByte(text, ':'); i >= 0 && strings.IndexByte(text, ':') == i {
		host, portText, hasPort = text[:i], text[i+1:], true
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil && looksLikeAddress(host):
		p.reportf(at, "%s is no IP address", quote(host))
		return addr, 0, false, false
	case err != nil:
		p.reportf(at, "%s is no IP address: names are not resolved (ipvsadm-save -n writes addresses)", quote(host))
		return addr, 0, false, false
	case addr.Zone() != "":
		p.reportf(at, "%s: IPVS knows no zones", quote(host))
		return addr, 0, false, false
	case addr.Is4In6():
		p.reportf(at, "%s is an IPv4 address in the clothes of IPv6: write %s", quote(host), addr.Unmap())
		return addr, 0, false, false
	case bracketed && addr.Is4():
		p.reportf(at, "%s: brackets are for IPv6", quote(text))
		return addr, 0, false, false
	}
	if !hasPort {
		return addr, 0, false, true
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		hint := ""
		if portText != "" && (portText[0] < '0' || portText[0] > '9') && portText[0] != '-' {
			hint = ": names are not resolved (ipvsadm-save -n writes numbers)"
		}
		p.reportf(at+len(text)-len(portText), "%s is no port from 0 to 65535%s", quote(portText), hint)
		return addr, 0, false, false
	}
	return addr, uint16(n), true, true
}

// looksLikeAddress says whether somebody meant an address, not a name.
func looksLikeAddress(host string) bool {
	return host == "" || strings.Contains(host, ":") || strings.Trim(host, "0123456789./") == ""
}

// finish sorts, and finds servers that are there twice.
func (p *parser) finish() {
	for i := range p.services {
		s := &p.services[i]
		slices.SortStableFunc(s.Servers, func(a, b Server) int { return a.Compare(b.ServerKey) })
		for j := 1; j < len(s.Servers); j++ {
			if s.Servers[j].ServerKey == s.Servers[j-1].ServerKey {
				p.line = int(s.Servers[j].place.line)
				p.reportf(int(s.Servers[j].place.column), "real server %s of service %s is there twice: first in line %d",
					s.Servers[j].ServerKey, s.ServiceKey, s.Servers[j-1].place.line)
			}
		}
	}
	slices.SortFunc(p.services, func(a, b Service) int { return a.Compare(b.ServiceKey) })
}
