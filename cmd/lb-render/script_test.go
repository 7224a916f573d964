package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary lb-render itself when it is called by that
// name, so that scripts run the program as an operator does, with the race detector on.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lb-render": func() {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			os.Exit(run(ctx, os.Args[1:], program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, hook: testHook()}))
		},
	})
}

// testHook notes each step of a transaction in the file LB_RENDER_TEST_STEPS,
// and kills the process at the step LB_RENDER_TEST_KILL.
func testHook() func(string) {
	steps, kill := os.Getenv("LB_RENDER_TEST_STEPS"), os.Getenv("LB_RENDER_TEST_KILL")
	if steps == "" && kill == "" {
		return nil
	}
	return func(step string) {
		if steps != "" {
			f, err := os.OpenFile(steps, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				fmt.Fprintln(f, step)
				f.Close()
			}
		}
		if step == kill {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal ends it
		}
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			port, err := freePort()
			if err != nil {
				return err
			}
			repo, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			env.Setenv("PORT", port)
			env.Setenv("REPO", repo)
			env.Setenv("LB_RENDER_CONFIG", "lb-render.yaml")
			return os.CopyFS(env.WorkDir, os.DirFS("../../testdata/fixture"))
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				if os.Getuid() != 0 && os.Getenv("CI") != "" {
					return false, errors.New("CI runs as root; here it does not")
				}
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor, "exits": exits, "sub": substitute, "signal": sendSignal, "lines": countLines,
		},
	})
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// waitFor waits until a condition holds:
//
//	waitfor contains FILE REGEXP
//	waitfor lines FILE N REGEXP     at least N lines match
//	waitfor same FILE FILE
//	waitfor url URL REGEXP          the body, whatever the status
//	waitfor gone FILE
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: waitfor contains|lines|same|url|gone …")
	}
	look := func() (bool, string) { return condition(ts, args) }
	var seen string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if ok, seen = look(); ok != neg {
			return
		}
	}
	ts.Fatalf("timed out waiting for %q; last seen:\n%s", args, seen)
}

func condition(ts *testscript.TestScript, args []string) (bool, string) {
	data, err := os.ReadFile(ts.MkAbs(args[1]))
	switch args[0] {
	case "contains":
		return err == nil && regexp.MustCompile("(?m)"+args[2]).Match(data), string(data)
	case "lines":
		n, convErr := strconv.Atoi(args[2])
		ts.Check(convErr)
		return len(regexp.MustCompile("(?m)"+args[3]).FindAll(data, -1)) >= n, string(data)
	case "same":
		other, otherErr := os.ReadFile(ts.MkAbs(args[2]))
		return err == nil && otherErr == nil && string(data) == string(other), string(data) + "---\n" + string(other)
	case "gone":
		return errors.Is(err, fs.ErrNotExist), "it is there"
	case "url":
		resp, err := http.Get(args[1])
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		text := resp.Status + "\n" + string(body)
		return err == nil && regexp.MustCompile("(?m)"+args[2]).MatchString(text), text
	}
	ts.Fatalf("waitfor: unknown condition %q", args[0])
	return false, ""
}

// exits runs a program that must end with the code: exits CODE PROGRAM ARG…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// substitute replaces text in a file, in one rename: sub FILE OLD NEW
func substitute(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: sub FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	unescape := strings.NewReplacer(`\n`, "\n")
	old, with := unescape.Replace(args[1]), unescape.Replace(args[2])
	if !strings.Contains(string(data), old) {
		ts.Fatalf("%s has no %q", args[0], old)
	}
	tmp := path + ".tmp"
	ts.Check(os.WriteFile(tmp, []byte(strings.ReplaceAll(string(data), old, with)), 0o644))
	ts.Check(os.Rename(tmp, path))
}

// sendSignal sends a signal to the program that was started last: signal HUP|TERM|KILL
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	if neg || len(args) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal HUP|TERM|KILL")
	}
	cmds := ts.BackgroundCmds()
	if len(cmds) == 0 {
		ts.Fatalf("nothing runs")
	}
	ts.Check(cmds[len(cmds)-1].Process.Signal(signals[args[0]]))
}

// countLines demands that exactly N lines of a file match: lines FILE N REGEXP
func countLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: lines FILE N REGEXP")
	}
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if got := len(regexp.MustCompile("(?m)"+args[2]).FindAll(data, -1)); got != want {
		ts.Fatalf("%d lines of %s match %s, want %d:\n%s", got, args[0], args[2], want, data)
	}
}
