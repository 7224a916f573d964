package ipvs

import (
	"fmt"
	"math"
	"slices"
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
