package output

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Phase is a part of a transaction.
type Phase string

// The phases, in order. PhaseLock is waiting for another process that works on the same output.
const (
	PhaseRender  Phase = "render"
	PhaseLock    Phase = "lock"
	PhaseCompare Phase = "compare"
	PhaseStage   Phase = "stage"
	PhaseCheck   Phase = "check"
	PhaseCommit  Phase = "commit"
	PhaseReload  Phase = "reload"
	PhaseVerify  Phase = "verify"
	PhaseMarker  Phase = "marker"
)

// ErrNotReady is what Run's render function returns while there is nothing to
// render yet. It is no failure.
var ErrNotReady = errors.New("not ready: no cluster config yet")

// Error is a transaction that failed, and in which phase.
type Error struct {
	Output string
	Phase  Phase
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("output %s: %s: %v", e.Output, e.Phase, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// join makes one error of those that are not nil, on one line, so that it fits a
// log and a status page. nil if there is none.
func join(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

func (o *Output) fail(p Phase, err error) error {
	return &Error{Output: o.opts.Name, Phase: p, Err: err}
}

// wayOut adds to a system error what can be done about it. dir is the directory
// of the file, path the file itself.
func wayOut(err error, path, dir string) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EXDEV):
		hint = fmt.Sprintf("%s seems to be a mount point (a bind-mounted file), which cannot be replaced: mount the directory %s instead, or set inPlace: true", path, dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = fmt.Sprintf("free some space or inodes on the file system of %s", dir)
	case errors.Is(err, syscall.EROFS):
		hint = fmt.Sprintf("%s is read-only for the agent: mount it read-write (with systemd: add it to ReadWritePaths=)", dir)
	case errors.Is(err, fs.ErrPermission):
		hint = fmt.Sprintf("the agent's user must be able to write in %s", dir)
	case errors.Is(err, fs.ErrNotExist):
		hint = fmt.Sprintf("directory %s must exist; it is not created", dir)
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}
