package guest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const keepalivedConf = `
global_defs {
    router_id vm
}
virtual_server 192.0.2.100 80 {
    lvs_sched wlc
    lvs_method DR
    protocol TCP
    persistence_timeout 50
    real_server 198.51.100.1 80 {
        weight 3
    }
    real_server 198.51.100.2 80 {
        weight 4
    }
}
virtual_server 2001:db8::100 53 {
    lvs_sched rr
    lvs_method TUN
    protocol UDP
    real_server 2001:db8:f::1 53 {
        weight 5
    }
}
`

// TestKeepalived: a sync that is limited to our VIPs leaves alone what
// keepalived has in the table, and what somebody has put there by hand.
func TestKeepalived(t *testing.T) {
	start(t)
	const (
		first = "-A -t 192.0.2.1:80 -s wrr\n-a -t 192.0.2.1:80 -r 198.51.100.1 -w 1 -x 8 -y 4\n-A -t [2001:db8::1]:80 -s rr\n-A -u 192.0.2.18:53 -s rr -o\n"
		then  = "-A -t 192.0.2.1:80 -s mh -b mh-port\n-a -t 192.0.2.1:80 -r 198.51.100.2 -w 2\n-A -u 192.0.2.17:53 -s rr\n"
		none  = "\n"
	)
	ours := map[string][]string{}
	for _, rules := range []string{first, then, none} {
		ours[rules] = stateOf(t, rules)["netlink"]
	}

	dir := t.TempDir()
	conf := write(t, "keepalived.conf", keepalivedConf)
	k := prepare("", "keepalived", "--dont-fork", "--log-console", "--check", "--use-file", conf,
		"--pid", filepath.Join(dir, "pid"), "--checkers_pid", filepath.Join(dir, "checkers.pid"))
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		k.Process.Signal(syscall.SIGTERM)
		k.Wait()
		k.cancel()
	}
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Logf("keepalived:\n%s%s", k.out.String(), k.err.String())
		}
	})
	waitFor(t, soon, func() error {
		if n := entries(t); n != 5 {
			return fmt.Errorf("keepalived has put %d services and servers there, want 5", n)
		}
		return nil
	})
	// By hand: beside our VIPs, and a firewall mark, which has no address.
	restore(t, "-A -t 192.0.2.101:80 -s rr\n-a -t 192.0.2.101:80 -r 198.51.100.1 -w 9 -x 5 -y 2\n-A -f 7 -s rr\n-a -f 7 -r 198.51.100.1\n")
	foreign := rawDump(t)
	if len(foreign) != 9 {
		t.Fatalf("%d entries: %q", len(foreign), foreign)
	}

	owned := write(t, "owned", "192.0.2.1\n2001:db8::1\n192.0.2.16/28\n")
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"owned-vips", []string{"--owned-vips", "192.0.2.1,2001:db8::1,192.0.2.16/28"}},
		{"owned-from", []string{"--owned-from", owned}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, rules := range []string{first, then, first, none} {
				when := fmt.Sprint("change ", i+1)
				want := ours[rules]
				file := write(t, "ours.rules", rules)
				s := syncFile(t, file, c.flags...)
				holdsRaw(t, joined(want, foreign), when)
				if s.edits() == 0 {
					t.Errorf("%s: %s", when, s)
				}
				if s := syncFile(t, file, c.flags...); s.edits() != 0 || s.Unchanged != len(want) {
					t.Errorf("%s once more: %s", when, s)
				}
				if r := run(t, append([]string{"lb-render", "ipvs", "diff", file}, c.flags...)...); r.code != 0 || r.stdout != "" {
					t.Error(r)
				}
			}
			// A rule that is not ours to make.
			before := rawDump(t)
			file := write(t, "foreign.rules", first+"-A -t 192.0.2.100:80 -s rr\n")
			r := run(t, append([]string{"lb-render", "ipvs", "sync", file}, c.flags...)...)
			if at := file + ":5:"; r.code != 1 || !strings.Contains(r.stderr, at) {
				t.Errorf("want exit code 1, and a fault at %s: %s", at, r)
			}
			holdsRaw(t, before, "a file that was refused")
		})
	}

	// Ours outlive keepalived's own.
	want := ours[first]
	syncFile(t, write(t, "ours.rules", first), "--owned-from", owned)
	end()
	var left []string
	for _, line := range foreign {
		if !strings.Contains(line, fmt.Sprintf("addr=%x", []byte{192, 0, 2, 100})) && !strings.Contains(line, "addr=20010db8000000000000000000000100") {
			left = append(left, line)
		}
	}
	holdsRaw(t, joined(want, left), "after keepalived's end")
}

func joined(a, b []string) []string {
	return slices.Sorted(slices.Values(slices.Concat(a, b)))
}
