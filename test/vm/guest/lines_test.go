package guest

import (
	"fmt"
	"strings"
	"testing"
)

// The services that the servers below belong to.
const someServices = `-A -t 192.0.2.1:80 -s rr
-A -u 192.0.2.1:53 -s rr
-A --sctp-service 192.0.2.1:80 -s rr
-A -t [2001:db8::1]:80 -s rr
-A -t 192.0.2.3:0 -s rr -p
-A -f 1 -s rr
-A -f 1 -6 -s rr
`

// Why we do not do as ipvsadm does.
const (
	names    = "names are not resolved: what they mean may change, or be away, while the table is made"
	legacy   = "an address that only inet_aton reads means something else than it seems to"
	nowhere  = "no packet ever goes there"
	numbers  = "a number has digits"
	brackets = "an IPv6 address may be in brackets without a port, too"
	anyOrder = "the order of options does not matter to us; to ipvsadm, a mask before -6 is one of IPv4"
	desired  = "a rules file says what shall be there, not what to do"
	engines  = "edits would drop the engine"
	comments = "a comment; ipvsadm takes it for an argument"
	once     = "each thing is in a file once"
)

// lines are lines, and who takes them. Where the two differ there is a reason.
var lines = []struct {
	text          string
	ipvsadm, ours bool
	why           string
}{
	// services
	{"-A -t 192.0.2.2:80", true, true, ""},
	{"-A -t 192.0.2.2:80 -s wrr", true, true, ""},
	{"-A -t 192.0.2.2:80 -s", false, false, ""},
	{"-A -t 192.0.2.2:80 -s twice -s rr", false, false, ""},
	{"-A -t 192.0.2.2:80 -s rr -s rr", false, false, ""},
	{"-A -t 192.0.2.2:80 -s none-such", false, false, ""},
	{"-A -t 192.0.2.2:80 -s RR", false, false, ""},
	{"-A", false, false, ""},
	{"-A -s rr", false, false, ""},
	{"-A -t", false, false, ""},
	{"-A -t 192.0.2.2:80 -u 192.0.2.2:80", false, false, ""},
	{"-A -t 192.0.2.2:80 -t 192.0.2.4:80", false, false, ""},
	{"-A -t 192.0.2.2:80 -f 5", false, false, ""},
	{"-A -t 192.0.2.2:65535", true, true, ""},
	{"-A -t 192.0.2.2:65536", false, false, ""},
	{"-A -t 192.0.2.2:-1", false, false, ""},
	{"-A -t 192.0.2.2:", false, false, ""},
	{"-A -t 192.0.2.2:http", true, false, names},
	{"-A -t 192.0.2.2:0080", true, true, ""},
	{"-A -t 192.0.2.2", false, false, ""},
	{"-A -t 192.0.2.2:0", false, false, ""},
	{"-A -t 192.0.2.2 -p", true, true, ""},
	{"-A -t 192.0.2.2:0 -p 5", true, true, ""},
	{"-A -t localhost:80", true, false, names},
	{"-A -t 10.1:80", true, false, legacy},
	{"-A -t 010.0.0.1:80", true, false, legacy},
	{"-A -t 192.0.2.256:80", false, false, ""},
	{"-A -t 0.0.0.0:80", true, false, nowhere},
	{"-A -t [2001:db8::2]:80", true, true, ""},
	{"-A -t [2001:db8::2]", false, false, ""},
	{"-A -t [2001:db8::2] -p", false, true, brackets},
	{"-A -t 2001:db8::2", false, false, ""},
	{"-A -t 2001:db8::2 -p", true, true, ""},
	{"-A -t 2001:db8::2:80 -p", true, true, ""},
	{"-A -t [192.0.2.2]:80", false, false, ""},
	{"-A -t [2001:db8::2:80", false, false, ""},
	{"-A -t [2001:db8::2%lo]:80", false, false, ""},
	{"-A -t [::ffff:192.0.2.2]:80", true, false, legacy},
	{"-A -t [2001:DB8:0::2]:80", true, true, ""},
	{"-A -t 80", false, false, ""},
	{"-A -t 192.0.2.2:80 -6", false, false, ""},
	{"-A -t 192.0.2.1:80 -s rr", false, false, ""},
	{"-A -t 192.0.2.2:80 -r 198.51.100.1", false, false, ""},
	{"-A -t 192.0.2.2:80 -m", false, false, ""},
	{"-A -t 192.0.2.2:80 -w 1", false, false, ""},
	{"-A -t 192.0.2.2:80 -x 1", false, false, ""},
	{"-A -t 192.0.2.2:80 --tun-type gue", false, false, ""},
	{"-A -t 192.0.2.2:80 -n", false, false, ""},
	{"-A -t 192.0.2.2:80 extra", false, false, ""},
	{"-A -t 192.0.2.2:80 --none-such", false, false, ""},
	{"-A -t 192.0.2.2:80 -k", false, false, ""},
	{"-A -A -t 192.0.2.2:80", false, false, ""},
	{"-A -a -t 192.0.2.2:80", false, false, ""},
	{"-t 192.0.2.2:80 -A", false, false, ""},
	{"ipvsadm -A -t 192.0.2.2:80", true, true, ""},
	{"/sbin/ipvsadm -A -t 192.0.2.2:80", false, false, ""},
	{"  -A\t-t  192.0.2.2:80 ", true, true, ""},
	{"-A -t 192.0.2.2:80 # web", false, false, ""},
	{"# web", false, true, comments},
	{"", true, true, ""},
	{"-At 192.0.2.2:80", true, true, ""},
	{"-At192.0.2.2:80 -srr", true, true, ""},
	{"-At=192.0.2.2:80 -s=rr", true, true, ""},
	{"--add-service=1 -t 192.0.2.2:80", false, false, ""},
	{"--add-serv -t 192.0.2.2:80", false, false, ""},
	{"-A --tcp-service=192.0.2.2:80 --scheduler=wlc", true, true, ""},
	{"-A --tcp-service= --scheduler=wlc", false, false, ""},
	{"-A --sctp-service 192.0.2.2:80", true, true, ""},
	{"-A \"-t\" 192.0.2.2:80", false, false, ""},
	// persistence
	{"-A -t 192.0.2.2:80 -p 300", true, true, ""},
	{"-A -t 192.0.2.2:80 -p300", true, true, ""},
	{"-A -t 192.0.2.2:80 -p=300", true, true, ""},
	{"-A -t 192.0.2.2:80 --persistent=300", true, true, ""},
	{"-A -t 192.0.2.2:80 -p 0", false, false, ""},
	{"-A -t 192.0.2.2:80 -p 2678400", true, true, ""},
	{"-A -t 192.0.2.2:80 -p 2678401", false, false, ""},
	{"-A -t 192.0.2.2:80 -p ten", false, false, ""},
	{"-A -t 192.0.2.2:80 -p -1", false, false, ""},
	{"-A -t 192.0.2.2:80 -p 5 -p 5", false, false, ""},
	{"-A -t 192.0.2.2:80 -M 255.255.255.0", true, true, ""},
	{"-A -t 192.0.2.2:80 -p -M 255.255.255.0", true, true, ""},
	{"-A -t 192.0.2.2:80 -p -M 24", true, false, legacy},
	{"-A -t 192.0.2.2:80 -p -M 255.0.255.0", true, true, ""},
	{"-A -t 192.0.2.2:80 -p -M 0.0.0.0", true, true, ""},
	{"-A -t [2001:db8::2]:80 -p -M 64", true, true, ""},
	{"-A -t [2001:db8::2]:80 -p -M 0", false, false, ""},
	{"-A -t [2001:db8::2]:80 -p -M 129", false, false, ""},
	{"-A -t [2001:db8::2]:80 -p -M 255.255.255.0", false, false, ""},
	{"-A -t 192.0.2.2:80 --pe sip", true, false, engines},
	{"-A -u 192.0.2.2:80 -p --pe sip", true, false, engines},
	// flags
	{"-A -t 192.0.2.2:80 -s mh -b mh-port,mh-fallback", true, true, ""},
	{"-A -t 192.0.2.2:80 -s mh -b mh-port -b mh-port", false, false, ""},
	{"-A -t 192.0.2.2:80 -s mh -b mh-port,mh-port", true, true, ""},
	{"-A -t 192.0.2.2:80 -s mh -b sh-port", false, false, ""},
	{"-A -t 192.0.2.2:80 -s sh -b mh-port", false, false, ""},
	{"-A -t 192.0.2.2:80 -s rr -b mh-port", false, false, ""},
	{"-A -t 192.0.2.2:80 -b sh-port", false, false, ""},
	{"-A -t 192.0.2.2:80 -b sh-port -s sh", true, true, ""},
	{"-A -t 192.0.2.2:80 -s sh -b flag-4", false, false, ""},
	{"-A -t 192.0.2.2:80 -s sh -b sh-port,", true, true, ""},
	{"-A -t 192.0.2.2:80 -s sh -b ,", false, false, ""},
	{"-A -t 192.0.2.2:80 -s sh -b none", false, false, ""},
	{"-A -u 192.0.2.2:53 -o", true, true, ""},
	{"-A -t 192.0.2.2:80 -o", false, false, ""},
	{"-A --sctp-service 192.0.2.2:80 -o", false, false, ""},
	{"-A -u 192.0.2.2:53 -o -o", false, false, ""},
	// firewall marks
	{"-A -f 5", true, true, ""},
	{"-A -f 0", false, false, ""},
	{"-A -f -1", false, false, ""},
	{"-A -f 4294967295", true, true, ""},
	{"-A -f 4294967296", false, false, ""},
	{"-A -f 0x10", false, false, ""},
	{"-A -f 5 -6", true, true, ""},
	{"-A -6 -f 5", false, true, anyOrder},
	{"-A -f 5 -6 -6", true, false, once},
	{"-A -f 5 -o", true, true, ""},
	{"-A -f 5 -6 -p -M 64", true, true, ""},
	{"-A -f 5 -p -M 64 -6", true, true, anyOrder},
	// servers
	{"-a -t 192.0.2.1:80 -r 198.51.100.1", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1:8080", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1:8080 -m", true, true, ""},
	{"-a -r 198.51.100.1:8080 -t 192.0.2.1:80 -m", true, true, ""},
	{"-a -t 192.0.2.1:80", false, false, ""},
	{"-a -r 198.51.100.1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r", false, false, ""},
	{"-a -t 192.0.2.99:80 -r 198.51.100.1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -r 198.51.100.2", false, false, ""},
	{"-a -t 192.0.2.1:80 -r localhost", true, false, names},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1:http -m", true, false, names},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1:65536 -m", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 10.1", true, false, legacy},
	{"-a -t 192.0.2.1:80 -r 1", false, false, ""},
	{"-a -t 192.0.2.3:0 -r 198.51.100.1:80 -m", true, true, ""},
	{"-a -t 192.0.2.3:0 -r 198.51.100.1:80 -g", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -s rr", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -p", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -M 255.255.255.0", false, false, ""},
	{"-a -u 192.0.2.1:53 -r 198.51.100.1 -o", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -b flag-1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -g -i", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -m -m", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -gw5", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 0", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w -1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 1 -w 1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w +5", true, false, numbers},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 05", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 0x5", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 5.0", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 2147483647", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -w 2147483648", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -x 65536 -y 65535", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -x -1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -y 5", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -x 5 -y 6", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -x 5 -y 5", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 2001:db8:f::1", false, false, ""},
	{"-a -t 192.0.2.1:80 -r [2001:db8:f::1]:80 -g", false, false, ""},
	{"-a -t 192.0.2.1:80 -r [2001:db8:f::1]:80 -m", false, false, ""},
	{"-a -t 192.0.2.1:80 -r [2001:db8:f::1]:80 -i", true, true, ""},
	{"-a -t [2001:db8::1]:80 -r 198.51.100.1 -g", false, false, ""},
	{"-a -t [2001:db8::1]:80 -r 198.51.100.1 -i", true, true, ""},
	{"-a -t [2001:db8::1]:80 -r [2001:db8:f::1]", false, true, brackets},
	{"-a -t [2001:db8::1]:80 -r [2001:db8:f::1]:8080 -m", true, true, ""},
	{"-a -f 1 -r 198.51.100.1:80 -g", true, true, ""},
	{"-a -f 1 -r 198.51.100.1 -m", true, true, ""},
	{"-a -f 1 -r 2001:db8:f::1 -g", false, false, ""},
	{"-a -f 1 -6 -r [2001:db8:f::1]:0 -g", true, true, ""},
	{"-a -6 -f 1 -r [2001:db8:f::1]:0 -g", false, true, anyOrder},
	{"-a -f 2 -r 198.51.100.1", false, false, ""},
	// tunnels
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type ipip", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 6080", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-port 6080 --tun-type gue", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 0", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 65536", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-port 6080", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type ipip --tun-port 6080", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-port 6080", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type vxlan", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type GUE --tun-port 6080", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-csum", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type ipip --tun-nocsum", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-csum", true, true, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-remcsum", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 6080 --tun-csum --tun-nocsum", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 6080 --tun-csum --tun-remcsum", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -g --tun-type ipip", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 -m --tun-type gue --tun-port 6080", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 --tun-type gre", false, false, ""},
	{"-a -t 192.0.2.1:80 -r 198.51.100.1 --tun-type gre -i", true, true, ""},
	// other commands
	{"-E -t 192.0.2.1:80 -s wrr", true, false, desired},
	{"-D -t 192.0.2.1:80", true, false, desired},
	{"-C", true, false, desired},
	{"-Z", true, false, desired},
	{"-L -n", true, false, desired},
	{"-R", false, false, ""},
	{"--set 900 120 300", true, false, desired},
	{"-d -t 192.0.2.1:80 -r 198.51.100.1", false, false, ""},
}

// TestLines: check takes what ipvsadm takes, but for wanted differences, and
// what both take comes to the same.
func TestLines(t *testing.T) {
	start(t)
	must(t, "modprobe", "ip_vs_pe_sip")
	t.Cleanup(func() {
		must(t, "ipvsadm", "-C")
		must(t, "rmmod", "ip_vs_pe_sip")
	})
	differ := 0
	for _, l := range lines {
		file := write(t, "line.rules", someServices+l.text+"\n")
		check := begin(t, "", "lb-render", "ipvs", "check", file)              // meanwhile
		theirs := runWith(t, "-C\n"+someServices+l.text+"\n", "ipvsadm", "-R") // ends as its last line does
		if (theirs.code == 0) != l.ipvsadm {
			t.Errorf("%q\n%s", l.text, theirs)
		}
		ours := check.wait(t)
		at := fmt.Sprintf("%s:%d:", file, strings.Count(someServices, "\n")+1)
		switch {
		case (ours.code == 0) != l.ours || ours.code > 1:
			t.Errorf("%q: %s(ipvsadm: %d, %s)", l.text, ours, theirs.code, strings.TrimSpace(theirs.stderr))
		case ours.code == 1 && !strings.Contains(ours.stderr, at):
			t.Errorf("%q: no place: %s", l.text, ours)
		}
		differs := ""
		if (theirs.code == 0) != (ours.code == 0) {
			differs = "one takes it, and the other does not"
		}
		if theirs.code == 0 && ours.code == 0 {
			want := rawDump(t)
			must(t, "ipvsadm", "-C")
			syncFile(t, file)
			differs = difference(rawDump(t), want)
		}
		if (differs == "") != (l.why == "") {
			t.Errorf("%q: the reason to differ: %q; the difference: %s", l.text, l.why, differs)
		}
		if l.why != "" {
			differ++
		}
	}
	figure(t, "rules files: of %d lines, check and ipvsadm agree on %d, and differ on %d for a reason", len(lines), len(lines)-differ, differ)
}
