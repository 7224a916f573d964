package ipvs

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// randomText is a rules file of few addresses and ports, so that two of them
// have much in common and differ in everything that may differ.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	for _, service := range []string{
		"-t 192.0.2.1:80", "-u 192.0.2.1:80", "--sctp-service 192.0.2.1:80", "-t 192.0.2.1:81", "-t 192.0.2.2:80",
		"-t [2001:db8::1]:80", "-u [2001:db8::1]:80", "-f 1", "-f 1 -6", "-f 2",
	} {
		if r.IntN(3) == 0 {
			continue
		}
		v6 := strings.Contains(service, "-6") || strings.Contains(service, "2001")
		fmt.Fprintf(&b, "-A %s", service)
		scheduler := pick("rr", "wrr", "sh", "mh")
		if r.IntN(4) > 0 {
			fmt.Fprintf(&b, " -s %s", scheduler)
			if r.IntN(3) == 0 {
				fmt.Fprintf(&b, " -b %s", pick("flag-1", "flag-2", "flag-3", "flag-1,flag-2"))
			}
		}
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, " -p %s", pick("", "60", "360"))
			if r.IntN(2) == 0 {
				if v6 {
					b.WriteString(" -M 64")
				} else {
					b.WriteString(" -M " + pick("255.255.255.0", "0.0.0.0", "255.255.255.255"))
				}
			}
		}
		if r.IntN(3) == 0 && !strings.Contains(service, "-t") && !strings.Contains(service, "sctp") {
			b.WriteString(" -o")
		}
		b.WriteString("\n")
		for i := range r.IntN(6) {
			address := fmt.Sprintf("198.51.100.%d", i)
			if v6 {
				address = fmt.Sprintf("[2001:db8::%x]:80", 16+i)
			}
			if r.IntN(3) == 0 {
				continue
			}
			fmt.Fprintf(&b, "-a %s -r %s -w %d", service, address, r.IntN(3))
			switch r.IntN(3) {
			case 0:
				b.WriteString(" -m")
			case 1:
				b.WriteString(" -i" + pick("", " --tun-type gre", " --tun-type gre --tun-csum", " --tun-type gue --tun-port 6080", " --tun-type gue --tun-port 6081 --tun-remcsum"))
			}
			if r.IntN(3) == 0 {
				b.WriteString(" -x 10" + pick("", " -y 5"))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// likeRecorded is a set of the size and shape of the recorded large ones, times
// scale: 634 services, 19 servers each.
func likeRecorded(scale int) string {
	var b strings.Builder
	vip := netip.MustParseAddr("10.0.0.1")
	for range 634 * scale {
		fmt.Fprintf(&b, "-A -t %s:443 -s mh -b flag-1,flag-2\n", vip)
		server := netip.MustParseAddr("172.16.0.1")
		for i := range 19 {
			fmt.Fprintf(&b, "-a -t %s:443 -r %s:443 -i -w %d -x 0 -y 0\n", vip, server, i%3)
			server = server.Next()
		}
		vip = vip.Next()
	}
	return b.String()
}
