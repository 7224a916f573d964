package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fixture is a working directory with the files that the scripts start from.
func fixture(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/fixture")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lbRender runs the program in dir; its error is an *exec.ExitError.
func lbRender(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("lb-render", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LB_RENDER_CONFIG=lb-render.yaml"), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func replaceIn(t *testing.T, path, old, with string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(with)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// TestKilledBetweenAnyTwoSteps kills the agent with SIGKILL at each step of a
// transaction, also of one that is rolled back. At that moment every live file
// is the old or the new one, whole; the next start brings the newest into
// force, with a reload, and leaves nothing staged.
func TestKilledBetweenAnyTwoSteps(t *testing.T) {
	// prepare makes a directory in which an old version is in force and a new
	// one is due, of a group of two files.
	prepare := func(t *testing.T) string {
		dir := fixture(t)
		replaceIn(t, filepath.Join(dir, "lb-render.yaml"), "path: out/lb.cfg}", "path: out/lb.cfg}, {name: second, template: second.tmpl, path: out/second.cfg}")
		if err := os.WriteFile(filepath.Join(dir, "templates/second.tmpl"), []byte("{{ range .Listeners }}{{ range .Endpoints }}{{ .IP }}\n{{ end }}{{ end }}"), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := lbRender(t, dir, nil, "apply"); err != nil {
			t.Fatal(out, err)
		}
		replaceIn(t, filepath.Join(dir, "manifests/web.yaml"), "203.0.113.2", "203.0.113.9")
		return dir
	}
	old := prepare(t)
	files := []string{"out/lb.cfg", "out/second.cfg"}
	versions := map[string][2]string{}
	for _, f := range files {
		versions[f] = [2]string{read(t, filepath.Join(old, f)), ""}
	}
	steps := func(t *testing.T, fail string) []string {
		dir := prepare(t)
		if fail != "" {
			if err := os.WriteFile(filepath.Join(dir, "fail"), []byte(fail), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := lbRender(t, dir, []string{"LB_RENDER_TEST_STEPS=" + filepath.Join(dir, "steps")}, "apply")
		if (err == nil) != (fail == "") {
			t.Fatal(out, err)
		}
		if fail == "" {
			for _, f := range files {
				versions[f] = [2]string{versions[f][0], read(t, filepath.Join(dir, f))}
			}
		}
		return strings.Fields(read(t, filepath.Join(dir, "steps")))
	}
	good := steps(t, "")
	bad := steps(t, "once\n")
	if len(good) < 10 || len(bad) <= len(good)-3 {
		t.Fatalf("steps: %q and %q", good, bad)
	}
	for name, list := range map[string][]string{"reload works": good, "reload fails": bad} {
		for _, step := range list {
			t.Run(name+"/"+step, func(t *testing.T) {
				t.Parallel()
				dir := prepare(t)
				if name == "reload fails" {
					if err := os.WriteFile(filepath.Join(dir, "fail"), []byte("once\n"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				out, err := lbRender(t, dir, []string{"LB_RENDER_TEST_KILL=" + step}, "run")
				var exit *exec.ExitError
				if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
					t.Fatalf("not killed: %v\n%s", err, out)
				}
				for _, f := range files {
					if got := read(t, filepath.Join(dir, f)); got != versions[f][0] && got != versions[f][1] {
						t.Errorf("%s is neither the old nor the new one:\n%s", f, got)
					}
				}
				os.Remove(filepath.Join(dir, "fail"))
				agent := exec.Command("lb-render", "run")
				agent.Dir = dir
				agent.Env = append(os.Environ(), "LB_RENDER_CONFIG=lb-render.yaml")
				logFile, err := os.Create(filepath.Join(dir, "agent.log"))
				if err != nil {
					t.Fatal(err)
				}
				defer logFile.Close()
				agent.Stderr = logFile
				if err := agent.Start(); err != nil {
					t.Fatal(err)
				}
				for range 1000 {
					if read(t, filepath.Join(dir, "daemon.cfg")) == versions["out/lb.cfg"][1] && strings.Contains(read(t, logFile.Name()), "msg=ready") {
						break
					}
					time.Sleep(20 * time.Millisecond) // between looks; what counts is compared below
				}
				if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if err := agent.Wait(); err != nil {
					t.Fatalf("%v\n%s", err, read(t, logFile.Name()))
				}
				for _, f := range files {
					if got := read(t, filepath.Join(dir, f)); got != versions[f][1] {
						t.Errorf("%s did not converge:\n%s\n%s", f, got, read(t, logFile.Name()))
					}
				}
				if got := read(t, filepath.Join(dir, "daemon.cfg")); got != versions["out/lb.cfg"][1] {
					t.Errorf("the daemon has\n%s\n%s", got, read(t, logFile.Name()))
				}
				left, err := filepath.Glob(filepath.Join(dir, "out/.lb-render-*"))
				if err != nil || len(left) > 0 {
					t.Errorf("left over: %q %v", left, err)
				}
				if out, err := lbRender(t, dir, nil, "apply"); err != nil || !strings.Contains(out, "in sync") {
					t.Errorf("not in sync: %v\n%s", err, out)
				}
			})
		}
	}
}
