package output

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A marker that makes no sense counts as missing: reload, no rename.
func TestCorruptMarker(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	marker := filepath.Join(h.runDir, "lb.hash")
	good, _ := os.ReadFile(marker)
	if info, _ := stat(t, marker); info.Mode() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	for name, content := range map[string]string{
		"empty": "", "half": string(good[:30]), "too long": string(good) + "x", "no newline": string(good[:64]),
		"not hex": strings.Repeat("x", 64) + "\n", "upper case": strings.ToUpper(string(good)), "another": strings.Repeat("0", 64) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			write(t, marker, content)
			before, _ := stat(t, h.opts.Files[0].Path)
			h.log()
			h.mustApply("1")
			h.wantLog("check ", "reload ", "verify ")
			h.wantInForce("1")
			if after, _ := stat(t, h.opts.Files[0].Path); !os.SameFile(before, after) {
				t.Error("the file was replaced")
			}
		})
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add(strings.Repeat("0", hashLen) + "\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if got := parseMarker(s); got != "" && (got+"\n" != s || len(got) != hashLen) {
			t.Errorf("%q became %q", s, got)
		}
	})
}

// A marker that cannot be written is an error, and it is tried again, but the
// daemon is not reloaded over it.
func TestMarkerCannotBeWritten(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	mount(t, "none", h.runDir, "tmpfs", 0, "size=16k")
	h.mustApply("1")
	full := filepath.Join(h.runDir, "filler")
	h.opts.Hook = func(s string) {
		if s == "reloaded" {
			_ = os.WriteFile(full, make([]byte, 64<<10), 0o600)
		}
	}
	h.log()
	o := h.output()
	for range 2 {
		_, err := o.Apply(t.Context(), h.content("2"))
		wantError(t, err, PhaseMarker, "no space left on device", h.runDir)
	}
	h.wantLog("check a", "reload a", "verify a")
	if s := o.State(); s.InSync || s.Phase != PhaseMarker {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Apply(t.Context(), h.content("2")); err != nil {
		t.Fatal(err)
	}
	h.wantLog()
	h.wantInForce("2")
}

// While the old marker cannot be removed nothing may change: after a failed
// reload and a rollback it would claim that all is well.
func TestMarkerCannotBeRemoved(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	h.log()
	h.opts.Hook = func(s string) {
		if s == "checked" {
			mount(t, h.runDir, h.runDir, "", unix.MS_BIND, "")
			if err := unix.Mount("none", h.runDir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := h.output().Apply(t.Context(), h.content("2"))
	wantError(t, err, PhaseCommit, "the marker must be removed before anything changes", "read-only file system")
	h.wantLog("check a")
	h.wantInForce("1")
}

func TestNoRuntimeDir(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.RuntimeDir = "/proc/lb-render-cannot-be-made"
	_, err := h.output().Apply(t.Context(), h.content("1"))
	wantError(t, err, PhaseLock, "runtime directory", "/proc/lb-render-cannot-be-made")
	if got := names(t, h.dir); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// Two processes never work on one output at a time; within a process neither.
func TestLock(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	holder := h.output()
	unlock, err := holder.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*Output{"another process": h.output(), "this one": holder} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = o.Apply(ctx, h.content("1"))
		cancel()
		wantError(t, err, PhaseLock, "deadline exceeded")
		if err := o.Check(t.Context(), h.content("1")); err != nil { // takes no part
			t.Errorf("%s: %v", name, err)
		}
	}
	h.wantLog("check a", "check a")
	applied := make(chan error)
	go func() {
		_, err := h.output().Apply(t.Context(), h.content("1"))
		applied <- err
	}()
	select {
	case err := <-applied:
		t.Errorf("did not wait: %v", err)
	case <-time.After(2 * lockPoll):
	}
	unlock()
	if err := <-applied; err != nil {
		t.Error(err)
	}
	h.wantInForce("1")
}

func TestMarkerIsReadable(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	if info, _ := stat(t, filepath.Join(h.runDir, "lb.hash")); info.Mode() != fs.FileMode(0o644) {
		t.Errorf("mode %v", info.Mode())
	}
	if info, _ := stat(t, h.opts.Files[0].Path); info.Mode() != fs.FileMode(0o644) {
		t.Errorf("the file has mode %v", info.Mode())
	}
}
