package output

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lb-render/lb-render/internal/command"
)

// A process is killed with SIGKILL at every step of every kind of transaction.
// At that instant each live file must be the old or the new one, whole. The
// next process must bring whatever is rendered then into force: the same
// content, or what was there before. Disk, daemon and marker have it, and
// nothing staged is left.
func TestKilledAtAnyStep(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setUp func(*host) // then variant 2 is applied, and killed
		fail  string
	}{
		{"update", func(h *host) { h.mustApply("1") }, ""},
		{"first files", func(*host) {}, ""},
		{"only the reload", func(h *host) {
			h.mustApply("1")
			h.failing("reload", true)
			h.opts.NoRollback = true
			_, _ = h.apply("2")
			h.failing("reload", false)
		}, ""},
		{"reload fails", func(h *host) { h.mustApply("1") }, "reload"},
		{"verify fails", func(h *host) { h.mustApply("1") }, "verify"},
		{"first files, reload fails", func(*host) {}, "reload"},
		{"one of two is new", func(h *host) {
			h.mustApply("1")
			_ = os.Remove(filepath.Join(h.dir, "b"))
		}, "reload"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			prepare := func(t *testing.T) (*host, string) {
				root := quickDir(t)
				h := newHost(t, root, "a", "b")
				tc.setUp(h)
				if tc.fail != "" {
					h.failing(tc.fail, true)
				}
				return h, root
			}
			h, _ := prepare(t)
			_, _ = h.apply("2") // the steps are recorded in a run first
			steps := h.steps
			if len(steps) < 8 {
				t.Fatalf("only %d steps: %v", len(steps), steps)
			}
			for _, step := range steps {
				for _, next := range []string{"2", "1"} {
					t.Run(strings.ReplaceAll(step, ":", "-")+" then "+next, func(t *testing.T) {
						h, root := prepare(t)
						res, err := helper(t, root, "2", step, "0", "a", "b")
						if err == nil || res.Signal != "killed" {
							t.Fatalf("not killed: %+v, %v", res, err)
						}
						h.wantWhole("1", "2")
						if tc.fail != "" {
							h.failing(tc.fail, false)
						}
						h.opts.NoRollback = false
						h.mustApply(next)
						h.wantInForce(next)
					})
				}
			}
		})
	}
}

// wantWhole demands that each live file is one of the variants, or absent.
func (h *host) wantWhole(variants ...string) {
	h.t.Helper()
	for _, f := range h.opts.Files {
		b, err := os.ReadFile(f.Path)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(variants, func(v string) bool { return string(h.content(v)[f.Name]) == string(b) }) {
			h.t.Errorf("%s is %.60q: neither the old nor the new file", f.Path, b)
		}
	}
}

// The agent dies while the reload command runs, and the daemon has read the new
// file by then. Whichever content is next, the daemon is told.
func TestKilledDuringReload(t *testing.T) {
	for _, next := range []string{"2", "1"} {
		h := newHost(t, quickDir(t), "a")
		h.mustApply("1")
		root := filepath.Dir(h.dir)
		res, err := command.Run(t.Context(), command.Spec{
			Argv: []string{os.Args[0]},
			Env:  []string{fmt.Sprintf("%s=%s 2 none 0 a", helperEnv, root), killInReload + "=1"},
		})
		if err == nil || res.Signal != "killed" {
			t.Fatalf("not killed: %+v, %v", res, err)
		}
		h.wantFile(filepath.Join(h.state, "daemon"), string(h.content("2")["a"]))
		h.mustApply(next)
		h.wantInForce(next)
	}
}

func TestSweep(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.opts.Files[1].Path = filepath.Join(h.dir, "link")
	elsewhere := filepath.Join(filepath.Dir(h.dir), "elsewhere")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(elsewhere, "b"), h.opts.Files[1].Path); err != nil {
		t.Fatal(err)
	}
	o := h.output()
	prefixA, prefixB := stagedPrefix("lb", o.opts.Files[0]), stagedPrefix("lb", o.opts.Files[1])
	other := o.opts.Files[0]
	other.Name = "a-b"
	keep := []string{
		filepath.Join(h.dir, "a"),
		filepath.Join(h.dir, ".lb-render-lb-a-0123.tmp"),                  // of who knows whom
		filepath.Join(h.dir, prefixA+"1.cfg"),                             // not ours to judge
		filepath.Join(h.dir, stagedPrefix("lb", other)+"1.tmp"),           // another file
		filepath.Join(h.dir, stagedPrefix("lb2", o.opts.Files[0])+".tmp"), // another output
		filepath.Join(h.dir, stagedPrefix("lb-a", File{Name: "b"})+".tmp"),
	}
	sweep := []string{
		filepath.Join(h.dir, prefixA+"123.tmp"), filepath.Join(h.dir, prefixA+"123.tmp.prev.tmp"),
		filepath.Join(elsewhere, prefixB+"1.tmp"), filepath.Join(h.runDir, "lb.hash.tmp"),
	}
	if err := os.Mkdir(h.runDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(keep, sweep...) {
		write(t, path, "x")
	}
	if err := o.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, path := range keep {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("swept away: %s", path)
		}
	}
	for _, path := range sweep {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("still there: %s", path)
		}
	}
	// Nothing to do is no error, nor is a directory that is not there (yet).
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	if err := o.Sweep(); err != nil {
		t.Error(err)
	}
}
