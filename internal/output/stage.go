package output

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/go-multierror"
)

// stagedPrefix begins the names of this file's staged versions. Its hash makes
// it the prefix of no other file, output or agent that shares the directory,
// whatever dashes are in their names.
func stagedPrefix(output string, f File) string {
	sum := sha256.Sum256([]byte(output + "\x00" + f.Name + "\x00" + f.Path))
	// 11+100+1+100+1+12+1 and a random number: within the 255 bytes of a file name.
	return ".lb-render-" + output + "-" + f.Name + "-" + hex.EncodeToString(sum[:6]) + "-"
}

const stagedSuffix = ".tmp"

// stage writes a file beside the live one and returns its path, and the identity
// that it has. On an error nothing is left behind. uid and gid of -1 mean whatever
// a new file gets.
//
// The mode comes last: until the file is whole and has its owner, no one else
// can read it, and a chown by the kernel's rules drops set-id bits.
func (o *Output) stage(l *live, b []byte, mode fs.FileMode, uid, gid int) (path string, id identity, err error) {
	h, err := os.CreateTemp(l.dir(), stagedPrefix(o.opts.Name, l.file)+"*"+stagedSuffix) // 0600, O_EXCL
	if err != nil {
		return "", id, wayOut(err, l.target, l.dir())
	}
	defer func() {
		if err = errors.Join(err, h.Close()); err != nil {
			_ = os.Remove(h.Name())
			path, err = "", wayOut(err, l.target, l.dir())
		}
	}()
	if err := chown(h, uid, gid); err != nil {
		return "", id, err
	}
	if _, err := h.Write(b); err != nil {
		return "", id, err
	}
	if err := h.Chmod(mode); err != nil {
		return "", id, err
	}
	if err := h.Sync(); err != nil {
		return "", id, err
	}
	info, err := h.Stat()
	if err != nil {
		return "", id, err
	}
	return h.Name(), o.identityOf(l, info), nil
}

// chown changes the owner where it is another one, which is all that an agent
// without root's rights can do.
func chown(h *os.File, uid, gid int) error {
	info, err := h.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || (uid < 0 || uid == int(st.Uid)) && (gid < 0 || gid == int(st.Gid)) {
		return nil
	}
	err = h.Chown(uid, gid)
	if errors.Is(err, syscall.EPERM) {
		// Not wrapped: the way out of EPERM is another one here.
		return fmt.Errorf("%s cannot be given to user %d, group %d by user %d: run the agent as root (or with CAP_CHOWN), or set owner: and group: to what its user may give", h.Name(), uid, gid, os.Geteuid())
	}
	return err
}

// Sweep removes what a killed process left staged for this output's files, and
// nothing else. It is for the start, before Run.
func (o *Output) Sweep() error {
	unlock, err := o.lock(context.Background())
	if err != nil {
		return o.fail(PhaseLock, err)
	}
	defer unlock()
	var errs *multierror.Error
	for _, f := range o.opts.Files {
		dir := filepath.Dir(f.Path)
		if target, err := resolve(f.Path); err == nil {
			dir = filepath.Dir(target)
		}
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = multierror.Append(errs, err)
		}
		prefix := stagedPrefix(o.opts.Name, f)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), stagedSuffix) {
				if err := removeIfThere(filepath.Join(dir, e.Name())); err != nil {
					errs = multierror.Append(errs, wayOut(err, f.Path, dir))
				}
			}
		}
	}
	if err := removeIfThere(o.markerPath() + ".tmp"); err != nil {
		errs = multierror.Append(errs, err)
	}
	if errs.ErrorOrNil() != nil {
		return o.fail(PhaseStage, fmt.Errorf("sweeping: %w", errs))
	}
	return nil
}

// syncDir makes renames and removals in dir durable.
func syncDir(dir string) error {
	h, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer h.Close()
	// Some network and FUSE file systems have no fsync for directories; there is nothing to be done about it.
	if err := h.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
