// Package command runs one command to its end and says how it ended. It is the
// only package of the agent that starts processes.
//
// Guarantees, each of them learnt from a daemon's reload script:
//
//  1. Run returns. A command gets Timeout; then its process group gets SIGTERM,
//     and SIGKILL after another KillDelay. A leader that survives even that
//     (stuck in the kernel, on a dead NFS mount for instance) is given up, and
//     reaped whenever it does end.
//  2. A command that ended in time is never signalled, nor are its children: a
//     reload script that starts the new daemon has done its job.
//  3. A child that inherited the output pipe does not hold Run for longer than
//     WaitDelay after the leader has exited; that is no failure. Such a child
//     gets EPIPE or SIGPIPE if it writes later.
//  4. Memory is bounded: of the output only the last TailBytes are kept.
//  5. Standard input is empty, so that nothing waits for a terminal.
//
// A call starts two goroutines, one that copies the output and one that waits
// for the leader. Both have ended when Run returns, except in the one case of
// (1), where the second waits on for the process.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Defaults for the zero values of Spec.
const (
	// DefaultTimeout is what a slow `haproxy -c` on a large configuration never needs.
	DefaultTimeout = 60 * time.Second
	// DefaultKillDelay lets a script clean up after itself.
	DefaultKillDelay = 5 * time.Second
	// DefaultWaitDelay is for the last lines of children that end together with the leader.
	DefaultWaitDelay = time.Second
	// DefaultTailBytes is about a hundred lines, more than anyone reads in a log.
	DefaultTailBytes = 8 << 10
)

// Spec says what to run. Exactly one of Argv and Shell is set.
type Spec struct {
	// Argv runs as it is; Argv[0] is looked up in PATH.
	Argv []string
	// Shell runs in `sh -c`.
	Shell string
	// Timeout is how long the command may take; 0 means DefaultTimeout.
	Timeout time.Duration
	// KillDelay is the time between SIGTERM and SIGKILL; 0 means DefaultKillDelay.
	KillDelay time.Duration
	// WaitDelay is how long a child that holds the output pipe is waited for
	// after the leader has exited; 0 means DefaultWaitDelay.
	WaitDelay time.Duration
	// Env is added to the parent's environment and wins over it ("NAME=value").
	Env []string
	// Dir is the working directory; empty means the parent's.
	Dir string
	// TailBytes is how much of the end of the output is kept, in bytes; 0 means DefaultTailBytes.
	TailBytes int
}

// Result says how a command ended.
type Result struct {
	// ExitCode is the leader's; -1 when it never ran or a signal ended it.
	ExitCode int
	// Duration is from the start to the leader's end.
	Duration time.Duration
	// Tail is the end of what was written to stdout and stderr together. It
	// starts at the beginning of a line where that is possible.
	Tail string
	// TimedOut is set when the time was up; a cancelled context does not set it.
	TimedOut bool
	// Signal names the signal that ended the leader, such as "killed"; empty if none did.
	Signal string
	// PipeHeld is set when a child still had the output pipe open after WaitDelay.
	PipeHeld bool
}

// Run runs the command and waits for it. A non-nil error is always an *Error:
// the command could not be started, ended with another status than 0, was
// ended by a signal, ran out of time, or ctx was done before it ended (which
// stops it in the same way as a timeout).
func Run(ctx context.Context, s Spec) (Result, error) {
	return run(ctx, s, syscall.Kill)
}

// run is Run with the kill system call as a parameter, because a process that
// survives SIGKILL cannot be made on purpose.
func run(ctx context.Context, s Spec, kill func(pid int, sig syscall.Signal) error) (Result, error) {
	s, err := s.complete()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return failed(s, Result{ExitCode: -1}, fmt.Errorf("not started: %w", err))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return failed(s, Result{ExitCode: -1}, fmt.Errorf("not started: %w", err))
	}
	// An *os.File is handed to the child as it is: with any other io.Writer,
	// exec's Wait would wait for every child that holds the pipe.
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Dir = s.Dir
	cmd.Env = append(environ(cmd.Environ()), s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	start := time.Now()
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return failed(s, Result{ExitCode: -1}, err)
	}
	out := &tail{max: s.TailBytes}
	copied := make(chan struct{})
	go func() { // ends with the last writer of the pipe, or when r is closed below
		defer close(copied)
		_, _ = io.Copy(out, r)
	}()
	exited := make(chan struct{})
	go func() { // ends with the leader, which stays a zombie until cmd.Wait
		defer close(exited)
		waitExited(cmd.Process.Pid)
	}()

	stopped, gone := await(ctx, s, cmd.Process.Pid, exited, copied, kill)
	res := Result{ExitCode: -1, Duration: time.Since(start)}
	res.TimedOut = errors.Is(stopped, errTimeout)
	if gone {
		err = cmd.Wait()
		res.ExitCode = cmd.ProcessState.ExitCode()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			res.Signal = ws.Signal().String()
		}
	} else {
		go func() { <-exited; _ = cmd.Wait() }() // guarantee 1: reaped whenever it ends
		err = errors.New("still running after SIGKILL")
	}
	select {
	case <-copied:
	case <-time.After(s.WaitDelay):
		res.PipeHeld = true
	}
	r.Close()
	<-copied
	res.Tail = out.String()

	switch {
	case stopped != nil && err != nil:
		err = fmt.Errorf("%w (%w)", stopped, err)
	case stopped != nil:
		err = stopped
	}
	if err != nil {
		return failed(s, res, err)
	}
	return res, nil
}

// errTimeout is what stops a command whose time is up.
var errTimeout = errors.New("timed out")

// await waits until the leader has exited and stops it when time is up. It
// returns why the command was stopped (nil: it ended by itself) and whether
// the leader is gone.
func await(ctx context.Context, s Spec, pid int, exited, copied <-chan struct{}, kill func(int, syscall.Signal) error) (stopped error, gone bool) {
	timeout := time.NewTimer(s.Timeout)
	defer timeout.Stop()
	select {
	case <-exited:
		return nil, true
	case <-timeout.C:
		stopped = fmt.Errorf("%w after %s", errTimeout, s.Timeout)
	case <-ctx.Done():
		stopped = context.Cause(ctx)
	}
	// The leader has not been reaped, so its process group id cannot belong to
	// anyone else yet; that holds until the end of this function.
	grace, cancel := context.WithTimeout(context.Background(), s.KillDelay)
	defer cancel()
	_ = kill(-pid, syscall.SIGTERM)
	select {
	case <-exited:
		// The rest of the group may still be cleaning up; the pipe tells.
		select {
		case <-copied:
		case <-grace.Done():
		}
	case <-grace.Done():
	}
	_ = kill(-pid, syscall.SIGKILL)
	select {
	case <-exited:
		return stopped, true
	case <-time.After(s.KillDelay):
		return stopped, false
	}
}

// complete fills in the defaults and turns Shell into Argv.
func (s Spec) complete() (Spec, error) {
	var err error
	switch {
	case s.Shell != "" && len(s.Argv) > 0:
		err = errors.New("both an argument list and a shell command are given")
	case s.Shell != "":
		s.Argv = []string{"sh", "-c", s.Shell}
	case len(s.Argv) == 0 || strings.TrimSpace(s.Argv[0]) == "":
		err = errors.New("the command is empty")
	}
	setDefault(&s.Timeout, DefaultTimeout)
	setDefault(&s.KillDelay, DefaultKillDelay)
	setDefault(&s.WaitDelay, DefaultWaitDelay)
	if s.TailBytes <= 0 {
		s.TailBytes = DefaultTailBytes
	}
	return s, err
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}

// environ drops what systemd means for the agent alone. A daemon's checker that
// finds NOTIFY_SOCKET would report itself ready in the agent's name.
func environ(env []string) []string {
	out := make([]string, 0, len(env))
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC":
		default:
			out = append(out, e)
		}
	}
	return out
}

func failed(s Spec, res Result, err error) (Result, error) {
	return res, &Error{Result: res, Argv: s.Argv, Err: err}
}
