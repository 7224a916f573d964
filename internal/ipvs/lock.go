package ipvs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock that somebody has is asked for: well below what a sync
// takes, and too seldom to be seen in the load.
const lockPoll = 20 * time.Millisecond

// Lock takes the lock file, which it makes where it is missing, and waits while
// somebody else has it. The kernel lets go of it when the process ends,
// however it ends.
func Lock(ctx context.Context, file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("the lock that keeps two syncs apart: %w", err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the lock that keeps two syncs apart: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("the lock that keeps two syncs apart: flock %s: %w", file, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another sync, which has %s locked: %w", file, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}
