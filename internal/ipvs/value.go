package ipvs

import (
	"net/netip"
	"strconv"
	"strings"
)

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
