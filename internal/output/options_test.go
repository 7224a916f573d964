package output

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNewReportsEveryError(t *testing.T) {
	_, err := New(Options{
		Name: "a/b", MinInterval: -1, Backoff: Backoff{Min: time.Minute, Max: time.Second},
		Files: []File{
			{Name: "x", Path: "/etc/x"}, {Name: "x", Path: "/etc/y"},
			{Name: "p-q", Path: "/etc/./x"}, {Name: "p.q", Path: "/etc/z"},
			{Name: "", Path: ""}, {Name: "m", Path: "/etc/m", Mode: ptr(fs.ModeDir)},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`output name "a/b"`, "no runtime directory", `two files have the name "x"`, `files "x" and "p-q" have the same path /etc/x`,
		`files "p-q" and "p.q" have one name in the environment`, `file name ""`, "no path", "bits that are not permissions", "minInterval", "backoff: at most 1s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

func TestNewExpandsCommands(t *testing.T) {
	base := Options{Name: "lb", RuntimeDir: t.TempDir(), Files: []File{{Name: "a", Path: "/etc/haproxy/haproxy.cfg"}, {Name: "b", Path: "/etc/haproxy/b.map"}}}
	expand := func(f func(Vars) []string) *Command {
		return &Command{Expand: func(v any) ([]string, error) { return f(v.(Vars)), nil }}
	}
	bad := &Command{Expand: func(any) ([]string, error) { return nil, errors.New("map has no entry for key .Satged") }}
	for _, tc := range []struct {
		name          string
		check, reload *Command
		want          string // "": no error
	}{
		{"none", nil, nil, ""},
		{"check on the staged file", expand(func(v Vars) []string { return []string{"haproxy", "-c", "-f", v.Staged} }), nil, ""},
		{"check by file name", expand(func(v Vars) []string { return []string{"haproxy", "-c", "-f", v.Files["b"].Staged} }), nil, ""},
		{"check compares both", expand(func(v Vars) []string { return []string{"diff", v.Path, v.Staged} }), nil, ""},
		{"check beside the live file", expand(func(v Vars) []string { return []string{"haproxy", "-f", v.Path + ".global", "-f", "/etc" + v.Path} }), nil, ""},
		{"check on the live file", expand(func(v Vars) []string { return []string{"haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"} }), nil, "check command names /etc/haproxy/haproxy.cfg, the live file"},
		{"check on the live file, as .Path", expand(func(v Vars) []string { return []string{"haproxy", "-c", "-f" + v.Path} }), nil, ""}, // cannot be told from another word
		{"check on the other live file", expand(func(v Vars) []string { return []string{"haproxy", "-f", v.Staged, "-f", v.Files["b"].Path} }), nil, "{{ .Files.b.Staged }}"},
		{"shell check on the live file", sh("haproxy -c -f /etc/haproxy/haproxy.cfg>/dev/null"), nil, "the live file"},
		{"shell check by environment", sh(`diff "$LB_RENDER_STAGED" /etc/haproxy/haproxy.cfg`), nil, ""},
		{"reload on the live file", nil, sh("load /etc/haproxy/haproxy.cfg"), ""},
		{"bad template", bad, nil, "check command: map has no entry"},
		{"bad template in reload", nil, bad, "reload command: map has no entry"},
		{"nothing to run", nil, expand(func(Vars) []string { return nil }), "reload command: nothing to run"},
		{"blank", nil, sh(" "), "nothing to run"},
		{"no Expand", &Command{}, nil, "nothing to run"},
		{"shell with arguments", nil, &Command{Shell: true, Expand: func(any) ([]string, error) { return []string{"a", "b"}, nil }}, "a shell command is one string, not 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := base
			o.Check, o.Reload = tc.check, tc.reload
			_, err := New(o)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestNewTouchesNothing(t *testing.T) {
	h := newHost(t, t.TempDir(), "a")
	h.output()
	if got := append(names(t, h.dir), names(t, h.runDir)...); len(got) > 0 {
		t.Errorf("made %v", got)
	}
}

func TestRelativePathsBecomeAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	o, err := New(Options{Name: "lb", RuntimeDir: "run", Files: []File{{Name: "a", Path: "out/a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(o.opts.Files[0].Path) || !filepath.IsAbs(o.opts.RuntimeDir) {
		t.Errorf("%+v", o.opts)
	}
}

func TestStagedNameFits(t *testing.T) {
	long := strings.Repeat("n", 100)
	o := Options{Name: long, RuntimeDir: t.TempDir(), Files: []File{{Name: long, Path: filepath.Join(t.TempDir(), "a")}}}
	h := &host{opts: o, t: t, content: func(string) Content { return Content{long: []byte("# x\n")} }}
	h.mustApply("") // 255 bytes are the most that a file name can have
	h.content = func(string) Content { return Content{long: []byte("# y\n")} }
	h.mustApply("")
	o.Name += "n"
	if _, err := New(o); err == nil {
		t.Error("101 characters were accepted")
	}
}
