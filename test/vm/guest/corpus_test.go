package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const corpus = "testdata/corpus"

// TestCorpus: whatever the file, sync leaves the table as ipvsadm leaves it, from
// an empty one and from that of every other file, and has nothing to do then.
func TestCorpus(t *testing.T) {
	start(t)
	files, err := filepath.Glob(filepath.Join(corpus, "*.rules"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files in %s: %v", len(files), corpus, err)
	}
	rules, want := map[string]string{}, map[string]state{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		rules[f] = string(data)
		want[f] = stateOf(t, rules[f])
	}
	for i, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			must(t, "lb-render", "ipvs", "check", f)
			must(t, "ipvsadm", "-C")
			s := syncFile(t, f)
			holds(t, want[f], "sync into an empty table")
			if n := len(want[f]["netlink"]); s.Created != n || s.edits() != n || s.Unchanged != 0 {
				t.Errorf("sync into an empty table, of %d services and servers: %s", n, s)
			}
			unchanged(t, f, len(want[f]["netlink"]))
			savedIs(t, f, want[f])
			// What diff says is what has to be done, in ipvsadm's own words.
			other := files[(i+1)%len(files)]
			reset(t, rules[other])
			d := run(t, "lb-render", "ipvs", "diff", f)
			if d.code != 1 || d.stdout == "" {
				t.Errorf("over %s: %s", filepath.Base(other), d)
			}
			restore(t, d.stdout)
			holds(t, want[f], "ipvsadm with the output of diff over "+filepath.Base(other))
			unchanged(t, f, len(want[f]["netlink"]))
		})
	}
	t.Run("each over each", func(t *testing.T) {
		reset(t, rules[files[0]])
		from, steps := files[0], 0
		step := func(to string) {
			syncFile(t, to)
			holdsRaw(t, want[to]["netlink"], filepath.Base(to)+" over "+filepath.Base(from))
			if t.Failed() {
				t.FailNow() // what follows would not begin where it says
			}
			from = to
			steps++
		}
		for i := range files {
			for _, other := range files[i+1:] {
				step(other)
				step(files[i])
			}
			if i+1 < len(files) {
				step(files[i+1])
			}
		}
		t.Logf("%d syncs of %d files", steps, len(files))
	})
}

// unchanged holds that there is nothing to do for file.
func unchanged(t *testing.T, file string, entries int) {
	t.Helper()
	if s := syncFile(t, file); s.edits() != 0 || s.Unchanged != entries {
		t.Errorf("another sync, of %d services and servers: %s", entries, s)
	}
	if r := run(t, "lb-render", "ipvs", "diff", file); r.code != 0 || r.stdout != "" {
		t.Error(r)
	}
}

// savedIs holds that save prints a file that is equal to file, and that gives want.
func savedIs(t *testing.T, file string, want state) {
	t.Helper()
	saved := must(t, "lb-render", "ipvs", "save")
	path := write(t, "saved.rules", saved)
	for _, pair := range [][2]string{{file, path}, {path, file}} {
		if r := run(t, "lb-render", "ipvs", "diff", pair[0], "--against", pair[1]); r.code != 0 || r.stdout != "" {
			t.Error(r)
		}
	}
	must(t, "ipvsadm", "-C")
	restore(t, saved)
	holds(t, want, "ipvsadm with the output of save")
	must(t, "ipvsadm", "-C")
	syncFile(t, path)
	holds(t, want, "sync with the output of save")
	if again := must(t, "lb-render", "ipvs", "save"); again != saved {
		t.Errorf("save is not canonical; first\n%s\nthen\n%s", head(saved, 12), head(again, 12))
	}
}

// TestCorpusIsComplete: every option of -A and -a is in the corpus, by its short
// and its long name, as is every value of those that have few.
func TestCorpusIsComplete(t *testing.T) {
	start(t)
	var text strings.Builder
	files, _ := filepath.Glob(filepath.Join(corpus, "*.rules"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	for _, want := range []string{
		"-A", "--add-service", "-a", "--add-server", "-t", "--tcp-service", "-u", "--udp-service", "--sctp-service", "-f", "--fwmark-service", "-6", "--ipv6",
		"-s", "--scheduler", "-b", "--sched-flags", "-p", "--persistent", "-M", "--netmask", "-o", "--ops",
		"-r", "--real-server", "-g", "--gatewaying", "-i", "--ipip", "-m", "--masquerading", "-w", "--weight", "-x", "--u-threshold", "-y", "--l-threshold",
		"--tun-type ipip", "--tun-type gue", "--tun-type gre", "--tun-port", "--tun-csum", "--tun-nocsum", "--tun-remcsum",
	} {
		if !regexp.MustCompile(`(?m)(^|\s)` + want + `(\s|=|$)`).MatchString(text.String()) {
			t.Errorf("%s is not in the corpus", want)
		}
	}
	// Those that this kernel has; its modules are what a new one would come as.
	modules, err := filepath.Glob("/lib/modules/*/kernel/net/netfilter/ipvs/ip_vs_*.ko*")
	if err != nil || len(modules) < 13 {
		t.Fatalf("%d modules: %v", len(modules), err)
	}
	for _, m := range modules {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(m), "ip_vs_"), ".")
		if !slices.Contains([]string{"ftp", "pe_sip"}, name) && !strings.Contains(text.String(), fmt.Sprintf("-s %s\n", name)) {
			t.Errorf("scheduler %s is not in the corpus", name)
		}
	}
}
