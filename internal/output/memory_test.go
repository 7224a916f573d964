package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watched is an Output that lives for more than one pass, on a clock of its own,
// and counts what it costs.
type watched struct {
	*host
	o     *Output
	now   time.Time
	reads int // of live files
	sums  int // hashes computed
}

func (h *host) watch() *watched {
	h.t.Helper()
	w := &watched{host: h, now: time.Now()}
	h.opts.Now = func() time.Time { return w.now }
	w.o = h.output()
	w.o.read = func(r io.Reader, size int64, like []byte) ([]byte, error) {
		w.reads++
		return readLike(r, size, like)
	}
	w.o.hash = func(files []File, c Content) string {
		w.sums++
		return hash(files, c)
	}
	return w
}

func (w *watched) pass(variant string, resync bool) (Result, error) {
	w.t.Helper()
	w.steps, w.reads, w.sums = nil, 0, 0
	ctx := w.t.(*testing.T).Context()
	return w.o.apply(ctx, ctx, w.content(variant), resync)
}

func (w *watched) must(variant string) Result {
	w.t.Helper()
	res, err := w.pass(variant, false)
	if err != nil {
		w.t.Fatal(err)
	}
	if want := hash(w.opts.Files, w.content(variant)); res.Hash != want {
		w.t.Errorf("hash %q, want %q", res.Hash, want)
	}
	return res
}

func (w *watched) wantReads(n int) {
	w.t.Helper()
	if w.reads != n {
		w.t.Errorf("%d files were read, want %d", w.reads, n)
	}
}

func (w *watched) wantSums(n int) {
	w.t.Helper()
	if w.sums != n {
		w.t.Errorf("%d hashes were computed, want %d", w.sums, n)
	}
}

// firm lets so much time pass that the variant, which is in force, is known for sure.
func (w *watched) firm(variant string) {
	w.t.Helper()
	w.now = w.now.Add(slack)
	if res := w.must(variant); !res.Noop {
		w.t.Fatalf("%+v", res)
	}
}

// sameTick is a file system whose clock stands still.
func (w *watched) sameTick() {
	w.o.identify = func(info fs.FileInfo) identity {
		id := identify(info)
		id.mtime, id.ctime = syscall.Timespec{}, syscall.Timespec{}
		return id
	}
}

// edit writes s into the file itself, in another tick than whatever was before.
func edit(t testing.TB, path, s string) {
	t.Helper()
	before, _ := stat(t, path)
	for {
		write(t, path, s)
		if after, _ := stat(t, path); identify(after) != identify(before) {
			return
		}
	}
}

// A file that this process wrote is read once more, when what others could have
// written in the same tick has another time; and then no more before a resync.
func TestNothingChangedReadsNothing(t *testing.T) {
	w := newHost(t, t.TempDir(), "a", "b").watch()
	w.must("1")
	w.wantReads(0) // there was nothing
	for range 2 {  // too early to be sure
		w.now = w.now.Add(slack/2 - 1)
		w.must("1")
		w.wantReads(2)
	}
	w.firm("1")
	w.wantReads(2)
	for range 3 {
		if res := w.must("1"); !res.Noop {
			t.Errorf("%+v", res)
		}
		w.wantReads(0)
	}
	for range 2 {
		if res, err := w.pass("1", true); err != nil || len(res.Changed) > 0 {
			t.Errorf("resync: %+v, %v", res, err)
		}
		w.wantReads(2)
	}
	w.must("1")
	w.wantReads(0)

	// After a restart the disk is read: someone may have been there.
	w = w.watch()
	w.must("1")
	w.wantReads(2)
}

// One change after the other, however quick, reads nothing: what is there is
// replaced anyway. Of what is on disk there is one copy, the rendered one.
func TestChangesReadNothing(t *testing.T) {
	w := newHost(t, t.TempDir(), "a", "b").watch()
	w.must("1")
	for i := range 3 {
		if res := w.must(fmt.Sprint(i)); res.Drift || len(res.Changed) != 2 && i != 1 {
			t.Errorf("%+v", res)
		}
		if i != 1 {
			w.wantReads(0)
		}
	}
	w.wantInForce("2")
	given := Content{"a": []byte("# a is new\n"), "b": w.content("2")["b"]}
	if _, err := w.o.Apply(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	w.wantReads(1) // of b, which is to stay and was written just now
	if !same(w.o.known.files["a"].bytes, given["a"]) {
		t.Error("a was copied")
	}
}

// Whatever others do to a file is seen in the next pass, without a resync.
func TestForeignChanges(t *testing.T) {
	for _, tc := range []struct {
		name  string
		do    func(t *testing.T, path, other string)
		reads int // in the pass after
	}{
		{"written in place", func(t *testing.T, path, other string) { edit(t, path, other) }, 1},
		{"same size, old time put back", func(t *testing.T, path, other string) {
			info, _ := stat(t, path)
			edit(t, path, other)
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
			if after, _ := stat(t, path); !after.ModTime().Equal(info.ModTime()) || after.Size() != info.Size() {
				t.Fatal("the change shows")
			}
		}, 1},
		{"cut short", func(t *testing.T, path, other string) { edit(t, path, other[:10]) }, 1},
		{"emptied", func(t *testing.T, path, _ string) { edit(t, path, "") }, 1},
		{"replaced", func(t *testing.T, path, other string) {
			write(t, path+".new", other)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"removed", func(t *testing.T, path, _ string) { _ = os.Remove(path) }, 0},
		{"mode", func(t *testing.T, path, _ string) {
			if err := os.Chmod(path, 0o604); err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, t.TempDir(), "a", "b")
			h.opts.Files[0].Mode = ptr(defaultMode)
			w := h.watch()
			w.must("1")
			w.firm("1")
			tc.do(t, w.opts.Files[0].Path, string(w.content("2")["a"]))
			res := w.must("1")
			if !res.Drift || !slices.Equal(res.Changed, []string{"a"}) {
				t.Errorf("%+v", res)
			}
			w.wantReads(tc.reads)
			w.wantSums(0)
			w.wantInForce("1")
			if info, _ := stat(t, w.opts.Files[0].Path); info.Mode() != defaultMode {
				t.Errorf("mode %v", info.Mode())
			}
			w.firm("1")
			if w.must("1"); w.reads > 0 {
				t.Error("it is still read")
			}
		})
	}
}

// The symlink to the file leads to another one, which has the new content.
func TestRetargetedSymlink(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	link, elsewhere := h.opts.Files[0].Path, filepath.Join(h.state, "elsewhere")
	if err := os.Symlink("first", link); err != nil {
		t.Fatal(err)
	}
	h.opts.Reload = nil
	w := h.watch()
	w.must("1")
	w.firm("1")
	write(t, elsewhere, string(h.content("2")["a"]))
	if err := errors.Join(os.Remove(link), os.Symlink(elsewhere, link)); err != nil {
		t.Fatal(err)
	}
	if res := w.must("1"); !res.Drift {
		t.Errorf("%+v", res)
	}
	h.wantFile(elsewhere, string(h.content("1")["a"]))
}

// The memory of what was renamed into place goes by what was staged. A check
// command that changes that is not overlooked.
func TestCheckCommandChangesTheStagedFile(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Check = sh(`echo "# checked" >>"$LB_RENDER_STAGED"`)
	w := h.watch()
	w.must("1")
	w.must("2")
	w.wantReads(1)
}

// A file that was gone in a pass that failed, and is back as it was, is no
// reason to reload.
func TestFileComesBack(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	w := h.watch()
	w.must("1")
	path := h.opts.Files[1].Path
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	h.failing("check", true)
	_, err := w.pass("1", false)
	wantError(t, err, PhaseCheck)
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if res := w.must("1"); !res.Noop {
		t.Errorf("%+v", res)
	}
}

// Someone else writes just after us, with the same size and in the same tick of
// the file system's clock: no time tells, and none ever will.
func TestWriteInTheSameTick(t *testing.T) {
	for name, wait := range map[string]time.Duration{"at once": 0, "an hour later": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newHost(t, t.TempDir(), "a").watch()
			w.sameTick()
			w.must("1")
			w.must("1")
			write(t, w.opts.Files[0].Path, string(w.content("2")["a"]))
			w.now = w.now.Add(wait)
			if res := w.must("1"); !res.Drift {
				t.Errorf("%+v", res)
			}
			w.wantInForce("1")
			// A new file in its place is another inode, whatever the times.
			w.firm("1")
			write(t, w.opts.Files[0].Path+".new", string(w.content("2")["a"]))
			if err := os.Rename(w.opts.Files[0].Path+".new", w.opts.Files[0].Path); err != nil {
				t.Fatal(err)
			}
			if res := w.must("1"); !res.Drift {
				t.Errorf("%+v", res)
			}
			// Other content replaces it in any case.
			write(t, w.opts.Files[0].Path, string(w.content("2")["a"]))
			if res := w.must("3"); len(res.Changed) != 1 {
				t.Errorf("%+v", res)
			}
			w.wantReads(0)
			w.wantInForce("3")
		})
	}
}

// What was written in the same tick is what a rollback puts back, also without
// hard links; and the daemon is told the hash of that.
func TestRollbackToAWriteInTheSameTick(t *testing.T) {
	for name, link := range map[string]func(string, string) error{
		"hard link": os.Link,
		"copy":      func(string, string) error { return syscall.EPERM },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, t.TempDir(), "a")
			var told string
			h.opts.Reload = &Command{Expand: func(v any) ([]string, error) {
				told = v.(Vars).Hash
				return []string{"true"}, nil
			}}
			w := h.watch()
			w.sameTick()
			w.o.link = link
			w.must("1")
			write(t, h.opts.Files[0].Path, string(h.content("2")["a"]))
			h.failing("verify", true)
			_, err := w.pass("3", false)
			wantError(t, err, PhaseVerify)
			h.wantFile(h.opts.Files[0].Path, string(h.content("2")["a"]))
			if want := hash(h.opts.Files, h.content("2")); told != want {
				t.Errorf("the daemon was told %s, want %s", told, want)
			}
		})
	}
}

// After a transaction that failed the memory is of what the disk has then.
func TestMemoryAfterAFailure(t *testing.T) {
	for _, tc := range []struct {
		name, fail string
		noRollback bool
		onDisk     string
		marker     bool // it is still there
	}{
		{"check", "check", false, "1", true},
		{"reload", "reload", false, "1", false},
		{"verify", "verify", false, "1", false},
		{"reload, no rollback", "reload", true, "2", false},
		{"rename", "rename", false, "1", false},
	} {
		for _, next := range []string{"1", "2", "3"} {
			t.Run(tc.name+" then "+next, func(t *testing.T) {
				h := newHost(t, t.TempDir(), "a", "b")
				h.opts.NoRollback = tc.noRollback
				w := h.watch()
				w.must("1")
				w.firm("1")
				if b := h.opts.Files[1].Path; tc.fail == "rename" {
					// After a was renamed, b is a directory.
					w.o.opts.Hook = func(s string) {
						if s == "renamed:a" {
							_ = errors.Join(os.Rename(b, b+".away"), os.Mkdir(b, 0o755))
						}
						if s == "rolled-back:a" {
							_ = errors.Join(os.Remove(b), os.Rename(b+".away", b))
						}
					}
				} else {
					h.failing(tc.fail, true)
				}
				res, err := w.pass("2", false)
				if err == nil || res.Hash != hash(h.opts.Files, h.content("2")) {
					t.Fatalf("%+v, %v", res, err)
				}
				h.failing(tc.fail, false)
				w.o.opts.Hook = nil
				for _, f := range h.opts.Files {
					h.wantFile(f.Path, string(h.content(tc.onDisk)[f.Name]))
					if k := w.o.known.files[f.Name]; !bytes.Equal(k.bytes, h.content(tc.onDisk)[f.Name]) {
						t.Errorf("%s is remembered as %.20q", f.Name, k.bytes)
					}
				}
				res = w.must(next)
				if (len(res.Changed) == 0) != (next == tc.onDisk) || res.Noop != (next == tc.onDisk && tc.marker) || res.Drift {
					t.Errorf("%+v", res)
				}
				h.wantInForce(next)
				w.firm(next)
				w.must(next)
				w.wantReads(0)
			})
		}
	}
}

// A foreign file that was seen in a pass that failed is still drift when what
// was last in force is wanted again, though it need not be read again.
func TestDriftSeenBefore(t *testing.T) {
	w := newHost(t, t.TempDir(), "a").watch()
	w.must("1")
	edit(t, w.opts.Files[0].Path, "# by hand\n")
	w.failing("check", true)
	if _, err := w.pass("2", false); err == nil {
		t.Fatal("no error")
	}
	w.failing("check", false)
	if res := w.must("1"); !res.Drift {
		t.Errorf("%+v", res)
	}
	w.wantReads(0)
	if res := w.must("2"); res.Drift {
		t.Errorf("%+v", res)
	}
}

// A file that is written in place is read in each pass: its bytes in memory are
// all that a rollback has.
func TestInPlaceIsAlwaysRead(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Files[0].InPlace = true
	w := h.watch()
	w.sameTick()
	path := h.opts.Files[0].Path
	for _, variant := range []string{"1", "2"} { // renamed, overwritten
		w.must(variant)
		for range 2 {
			w.firm(variant)
			w.wantReads(1)
			w.wantSums(0)
		}
		write(t, path, string(h.content("3")["a"]))
		if res := w.must(variant); !res.Drift {
			t.Errorf("%+v", res)
		}
		h.wantInForce(variant)
	}
	write(t, path, string(h.content("3")["a"]))
	h.failing("reload", true)
	_, err := w.pass("4", false)
	wantError(t, err, PhaseReload)
	h.wantFile(path, string(h.content("3")["a"]))
	h.failing("reload", false)
	w.must("3")
	h.wantInForce("3")
}

// Check and Compare read the disk, and leave the memory alone.
func TestCheckAndCompareHaveNoMemory(t *testing.T) {
	w := newHost(t, t.TempDir(), "a").watch()
	w.must("1")
	w.firm("1")
	w.reads = 0
	_, _ = w.o.Compare(w.content("1"))
	_ = w.o.Check(t.Context(), w.content("1"))
	w.wantReads(2)
	path := w.opts.Files[0].Path
	edit(t, path, "# by hand\n")
	if cmp, err := w.o.Compare(w.content("1")); err != nil || string(cmp.Files[0].Current) != "# by hand\n" {
		t.Errorf("%+v, %v", cmp, err)
	}
	if err := w.o.Check(t.Context(), w.content("1")); err != nil {
		t.Error(err)
	}
	if res := w.must("1"); !res.Drift { // which neither has taken for its own
		t.Errorf("%+v", res)
	}
}

// Content that is on disk, or was there when it was hashed, has a hash already.
func TestHashIsComputedOnce(t *testing.T) {
	w := newHost(t, t.TempDir(), "a", "b").watch()
	w.must("1")
	w.wantSums(1)
	w.must("1") // equal, and other memory
	w.wantSums(0)
	if _, err := w.pass("1", true); err != nil {
		t.Fatal(err)
	}
	w.wantSums(0)
	w.failing("check", true)
	if _, err := w.pass("2", false); err == nil {
		t.Fatal("no error")
	}
	w.wantSums(1)
	w.failing("check", false)
	w.must("1")
	w.wantSums(0)
	c := w.content("1")
	w.sums = 0
	if res, err := w.o.Apply(t.Context(), Content{"a": c["a"], "b": c["a"]}); err != nil || res.Hash != hash(w.opts.Files, Content{"a": c["a"], "b": c["a"]}) {
		t.Errorf("%+v, %v", res, err)
	}
	w.wantSums(1)
}

// The hash is computed while the files are staged, and the check command has it.
func TestHashBesideStaging(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	var seen string
	h.opts.Check = &Command{Expand: func(v any) ([]string, error) {
		seen = v.(Vars).Hash
		return []string{"true"}, nil
	}}
	w := h.watch()
	w.must("1")
	staged := make(chan struct{})
	w.o.opts.Hook = func(s string) {
		if s == "staged:a" {
			close(staged)
		}
	}
	w.o.hash = func(files []File, c Content) string {
		select {
		case <-staged:
		case <-time.After(10 * time.Second):
			t.Error("staging waits for the hash")
		}
		return hash(files, c)
	}
	if w.must("2"); seen != hash(h.opts.Files, h.content("2")) {
		t.Errorf("the check command saw %q", seen)
	}
}

// However a transaction ends, the hash is in its result and its goroutine has ended.
func TestHashAfterAFailure(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.opts.Check, h.opts.Reload, h.opts.Verify = nil, nil, nil
	path := h.opts.Files[0].Path
	w := h.watch()
	for _, tc := range []struct {
		name string
		do   func(string) // at a step
		want string
	}{
		{"stage", func(s string) {
			if s == "compared" {
				_ = os.RemoveAll(h.dir)
			}
		}, hash(h.opts.Files, h.content("1"))},
		{"commit", func(s string) {
			if s == "staged:a" {
				_ = os.Mkdir(path, 0o755)
			}
		}, hash(h.opts.Files, h.content("1"))},
		{"compare", func(s string) {
			if s == "begin" {
				_ = os.Mkdir(path, 0o755)
			}
		}, ""},
	} {
		if err := os.MkdirAll(h.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		w.o.opts.Hook = tc.do
		ended := false
		w.o.hash = func(files []File, c Content) string {
			time.Sleep(20 * time.Millisecond)
			ended = true // a race if no one waits
			return hash(files, c)
		}
		res, err := w.pass("1", false)
		wantError(t, err, Phase(tc.name))
		if res.Hash != tc.want || !ended {
			t.Errorf("%s: hash %q, want %q", tc.name, res.Hash, tc.want)
		}
		_ = os.Remove(path)
	}
}

func TestReadLike(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000) // more than a chunk
	for _, tc := range []struct{ disk, like string }{
		{"", ""}, {"a", "a"}, {"a", "b"}, {"a", ""}, {"", "a"}, {"ab", "a"},
		{long, long}, {long, long[:len(long)-1] + "x"}, {long, "x" + long[1:]}, {long, long[1:]}, {long[1:], long},
	} {
		for _, size := range []int{len(tc.disk), len(tc.like), 0} { // as stat says, which may be over by now
			like := []byte(tc.like)
			b, err := readLike(strings.NewReader(tc.disk), int64(size), like)
			if err != nil || string(b) != tc.disk {
				t.Errorf("%d bytes like %d of expected %d: %d bytes, %v", len(tc.disk), len(tc.like), size, len(b), err)
			}
			if tc.disk == tc.like && size == len(tc.like) && !same(b, like) {
				t.Errorf("%d bytes were copied", len(b))
			}
			broken := io.MultiReader(strings.NewReader(tc.disk), failingReader{})
			if _, err := readLike(broken, int64(size), like); !errors.Is(err, errDisk) {
				t.Errorf("an error while reading became %v", err)
			}
		}
	}
}

var errDisk = errors.New("input/output error")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errDisk }

func TestNormaliseCopiesNothing(t *testing.T) {
	b := []byte("# whole\n")
	if !same(Normalise(b), b) {
		t.Error("a copy")
	}
}
