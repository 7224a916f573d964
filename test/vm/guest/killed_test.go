package guest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// manyRules are services with four servers each, all of which differ from those of another weight.
// (Another scheduler as well would only make it slow: the kernel waits for an RCU grace period for each.)
func manyRules(services, weight int, scheduler string) string {
	var s strings.Builder
	for i := range services {
		service := fmt.Sprintf("-t 192.0.2.%d:%d", 10+i%100, 1000+i/100)
		fmt.Fprintf(&s, "-A %s -s %s\n", service, scheduler)
		for j := range 4 {
			fmt.Fprintf(&s, "-a %s -r 198.51.100.%d:%d -g -w %d -x %d -y 1\n", service, 10+j, 1000+i/100, weight+j, weight+10)
		}
	}
	return s.String()
}

// TestKilled: whenever a sync is killed, the next one makes the table right, and
// does not wait for the dead one's lock.
func TestKilled(t *testing.T) {
	start(t)
	const services, kills = 200, 6
	small := manyRules(10, 9, "wlc") + "-A -t [2001:db8::1]:80 -s sh\n-a -t [2001:db8::1]:80 -r [2001:db8:f::1]:80 -i\n"
	big, other := manyRules(services, 1, "rr"), manyRules(services, 5, "rr")
	rules := map[string]string{"empty": "", "small": small, "big": big, "other": other}
	files, want := map[string]string{}, map[string][]string{}
	for name, text := range rules {
		files[name] = write(t, name+".rules", text)
		want[name] = stateOf(t, text)["netlink"]
	}
	for _, c := range []struct{ from, to string }{{"empty", "big"}, {"small", "big"}, {"big", "other"}, {"big", "small"}} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			reset(t, rules[c.from])
			whole := run(t, "lb-render", "ipvs", "sync", files[c.to], "--json")
			if whole.code != 0 {
				t.Fatal(whole)
			}
			holdsRaw(t, want[c.to], "not killed")
			first, last := whole.took-time.Duration(summaryOf(t, whole).Duration*float64(time.Second)), whole.took
			inTheMiddle := 0
			for i := range kills {
				reset(t, rules[c.from])
				p := begin(t, "", "lb-render", "ipvs", "sync", files[c.to])
				if grow := len(want[c.to]) - len(want[c.from]); grow != 0 {
					// Where the table's size changes, that is the better clock.
					waitFor(t, soon, func() error {
						if done := entries(t) - len(want[c.from]); done*kills <= grow*i == (grow > 0) || done == 0 {
							return fmt.Errorf("%d entries more, want %d/%d of %d", done, i, kills, grow)
						}
						return nil
					})
				} else {
					time.Sleep(time.Until(p.started.Add(first + (last-first)*time.Duration(i)/kills)))
				}
				p.Process.Kill()
				p.Wait()
				p.cancel()
				got := rawDump(t)
				if difference(got, want[c.from]) != "" && difference(got, want[c.to]) != "" {
					inTheMiddle++
				}
				r := run(t, "lb-render", "ipvs", "sync", files[c.to])
				if r.code != 0 {
					t.Fatal(r)
				}
				holdsRaw(t, want[c.to], fmt.Sprintf("after kill %d, with %d of %d entries, and another sync", i+1, len(got), len(want[c.to])))
				if r.took > 2*last+10*time.Second {
					t.Errorf("the sync after kill %d took %s, and a whole one %s", i+1, r.took, last)
				}
			}
			t.Logf("%d of %d were killed in the middle; a whole sync takes %s", inTheMiddle, kills, whole.took.Round(time.Millisecond))
			if inTheMiddle == 0 { // how many is a matter of what else this machine does
				t.Error("no kill was in the middle of a sync")
			}
		})
	}
}

// entries counts the services and servers in the table.
func entries(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/net/ip_vs")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n")) - 3 // of its head
}
