package guest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// TestDrain: a server that goes gets no new connections for a while, and keeps
// those that it has; then it goes. Nobody waits for a server that has none.
func TestDrain(t *testing.T) {
	start(t)
	network(t)
	service := "-A -t " + vip + ":" + servicePort + " -s rr\n"
	server := func(i int, weight int) string {
		return fmt.Sprintf("-a -t %s:%s -r %s:%s -m -w %d\n", vip, servicePort, realServers[i], serverPort, weight)
	}
	both := write(t, "both.rules", service+server(0, 5)+server(1, 5))
	one := write(t, "one.rules", service+server(1, 5))
	oneTable := stateOf(t, service+server(1, 5))["netlink"]
	draining := stateOf(t, service+server(0, 0)+server(1, 5))["netlink"]

	t.Run("with connections", func(t *testing.T) {
		const seconds = 6
		must(t, "ipvsadm", "-C")
		syncFile(t, both)
		client := inNamespace(t, "client", "client", net.JoinHostPort(vip, servicePort)) // its long-lived ones are on both
		p := begin(t, "", "lb-render", "ipvs", "sync", one, "--json", "--drain", fmt.Sprint(seconds))
		defer p.cancel()
		waitFor(t, soon, func() error {
			if d := difference(rawDump(t), draining); d != "" {
				return fmt.Errorf("the table has (+) and lacks (-)\n%s", d)
			}
			return nil
		})
		drained := time.Now()
		o := client.finish(t) // all this while connections were made, and the old ones used
		if gone := difference(rawDump(t), draining); gone != "" {
			t.Errorf("%s after weight 0, the table has (+) and lacks (-)\n%s", time.Since(drained).Round(time.Millisecond), gone)
		}
		if o.Failed != 0 || o.Alive != longLived {
			t.Errorf("while it drains: %s: %v %q", o, o.Errors, o.LongLivedErrors)
		}
		r := p.wait(t)
		if r.code != 0 {
			t.Fatal(r)
		}
		t.Logf("%s; took %s: %s", o, r.took.Round(time.Millisecond), r.stdout)
		if s := summaryOf(t, r); s.Deleted != 1 || s.Created != 0 {
			t.Error(r)
		}
		holdsRaw(t, oneTable, "after the drain")
	})

	t.Run("until the time is up", func(t *testing.T) {
		const seconds = 4
		must(t, "ipvsadm", "-C")
		syncFile(t, both)
		inNamespace(t, "client", "client", net.JoinHostPort(vip, servicePort)) // stays to the end
		r := run(t, "lb-render", "ipvs", "sync", one, "--drain", fmt.Sprint(seconds))
		if r.code != 0 || r.took < seconds*time.Second {
			t.Errorf("want a sync that takes %d s at least: %s", seconds, r)
		}
		holdsRaw(t, oneTable, "after the drain")
	})

	// Servers that had none: the kernel remembers a server that was deleted, and what is open to it.
	both = write(t, "both.rules", service+server(2, 5)+server(3, 5))
	one = write(t, "one.rules", service+server(3, 5))
	oneTable = stateOf(t, service+server(3, 5))["netlink"]

	t.Run("without connections", func(t *testing.T) {
		must(t, "ipvsadm", "-C")
		syncFile(t, both)
		r := run(t, "lb-render", "ipvs", "sync", one, "--drain", "100") // run waits 120 s
		if r.code != 0 || r.took > 50*time.Second {
			t.Errorf("want a sync that does not wait: %s", r)
		}
		t.Logf("took %s", r.took.Round(time.Millisecond))
		holdsRaw(t, oneTable, "after the drain")
	})

	t.Run("a whole service", func(t *testing.T) {
		must(t, "ipvsadm", "-C")
		syncFile(t, both)
		r := run(t, "lb-render", "ipvs", "sync", write(t, "none.rules", "\n"), "--drain", "100")
		if r.code != 0 || r.took > 50*time.Second {
			t.Errorf("want a sync that does not wait: %s", r)
		}
		if saved := strings.TrimSpace(must(t, "ipvsadm", "-Sn")); saved != "" {
			t.Error(saved)
		}
	})
}
