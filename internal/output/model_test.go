package output

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A random walk against a model of the daemon: contents come and go, commands
// fail, markers and files are tampered with, the process restarts, and it dies
// in the middle of a transaction. Whenever Apply says that all is well, the
// daemon must run what was asked for. And after every step the live files are
// whole, of one variant each, and accepted by the check command.
func TestRandomWalk(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHost(t, quickDir(t), "a", "b")
			h.opts.Check, h.opts.Reload, h.opts.Verify = argv("check"), argv("reload"), argv("verify")
			r := rand.New(rand.NewPCG(seed, 0))
			w := &walk{host: h, r: r, variants: []string{"1", "2", "3"}}
			h.opts.NoRollback = seed%3 == 2
			w.restart()
			for range 60 {
				w.step()
			}
		})
	}
}

type walk struct {
	*host
	r        *rand.Rand
	o        *Output
	variants []string
	daemon   string // what it runs
	trace    []string

	snapshot string // where everything is as at the process's death; "": it lives
	frozen   string // the daemon at that time
}

func (w *walk) restart() {
	w.opts.Hook = func(string) {
		if w.snapshot == "" && w.r.IntN(60) == 0 {
			w.snapshot, w.frozen = quickDir(w.t), w.daemon
			copyTree(w.t, w.dir, filepath.Join(w.snapshot, "etc"))
			copyTree(w.t, w.runDir, filepath.Join(w.snapshot, "run"))
		}
	}
	w.o = w.output()
	runner(w.command).install(w.o)
	if err := w.o.Sweep(); err != nil {
		w.t.Fatal(err)
	}
	w.trace = append(w.trace, "restart")
}

// die makes what happened since the snapshot not have happened. Unlike a panic
// it leaves no deferred function a chance to clean up.
func (w *walk) die() {
	for _, dir := range []string{w.dir, w.runDir} {
		if err := os.RemoveAll(dir); err != nil {
			w.t.Fatal(err)
		}
		copyTree(w.t, filepath.Join(w.snapshot, filepath.Base(dir)), dir)
	}
	w.daemon, w.snapshot = w.frozen, ""
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// disk is what a daemon that is reloaded now would read.
func (w *walk) disk() string {
	all := ""
	for _, f := range w.opts.Files {
		b, err := os.ReadFile(f.Path)
		if err != nil {
			return "unreadable"
		}
		all += string(b)
	}
	return all
}

func (w *walk) command(phase string, _ map[string]string) error {
	fails := w.r.IntN(4) == 0
	switch phase {
	case "reload":
		switch {
		case !fails:
			w.daemon = w.disk()
		case w.r.IntN(2) == 0:
			w.daemon = "half of " + w.disk()
		}
	case "verify":
		fails = fails || strings.HasPrefix(w.daemon, "half") // what a verify command is for
	}
	if fails {
		return errors.New(phase + " failed")
	}
	return nil
}

func (w *walk) step() {
	switch w.r.IntN(12) {
	case 0:
		w.restart()
		return
	case 1:
		_ = os.Remove(filepath.Join(w.runDir, "lb.hash"))
		w.trace = append(w.trace, "boot")
		w.daemon = "nothing"
		return
	case 2:
		f := w.opts.Files[w.r.IntN(2)]
		v := w.variants[w.r.IntN(3)]
		write(w.t, f.Path, string(w.content(v)[f.Name]))
		w.trace = append(w.trace, "edit")
		return
	case 3:
		_ = os.Remove(w.opts.Files[w.r.IntN(2)].Path)
		w.trace = append(w.trace, "remove")
		return
	}
	v := w.variants[w.r.IntN(3)]
	ctx := w.t.(*testing.T).Context()
	_, err := w.o.apply(ctx, ctx, w.content(v), w.r.IntN(4) == 0)
	if w.snapshot != "" {
		w.trace = append(w.trace, "apply "+v+": died")
		w.die()
		w.wantWhole(w.variants...)
		w.restart()
		w.wantNothingStaged()
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("apply %s: %v", v, err))
	w.wantWhole(w.variants...)
	w.wantNothingStaged()
	if err == nil {
		if want := string(w.content(v)["a"]) + string(w.content(v)["b"]); w.disk() != want || w.daemon != want {
			w.t.Errorf("Apply of %s succeeded, disk has %.10q, the daemon %.20q", v, w.disk(), w.daemon)
		}
	} else if marker := w.o.readMarker(); marker != "" && phaseOf(err) != PhaseCheck {
		w.t.Errorf("%v, and the marker is %s", err, marker)
	}
	if w.t.Failed() {
		w.t.Fatal(strings.Join(w.trace, "\n"))
	}
}
