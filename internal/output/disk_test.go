package output

import (
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDiskFull(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	mount(t, "none", h.dir, "tmpfs", 0, "size=64k")
	h.mustApply("1")
	h.log()
	small := h.content
	big := func(variant string) Content {
		return Content{"a": small(variant)["a"], "b": bytes.Repeat([]byte("# filler\n"), 10000)}
	}
	h.content = big
	_, err := h.apply("2")
	wantError(t, err, PhaseStage, "file b", "no space left on device", h.dir, "free some space")
	wantError(t, h.output().Check(t.Context(), big("2")), PhaseStage, "no space left on device")
	h.content = small
	h.wantLog()
	h.wantInForce("1")
	h.mustApply("2")
	h.wantInForce("2")
}

// A disk that is full to the last block: what rollback needs was there before.
func TestRollbackOnAFullDisk(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	mount(t, "none", h.dir, "tmpfs", 0, "size=64k")
	h.mustApply("1")
	h.failing("reload", true)
	h.opts.Hook = func(s string) {
		if s == "dir-synced" {
			f, err := os.Create(filepath.Join(h.dir, ".filler"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
		}
	}
	_, err := h.apply("2")
	wantError(t, err, PhaseReload)
	h.wantFile(h.opts.Files[0].Path, string(h.content("1")["a"]))
	h.wantFile(h.opts.Files[1].Path, string(h.content("1")["b"]))
	h.wantNothingStaged()
}

func TestReadOnlyDirectory(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	mount(t, "none", h.dir, "tmpfs", 0, "size=64k")
	h.mustApply("1")
	h.log()
	if err := unix.Mount("none", h.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := h.apply("2")
	wantError(t, err, PhaseStage, "read-only file system", "ReadWritePaths", h.dir)
	h.wantLog()
	h.wantInForce("1")

	// What is on disk can still be reloaded: nothing needs to be written for that.
	if err := os.Remove(filepath.Join(h.runDir, "lb.hash")); err != nil {
		t.Fatal(err)
	}
	h.mustApply("1")
	h.wantLog("check ", "reload ", "verify ")
}

// bindMount makes a file of the host one that is mounted by itself, and returns
// the file behind it.
func bindMount(t *testing.T, h *host, f File) string {
	t.Helper()
	behind := filepath.Join(filepath.Dir(h.dir), "behind")
	write(t, behind, "# before\n")
	write(t, f.Path, "")
	mount(t, behind, f.Path, "", unix.MS_BIND, "")
	return behind
}

func TestBindMountedFile(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b", "c")
	write(t, h.opts.Files[0].Path, "# a before\n")
	behind := bindMount(t, h, h.opts.Files[2])
	_, err := h.apply("1")
	wantError(t, err, PhaseCommit, "device or resource busy", "mount the directory "+h.dir, "inPlace: true")
	// The other two had been replaced by then.
	if got := strings.Join(h.steps, " "); !strings.Contains(got, "renamed:a renamed:b rolled-back:b rolled-back:a") {
		t.Errorf("steps %s", got)
	}
	h.wantFile(h.opts.Files[0].Path, "# a before\n")
	h.wantFile(behind, "# before\n")
	if _, err := os.Stat(h.opts.Files[1].Path); err == nil {
		t.Error("b was absent and is there now")
	}
	h.wantLog("check a,b,c")
	h.wantNothingStaged()
}

func TestInPlace(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	behind := bindMount(t, h, h.opts.Files[0])
	h.opts.Files[0].InPlace = true
	before, _ := stat(t, behind)
	reload := h.opts.Reload
	h.opts.Reload = sh(`test "$LB_RENDER_STAGED" = "$LB_RENDER_PATH" && cat "$LB_RENDER_PATH" >` + h.state + "/daemon")
	h.mustApply("1") // longer than before
	h.wantInForce("1")
	long := h.content
	h.content = func(string) Content { return Content{"a": []byte("# short\n")} }
	h.mustApply("")
	h.wantInForce("")
	h.content = long
	h.opts.Files[0].Mode = ptr(fs.FileMode(0o600))
	h.opts.Reload = reload
	h.failing("reload", true)
	_, err := h.apply("2")
	wantError(t, err, PhaseReload)
	h.wantFile(behind, "# short\n")
	after, _ := stat(t, behind)
	if !os.SameFile(before, after) || after.Mode() != before.Mode() {
		t.Errorf("mode %v, was %v", after.Mode(), before.Mode())
	}
	h.wantNothingStaged()
}

func TestInPlaceFirstFileIsRenamed(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Files[0].InPlace = true
	h.mustApply("1")
	h.wantInForce("1")
	h.mustApply("2")
	h.wantInForce("2")
}

// On a full disk the previous bytes fit into the blocks that the file has.
func TestInPlaceOnAFullDisk(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Files[0].InPlace = true
	mount(t, "none", h.dir, "tmpfs", 0, "size=64k")
	previous := strings.Repeat("# twenty kilobytes\n", 1000)
	write(t, h.opts.Files[0].Path, previous)
	h.content = func(string) Content {
		// Twice: staged, and in place; there is room for the first only.
		return Content{"a": bytes.Repeat([]byte("# filler\n"), 4000)}
	}
	_, err := h.apply("")
	wantError(t, err, PhaseCommit, "no space left on device")
	h.wantFile(h.opts.Files[0].Path, previous)
	h.wantNothingStaged()
}

func TestSymlinks(t *testing.T) {
	for _, tc := range []struct {
		name, link string // relative to etc
		exists     bool
	}{
		{"absolute", "ROOT/elsewhere/file", true},
		{"relative", "../elsewhere/file", true},
		{"a chain, through a linked directory", "chain", true},
		{"dangling", "../elsewhere/file", false},
		{"dot dot after a linked directory", "dir/../elsewhere/file", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			h := newHost(t, root, "a")
			elsewhere := filepath.Join(root, "elsewhere")
			file := filepath.Join(elsewhere, "file")
			for _, err := range []error{
				os.Mkdir(elsewhere, 0o755),
				os.Symlink(elsewhere, filepath.Join(h.dir, "dir")), // so that dir/.. is root, not etc
				os.Symlink("dir/file", filepath.Join(h.dir, "chain")),
				os.Symlink(strings.Replace(tc.link, "ROOT", root, 1), filepath.Join(h.dir, "a")),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if tc.exists {
				write(t, file, "# before\n")
			}
			h.opts.Reload, h.opts.Verify = nil, nil
			h.opts.Check = sh(`test "$(dirname "$LB_RENDER_STAGED")" = ` + elsewhere)
			h.mustApply("1")
			h.wantFile(file, string(h.content("1")["a"]))
			if info, err := os.Lstat(filepath.Join(h.dir, "a")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("the symlink is gone: %v, %v", info, err)
			}
			if res := h.mustApply("1"); !res.Noop {
				t.Errorf("%+v", res)
			}
			if got := names(t, elsewhere); len(got) != 1 {
				t.Errorf("left: %v", got)
			}
		})
	}
}

func TestRefusedDestinations(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"directory", func(p string) error { return os.Mkdir(p, 0o755) }, "is a directory; only regular files"},
		{"symlink to a directory", func(p string) error { return os.Symlink(".", p) }, "is a directory; only regular files"},
		{"fifo", func(p string) error { return syscall.Mkfifo(p, 0o644) }, "is not a regular file"},
		{"device", func(p string) error { return os.Symlink("/dev/null", p) }, "/dev/null is not a regular file"},
		{"socket", func(p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, "is not a regular file"},
		{"symlink to itself", func(p string) error { return os.Symlink(p, p) }, "too many levels"},
		{"no directory behind", func(p string) error { return os.Symlink("nowhere/file", p) }, "/nowhere must exist; it is not created"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, t.TempDir(), "a")
			if err := tc.make(h.opts.Files[0].Path); err != nil {
				t.Fatal(err)
			}
			before := names(t, h.dir)
			_, err := h.apply("1")
			wantError(t, err, PhaseCompare, "file a", tc.want)
			h.wantLog()
			if after := names(t, h.dir); len(after) != len(before) {
				t.Errorf("directory has %v, had %v", after, before)
			}
			cmp, err := h.output().Compare(h.content("1"))
			if err != nil || cmp.Files[0].Err == nil || !cmp.Files[0].Missing || cmp.InSync() {
				t.Errorf("Compare: %+v, %v", cmp, err)
			}
		})
	}
}

func TestNoDirectory(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Files[0].Path = filepath.Join(h.dir, "no", "such", "a")
	_, err := h.apply("1")
	wantError(t, err, PhaseCompare, "directory "+filepath.Join(h.dir, "no", "such")+" must exist; it is not created")
	if len(names(t, h.dir)) != 0 {
		t.Error("something was created")
	}
}

func TestTwoFilesAreOne(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	if err := os.Symlink("b", h.opts.Files[0].Path); err != nil {
		t.Fatal(err)
	}
	_, err := h.apply("1")
	wantError(t, err, PhaseCompare, "files a and b are both "+filepath.Join(h.dir, "b"))
	h.wantLog()
}

func TestModeAndOwner(t *testing.T) {
	needRoot(t, "gives files to other users")
	for _, tc := range []struct {
		name     string
		existing bool // 0640, user 12, group 34
		file     File
		mode     fs.FileMode
		uid, gid uint32
	}{
		{"kept", true, File{}, 0o640, 12, 34},
		{"new", false, File{}, 0o644, 0, 0},
		{"set", true, File{Mode: ptr(fs.FileMode(0o600)), Owner: "56", Group: "78"}, 0o600, 56, 78},
		{"set for a new one", false, File{Mode: ptr(fs.FileMode(0o600)), Owner: "56", Group: "78"}, 0o600, 56, 78},
		{"only the mode", true, File{Mode: ptr(fs.FileMode(0o600))}, 0o600, 12, 34},
		{"only the group", true, File{Group: "root"}, 0o640, 12, 0},
		{"only the owner, by name", true, File{Owner: "root"}, 0o640, 0, 34},
		{"set-id bits", true, File{Mode: ptr(0o750 | fs.ModeSetgid), Owner: "56"}, 0o750 | fs.ModeSetgid, 56, 34},
		{"mode against the umask", false, File{Mode: ptr(fs.FileMode(0o666))}, 0o666, 0, 0},
		{"in place", true, File{InPlace: true, Mode: ptr(fs.FileMode(0o600)), Group: "78"}, 0o600, 12, 78},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, t.TempDir(), "a")
			path := h.opts.Files[0].Path
			tc.file.Name, tc.file.Path = "a", path
			h.opts.Files[0] = tc.file
			if tc.existing {
				write(t, path, string(h.content("1")["a"]))
				if err := os.Chown(path, 12, 34); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, 0o640); err != nil {
					t.Fatal(err)
				}
			}
			// Once with other bytes, once where only mode and owner may differ.
			for _, variant := range []string{"1", "2"} {
				h.mustApply(variant)
				info, st := stat(t, path)
				if got := info.Mode() & modeBits; got != tc.mode || st.Uid != tc.uid || st.Gid != tc.gid {
					t.Errorf("mode %v of %d:%d, want %v of %d:%d", got, st.Uid, st.Gid, tc.mode, tc.uid, tc.gid)
				}
				h.wantInForce(variant)
			}
			if res := h.mustApply("2"); !res.Noop {
				t.Errorf("%+v", res)
			}
			if err := os.Chmod(path, 0o604); err != nil {
				t.Fatal(err)
			}
			cmp, err := h.output().Compare(h.content("2"))
			if want := tc.file.Mode != nil; err != nil || cmp.Files[0].Mode != want || cmp.InSync() == want {
				t.Errorf("after chmod: %+v, %v", cmp, err)
			}
			if err := os.Chown(path, 90, 91); err != nil {
				t.Fatal(err)
			}
			cmp, err = h.output().Compare(h.content("2"))
			if want := tc.file.Owner != "" || tc.file.Group != ""; err != nil || cmp.Files[0].Owner != want {
				t.Errorf("after chown: %+v, %v", cmp, err)
			}
		})
	}
}

func TestUnknownOwner(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Files[0].Owner = "lb-render-nobody"
	write(t, h.opts.Files[0].Path, "# old\n")
	_, err := h.apply("1")
	wantError(t, err, PhaseCompare, `owner "lb-render-nobody"`, "set another owner")
	// A review on a machine without the daemon still sees the bytes.
	cmp, err := h.output().Compare(h.content("1"))
	if err != nil || string(cmp.Files[0].Current) != "# old\n" || cmp.Files[0].Err == nil || cmp.InSync() {
		t.Errorf("%+v, %v", cmp, err)
	}
}

// An agent without root's rights.
func TestNotRoot(t *testing.T) {
	needRoot(t, "becomes another user")
	setUp := func(t *testing.T) (*host, string) {
		root, err := os.MkdirTemp("", "output")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(root) })
		h := newHost(t, root, "a")
		h.mustApply("1")
		for _, path := range []string{root, h.dir, h.runDir, h.state, filepath.Join(h.state, "daemon"), filepath.Join(h.state, "log"), filepath.Join(h.runDir, "lb.lock")} {
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
		h.log()
		return h, root
	}
	t.Run("file of another user", func(t *testing.T) {
		h, root := setUp(t)
		res, err := helper(t, root, "2", "none", "65534", "a")
		if err == nil || !strings.Contains(res.Tail, "cannot be given to user 0, group 0 by user 65534: run the agent as root (or with CAP_CHOWN), or set owner: and group:") {
			t.Errorf("%s, %v", res.Tail, err)
		}
		h.wantInForce("1")
	})
	t.Run("file of its own", func(t *testing.T) {
		h, root := setUp(t)
		if err := os.Chown(h.opts.Files[0].Path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := helper(t, root, "2", "none", "65534", "a"); err != nil {
			t.Error(err)
		}
		h.wantInForce("2")
	})
	t.Run("directory of another user", func(t *testing.T) {
		h, root := setUp(t)
		if err := os.Chown(h.dir, 0, 0); err != nil {
			t.Fatal(err)
		}
		res, err := helper(t, root, "2", "none", "65534", "a")
		if err == nil || !strings.Contains(res.Tail, "permission denied: the agent's user must be able to write in "+h.dir) {
			t.Errorf("%s, %v", res.Tail, err)
		}
		h.wantInForce("1")
	})
}

// Without hard links the previous file is a copy.
func TestRollbackWithoutHardLinks(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	if err := os.Chmod(h.opts.Files[0].Path, 0o604); err != nil {
		t.Fatal(err)
	}
	h.failing("reload", true)
	h.opts.Files[0].Mode = ptr(fs.FileMode(0o600)) // of the new file only
	o := h.output()
	o.link = func(string, string) error { return syscall.EPERM }
	_, err := o.Apply(t.Context(), h.content("2"))
	wantError(t, err, PhaseReload)
	h.wantFile(h.opts.Files[0].Path, string(h.content("1")["a"]))
	h.wantFile(h.opts.Files[1].Path, string(h.content("1")["b"]))
	if info, _ := stat(t, h.opts.Files[0].Path); info.Mode() != 0o604 {
		t.Errorf("mode %v", info.Mode())
	}
	h.wantNothingStaged()
}
