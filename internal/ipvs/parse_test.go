package ipvs

import (
	"strings"
	"testing"
)

// TestCanonical: what may be written in more than one way comes out in one.
func TestCanonical(t *testing.T) {
	const tcp = "-A -t 192.0.2.1:80 -s wrr\n"
	tests := map[string]struct{ in, want string }{
		"empty":             {"", ""},
		"blank and comment": {"\n  \t\r\n# a\n   # -A -t nonsense\n", ""},
		"no last newline":   {"-A -t 192.0.2.1:80 -s wrr", tcp},
		"carriage return":   {"-A -t 192.0.2.1:80 -s wrr\r\n", tcp},
		"tabs":              {"\t-A\t-t\t192.0.2.1:80   -s\twrr", tcp},
		"word ipvsadm":      {"ipvsadm -A -t 192.0.2.1:80 -s wrr", tcp},
		"long":              {"--add-service --tcp-service 192.0.2.1:80 --scheduler wrr", tcp},
		"long with =":       {"--add-service --tcp-service=192.0.2.1:80 --scheduler=wrr", tcp},
		"joined":            {"-A -t192.0.2.1:80 -swrr", tcp},
		"short with =":      {"-A -t=192.0.2.1:80 -s=wrr", tcp},
		"bundled":           {"-At 192.0.2.1:80 -s wrr", tcp},
		"bundled, joined":   {"-At192.0.2.1:80 -s wrr", tcp},
		"any order":         {"-A -s wrr -t 192.0.2.1:80", tcp},
		"default scheduler": {"-A -t 192.0.2.1:80", "-A -t 192.0.2.1:80 -s wlc\n"},
		"udp":               {"-A --udp-service 192.0.2.1:53", "-A -u 192.0.2.1:53 -s wlc\n"},
		"sctp":              {"-A --sctp-service 192.0.2.1:53", "-A --sctp-service 192.0.2.1:53 -s wlc\n"},
		"ipv6":              {"-A -t [2001:0DB8:0::1]:80", "-A -t [2001:db8::1]:80 -s wlc\n"},
		"ipv6, every port":  {"-A -t 2001:db8::1 -p", "-A -t [2001:db8::1]:0 -s wlc -p 360\n"},
		"fwmark":            {"-A --fwmark-service 5", "-A -f 5 -s wlc\n"},
		"fwmark ipv6":       {"-A -f 5 --ipv6", "-A -f 5 -6 -s wlc\n"},
		"-6 before -f":      {"-A -6 -f 5", "-A -f 5 -6 -s wlc\n"},
		"both families":     {"-A -f 5 -6\n-A -f 5", "-A -f 5 -s wlc\n-A -f 5 -6 -s wlc\n"},
		"fwmark, most":      {"-A -f 4294967295", "-A -f 4294967295 -s wlc\n"},
		"persistent":        {"-A -t 192.0.2.1:80 -p", "-A -t 192.0.2.1:80 -s wlc -p 360\n"},
		"persistent, time":  {"-A -t 192.0.2.1:80 --persistent 60 -s rr", "-A -t 192.0.2.1:80 -s rr -p 60\n"},
		"persistent, =":     {"-A -t 192.0.2.1:80 --persistent=60", "-A -t 192.0.2.1:80 -s wlc -p 60\n"},
		"persistent, -s":    {"-A -t 192.0.2.1:80 -p -s rr", "-A -t 192.0.2.1:80 -s rr -p 360\n"},
		"every port":        {"-A -t 192.0.2.1:0 -p 5", "-A -t 192.0.2.1:0 -s wlc -p 5\n"},
		"every port, bare":  {"-A -t 192.0.2.1 -p 5", "-A -t 192.0.2.1:0 -s wlc -p 5\n"},
		"mask":              {"-A -t 192.0.2.1:80 -p -M 255.255.255.0", "-A -t 192.0.2.1:80 -s wlc -p 360 -M 255.255.255.0\n"},
		"mask of all":       {"-A -t 192.0.2.1:80 -p --netmask 0.0.0.0", "-A -t 192.0.2.1:80 -s wlc -p 360 -M 0.0.0.0\n"},
		"mask with holes":   {"-A -t 192.0.2.1:80 -p -M 255.0.255.0", "-A -t 192.0.2.1:80 -s wlc -p 360 -M 255.0.255.0\n"},
		"mask, default":     {"-A -t 192.0.2.1:80 -p -M 255.255.255.255", "-A -t 192.0.2.1:80 -s wlc -p 360\n"},
		"mask without -p":   {"-A -t 192.0.2.1:80 -M 255.255.0.0", "-A -t 192.0.2.1:80 -s wlc -M 255.255.0.0\n"},
		"prefix":            {"-A -t [2001:db8::1]:80 -p -M 64", "-A -t [2001:db8::1]:80 -s wlc -p 360 -M 64\n"},
		"prefix, before":    {"-A -M 64 -p -t [2001:db8::1]:80", "-A -t [2001:db8::1]:80 -s wlc -p 360 -M 64\n"},
		"prefix, fwmark":    {"-A -f 5 -6 -p -M 56", "-A -f 5 -6 -s wlc -p 360 -M 56\n"},
		"prefix, default":   {"-A -t [2001:db8::1]:80 -p -M 128", "-A -t [2001:db8::1]:80 -s wlc -p 360\n"},
		"one packet":        {"-A -u 192.0.2.1:53 --ops", "-A -u 192.0.2.1:53 -s wlc -o\n"},
		"one packet, mark":  {"-A -f 1 -o", "-A -f 1 -s wlc -o\n"},
		"mh by number":      {"-A -t 192.0.2.1:80 -s mh -b flag-1,flag-2", "-A -t 192.0.2.1:80 -s mh -b mh-fallback,mh-port\n"},
		"mh by name":        {"-A -t 192.0.2.1:80 -b mh-port,mh-fallback -s mh", "-A -t 192.0.2.1:80 -s mh -b mh-fallback,mh-port\n"},
		"flags, loosely":    {"-A -t 192.0.2.1:80 -s mh -b flag-1,,mh-fallback,", "-A -t 192.0.2.1:80 -s mh -b mh-fallback\n"},
		"scheduler none":    {"-A -t 192.0.2.1:80 -s none", "-A -t 192.0.2.1:80 -s none\n"},
		"sh":                {"-A -t 192.0.2.1:80 -s sh --sched-flags sh-port,flag-3", "-A -t 192.0.2.1:80 -s sh -b sh-port,flag-3\n"},
		"flags of another":  {"-A -t 192.0.2.1:80 -s wrr -b flag-1", "-A -t 192.0.2.1:80 -s wrr -b flag-1\n"},

		"server, defaults":  {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1\n"},
		"server, long":      {tcp + "--add-server --tcp-service 192.0.2.1:80 --real-server 198.51.100.1:80 --gatewaying --weight 7", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 7\n"},
		"zero thresholds":   {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 0 -x 0 -y 0", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 0\n"},
		"thresholds":        {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 -y 5 -x 10", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1 -x 10 -y 5\n"},
		"thresholds, long":  {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 --u-threshold=10 --l-threshold=10", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1 -x 10 -y 10\n"},
		"greatest weight":   {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w 2147483647", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 2147483647\n"},
		"masquerade":        {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:8080 -m", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:8080 -m -w 1\n"},
		"masquerade, bare":  {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 --masquerading", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -m -w 1\n"},
		"ipip":              {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 --ipip --tun-type ipip", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -i -w 1\n"},
		"gue":               {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 6080 --tun-nocsum", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -i -w 1 --tun-type gue --tun-port 6080\n"},
		"gue, checksum":     {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type=gue --tun-port=6080 --tun-remcsum", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -i -w 1 --tun-type gue --tun-port 6080 --tun-remcsum\n"},
		"gre":               {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-csum", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -i -w 1 --tun-type gre --tun-csum\n"},
		"mixed families":    {tcp + "-a -t 192.0.2.1:80 -r [2001:db8::a]:80 -i", tcp + "-a -t 192.0.2.1:80 -r [2001:db8::a]:80 -i -w 1\n"},
		"ipv6 server, bare": {tcp + "-a -t 192.0.2.1:80 -r 2001:db8::a -i", tcp + "-a -t 192.0.2.1:80 -r [2001:db8::a]:80 -i -w 1\n"},
		"server of a mark":  {"-A -f 5 -6\n-a -f 5 -6 -r 2001:db8::a", "-A -f 5 -6 -s wlc\n-a -f 5 -6 -r [2001:db8::a]:0 -g -w 1\n"},
		"mark, own port":    {"-A -f 5\n-a -f 5 -r 198.51.100.1:81", "-A -f 5 -s wlc\n-a -f 5 -r 198.51.100.1:81 -g -w 1\n"},
		"server, two ports": {tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:2 -m\n-a -t 192.0.2.1:80 -r 198.51.100.1:1 -m", tcp + "-a -t 192.0.2.1:80 -r 198.51.100.1:1 -m -w 1\n-a -t 192.0.2.1:80 -r 198.51.100.1:2 -m -w 1\n"},
		"sorted": {
			"-A -f 1 -s rr\n-A -t [2001:db8::1]:80 -s rr\n-A -u 192.0.2.10:80 -s rr\n-A -t 192.0.2.10:80 -s rr\n-A -t 192.0.2.9:443 -s rr\n-A -t 192.0.2.9:80 -s rr\n-a -t 192.0.2.10:80 -r 198.51.100.10\n-a -t 192.0.2.10:80 -r 198.51.100.9\n-a -u 192.0.2.10:80 -r 198.51.100.9",
			"-A -t 192.0.2.9:80 -s rr\n-A -t 192.0.2.9:443 -s rr\n-A -t 192.0.2.10:80 -s rr\n-a -t 192.0.2.10:80 -r 198.51.100.9:80 -g -w 1\n-a -t 192.0.2.10:80 -r 198.51.100.10:80 -g -w 1\n-A -u 192.0.2.10:80 -s rr\n-a -u 192.0.2.10:80 -r 198.51.100.9:80 -g -w 1\n-A -t [2001:db8::1]:80 -s rr\n-A -f 1 -s rr\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := Parse("f", test.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.String(); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			if len(p.Warnings) > 0 {
				t.Errorf("warnings: %v", p.Warnings)
			}
			if again := mustParse(t, p.String()); !again.Equal(&p.Rules) {
				t.Errorf("what is printed means something else")
			}
		})
	}
}

// TestFaults: each mistake has its place and says what to do. Several faults of
// one input are in the order of their places, with | between.
func TestFaults(t *testing.T) {
	const service = "-A -t 192.0.2.1:80 -s wrr\n"
	tests := []struct{ in, want string }{
		{"hello", `f:1:1: unexpected argument "hello"`},
		{"-A -t 192.0.2.1:80 # the web", `f:1:20: a comment has a line of its own`},
		{"-t 192.0.2.1:80 -A", `f:1:1: a line begins with -A (a service) or -a (a real server), not with -t`},
		{"-E -t 192.0.2.1:80", `f:1:1: -E is no line of a rules file: it has -A and -a lines only, and says what shall be there, not what to do`},
		{"--clear", `f:1:1: -C is no line of a rules file: it has -A and -a lines only, and says what shall be there, not what to do`},
		{"-A -a -t 192.0.2.1:80", `f:1:4: -a after -A: a line has one command, its first option`},
		{"-A -D -t 192.0.2.1:80", `f:1:4: -D does not belong to -A`},
		{"-A -n -t 192.0.2.1:80", `f:1:4: -n does not belong to -A`},
		{"-A --wat -t 192.0.2.1:80", `f:1:4: unknown option "--wat"`},
		{"--wat", `f:1:1: unknown option "--wat"`},
		{"-A -t 192.0.2.1:80 -Q", `f:1:20: unknown option "-Q"`},
		{"-AQ -t 192.0.2.1:80", `f:1:3: unknown option "-Q"`},
		{"-A --ops=1 -u 192.0.2.1:80", `f:1:4: -o takes no value`},
		{"-", `f:1:1: unexpected argument "-"`},
		{"--", `f:1:1: unexpected argument "--"`},
		{"-A", `f:1:1: no service: -t, -u or --sctp-service with ADDRESS:PORT, or -f with a firewall mark`},
		{"-A -t", `f:1:1: no service: -t, -u or --sctp-service with ADDRESS:PORT, or -f with a firewall mark|f:1:4: -t needs a value: ADDRESS:PORT`},
		{"-A -t 192.0.2.1:80 -t 192.0.2.2:80", `f:1:20: -t is there twice`},
		{"-A -t 192.0.2.1:80 -u 192.0.2.1:80", `f:1:20: -t and -u exclude each other`},
		{"-A -f 1 -t 192.0.2.1:80", `f:1:9: -f and -t exclude each other`},
		{"-A -f 0", `f:1:7: -f "0": must be a number from 1 to 4294967295`},
		{"-A -f 4294967296", `f:1:7: -f "4294967296": must be a number from 1 to 4294967295`},
		{"-A -f 0x5", `f:1:7: -f "0x5": must be a number from 1 to 4294967295`},
		{"-A -t 192.0.2.1:80 -6", `f:1:20: -6 belongs to -f; the address after -t says its family`},
		{"-A -t lb.example.org:80", `f:1:7: "lb.example.org" is no IP address: names are not resolved (ipvsadm-save -n writes addresses)`},
		{"-A -t 192.0.2.1:http", `f:1:17: "http" is no port from 0 to 65535: names are not resolved (ipvsadm-save -n writes numbers)`},
		{"-A -t 192.0.2.1:65536", `f:1:17: "65536" is no port from 0 to 65535`},
		{"-A -t 192.0.2.1:", `f:1:17: "" is no port from 0 to 65535`},
		{"-A -t 192.0.2.1:-1", `f:1:17: "-1" is no port from 0 to 65535`},
		{"-A -t 192.0.2.01:80", `f:1:7: "192.0.2.01" is no IP address`},
		{"-A -t 10.1:80", `f:1:7: "10.1" is no IP address`},
		{"-A -t 192.0.2.1/24:80", `f:1:7: "192.0.2.1/24" is no IP address`},
		{"-A -t :80", `f:1:7: "" is no IP address`},
		{"-A -t [2001:db8::1", `f:1:7: "[2001:db8::1": the bracket is not closed`},
		{"-A -t [2001:db8::1]80", `f:1:20: "[2001:db8::1]80": after the bracket comes a colon and the port`},
		{"-A -t [192.0.2.1]:80", `f:1:7: "[192.0.2.1]:80": brackets are for IPv6`},
		{"-A -t [fe80::1%eth0]:80", `f:1:7: "fe80::1%eth0": IPVS knows no zones`},
		{"-A -t [::ffff:192.0.2.1]:80", `f:1:7: "::ffff:192.0.2.1" is an IPv4 address in the clothes of IPv6: write 192.0.2.1`},
		{"-A -t 0.0.0.0:80", `f:1:7: no packet goes to 0.0.0.0: write the VIP, or mark packets and use -f`},
		{"-A -t 192.0.2.1", `f:1:7: port 0 (every port) is for persistent services: give a port, or -p`},
		{"-A -t 2001:db8::1:80", `f:1:7: port 0 (every port) is for persistent services: give a port, or -p`},
		{"-A -t 192.0.2.1:80 -s", `f:1:20: -s needs a value: a scheduler such as wrr`},
		{"-A -t 192.0.2.1:80 -s wwr", `f:1:23: unknown scheduler "wwr": one of dh, fo, lblc, lblcr, lc, mh, none, nq, ovf, rr, sed, sh, twos, wlc, wrr`},
		{"-A -t 192.0.2.1:80 --scheduler=wwr", `f:1:32: unknown scheduler "wwr": one of dh, fo, lblc, lblcr, lc, mh, none, nq, ovf, rr, sed, sh, twos, wlc, wrr`},
		{"-A -t 192.0.2.1:80 -swwr", `f:1:22: unknown scheduler "wwr": one of dh, fo, lblc, lblcr, lc, mh, none, nq, ovf, rr, sed, sh, twos, wlc, wrr`},
		{"-A -t 192.0.2.1:80 -s sh -b sh-port,mh-port", `f:1:37: flag mh-port is of scheduler mh, not of "sh"`},
		{"-A -t 192.0.2.1:80 -s sh -b flag-4", `f:1:29: unknown flag "flag-4": flag-1, flag-2 and flag-3, or sh-fallback, sh-port, mh-fallback and mh-port`},
		{"-A -t 192.0.2.1:80 -s sh -b ,", `f:1:29: -b needs a value: flags such as flag-1,flag-2`},
		{"-A -t 192.0.2.1:80 -s -p", `f:1:20: -s needs a value: a scheduler such as wrr`},
		{"-A -t 192.0.2.1:80 --scheduel rr -Q 5 -p", `f:1:20: unknown option "--scheduel"|f:1:34: unknown option "-Q"`},
		{"A -t 192.0.2.1:80\n-a -t 192.0.2.1:80 -r 198.51.100.1", `f:1:1: unexpected argument "A"`},
		{"web\n-a -t 192.0.2.1:80 -r 198.51.100.1", `f:1:1: unexpected argument "web"`},
		{"-B -t 192.0.2.1:80\n-a -t 192.0.2.1:80 -r 198.51.100.1", `f:1:1: unknown option "-B"`},
		{"-A -t 192.0.2.1:80 -p 0", `f:1:23: -p "0": must be a number from 1 to 2678400`},
		{"-A -t 192.0.2.1:80 -p 2678401", `f:1:23: -p "2678401": must be a number from 1 to 2678400`},
		{"-A -t 192.0.2.1:80 -p 5m", `f:1:23: -p "5m": must be a number from 1 to 2678400`},
		{"-A -t 192.0.2.1:80 -p -M 24", `f:1:26: "24" is no mask of IPv4: write it like 255.255.255.0`},
		{"-A -t [2001:db8::1]:80 -p -M 255.255.255.0", `f:1:30: -M "255.255.255.0": must be a number from 1 to 128`},
		{"-A -t [2001:db8::1]:80 -p -M 129", `f:1:30: -M "129": must be a number from 1 to 128`},
		{"-A -t 192.0.2.1:80 -o", `f:1:20: -o (one-packet scheduling) is for UDP and firewall marks, not for TCP`},
		{"-A -u 192.0.2.1:5060 -p --pe sip", `f:1:25: --pe is not supported: an edit over netlink would drop the persistence engine from a service that serves; keep such services out of this file and out of --owned-vips`},
		{"-A -t 192.0.2.1:80 -r 198.51.100.1:80", `f:1:20: -r does not belong to -A`},
		{"-A -t 192.0.2.1:80\n-A -u 192.0.2.1:80\n\n-A -t 192.0.2.1:80", `f:4:7: service 192.0.2.1:80/TCP is there twice: first in line 1`},
		{"-A -f 7 -6\n-A -f 7 -6", `f:2:7: service fwmark 7 (IPv6) is there twice: first in line 1`},
		{"-a -t 192.0.2.1:80 -r 198.51.100.1:80", `f:1:7: no service 192.0.2.1:80/TCP above this line: its -A line comes before its real servers`},
		{"-a -t 192.0.2.1:80 -r 198.51.100.1:80\n-A -t 192.0.2.1:80", `f:1:7: no service 192.0.2.1:80/TCP above this line: its -A line comes before its real servers`},
		{"-A -t foo:80\n-a -t foo:80 -r 198.51.100.1:80", `f:1:7: "foo" is no IP address: names are not resolved (ipvsadm-save -n writes addresses)|f:2:7: "foo" is no IP address: names are not resolved (ipvsadm-save -n writes addresses)`},
		// What follows from the mistake of another line is not told.
		{"-A -t 192.0.2.l:80\n-a -t 192.0.2.1:80 -r 198.51.100.1:80", `f:1:7: "192.0.2.l" is no IP address: names are not resolved (ipvsadm-save -n writes addresses)`},
		{"-A -t 192.0.2.1:80 -s wwr\n-a -t 192.0.2.1:80 -r 198.51.100.1:80", `f:1:23: unknown scheduler "wwr": one of dh, fo, lblc, lblcr, lc, mh, none, nq, ovf, rr, sed, sh, twos, wlc, wrr`},
		{service + "-a -t 192.0.2.1:80", `f:2:1: no real server: -r ADDRESS:PORT`},
		{service + "-a -t 192.0.2.1:80 -r", `f:2:1: no real server: -r ADDRESS:PORT|f:2:20: -r needs a value: ADDRESS:PORT`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -s wrr", `f:2:36: -s does not belong to -a`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -g -i", `f:2:39: -g and -i exclude each other`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -g -g", `f:2:39: -g is there twice`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w -1", `f:2:39: -w "-1": must be a number from 0 to 2147483647`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w 2147483648", `f:2:39: -w "2147483648": must be a number from 0 to 2147483647`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w 1.5", `f:2:39: -w "1.5": must be a number from 0 to 2147483647`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -x 5 -y 6", `f:2:44: -y 6 is over -x 5: the lower threshold, where new connections begin again, is at most the upper one`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -y 6", `f:2:39: -y 6 is over -x 0: the lower threshold, where new connections begin again, is at most the upper one`},
		{service + "-a -t 192.0.2.1:80 -r [2001:db8::a]:80 -m", `f:2:23: 2001:db8::a and service 192.0.2.1:80/TCP are of different families, which is for tunnels (-i) only`},
		{service + "-a -t 192.0.2.1:80 -r 224.0.0.1", `f:2:23: 224.0.0.1 is no address of a single host`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 --tun-type gre", `f:2:36: --tun-type is for tunnels: it needs -i`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -m --tun-csum", `f:2:39: --tun-csum is for tunnels: it needs -i`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type vxlan", `f:2:50: unknown tunnel type "vxlan": ipip, gue or gre`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue", `f:2:39: --tun-type gue needs --tun-port: the UDP port where the server decapsulates`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-port 5", `f:2:54: --tun-port is for --tun-type gue`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-port 5", `f:2:39: --tun-port is for --tun-type gue`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 0", `f:2:65: --tun-port "0": must be a number from 1 to 65535`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-csum", `f:2:39: --tun-csum is for --tun-type gue and gre`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-remcsum", `f:2:54: --tun-remcsum is for --tun-type gue`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gue --tun-port 5 --tun-csum --tun-nocsum", `f:2:78: --tun-csum and --tun-nocsum exclude each other`},
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1\n-a -t 192.0.2.1:80 -r 198.51.100.2\n-a -t 192.0.2.1:80 -r 198.51.100.1:80 -i", `f:4:23: real server 198.51.100.1:80 of service 192.0.2.1:80/TCP is there twice: first in line 2`},
		// A direct server's port is the service's, so these two are one.
		{service + "-a -t 192.0.2.1:80 -r 198.51.100.1:80\n-a -t 192.0.2.1:80 -r 198.51.100.1:81", `f:3:23: real server 198.51.100.1:80 of service 192.0.2.1:80/TCP is there twice: first in line 2`},
		{"-A -t 192.0.2.1:80 -s " + strings.Repeat("x", 100), `f:1:23: unknown scheduler "` + strings.Repeat("x", 60) + `"…: one of dh, fo, lblc, lblcr, lc, mh, none, nq, ovf, rr, sed, sh, twos, wlc, wrr`},
		{"-A -t 192.0.2.1:80 -s \"\x00\xff", `f:1:23: unknown scheduler "\"\x00\xff": one of dh, fo, lblc, lblcr, lc, mh, none, nq, ovf, rr, sed, sh, twos, wlc, wrr`},
	}
	for _, test := range tests {
		p, err := Parse("f", test.in)
		if err == nil {
			t.Errorf("%q is taken:\n%s", test.in, p)
			continue
		}
		var got []string
		for _, e := range err.(interface{ WrappedErrors() []error }).WrappedErrors() {
			got = append(got, e.Error())
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%q:\ngot  %s\nwant %s", test.in, strings.Join(got, "|"), test.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	p, err := Parse("f", "-A -t 192.0.2.1:80\n-a -t 192.0.2.1:80 -r 198.51.100.1:8080 -i\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "f:2:23: port 8080 becomes 80: direct routing and tunnels cannot change the port of the service (ipvsadm does the same)"
	if len(p.Warnings) != 1 || p.Warnings[0].Error() != want {
		t.Errorf("got %v\nwant %s", p.Warnings, want)
	}
}
