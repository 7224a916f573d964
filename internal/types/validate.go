package types

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kubernetes' own limits: a namespace and a Service are DNS labels (RFC 1123,
// RFC 1035), a port name is one too, of at most 63 characters.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// A label's name (the part behind the slash) and its value.
var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	dnsName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// schedulers are those of the kernel, by the names of ipvsadm(8).
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"}

// flagNames are the scheduler flags that have names, by scheduler (ipvsadm(8), --sched-flags).
var flagNames = map[string]map[string]int{
	"sh": {"sh-fallback": 1, "sh-port": 2},
	"mh": {"mh-fallback": 1, "mh-port": 2},
}

// DefaultScheduler is used where an entry names none.
const DefaultScheduler = "wrr"

// ParseVIP returns the canonical spelling of a virtual address, or why it is
// none. family is IPv4, IPv6 or "" for either.
func ParseVIP(s, family string) (string, error) {
	if s != strings.TrimSpace(s) {
		return "", fmt.Errorf("%q has spaces around the address; remove them", s)
	}
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil && strings.Contains(s, "/"):
		return "", fmt.Errorf("%q is not an address; write it without a prefix length", s)
	case err != nil && lenientVIP(s) != "":
		return "", fmt.Errorf("%q is not an address (%s); did you mean %q?", s, addrFault(s), lenientVIP(s))
	case err != nil:
		return "", fmt.Errorf("%q is not an IP address", s)
	case a.Zone() != "":
		return "", fmt.Errorf("%q has a zone; a VIP is %q", s, a.WithZone(""))
	case a.Is4In6():
		return "", fmt.Errorf("%q is an IPv4-mapped address; write %q in config", s, a.Unmap())
	case a.IsUnspecified(), a.IsMulticast():
		return "", fmt.Errorf("%q cannot be a VIP: it is not a unicast address", s)
	case family == IPv4 && !a.Is4():
		return "", fmt.Errorf("%q is an IPv6 address in a map for IPv4; move it to the map whose name ends in 6", s)
	case family == IPv6 && a.Is4():
		return "", fmt.Errorf("%q is an IPv4 address in a map for IPv6; move it to the map without the 6", s)
	}
	return a.String(), nil
}

func addrFault(s string) string {
	if strings.Contains(s, "%") {
		return "a VIP has no zone"
	}
	for octet := range strings.SplitSeq(s, ".") {
		if len(octet) > 1 && octet[0] == '0' {
			return "leading zeros"
		}
	}
	return "it has more around it than the address"
}

// lenientVIP guesses which address a wrong spelling stands for: the entry that
// was written that way keeps its last valid version. It returns "" for no guess.
func lenientVIP(s string) string {
	s = strings.Trim(strings.TrimSpace(s), "[]")
	s, _, _ = strings.Cut(s, "%")
	s, _, _ = strings.Cut(s, "/")
	octets := strings.Split(s, ".")
	if len(octets) == 4 && !strings.Contains(s, ":") {
		for i, o := range octets {
			if o = strings.TrimLeft(o, "0"); o == "" && octets[i] != "" {
				o = "0"
			}
			octets[i] = o
		}
		s = strings.Join(octets, ".")
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return ""
	}
	return a.Unmap().String()
}

// parsePort reads a port as decimal text: 1–65535, no sign, no leading zero
// (HAProxy reads 010 as 8).
func parsePort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || s != strconv.Itoa(n) {
		return 0, fmt.Errorf("%q is not a port; write a decimal number from 1 to 65535", s)
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %s is out of range; a port is 1 to 65535", s)
	}
	return n, nil
}

func checkPortName(s string) error {
	if s == "" || dnsLabel.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%q is neither the name of a port nor its number in digits", s)
}

func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("is missing; every entry needs one")
	case !dnsLabel.MatchString(s):
		return fmt.Errorf("%q is not a name that Kubernetes allows: at most 63 of a-z, 0-9 and -, not starting or ending in -", s)
	}
	return nil
}

func checkScheduler(s string) error {
	if s == "" || slices.Contains(schedulers, s) {
		return nil
	}
	return fmt.Errorf("unknown scheduler %q; known are %s", s, strings.Join(schedulers, ", "))
}

func checkForwarding(s string) error {
	switch s {
	case "", "g", "i", "m":
		return nil
	}
	return fmt.Errorf("unknown forwarding method %q; known are g (direct routing), i (tunnel) and m (masquerade)", s)
}

// parseFlags reads scheduler flags by name ("mh-port") or number ("flag-2",
// "2") and returns them as ipvsadm prints them by number: "flag-1,flag-2".
func parseFlags(scheduler, s string) (string, error) {
	if s == "" {
		return "", nil
	}
	var set [4]bool
	for f := range strings.SplitSeq(s, ",") {
		n, ok := flagNames[scheduler][f]
		if !ok {
			switch strings.TrimPrefix(f, "flag-") {
			case "1":
				n = 1
			case "2":
				n = 2
			case "3":
				n = 3
			default:
				return "", fmt.Errorf("unknown flag %q of scheduler %s; known are %s", f, or(scheduler, DefaultScheduler), knownFlags(scheduler))
			}
		}
		set[n] = true
	}
	var out []string
	for n, on := range set {
		if on {
			out = append(out, "flag-"+strconv.Itoa(n))
		}
	}
	return strings.Join(out, ","), nil
}

func knownFlags(scheduler string) string {
	known := []string{"flag-1", "flag-2", "flag-3"}
	for name := range flagNames[scheduler] {
		known = append(known, name)
	}
	slices.Sort(known)
	return strings.Join(known, ", ")
}

// checkMTU allows what the protocols do: IPv4 hosts take 68 bytes (RFC 791), IPv6
// links 1280 (RFC 8200); neither header can say more than 65535.
func checkMTU(s, family string) error {
	least := 68
	if family == IPv6 {
		least = 1280
	}
	n, err := strconv.Atoi(s)
	if err != nil || s != strconv.Itoa(n) || n < least || n > 65535 {
		return fmt.Errorf("%q is not an MTU for %s; write a decimal number from %d to 65535", s, family, least)
	}
	return nil
}

func checkLabel(key, value string) error {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	switch {
	case found && (len(prefix) > 253 || !dnsName.MatchString(prefix)), !labelName.MatchString(name):
		return fmt.Errorf("%q is not a label key that Kubernetes allows", key)
	case !labelValue.MatchString(value):
		return fmt.Errorf("%q is not a label value that Kubernetes allows: at most 63 of A-Z, a-z, 0-9, dot, - and _", value)
	}
	return nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
