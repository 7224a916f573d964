package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/lb-render/lb-render/internal/command"
)

// The test binary is also the process that gets killed, and the one without
// root's rights: see helper_test.go.
func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helperMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// sh is a command that finds everything in its environment.
func sh(script string) *Command {
	return &Command{Shell: true, Expand: func(any) ([]string, error) { return []string{script}, nil }}
}

// host is a machine with one output on it and a daemon made of a shell script.
type host struct {
	t       testing.TB
	dir     string // where the live files are
	runDir  string
	state   string // what the daemon and the scripts remember
	opts    Options
	steps   []string
	content func(variant string) Content
}

// newHost has an output of the named files, each with check, reload and verify
// commands that log to state/log. They fail while a file state/fail-PHASE
// exists. The daemon's configuration is state/daemon: all live files in the
// order of their names.
func newHost(t testing.TB, root string, files ...string) *host {
	h := &host{t: t, dir: filepath.Join(root, "etc"), runDir: filepath.Join(root, "run"), state: filepath.Join(root, "state")}
	for _, dir := range []string{h.dir, h.state} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := func(phase, do string) *Command {
		return sh(fmt.Sprintf(`cd %s && echo "%s $LB_RENDER_CHANGED" >>log && test ! -e fail-%s && %s`, h.state, phase, phase, do))
	}
	h.opts = Options{
		Name:       "lb",
		RuntimeDir: h.runDir,
		Check:      script("check", `test -s "$LB_RENDER_STAGED"`),
		// Like a real daemon it reads first and may fail afterwards.
		Reload: script("reload", fmt.Sprintf(`cat %s/* >daemon`, h.dir)),
		Verify: script("verify", "true"),
		Hook:   func(s string) { h.steps = append(h.steps, s) },
	}
	for _, f := range files {
		h.opts.Files = append(h.opts.Files, File{Name: f, Path: filepath.Join(h.dir, f)})
	}
	h.content = func(variant string) Content {
		c := Content{}
		for _, f := range files {
			c[f] = []byte(fmt.Sprintf("# %s %s\n", f, strings.Repeat(variant, 200)))
		}
		return c
	}
	return h
}

func (h *host) output() *Output {
	h.t.Helper()
	o, err := New(h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// apply applies the variant with a new Output, as after a restart.
func (h *host) apply(variant string) (Result, error) {
	h.t.Helper()
	o := h.output()
	if err := o.Sweep(); err != nil {
		h.t.Fatal(err)
	}
	h.steps = nil
	return o.Apply(context.Background(), h.content(variant))
}

func (h *host) mustApply(variant string) Result {
	h.t.Helper()
	res, err := h.apply(variant)
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

// log returns what the commands logged since the last call.
func (h *host) log() []string {
	path := filepath.Join(h.state, "log")
	b, _ := os.ReadFile(path)
	_ = os.Remove(path)
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
}

func (h *host) wantLog(want ...string) {
	h.t.Helper()
	if want == nil {
		want = []string{""}
	}
	if got := h.log(); !slices.Equal(got, want) {
		h.t.Errorf("commands run: %q, want %q", got, want)
	}
}

func (h *host) failing(phase string, on bool) {
	path := filepath.Join(h.state, "fail-"+phase)
	if on {
		write(h.t, path, "")
	} else if err := os.RemoveAll(path); err != nil {
		h.t.Fatal(err)
	}
}

// wantInForce demands that disk, daemon and marker all have the variant, and
// that nothing staged is left.
func (h *host) wantInForce(variant string) {
	h.t.Helper()
	all := ""
	for _, f := range h.opts.Files {
		want := string(h.content(variant)[f.Name])
		h.wantFile(f.Path, want)
		all += want
	}
	h.wantFile(filepath.Join(h.state, "daemon"), all)
	o := h.output()
	if got, want := o.readMarker(), hash(o.opts.Files, h.content(variant)); got != want {
		h.t.Errorf("marker %q, want %q", got, want)
	}
	h.wantNothingStaged()
}

func (h *host) wantFile(path, want string) {
	h.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		h.t.Error(err)
	} else if string(b) != want {
		h.t.Errorf("%s is %.40q (%d bytes), want %.40q (%d bytes)", path, b, len(b), want, len(want))
	}
}

func (h *host) wantNothingStaged() {
	h.t.Helper()
	for _, dir := range []string{h.dir, h.runDir} {
		for _, name := range names(h.t, dir) {
			if strings.HasSuffix(name, ".tmp") {
				h.t.Errorf("%s is left in %s", name, dir)
			}
		}
	}
}

// wantError demands an *Error of the phase with all the parts in its message.
func wantError(t testing.TB, err error, phase Phase, parts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Phase != phase {
		t.Fatalf("error %v, want one of phase %s", err, phase)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("message %q is not one line", err)
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func write(t testing.TB, path, s string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

func stat(t testing.TB, path string) (fs.FileInfo, *syscall.Stat_t) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info, info.Sys().(*syscall.Stat_t)
}

// quickDir is t.TempDir in memory where there is such a place. Tests that make
// thousands of files durable take minutes on a busy disk.
func quickDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lb-render-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func ptr[T any](v T) *T { return &v }

// needRoot skips where the kernel would not let the test make its situation.
func needRoot(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, not root: this test " + what)
	}
}

// mount mounts for the duration of the test.
func mount(t testing.TB, source, target, fstype string, flags uintptr, data string) {
	t.Helper()
	needRoot(t, "mounts a file system")
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skip("SKIPPED, root without the right to mount: this test mounts a file system")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// runner replaces command.Run, for tests about time and about what is run when.
type runner func(phase string, env map[string]string) error

func (r runner) install(o *Output) {
	o.run = func(ctx context.Context, s command.Spec) (command.Result, error) {
		if err := ctx.Err(); err != nil {
			return command.Result{}, err
		}
		env := map[string]string{}
		for _, e := range s.Env {
			k, v, _ := strings.Cut(e, "=")
			env[k] = v
		}
		return command.Result{}, r(s.Argv[0], env)
	}
}

// argv is a command for a runner: its first argument is its phase.
func argv(args ...string) *Command {
	return &Command{Expand: func(any) ([]string, error) { return args, nil }}
}
