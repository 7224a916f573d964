package manifest

import (
	"io/fs"
	"syscall"
)

func signatureOf(info fs.FileInfo) signature {
	sig := signature{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		// The change time catches what sets the modification time back, as `cp -p` and rsync do.
		sig.dev, sig.inode, sig.ctime = st.Dev, st.Ino, st.Ctim.Nano()
	}
	return sig
}
