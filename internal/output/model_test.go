package output

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A random walk against a model of the daemon: contents come and go, commands
// fail, markers and files are tampered with, the process restarts, and it dies
// in the middle of a transaction. The file system's clock ticks every two seconds,
// so that most of what others write leaves no trace in the times. Whenever Apply
// says that all is well, the daemon must run what was asked for. And after every
// step the live files are whole, of one variant each, and accepted by the check
// command.
func TestRandomWalk(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHost(t, quickDir(t), "a", "b")
			h.opts.Check, h.opts.Reload, h.opts.Verify = argv("check"), argv("reload"), argv("verify")
			r := rand.New(rand.NewPCG(seed, 0))
			w := &walk{host: h, r: r, variants: []string{"1", "2", "3"}}
			w.clock = &coarse{now: time.Now(), stamps: map[[2]uint64]stamp{}}
			h.opts.Now = func() time.Time { return w.clock.now }
			h.opts.NoRollback = seed%3 == 2
			// What is given back is overwritten: nothing of it may be seen again.
			h.opts.Release = func(_ string, b []byte) {
				for i := range b {
					b[i] = '!'
				}
			}
			w.restart()
			for range 150 {
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
	clock    *coarse
	daemon   string // what it runs
	last     string // what was applied
	trace    []string

	snapshot string // where everything is as at the process's death; "": it lives
	frozen   string // the daemon at that time
}

func (w *walk) restart() {
	w.opts.Hook = func(string) {
		if w.r.IntN(30) == 0 {
			w.later()
		}
		if w.snapshot == "" && w.r.IntN(60) == 0 {
			w.snapshot, w.frozen = quickDir(w.t), w.daemon
			copyTree(w.t, w.dir, filepath.Join(w.snapshot, "etc"))
			copyTree(w.t, w.runDir, filepath.Join(w.snapshot, "run"))
		}
	}
	w.o = w.output()
	w.o.identify = w.clock.identify
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

// later lets some time pass.
func (w *walk) later() {
	for _, f := range w.opts.Files { // what they were until now is what they were written at
		if info, err := os.Lstat(f.Path); err == nil {
			w.clock.identify(info)
		}
	}
	// Less than a tick as well as more than slack.
	w.clock.now = w.clock.now.Add(time.Duration(w.r.IntN(9)) * slack / 6)
}

// tamper is what others do to a file.
func (w *walk) tamper(path, s string) string {
	info, err := os.Stat(path)
	switch how := w.r.IntN(4); {
	case how == 0:
		_ = os.Remove(path)
		return "remove"
	case how == 1 || err != nil:
		write(w.t, path+".foreign", s)
		if err := os.Rename(path+".foreign", path); err != nil {
			w.t.Fatal(err)
		}
		return "replace"
	default:
		edit(w.t, path, s)
		if how == 2 {
			return "edit"
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			w.t.Fatal(err)
		}
		return "edit, old time put back"
	}
}

// coarse is a file system with ticks of two seconds, as FAT has them, on a clock
// of its own. It tells from the real times that there was a change, and which.
type coarse struct {
	now    time.Time
	stamps map[[2]uint64]stamp // by device and inode
}

type stamp struct {
	real         identity
	mtime, ctime time.Time
}

func (c *coarse) identify(info fs.FileInfo) identity {
	real := identify(info)
	key := [2]uint64{real.dev, real.ino}
	s := c.stamps[key]
	if real != s.real {
		if real.mtime != s.real.mtime {
			s.mtime = c.now
		}
		s.real, s.ctime = real, c.now
		c.stamps[key] = s
	}
	id := real
	id.mtime = syscall.Timespec{Sec: s.mtime.Unix() / 2 * 2}
	id.ctime = syscall.Timespec{Sec: s.ctime.Unix() / 2 * 2}
	return id
}

func (w *walk) step() {
	switch w.r.IntN(14) {
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
		w.trace = append(w.trace, w.tamper(f.Path, string(w.content(v)[f.Name])))
		return
	case 3, 4, 5:
		w.later()
		w.trace = append(w.trace, "at "+w.clock.now.Format("05.0"))
		return
	}
	v := w.last // mostly nothing is to be done, which is when a memory can do harm
	if v == "" || w.r.IntN(2) == 0 {
		v = w.variants[w.r.IntN(3)]
	}
	w.last = v
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
	for name, k := range w.o.known.files {
		if strings.HasPrefix(string(k.bytes), "!") {
			w.t.Errorf("what is remembered of file %s was given back", name)
		}
	}
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
