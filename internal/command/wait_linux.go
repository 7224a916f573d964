package command

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitExited returns when the process has exited, and leaves it a zombie: while
// the leader has not been reaped the kernel gives its process group id to no
// one else, so the group can be killed without hitting a stranger.
func waitExited(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
