// Package e2e drives the built lb-render against a real control plane (etcd,
// kube-apiserver and the EndpointSlice controllers; see test/controlplane), as
// an operator and a kubelet would: real Services, Nodes and Pods, and slices made
// by the real controller. Every test looks at what a user sees: the files, what
// the daemon was given by the reload command, the metrics and the exit codes.
//
// "make controlplane" builds what it needs; without it the tests skip, except in
// CI, where they fail. Tests that measure run alone; the others in parallel, each
// with a control plane or a namespace of its own. LB_RENDER_E2E_REPORT names a file
// for the figures that docs/reliability.md has.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The programs under test: with the race detector, and as it is shipped.
var raceBinary, plainBinary, controlPlane string

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	controlPlane = os.Getenv("CONTROLPLANE")
	if controlPlane == "" {
		controlPlane = filepath.Join("..", "..", "bin", "controlplane")
	}
	controlPlane, _ = filepath.Abs(controlPlane)
	if _, err := os.Stat(controlPlane); err != nil {
		if os.Getenv("CI") != "" {
			fmt.Fprintf(os.Stderr, "e2e: no control plane: %v; make controlplane\n", err)
			return 1
		}
		controlPlane = "" // needControlPlane skips
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "lb-render-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	raceBinary, plainBinary = filepath.Join(dir, "race", "lb-render"), filepath.Join(dir, "plain", "lb-render")
	for _, args := range [][]string{{"build", "-race", "-o", raceBinary}, {"build", "-trimpath", "-o", plainBinary}} {
		c := exec.Command("go", append(args, "./cmd/lb-render")...)
		c.Dir = filepath.Join("..", "..") // the product is a module of its own
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: building lb-render:", err)
			return 1
		}
	}
	defer stopShared()
	return m.Run()
}

func needControlPlane(t *testing.T) {
	t.Helper()
	if controlPlane == "" {
		t.Skip("no control plane; make controlplane")
	}
}

// eventually waits until do is content, and fails the test with its last complaint after limit.
// It returns how long that took.
func eventually(t *testing.T, limit time.Duration, do func() error) time.Duration {
	t.Helper()
	started := time.Now()
	for {
		err := do()
		took := time.Since(started)
		if took > limit {
			t.Fatalf("after %s, which is more than %s: %v", took.Round(time.Millisecond), limit, err)
		}
		if err == nil {
			return took
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// soon is for what no promise is about: it comes, but this machine may be busy.
const soon = 30 * time.Second

// during holds that do stays content for d.
func during(t *testing.T, d time.Duration, do func() error) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

var report struct {
	sync.Mutex
}

// figure notes a measured value, in the test's log and in the report.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	path := os.Getenv("LB_RENDER_E2E_REPORT")
	if path == "" {
		return
	}
	report.Lock()
	defer report.Unlock()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "%s: %s\n", t.Name(), line)
}
