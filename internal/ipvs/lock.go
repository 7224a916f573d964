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

// lockNotice is how long one waits for a lock without a word.
const lockNotice = time.Second

// Lock takes the lock file, which it makes where it is missing, and waits while
// somebody else has it; waiting is called once if that takes more than a second. The
// kernel lets go of the lock when the process ends, however it ends.
func Lock(ctx context.Context, file string, waiting func()) (unlock func(), err error) {
	defer func() {
		if err != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("the lock that keeps two syncs apart: %w; %s must be a folder that this user may write to", err, filepath.Dir(file))
		}
	}()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	begin, told := time.Now(), false
	for {
		f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		f.Close() // who comes next takes the file that is there then
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("flock %s: %w", file, err)
		}
		if !told && time.Since(begin) > lockNotice {
			told = true
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped while another sync has %s locked: %w", file, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}
