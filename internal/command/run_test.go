package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short has delays that keep the tests quick; nothing depends on how quick.
func short(shell string) Spec {
	return Spec{Shell: shell, Timeout: 200 * time.Millisecond, KillDelay: 200 * time.Millisecond, WaitDelay: 100 * time.Millisecond}
}

func TestRunEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec Spec
		code int
		sig  string
		tail string
		err  string // part of the message; empty: no error
	}{
		{"argv", Spec{Argv: []string{"echo", "a b", "$HOME"}}, 0, "", "a b $HOME\n", ""},
		{"shell", Spec{Shell: "echo out; echo err >&2"}, 0, "", "out\nerr\n", ""},
		{"status", Spec{Shell: "echo bad line 7; exit 3"}, 3, "", "bad line 7\n", "sh -c 'echo bad line 7; exit 3': exit status 3: bad line 7"},
		{"signal", Spec{Shell: "kill -9 $$"}, -1, "killed", "", "signal: killed"},
		{"not found", Spec{Argv: []string{"lb-render-no-such-command"}}, -1, "", "", "executable file not found"},
		{"empty", Spec{}, -1, "", "", "the command is empty"},
		{"both", Spec{Argv: []string{"true"}, Shell: "true"}, -1, "", "", "both"},
		{"stdin is empty", Spec{Argv: []string{"cat"}}, 0, "", "", ""},
		{"env wins", Spec{Shell: `echo "$LC_ALL"`, Env: []string{"LC_ALL=added"}}, 0, "", "added\n", ""},
		{"dir", Spec{Argv: []string{"pwd"}, Dir: "/"}, 0, "", "/\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("LC_ALL", "parent")
			res, err := Run(t.Context(), tc.spec)
			if res.ExitCode != tc.code || res.Signal != tc.sig || res.Tail != tc.tail || res.TimedOut || res.PipeHeld {
				t.Errorf("result %+v", res)
			}
			if tc.err == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v is no *Error", err)
			}
			if !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("message %q, want one line with %q", err, tc.err)
			}
			if e.Result != res {
				t.Errorf("the error has %+v, the result is %+v", e.Result, res)
			}
		})
	}
}

func TestExitErrorIsWrapped(t *testing.T) {
	_, err := Run(t.Context(), Spec{Shell: "exit 7"})
	var e *exec.ExitError
	if !errors.As(err, &e) || e.ExitCode() != 7 {
		t.Errorf("got %v", err)
	}
}

// A checker that finds the agent's notify socket would report ready in its name.
func TestSystemdVariablesAreNotInherited(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/notify")
	t.Setenv("WATCHDOG_USEC", "1")
	t.Setenv("WATCHDOG_PID", "1")
	res, err := Run(t.Context(), Spec{Shell: `echo "[$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID]"`})
	if err != nil || res.Tail != "[]\n" {
		t.Errorf("%q, %v", res.Tail, err)
	}
}

func TestTimeoutTerm(t *testing.T) {
	s := short("echo begun; sleep 1000")
	s.KillDelay = time.Minute // TERM must do
	start := time.Now()
	res, err := Run(t.Context(), s)
	if err == nil || !res.TimedOut || res.Signal != "terminated" || res.Tail != "begun\n" {
		t.Errorf("%+v, %v", res, err)
	}
	if !strings.Contains(err.Error(), "timed out after 200ms (signal: terminated): begun") {
		t.Errorf("message %q", err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %s", d)
	}
}

// A command that ends well because of the TERM was still too slow.
func TestTimeoutThenStatusZero(t *testing.T) {
	res, err := Run(t.Context(), short(`trap 'exit 0' TERM; while :; do sleep 0.05; done`))
	if err == nil || !res.TimedOut || res.ExitCode != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestTimeoutKillsTheWholeGroup(t *testing.T) {
	for name, script := range map[string]string{
		"leader ignores TERM": `trap '' TERM; sleep 1000 & echo $! >"$PIDFILE"; wait; while :; do sleep 1; done`,
		// The leader goes at once; its child ignores TERM and has no pipe that would show it.
		"child ignores TERM": `(trap '' TERM; exec sleep 1000) >/dev/null 2>&1 & echo $! >"$PIDFILE"; wait`,
		// The same with the pipe open.
		"child holds the pipe": `(trap '' TERM; exec sleep 1000) & echo $! >"$PIDFILE"; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			pidfile := filepath.Join(t.TempDir(), "pid")
			s := short(script)
			s.Env = []string{"PIDFILE=" + pidfile}
			res, err := Run(t.Context(), s)
			if err == nil || !res.TimedOut || res.PipeHeld {
				t.Errorf("%+v, %v", res, err)
			}
			waitGone(t, readPid(t, pidfile))
		})
	}
}

func TestCancelStopsLikeATimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s := short("sleep 1000")
	s.Timeout = time.Hour
	res, err := Run(ctx, s)
	if !errors.Is(err, context.DeadlineExceeded) || res.TimedOut || res.Signal != "terminated" {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestCancelledBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "ran")
	if _, err := Run(ctx, Spec{Argv: []string{"touch", file}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it ran")
	}
}

// A reload script that starts a daemon: the daemon keeps the pipe and lives on.
func TestChildOnThePipe(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	s := short(`sleep 1000 & echo $! >"$PIDFILE"; echo started`)
	s.Timeout, s.Env = time.Minute, []string{"PIDFILE=" + pidfile}
	res, err := Run(t.Context(), s)
	if err != nil || !res.PipeHeld || res.ExitCode != 0 || res.Tail != "started\n" {
		t.Errorf("%+v, %v", res, err)
	}
	pid := readPid(t, pidfile)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the child was killed: %v", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	waitGone(t, pid)
}

// What no signal ends (a process stuck in the kernel) is given up.
func TestSurvivesKill(t *testing.T) {
	var leader int
	kill := func(pid int, sig syscall.Signal) error {
		leader = -pid
		return nil // as if it had no effect
	}
	res, err := run(t.Context(), short("sleep 1000"), kill)
	if err == nil || !res.TimedOut || res.ExitCode != -1 || !strings.Contains(err.Error(), "still running after SIGKILL") {
		t.Errorf("%+v, %v", res, err)
	}
	_ = syscall.Kill(-leader, syscall.SIGKILL)
	waitGone(t, leader)
}

func TestLongOutput(t *testing.T) {
	res, err := Run(t.Context(), Spec{Shell: `i=0; while [ $i -lt 3000 ]; do echo "line $i of a long output"; i=$((i+1)); done; exit 1`, TailBytes: 300})
	if err == nil || len(res.Tail) > 300 || !strings.HasSuffix(res.Tail, "\nline 2999 of a long output\n") || !strings.HasPrefix(res.Tail, "line ") {
		t.Errorf("%d bytes: %q, %v", len(res.Tail), res.Tail, err)
	}
}

func readPid(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// waitGone waits until the process has ended. An orphan may stay a zombie where
// nothing reaps (in a container without an init); that counts as ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return
		}
		if _, after, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(after, "Z") {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d lives on", pid)
}
