// Package guest has the tests that need a kernel with ip_vs and root. The test
// beside this folder runs them in a virtual machine of their own, which is why
// they may flush its table, load and unload modules, and leave networks behind.
// Elsewhere they skip.
//
// What a sync must come to is always told by ipvsadm, restoring the same file;
// what the kernel holds is read in more than one way (state_test.go).
package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	switch os.Getenv("LB_RENDER_VM_ROLE") { // this binary, started by a test, in a network namespace
	case "server":
		os.Exit(serve(os.Args[1:]))
	case "client":
		os.Exit(load(os.Args[1]))
	}
	os.Exit(m.Run())
}

// start begins a test with an empty table, and ends it with one.
func start(t *testing.T) {
	t.Helper()
	if os.Getenv("LB_RENDER_VM") == "" {
		t.Skip("for a virtual machine only: go test in test/vm")
	}
	must(t, "ipvsadm", "-C")
	t.Cleanup(func() { must(t, "ipvsadm", "-C") })
}

// soon is for what no promise is about: it comes, but the machine is emulated.
const soon = 60 * time.Second

// waitFor waits until do is content, and fails the test with its last complaint after limit.
func waitFor(t *testing.T, limit time.Duration, do func() error) time.Duration {
	t.Helper()
	started := time.Now()
	for {
		err := do()
		took := time.Since(started)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("after %s: %v", took.Round(time.Millisecond), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// result is how a command ended.
type result struct {
	command        string
	stdout, stderr string
	code           int
	took           time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("%s: exit code %d after %s\n%s%s", r.command, r.code, r.took.Round(time.Millisecond), r.stdout, r.stderr)
}

// run runs a command to its end, which must come soon.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runWith(t, "", args...)
}

func runWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	p := begin(t, stdin, args...)
	return p.wait(t)
}

// process is a command that runs.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
	started  time.Time
	ctx      context.Context
	cancel   context.CancelFunc
}

func begin(t *testing.T, stdin string, args ...string) *process {
	t.Helper()
	p := prepare(stdin, args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// prepare makes a process that is still to be started.
func prepare(stdin string, args ...string) *process {
	p := &process{started: time.Now()}
	p.ctx, p.cancel = context.WithTimeout(context.Background(), 2*soon)
	p.Cmd = exec.CommandContext(p.ctx, args[0], args[1:]...)
	p.WaitDelay = 5 * time.Second
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(stdin), &p.out, &p.err
	return p
}

func (p *process) wait(t *testing.T) result {
	t.Helper()
	defer p.cancel()
	err := p.Wait()
	r := result{strings.Join(p.Args, " "), p.out.String(), p.err.String(), p.ProcessState.ExitCode(), time.Since(p.started)}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited || p.ctx.Err() != nil {
		t.Fatalf("%s: %v", r, errors.Join(err, p.ctx.Err()))
	}
	return r
}

// must runs a command that has to end well, and returns what it printed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	r := run(t, args...)
	if r.code != 0 {
		t.Fatal(r)
	}
	return r.stdout
}

// restore gives the rules to ipvsadm, whole and without a complaint.
func restore(t *testing.T, rules string) {
	t.Helper()
	if r := runWith(t, rules, "ipvsadm", "-R"); r.code != 0 || r.stderr != "" {
		t.Fatal(r)
	}
}

// reset makes the table that of the rules, whatever it was.
func reset(t *testing.T, rules string) {
	t.Helper()
	restore(t, "-C\n"+rules)
}

// summary is what sync --json prints.
type summary struct {
	Created, Updated, Deleted, Unchanged int // a service counts one, and a server
	Drained, Passes                      int
	Duration                             float64 // seconds
}

func (s summary) edits() int { return s.Created + s.Updated + s.Deleted }

func (s summary) String() string {
	return fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged, %d passes, %.3f s", s.Created, s.Updated, s.Deleted, s.Unchanged, s.Passes, s.Duration)
}

// syncFile is a sync that must end well, and say nothing but its summary.
func syncFile(t *testing.T, file string, flags ...string) summary {
	t.Helper()
	r := run(t, append([]string{"lb-render", "ipvs", "sync", file, "--json"}, flags...)...)
	if r.code != 0 {
		t.Fatal(r)
	}
	return summaryOf(t, r)
}

func summaryOf(t *testing.T, r result) summary {
	t.Helper()
	var s summary
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	return s
}

// write puts rules into a file of the test's own.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// oneLine holds that a command said what is wrong in one line, and nothing else.
func oneLine(t *testing.T, r result, code int) {
	t.Helper()
	if r.code != code || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || len(r.stderr) < 10 {
		t.Errorf("want exit code %d, and one line: %s", code, r)
	}
}

// figure notes a measured value, which the host side looks for.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

// head is the first lines of a text that may be long; the console is a slow one.
func head(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) <= n {
		return text
	}
	return strings.Join(lines[:n], "") + fmt.Sprintf("... and %d lines more\n", len(lines)-n)
}
