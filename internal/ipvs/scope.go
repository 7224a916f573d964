package ipvs

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Scope is the part of the table that a rules file speaks for. The zero value
// is all of it.
type Scope struct {
	limited  bool
	prefixes []netip.Prefix
	marks    map[uint32]bool
}

// ParseScope reads what is owned: addresses, prefixes such as 192.0.2.0/24, and
// firewall marks as fwmark:5, which are both families'. Between them are commas
// or blanks; from a # to the end of its line is a comment. name is that of the
// option or file, for messages.
func ParseScope(name, text string) (Scope, error) {
	s := Scope{limited: true, marks: map[uint32]bool{}}
	var faults []*Fault
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "#")
		for _, w := range splitWords(nil, strings.ReplaceAll(line, ",", " ")) {
			if err := s.add(w.text); err != nil {
				faults = append(faults, &Fault{name, number, w.column, err.Error()})
			}
		}
	}
	return s, inOrder(faults)
}

func (s *Scope) add(text string) error {
	if mark, ok := strings.CutPrefix(text, "fwmark:"); ok {
		n, err := strconv.ParseUint(mark, 10, 32)
		if err != nil || n == 0 {
			return fmt.Errorf("%s: a firewall mark is a number from 1 to 4294967295", quote(text))
		}
		s.marks[uint32(n)] = true
		return nil
	}
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return fmt.Errorf("%s is no prefix like 192.0.2.0/24", quote(text))
		}
		if p.Masked() != p {
			return fmt.Errorf("%s has bits behind the prefix: write %s, or the address alone", quote(text), p.Masked())
		}
		s.prefixes = append(s.prefixes, p)
		return nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return fmt.Errorf("%s is no VIP: write addresses, prefixes, or fwmark:N", quote(text))
	}
	s.prefixes = append(s.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
	return nil
}

// Empty says whether nothing is owned.
func (s *Scope) Empty() bool { return s.limited && len(s.prefixes) == 0 && len(s.marks) == 0 }

// Owns says whether a service is ours.
func (s *Scope) Owns(key ServiceKey) bool {
	if !s.limited {
		return true
	}
	if key.FWMark != 0 {
		return s.marks[key.FWMark]
	}
	for _, p := range s.prefixes {
		if p.Contains(key.Address) {
			return true
		}
	}
	return false
}

// Within is the part of the rules that is ours.
func (s *Scope) Within(r *Rules) *Rules {
	if !s.limited {
		return r
	}
	owned := &Rules{}
	for i := range r.Services {
		if s.Owns(r.Services[i].ServiceKey) {
			owned.Services = append(owned.Services, r.Services[i])
		}
	}
	return owned
}

// Check is an error for each service of the file that is not ours: to make it
// would be to take what belongs to somebody else.
func (s *Scope) Check(name string, r *Rules) error {
	var faults []*Fault
	for i := range r.Services {
		service := &r.Services[i]
		if s.Owns(service.ServiceKey) {
			continue
		}
		message := fmt.Sprintf("service %s is not among the owned VIPs: add its address to them, or take it out of the file", service.ServiceKey)
		if service.FWMark != 0 {
			message = fmt.Sprintf("service %s is not among the owned VIPs: add fwmark:%d to them, or take it out of the file", service.ServiceKey, service.FWMark)
		}
		faults = append(faults, &Fault{name, int(service.place.line), int(service.place.column), message})
	}
	return inOrder(faults)
}
