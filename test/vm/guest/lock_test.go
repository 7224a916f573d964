package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lockDir has the lock file, and nothing else of a sync.
const lockDir = "/run/lb-render"

// TestTogether: two syncs at once end well, and leave what one of them wanted, whole.
func TestTogether(t *testing.T) {
	start(t)
	a, b := ruleSets()
	files := []string{write(t, "a.rules", a), write(t, "b.rules", b)}
	want := [][]string{stateOf(t, a)["netlink"], stateOf(t, b)["netlink"]}
	for _, c := range []struct {
		name   string
		second int
		rounds int
	}{{"the same file", 0, 6}, {"two files", 1, 12}} {
		t.Run(c.name, func(t *testing.T) {
			won := [2]int{}
			for round := range c.rounds {
				before := ""
				if round%2 == 1 {
					before = manyRules(20, 3, "wlc")
				}
				reset(t, before)
				one := begin(t, "", "lb-render", "ipvs", "sync", files[0])
				two := begin(t, "", "lb-render", "ipvs", "sync", files[c.second])
				for _, p := range []*process{one, two} {
					if r := p.wait(t); r.code != 0 {
						t.Error(r)
					}
				}
				got := rawDump(t)
				toA, toB := difference(got, want[0]), difference(got, want[1])
				switch {
				case toA == "":
					won[0]++
				case toB == "" && c.second == 1:
					won[1]++
				default:
					t.Errorf("round %d: the table is that of neither file; it has (+) and lacks (-) of a\n%sand of b\n%s", round, toA, toB)
				}
			}
			t.Logf("a was last %d times, b %d times", won[0], won[1])
		})
	}
}

// TestWaitsForLock: a sync that finds another one at work changes nothing before
// that has ended, and then takes its files as they are at that time.
func TestWaitsForLock(t *testing.T) {
	start(t)
	if err := os.RemoveAll(lockDir); err != nil {
		t.Fatal(err)
	}
	syncFile(t, write(t, "none.rules", "\n"))
	left, err := filepath.Glob(filepath.Join(lockDir, "*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("a sync leaves %q, want its lock: %v", left, err)
	}
	lock, err := os.OpenFile(left[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	const now = "-A -t 192.0.2.2:443 -s wrr\n"
	want := stateOf(t, now)
	file, owned := write(t, "rules", "-A -t 192.0.2.1:80 -s rr\n"), write(t, "owned", "192.0.2.1\n")
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	p := prepare("", "lb-render", "ipvs", "sync", file, "--owned-from", owned)
	defer p.cancel()
	p.Stderr = said
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, soon, func() error {
		if text, err := os.ReadFile(said.Name()); err != nil || !strings.Contains(string(text), "waiting") {
			return fmt.Errorf("the sync does not say that it waits: %v\n%s", err, text)
		}
		return nil
	})
	if n := entries(t); n != 0 {
		t.Errorf("there are %d entries before the lock is free", n)
	}
	for path, text := range map[string]string{file: now, owned: "192.0.2.2\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	freed := time.Now()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if r := p.wait(t); r.code != 0 {
		t.Fatal(r)
	}
	t.Logf("ended %s after the lock was free", time.Since(freed).Round(time.Millisecond))
	holds(t, want, "after the lock was free")
}
