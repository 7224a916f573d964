package output

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (o *Output) markerPath() string {
	return filepath.Join(o.opts.RuntimeDir, o.opts.Name+".hash")
}

// readMarker returns the hash of the content that the daemon is known to have,
// or "" if that is not known: no marker, or one that cannot be read or makes no
// sense. The worst that follows from "" is one reload too many.
func (o *Output) readMarker() string {
	h, err := os.Open(o.markerPath())
	if err != nil {
		return ""
	}
	defer h.Close()
	b, err := io.ReadAll(io.LimitReader(h, hashLen+2))
	if err != nil {
		return ""
	}
	return parseMarker(string(b))
}

func parseMarker(s string) string {
	s, ended := strings.CutSuffix(s, "\n")
	if _, err := hex.DecodeString(s); err != nil || !ended || len(s) != hashLen {
		return ""
	}
	return s
}

// writeMarker replaces the marker. The temporary file has a fixed name because
// the lock is held, so that a killed process leaves at most one.
func (o *Output) writeMarker(hash string) error {
	path := o.markerPath()
	tmp := path + ".tmp"
	if err := removeIfThere(tmp); err != nil {
		return err
	}
	err := func() error {
		h, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = h.WriteString(hash + "\n")
		// Readable for everyone, whatever the umask: it is how a human asks what the daemon has.
		if err := errors.Join(err, h.Chmod(0o644), h.Sync(), h.Close()); err != nil {
			return err
		}
		return os.Rename(tmp, path)
	}()
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("noting what the daemon has: %w", wayOut(err, path, o.opts.RuntimeDir))
	}
	return syncDir(o.opts.RuntimeDir)
}

// removeMarker returns only when the marker is gone for good: were it to come
// back after a power failure (a runtime directory on a real disk), it could
// name content that the daemon has not got.
func (o *Output) removeMarker() error {
	if err := removeIfThere(o.markerPath()); err != nil {
		return fmt.Errorf("the marker must be removed before anything changes: %w", wayOut(err, o.markerPath(), o.opts.RuntimeDir))
	}
	o.unwritten, o.applied = "", ""
	return syncDir(o.opts.RuntimeDir)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const (
	// lockWait is longer than a check, a reload and a verify of the usual lengths take.
	lockWait = 2 * time.Minute
	lockPoll = 50 * time.Millisecond
)

// lock keeps two transactions of one output apart, in this process and between
// processes (`lb-render apply` while the agent runs), and Sweep from removing
// what another process has just staged. The kernel drops the lock of a process that dies.
func (o *Output) lock(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(o.opts.RuntimeDir, o.opts.Name+".lock")
	if err := os.MkdirAll(o.opts.RuntimeDir, 0o755); err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	select {
	case o.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		<-o.busy
		return nil, wayOut(err, path, o.opts.RuntimeDir)
	}
	unlock = func() {
		h.Close()
		<-o.busy
	}
	deadline := time.NewTimer(lockWait)
	defer deadline.Stop()
	for {
		err := unix.Flock(int(h.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return unlock, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			unlock()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		poll := time.NewTimer(lockPoll)
		select {
		case <-poll.C:
		case <-deadline.C:
			err = fmt.Errorf("another lb-render process has been at work on this output for %s (it holds %s)", lockWait, path)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		poll.Stop()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			unlock()
			return nil, err
		}
	}
}

// tryLock is lock for Check, which leaves nothing behind and needs no rights in
// the runtime directory: without the lock it only risks being swept by an
// agent that starts at that moment.
func (o *Output) tryLock() (unlock func()) {
	h, err := os.OpenFile(filepath.Join(o.opts.RuntimeDir, o.opts.Name+".lock"), os.O_RDWR, 0)
	if err != nil {
		return func() {}
	}
	_ = unix.Flock(int(h.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return func() { h.Close() }
}
