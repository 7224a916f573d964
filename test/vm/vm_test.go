// Package vm runs the tests of guest/ as root inside of a virtual machine whose
// kernel has ip_vs (ipvs-vm.sh). It builds
// them into one binary, boots one machine with that and the lb-render of bin/,
// and shows every test of the guest as a subtest of its own.
//
// It takes root, Debian's apt-get and an x86_64 machine; elsewhere it skips,
// except in CI, where that is a failure. LB_RENDER_VM_RUN is a pattern of the
// guest's tests (-run), LB_RENDER_VM_REPORT names a file for the figures.
package vm

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit is the most that the machine may take. On two cores that nobody else uses the tests take a third of it.
const limit = 15 * time.Minute

// script is what runs in the guest. The pattern comes by its environment, since quotes do not survive here.
const script = `#!/bin/bash
exec ./guest.test -test.v -test.run "$RUN" -test.timeout "$TIMEOUT"
`

func TestGuest(t *testing.T) {
	need(t)
	product := productBinary(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()

	build := exec.Command("go", "test", "-c", "-trimpath", "-o", filepath.Join(dir, "guest.test"), "./guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the guest's tests: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "tests"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	// The guest has the product's tree as far as it needs it, since examples/ipvs names ../../templates.
	project := filepath.Join(dir, "project")
	for _, sub := range []string{"templates", filepath.Join("examples", "ipvs")} {
		if err := os.CopyFS(filepath.Join(project, sub), os.DirFS(filepath.Join(root, sub))); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{filepath.Join(dir, "guest.test"), product, project, filepath.Join("guest", "testdata")}
	for _, name := range []string{"large-configured.rules", "large-generated.rules"} { // its test says so when they are missing
		if path := filepath.Join(root, "..", "shared", "data", "ravel", name); exists(path) {
			files = append(files, path)
		}
	}

	most := limit
	if deadline, ok := t.Deadline(); ok {
		// The test has to end by itself, or the machine outlives it and nobody sees what it said.
		if most = min(most, time.Until(deadline)-30*time.Second); most < 2*time.Minute {
			t.Fatalf("only %s are left to this test: go test -timeout 20m", most.Round(time.Second))
		}
	}
	args := []string{"ipvs-vm.sh", "run", "-m", "1024", "-t", fmt.Sprint(int(most.Seconds())),
		"-e", "LB_RENDER_VM=1", "-e", "CI=" + os.Getenv("CI"), "-e", "RUN=" + os.Getenv("LB_RENDER_VM_RUN"),
		"-e", "TIMEOUT=" + (most - 20*time.Second).String(), filepath.Join(dir, "tests")}
	boot(t, most+time.Minute, append(args, files...))
}

// need skips where the machine cannot be had.
func need(t *testing.T) {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("apt-get"); err != nil {
		missing = "no apt-get on this machine, which fetches the kernel and QEMU"
	} else if os.Geteuid() != 0 {
		missing = "not root, which apt-get needs to install QEMU"
	} else if runtime.GOARCH != "amd64" {
		missing = "the virtual machine is an x86_64 one with this machine's own programs, and this is " + runtime.GOARCH
	}
	switch {
	case missing == "":
	case os.Getenv("CI") != "":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}

// productBinary is bin/lb-render, which has to run in a guest without libraries.
func productBinary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "lb-render"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatalf("%v; run make build first", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Fatalf("%s is not static, and the guest has no libraries for it; run make build", path)
		}
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// boot runs the machine, and makes a subtest of every test whose output comes over its console.
func boot(t *testing.T, most time.Duration, args []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	read, write := io.Pipe()
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // QEMU is in the group
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { // ends with the machine, which ctx bounds
		err := cmd.Wait()
		write.Close()
		ended <- err
	}()

	c := &console{lines: bufio.NewReader(read)}
	tests := 0
	for line, ok := c.next(); ok; line, ok = c.next() {
		name, starts := started(line)
		if !starts {
			fmt.Fprint(t.Output(), line)
			continue
		}
		tests++
		t.Run(name, func(t *testing.T) { c.subtest(t, name) })
	}
	err := <-ended
	switch {
	case err != nil && !t.Failed():
		t.Errorf("the guest's tests passed, as far as they came; the machine: %v", err)
	case err != nil:
		t.Logf("the machine: %v", err)
	case tests == 0:
		t.Error("not one test ran in the guest")
	}
}

// console is what the guest prints, by line.
type console struct {
	lines *bufio.Reader
	back  string // read, and not used
}

func (c *console) next() (string, bool) {
	if line := c.back; line != "" {
		c.back = ""
		return line, true
	}
	line, err := c.lines.ReadString('\n')
	return strings.TrimRight(line, "\r\n") + "\n", err == nil || line != ""
}

// started names the test of the top level that begins with this line.
func started(line string) (string, bool) {
	name, ok := strings.CutPrefix(line, "=== RUN   ")
	name = strings.TrimSpace(name)
	return name, ok && !strings.Contains(name, "/")
}

// subtest plays the test name of the guest: its output up to the next test or the end.
func (c *console) subtest(t *testing.T, name string) {
	verdict := ""
	for line, ok := c.next(); ok; line, ok = c.next() {
		if _, other := started(line); other || verdict != "" && (line == "PASS\n" || line == "FAIL\n") {
			c.back = line
			break
		}
		fmt.Fprint(t.Output(), line)
		report(t, line)
		if rest, ok := strings.CutPrefix(line, "--- "); ok && strings.Contains(rest, ": "+name+" (") {
			verdict, _, _ = strings.Cut(rest, ":")
		}
	}
	switch verdict {
	case "PASS":
	case "SKIP":
		t.Skip("skipped in the guest")
	case "FAIL":
		t.Fail()
	default:
		t.Error("the guest ended in the middle of this test")
	}
}

// report notes a figure of the guest, in the file that LB_RENDER_VM_REPORT names.
func report(t *testing.T, line string) {
	path := os.Getenv("LB_RENDER_VM_REPORT")
	_, value, ok := strings.Cut(line, "figure: ")
	if path == "" || !ok {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		t.Fatal(err)
	}
}
