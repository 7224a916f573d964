package output

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// overwrite writes b into the existing file. It is truncated last, not first:
// on a full disk the blocks it has are then enough to write the previous bytes back.
func overwrite(target string, b []byte, mode fs.FileMode, uid, gid int) (err error) {
	h, err := os.OpenFile(target, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := chown(h, uid, gid); err != nil {
		return err
	}
	if _, err := h.WriteAt(b, 0); err != nil {
		return err
	}
	if err := h.Truncate(int64(len(b))); err != nil {
		return err
	}
	if info, err := h.Stat(); err != nil {
		return err
	} else if info.Mode()&modeBits != mode {
		if err := h.Chmod(mode); err != nil {
			return err
		}
	}
	return h.Sync()
}
