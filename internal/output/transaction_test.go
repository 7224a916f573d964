package output

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSecondPassDoesNothing(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	res := h.mustApply("1")
	if !res.Reloaded || res.Noop || !slices.Equal(res.Changed, []string{"a", "b"}) {
		t.Errorf("first pass: %+v", res)
	}
	h.wantLog("check a,b", "reload a,b", "verify a,b")
	h.wantInForce("1")
	before, _ := stat(t, filepath.Join(h.dir, "a"))

	res = h.mustApply("1")
	if !res.Noop || res.Reloaded || len(res.Changed) > 0 {
		t.Errorf("second pass: %+v", res)
	}
	h.wantLog()
	if after, _ := stat(t, filepath.Join(h.dir, "a")); !os.SameFile(before, after) {
		t.Error("the file was replaced")
	}
}

// A group of two files is checked once and reloaded once, and only what differs is written.
func TestGroup(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	h.log()
	before, _ := stat(t, filepath.Join(h.dir, "a"))
	h.content = func(string) Content {
		return Content{"a": []byte("# a " + strings.Repeat("1", 200) + "\n"), "b": []byte("# other\n")}
	}
	if res := h.mustApply(""); !slices.Equal(res.Changed, []string{"b"}) {
		t.Errorf("%+v", res)
	}
	h.wantLog("check b", "reload b", "verify b")
	h.wantInForce("")
	if after, _ := stat(t, filepath.Join(h.dir, "a")); !os.SameFile(before, after) {
		t.Error("the unchanged file was replaced")
	}
}

func TestSteps(t *testing.T) {
	full := "begin compared staged:a staged:b checked kept:a kept:b marker-removed renamed:a renamed:b dir-synced"
	for _, tc := range []struct {
		name, fail, want string
		setUp            func(*host)
	}{
		{"all", "", full + " reloaded verified marker-written cleaned", nil},
		{"nothing to do", "", "begin compared", func(h *host) { h.mustApply("2") }},
		{"only the reload", "", "begin compared checked marker-removed reloaded verified marker-written cleaned", func(h *host) {
			h.mustApply("2")
			_ = os.Remove(filepath.Join(h.runDir, "lb.hash"))
		}},
		{"check fails", "check", "begin compared staged:a staged:b", nil},
		{"reload fails", "reload", full + " rolled-back:b rolled-back:a rollback-synced cleaned", nil},
		{"verify fails", "verify", full + " reloaded rolled-back:b rolled-back:a rollback-synced rollback-reloaded cleaned", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, t.TempDir(), "a", "b")
			h.mustApply("1")
			if tc.setUp != nil {
				tc.setUp(h)
			}
			if tc.fail != "" {
				h.failing(tc.fail, true)
			}
			_, err := h.apply("2")
			if (err != nil) != (tc.fail != "") {
				t.Error(err)
			}
			if got := strings.Join(h.steps, " "); got != tc.want {
				t.Errorf("steps\n%s, want\n%s", got, tc.want)
			}
		})
	}
}

func TestCheckFails(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	h.log()
	h.opts.Check = sh(`echo "line 3: unknown keyword" >&2; exit 1`)
	before, _ := stat(t, filepath.Join(h.dir, "a"))
	_, err := h.apply("2")
	wantError(t, err, PhaseCheck, "output lb: check: ", "exit status 1", "line 3: unknown keyword")
	h.wantLog()
	h.wantInForce("1")
	if after, _ := stat(t, filepath.Join(h.dir, "a")); !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the live file was touched")
	}
}

// What the check command is shown is what is renamed into place, and has its final mode.
func TestCheckSeesTheStagedFiles(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b-x.y")
	h.opts.Files[1].Mode = ptr(os.FileMode(0o600))
	h.opts.Check = sh(fmt.Sprintf(`cd %s; ls "$LB_RENDER_FILES_A_STAGED" >names; stat -c %%a "$LB_RENDER_FILES_B_X_Y_STAGED" >mode
		cat "$LB_RENDER_FILES_A_STAGED" "$LB_RENDER_FILES_B_X_Y_STAGED" >content; test ! -e "$LB_RENDER_FILES_A_PATH" && test "$LB_RENDER_STAGED" = "$LB_RENDER_FILES_A_STAGED"`, h.state))
	h.mustApply("1")
	c := h.content("1")
	h.wantFile(filepath.Join(h.state, "content"), string(c["a"])+string(c["b-x.y"]))
	h.wantFile(filepath.Join(h.state, "mode"), "600\n")
	b, _ := os.ReadFile(filepath.Join(h.state, "names"))
	if ok, _ := filepath.Match(filepath.Join(h.dir, ".lb-render-*.tmp"), strings.TrimSpace(string(b))); !ok {
		t.Errorf("staged as %s", b)
	}
}

func TestVars(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	var seen []Vars
	h.opts.Check = &Command{Expand: func(v any) ([]string, error) {
		seen = append(seen, v.(Vars))
		return []string{"true"}, nil
	}}
	h.opts.Reload, h.opts.Verify = h.opts.Check, nil
	o := h.output()
	seen = nil // what New tried
	c := Content{"a": h.content("1")["a"], "b": []byte("# new\n")}
	if _, err := o.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 {
		t.Fatalf("%d commands", len(seen))
	}
	sum, _ := o.Hash(c)
	check, reload := seen[0], seen[1]
	if !strings.HasPrefix(check.Files["b"].Staged, h.dir+"/.lb-render-lb-b-") || check.Files["b"].Path != h.dir+"/b" {
		t.Errorf("check: %+v", check.Files["b"])
	}
	for _, f := range []FileVars{check.Files["a"], reload.Files["a"], {reload.Staged, reload.Path}} {
		if f.Staged != h.dir+"/a" || f.Path != h.dir+"/a" {
			t.Errorf("the unchanged file: %+v", f)
		}
	}
	if reload.Files["b"].Staged != h.dir+"/b" {
		t.Errorf("reload: %+v", reload.Files["b"])
	}
	for _, v := range seen {
		if v.Output != "lb" || v.Hash != sum || !slices.Equal(v.Changed, []string{"b"}) {
			t.Errorf("%+v", v)
		}
	}
}

func TestReloadFails(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	if err := os.Chmod(filepath.Join(h.dir, "a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(h.dir, "b")); err != nil {
		t.Fatal(err)
	}
	h.opts.Files[0].Mode = ptr(os.FileMode(0o600))
	before, _ := stat(t, filepath.Join(h.dir, "a"))
	h.failing("reload", true)
	h.log()
	for range 2 {
		_, err := h.apply("2")
		wantError(t, err, PhaseReload, "exit status 1")
		h.wantLog("check a,b", "reload a,b") // and no second reload: the daemon refused
		h.wantFile(filepath.Join(h.dir, "a"), string(h.content("1")["a"]))
		if after, _ := stat(t, filepath.Join(h.dir, "a")); !os.SameFile(before, after) || after.Mode() != 0o640 {
			t.Errorf("not the same file as before: mode %v", after.Mode())
		}
		if _, err := os.Stat(filepath.Join(h.dir, "b")); err == nil {
			t.Error("b was absent and is there now")
		}
		h.wantNothingStaged()
	}
	h.failing("reload", false)
	h.mustApply("2")
	h.wantInForce("2")
}

// The daemon may have read half of what it refused. Going back to what it had
// before is a reload, though disk and the marker of that time agree.
func TestReturningToEarlierContentReloads(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	h.opts.Reload = sh(fmt.Sprintf(`echo half >%s/daemon; exit 1`, h.state))
	if _, err := h.apply("2"); err == nil {
		t.Fatal("no error")
	}
	h.opts.Reload = newHost(t, filepath.Dir(h.dir), "a").opts.Reload
	h.log()
	if res := h.mustApply("1"); !res.Reloaded || len(res.Changed) > 0 {
		t.Errorf("%+v", res)
	}
	h.wantLog("check ", "reload ", "verify ")
	h.wantInForce("1")
}

func TestNoRollback(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	h.opts.NoRollback = true
	h.failing("reload", true)
	_, err := h.apply("2")
	wantError(t, err, PhaseReload)
	h.wantFile(filepath.Join(h.dir, "a"), string(h.content("2")["a"]))
	h.wantNothingStaged()
	h.failing("reload", false)
	h.log()
	h.mustApply("2")
	h.wantLog("check ", "reload ", "verify ")
	h.wantInForce("2")
}

// The daemon took the new files, so the old ones must be brought to it.
func TestVerifyFails(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	h.log()
	h.failing("verify", true)
	_, err := h.apply("2")
	wantError(t, err, PhaseVerify)
	h.wantLog("check a", "reload a", "verify a", "reload a")
	h.wantFile(filepath.Join(h.state, "daemon"), string(h.content("1")["a"]))
	h.wantFile(filepath.Join(h.dir, "a"), string(h.content("1")["a"]))
	h.failing("verify", false)
	h.mustApply("2")
	h.wantInForce("2")

	// Without a previous file there is nothing to go back to.
	h = newHost(t, t.TempDir(), "a")
	h.failing("verify", true)
	_, err = h.apply("1")
	wantError(t, err, PhaseVerify)
	h.wantLog("check a", "reload a", "verify a")
	if len(names(t, h.dir)) > 0 {
		t.Errorf("left: %v", names(t, h.dir))
	}
}

// The hash that the commands see belongs to the files that they see.
func TestRollbackReloadHasThePreviousHash(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	want := h.output().readMarker()
	var last string
	h.opts.Reload = &Command{Expand: func(v any) ([]string, error) {
		last = v.(Vars).Hash
		return []string{"true"}, nil
	}}
	h.failing("verify", true)
	if _, err := h.apply("2"); err == nil {
		t.Fatal("no error")
	}
	if last != want {
		t.Errorf("hash %s, want %s", last, want)
	}
}

func TestCancelledReloadIsRolledBack(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	ctx, cancel := context.WithCancel(t.Context())
	h.opts.Reload = sh("exec sleep 1000")
	h.opts.Hook = func(s string) {
		if s == "dir-synced" {
			cancel()
		}
	}
	_, err := h.output().Apply(ctx, h.content("2"))
	wantError(t, err, PhaseReload, "context canceled")
	h.wantFile(filepath.Join(h.dir, "a"), string(h.content("1")["a"]))

	// Cancelled before the commit, nothing is replaced at all.
	ctx, cancel = context.WithCancel(t.Context())
	h.opts.Check = nil
	h.steps = nil
	h.opts.Hook = func(s string) {
		h.steps = append(h.steps, s)
		if s == "staged:a" {
			cancel()
		}
	}
	_, err = h.output().Apply(ctx, h.content("2"))
	wantError(t, err, PhaseCommit, "context canceled")
	if got := strings.Join(h.steps, " "); got != "begin compared staged:a" {
		t.Errorf("steps %s", got)
	}
	h.wantNothingStaged()
}

func TestHangingReload(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	h.opts.Reload = sh("sleep 1000")
	h.opts.Reload.Timeout = 1
	_, err := h.apply("2")
	wantError(t, err, PhaseReload, "timed out")
	h.wantFile(filepath.Join(h.dir, "a"), string(h.content("1")["a"]))
}

func TestNoCommands(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Check, h.opts.Reload, h.opts.Verify = nil, nil, nil
	if res := h.mustApply("1"); res.Reloaded || res.Noop {
		t.Errorf("%+v", res)
	}
	if res := h.mustApply("1"); !res.Noop {
		t.Errorf("%+v", res)
	}
	h.wantFile(filepath.Join(h.dir, "a"), string(h.content("1")["a"]))
}

func TestCheckMethod(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	h.log()
	if err := h.output().Check(t.Context(), h.content("2")); err != nil {
		t.Error(err)
	}
	h.wantLog("check a,b")
	h.wantInForce("1")
	// Also what is on disk already is checked as a staged file.
	h.opts.Check = sh(`test "$LB_RENDER_STAGED" != "$LB_RENDER_PATH"`)
	if err := h.output().Check(t.Context(), h.content("1")); err != nil {
		t.Error(err)
	}
	h.opts.Check = sh("exit 1")
	wantError(t, h.output().Check(t.Context(), h.content("1")), PhaseCheck)
	h.wantInForce("1")
	wantError(t, h.output().Check(t.Context(), Content{"a": []byte(" \n"), "c": nil}), PhaseRender,
		"file a rendered to nothing", "file b was not rendered", "not a file of this output: c")
}

func TestCheckMethodNeedsNoRuntimeDir(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.RuntimeDir = "/proc/lb-render-cannot-be-made"
	if err := h.output().Check(t.Context(), h.content("1")); err != nil {
		t.Error(err)
	}
}

func TestVerifyMethod(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	h.log()
	marker := h.output().readMarker()
	h.opts.Verify = sh(fmt.Sprintf(`cd %s && echo "$LB_RENDER_OUTPUT [$LB_RENDER_CHANGED] $LB_RENDER_HASH $LB_RENDER_STAGED" >>log; test ! -e fail-verify`, h.state))
	o := h.output()
	if err := o.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	h.wantLog("lb [] " + marker + " " + h.opts.Files[0].Path)
	h.failing("verify", true)
	wantError(t, o.Verify(t.Context()), PhaseVerify, "exit status 1")
	h.opts.Verify = nil
	if err := h.output().Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// Once the verify command has failed on a resync, the reload is due, whatever
// comes in between.
func TestFailedVerifyIsNotForgotten(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
	h.log()
	h.failing("verify", true)
	h.failing("check", true)
	_, err := h.output().apply(t.Context(), t.Context(), h.content("1"), true)
	wantError(t, err, PhaseCheck)
	h.wantLog("verify ", "check ")
	h.failing("verify", false)
	h.failing("check", false)
	h.mustApply("1")
	h.wantLog("check ", "reload ", "verify ")
}
