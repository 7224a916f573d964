package output

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "a\n", "a\n": "a\n", "a\n\n": "a\n\n", "a\r": "a\r\n"} {
		if got := string(Normalise([]byte(in))); got != want {
			t.Errorf("Normalise(%q) = %q, want %q", in, got, want)
		}
	}
	// The caller's bytes stay as they are, also where there would be room behind them.
	room := []byte("ab")
	if Normalise(room[:1]); string(room) != "ab" {
		t.Errorf("changed to %q", room)
	}
}

// A missing newline at the end is the same content, on disk and in the hash.
func TestFinalNewlineIsAdded(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.content = func(v string) Content { return Content{"a": []byte("# " + v)} }
	h.mustApply("1")
	h.wantFile(h.opts.Files[0].Path, "# 1\n")
	h.content = func(v string) Content { return Content{"a": []byte("# " + v + "\n")} }
	if res := h.mustApply("1"); !res.Noop {
		t.Errorf("%+v", res)
	}
}

func TestNothingRendered(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	h.mustApply("1")
	h.log()
	good := h.content
	for _, nothing := range []string{"", "\n", " \t\r\n\n"} {
		h.content = func(v string) Content { return Content{"a": good("2")["a"], "b": []byte(nothing)} }
		_, err := h.apply("")
		wantError(t, err, PhaseRender, "file b rendered to nothing")
		if _, err := h.output().Compare(h.content("")); err == nil {
			t.Error("Compare accepts it")
		}
		if _, err := h.output().Hash(h.content("")); err == nil {
			t.Error("Hash accepts it")
		}
	}
	h.content = good
	h.wantLog()
	h.wantInForce("1")
}

func TestHash(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	base, err := h.output().Hash(h.content("1"))
	if err != nil || len(base) != hashLen {
		t.Fatalf("%q, %v", base, err)
	}
	same := *h
	same.opts.Files = []File{h.opts.Files[1], h.opts.Files[0]}
	same.opts.Files[0].Mode = ptr(defaultMode)
	same.opts.Name = "other"
	if got, _ := same.output().Hash(h.content("1")); got != base {
		t.Error("depends on the order of the files, their mode or the output's name")
	}
	if got, _ := h.output().Hash(h.content("2")); got == base {
		t.Error("does not depend on the content")
	}
	moved := *h
	moved.opts.Files = []File{h.opts.Files[0], {Name: "b", Path: filepath.Join(h.dir, "c")}}
	if got, _ := moved.output().Hash(h.content("1")); got == base {
		t.Error("does not depend on the path")
	}
}

// No two groups of files have the same hash, wherever one file's text ends and
// the next one's begins.
func FuzzHash(f *testing.F) {
	f.Add("a", "b", "ab", "")
	f.Add("x\n", "", "", "x\n")
	f.Add("1b/b2", "", "1", "2b/b") // the same bytes if there were no lengths between them
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		files := []File{{Name: "a", Path: "/a"}, {Name: "b", Path: "/b"}}
		same := a1 == a2 && b1 == b2
		h1 := hash(files, Content{"a": []byte(a1), "b": []byte(b1)})
		h2 := hash(files, Content{"a": []byte(a2), "b": []byte(b2)})
		if (h1 == h2) != same {
			t.Errorf("%q+%q and %q+%q", a1, b1, a2, b2)
		}
	})
}

func TestCompare(t *testing.T) {
	h := newHost(t, t.TempDir(), "a", "b")
	cmp, err := h.output().Compare(h.content("1"))
	if err != nil || len(cmp.Files) != 2 || !cmp.Files[0].Missing || !cmp.Files[0].Bytes || cmp.Marker || cmp.InSync() || len(cmp.Changed()) != 2 {
		t.Errorf("%+v, %v", cmp, err)
	}
	h.mustApply("1")
	if cmp, err = h.output().Compare(h.content("1")); err != nil || !cmp.InSync() || !cmp.Marker || len(cmp.Changed()) != 0 {
		t.Errorf("%+v, %v", cmp, err)
	}
	write(t, h.opts.Files[1].Path, "# by hand\n")
	cmp, err = h.output().Compare(h.content("1"))
	if err != nil || !cmp.Marker || cmp.InSync() || strings.Join(cmp.Changed(), " ") != "b" || string(cmp.Files[1].Current) != "# by hand\n" ||
		!bytes.Equal(cmp.Files[1].Rendered, h.content("1")["b"]) || cmp.Files[1].Missing || cmp.Files[1].Mode {
		t.Errorf("%+v, %v", cmp, err)
	}
}
