package guest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// state is the kernel's table, seen in five ways: as ipvsadm saves it, what that
// leaves out, what the kernel prints itself, and its raw attributes, of which
// some are in none of the others (a netmask without persistence). Lines are
// sorted, and those of servers begin with their service.
type state map[string][]string

func readState(t *testing.T) state {
	t.Helper()
	proc, err := os.ReadFile("/proc/net/ip_vs")
	if err != nil {
		t.Fatal(err)
	}
	return state{
		"ipvsadm -Sn":              sorted(must(t, "ipvsadm", "-Sn")),
		"ipvsadm -Ln --thresholds": sorted(must(t, "ipvsadm", "-Ln", "--thresholds")),
		"ipvsadm -Ln --tun-info":   sorted(must(t, "ipvsadm", "-Ln", "--tun-info")),
		"/proc/net/ip_vs":          sorted(string(proc)),
		"netlink":                  rawDump(t),
	}
}

// sorted makes a list of text's lines.
func sorted(text string) []string {
	var lines []string
	service := ""
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ") // columns are as wide as what else is there
		if strings.HasPrefix(line, "->") {
			line = service + " " + line
		} else {
			service = line
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// stateOf is what the kernel holds when ipvsadm has restored rules into an empty table.
func stateOf(t *testing.T, rules string) state {
	t.Helper()
	reset(t, rules)
	s := readState(t)
	must(t, "ipvsadm", "-C")
	return s
}

// missing says where s is not as want, "" if it is.
func (s state) missing(want state) string {
	var b strings.Builder
	for _, view := range slices.Sorted(maps.Keys(want)) {
		if d := difference(s[view], want[view]); d != "" {
			fmt.Fprintf(&b, "%s:\n%s", view, d)
		}
	}
	return b.String()
}

// difference shows what got, a sorted list, has too much (+) and too little (-).
func difference(got, want []string) string {
	var b strings.Builder
	for len(got) > 0 || len(want) > 0 {
		switch {
		case len(want) == 0 || len(got) > 0 && got[0] < want[0]:
			b.WriteString("+ " + got[0] + "\n")
			got = got[1:]
		case len(got) == 0 || want[0] < got[0]:
			b.WriteString("- " + want[0] + "\n")
			want = want[1:]
		default:
			got, want = got[1:], want[1:]
		}
	}
	return head(b.String(), 12)
}

// holds fails the test when the table is not as want.
func holds(t *testing.T, want state, when string) {
	t.Helper()
	if d := readState(t).missing(want); d != "" {
		t.Errorf("%s: the table has (+) and lacks (-)\n%s", when, d)
	}
}

// holdsRaw is holds for the raw attributes alone, which are all there is, and quick.
func holdsRaw(t *testing.T, want []string, when string) {
	t.Helper()
	if d := difference(rawDump(t), want); d != "" {
		t.Errorf("%s: the table has (+) and lacks (-)\n%s", when, d)
	}
}

// TestStateDiffers: every view of the table can tell two tables apart, or the
// tests that compare them hold nothing.
func TestStateDiffers(t *testing.T) {
	start(t)
	const rules = "-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 198.51.100.1 -i\n"
	want := stateOf(t, rules)
	for view, other := range map[string]string{
		"ipvsadm -Sn":              "-A -t 192.0.2.1:80 -s rr -p 300\n-a -t 192.0.2.1:80 -r 198.51.100.1 -i\n",
		"ipvsadm -Ln --thresholds": "-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 198.51.100.1 -i -x 5 -y 3\n",
		"ipvsadm -Ln --tun-info":   "-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 198.51.100.1 -i --tun-type gre --tun-csum\n",
		"/proc/net/ip_vs":          "-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 198.51.100.1 -i -w 2\n",
		"netlink":                  "-A -t 192.0.2.1:80 -s rr -M 255.255.255.0\n-a -t 192.0.2.1:80 -r 198.51.100.1 -i\n",
	} {
		got := stateOf(t, other)
		if difference(got[view], want[view]) == "" {
			t.Errorf("%s does not show\n%s", view, other)
		}
		if difference(got["netlink"], want["netlink"]) == "" {
			t.Errorf("netlink does not show\n%s", other)
		}
	}
	if d := stateOf(t, rules).missing(want); d != "" {
		t.Errorf("the same rules:\n%s", d)
	}
}
