package ipvs

import (
	"net/netip"
	"strings"
)

// parseService reads an -A line.
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
