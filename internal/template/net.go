package template

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/lb-render/lb-render/internal/types"
)

// hostName is what may stand where an address can: no character of it means
// anything to a daemon. An IPv6 zone is one part of it.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,252})$`)

// bracket returns an IPv6 address in brackets and any other host as it is. What
// is neither an address nor a host name is an error.
func bracket(host string) (string, error) {
	inner := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		inner = host[1 : len(host)-1]
	}
	if a, err := netip.ParseAddr(inner); err == nil && (a.Zone() == "" || hostName.MatchString(a.Zone())) {
		if a.Is4() {
			return inner, nil
		}
		return "[" + inner + "]", nil
	}
	if !hostName.MatchString(host) {
		return "", fmt.Errorf("%q is neither an address nor a host name", host)
	}
	return host, nil
}

// ipAddress returns an address as keepalived wants it, without brackets. What is
// no address, or has a zone, is an error.
func ipAddress(address string) (string, error) {
	if a, err := netip.ParseAddr(address); err != nil || a.Zone() != "" {
		return "", fmt.Errorf("%q is not an IP address", address)
	}
	return address, nil
}

// hostPort joins a host and a port (a number or text in digits, 0–65535), with
// IPv6 in brackets.
func hostPort(host string, port any) (string, error) {
	h, err := bracket(host)
	if err != nil {
		return "", err
	}
	n, err := number(port)
	if err != nil || n < 0 || n > 65535 {
		return "", fmt.Errorf("%v is not a port", port)
	}
	return h + ":" + strconv.Itoa(n), nil
}

// number reads a whole number, or text in digits.
func number(v any) (int, error) {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return int(r.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int(r.Uint()), nil
	case reflect.Float64:
		if f := r.Float(); f == float64(int(f)) {
			return int(f), nil
		}
	case reflect.String:
		if n, err := strconv.Atoi(r.String()); err == nil && strconv.Itoa(n) == r.String() {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%v (%T) is not a whole number", v, v)
}

// isIPv4 reports whether host is an IPv4 address.
func isIPv4(host string) bool { return types.FamilyOf(host) == types.IPv4 }

// isIPv6 reports whether host is an IPv6 address, without brackets.
func isIPv6(host string) bool { return types.FamilyOf(host) == types.IPv6 }

// Linux takes a TCP_MAXSEG of TCP_MIN_MSS to MAX_TCP_WINDOW (tcp(7), net/tcp.h);
// HAProxy warns of any other when it starts, not when it checks.
const (
	minMSS = 88
	maxMSS = 32767
)

// mss returns the TCP segment size for an MTU in bytes: less 40 for IPv4 and 60
// for IPv6, within what Linux accepts; 0, no limit, for MTU 0. of is a family
// or an address.
func mss(mtu any, of string) (int, error) {
	n, err := number(mtu)
	if err != nil {
		return 0, err
	}
	family := of
	if family != types.IPv4 && family != types.IPv6 {
		family = types.FamilyOf(of)
	}
	headers := 40
	switch {
	case family == types.IPv6:
		headers = 60
	case family == "":
		return 0, fmt.Errorf("%q is neither a family (IPv4, IPv6) nor an address", of)
	}
	if n <= 0 {
		return 0, nil
	}
	return min(max(n-headers, minMSS), maxMSS), nil
}

// vrid returns a VRRP router id, 1–255, that is always the same for s. Two
// texts may get the same one: 255 are few.
func vrid(s string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return int(h.Sum32()%255) + 1
}

// ipvsFlag returns the option of ipvsadm(8) for a forwarding method; "" is g.
func ipvsFlag(method string) (string, error) {
	switch method {
	case "g", "i", "m":
		return "-" + method, nil
	case "":
		return "-g", nil
	}
	return "", fmt.Errorf("unknown forwarding method %q; known are g (direct routing), i (tunnel) and m (masquerade)", method)
}

// ipvsProto returns the option of ipvsadm(8) for a protocol.
func ipvsProto(protocol string) (string, error) {
	switch protocol {
	case "TCP":
		return "-t", nil
	case "UDP":
		return "-u", nil
	case "SCTP":
		return "--sctp-service", nil
	}
	return "", fmt.Errorf("unknown protocol %q; known are TCP, UDP and SCTP", protocol)
}
