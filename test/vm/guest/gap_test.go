package guest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

const (
	changes  = 20
	interval = 600 * time.Millisecond // from one change to the next, if it takes no longer
)

// ruleSets are two of 398 lines each. All weights differ, and one service; one
// of those that stay is the one that the client uses. That has one server, so
// that it would be missed if it went for the moment between two netlink calls.
func ruleSets() (a, b string) {
	return ruleSet(1, "192.0.2.201"), ruleSet(2, "192.0.2.202")
}

func ruleSet(weight int, other string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "-A -t %s:%s -s wrr\n", vip, servicePort)
	fmt.Fprintf(&s, "-a -t %s:%s -r %s:%s -m -w %d\n", vip, servicePort, realServers[0], serverPort, weight)
	service := func(address string, servers int) {
		fmt.Fprintf(&s, "-A -t %s:443 -s wrr\n", address)
		for j := range servers {
			fmt.Fprintf(&s, "-a -t %s:443 -r 198.51.100.%d:443 -g -w %d\n", address, 11+j, weight+j)
		}
	}
	service("192.0.2.10", 7)
	for i := range 77 {
		service(fmt.Sprint("192.0.2.", 11+i), 4)
	}
	service(other, 2)
	return s.String()
}

// TestNoGap: nobody notices a change by sync. The same changes by ipvsadm do
// harm, which shows that this test would see it.
func TestNoGap(t *testing.T) {
	start(t)
	network(t)
	a, b := ruleSets()
	if n := strings.Count(a, "\n"); n != 398 || strings.Count(b, "\n") != n {
		t.Fatalf("the rule sets have %d and %d lines", n, strings.Count(b, "\n"))
	}
	files := []string{write(t, "a.rules", a), write(t, "b.rules", b)}
	want := []state{stateOf(t, a), stateOf(t, b)}

	t.Run("sync", func(t *testing.T) {
		syncFile(t, files[0])
		var slowest time.Duration
		inside, passes := 0.0, 0
		o := underLoad(t, changes, func(i int) {
			r := run(t, "lb-render", "ipvs", "sync", files[(i+1)%2], "--json")
			if r.code != 0 {
				t.Fatal(r)
			}
			slowest = max(slowest, r.took)
			s := summaryOf(t, r)
			inside, passes = inside+s.Duration, passes+s.Passes
			if s.Created != 3 || s.Updated != 316 || s.Deleted != 3 || s.Unchanged != 79 {
				t.Errorf("change %d, of 320 edits: %s", i+1, s)
			}
		})
		figure(t, "ipvs sync: %s; slowest of %d changes %s, slowest connection %s", o, changes, slowest.Round(time.Millisecond), o.Slowest.Round(time.Millisecond))
		t.Logf("a change takes %.3f s by its own account, in %.1f passes", inside/changes, float64(passes)/changes)
		if o.Failed != 0 || o.Alive != longLived {
			t.Errorf("%v %q", o.Errors, o.LongLivedErrors)
		}
		if o.New < changes*perSecond/2 || o.Exchanges < longLived*changes {
			t.Errorf("only %d connections and %d exchanges of the long-lived ones: too few to prove anything", o.New, o.Exchanges)
		}
		must(t, "lb-render", "ipvs", "diff", files[0])
		withoutConnections(t, want[0], files[0])
	})

	t.Run("ipvsadm", func(t *testing.T) {
		reset(t, a)
		o := underLoad(t, changes/4, func(i int) { // which is enough
			must(t, "sh", "-c", "ipvsadm -C && ipvsadm -R < "+files[(i+1)%2])
		})
		figure(t, "ipvsadm -C; ipvsadm -R: %s", o)
		t.Logf("%v %q", o.Errors, o.LongLivedErrors)
		if o.Failed == 0 {
			t.Error("no failures: the load would not show a gap")
		}
	})
}

// withoutConnections compares the table with want, where connections that end count in most views.
func withoutConnections(t *testing.T, want state, when string) {
	t.Helper()
	holdsRaw(t, want["netlink"], when)
	if d := difference(sorted(must(t, "ipvsadm", "-Sn")), want["ipvsadm -Sn"]); d != "" {
		t.Errorf("%s: ipvsadm -Sn has (+) and lacks (-)\n%s", when, d)
	}
}

// underLoad makes the changes while a client is at work, and returns what that saw.
func underLoad(t *testing.T, changes int, change func(i int)) outcome {
	t.Helper()
	client := inNamespace(t, "client", "client", net.JoinHostPort(vip, servicePort))
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := range changes {
		<-tick.C
		change(i)
	}
	<-tick.C
	return client.finish(t)
}
