//go:build !linux

package manifest

import "io/fs"

func signatureOf(info fs.FileInfo) signature {
	return signature{size: info.Size(), mtime: info.ModTime().UnixNano()}
}
