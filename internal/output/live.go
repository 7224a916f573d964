package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// live is one file of the output as it is on disk, and as it is to be.
type live struct {
	file   File
	target string // the file behind the symlinks; its directory has none
	exists bool
	bytes  []byte
	mode   fs.FileMode // modeBits only
	uid    int
	gid    int

	want     []byte
	wantMode fs.FileMode
	wantUID  int // -1: whatever a new file gets
	wantGID  int
}

func (l *live) dir() string { return filepath.Dir(l.target) }

func (l *live) bytesDiffer() bool { return !l.exists || string(l.bytes) != string(l.want) }
func (l *live) modeDiffers() bool { return l.exists && l.mode != l.wantMode }
func (l *live) ownerDiffers() bool {
	return l.exists && (l.wantUID >= 0 && l.uid != l.wantUID || l.wantGID >= 0 && l.gid != l.wantGID)
}
func (l *live) differs() bool { return l.bytesDiffer() || l.modeDiffers() || l.ownerDiffers() }

// observe reads all files of the output from disk. There is one live per file,
// with what could be found out, and one error per file (nil: none). The answer is
// not kept: this is the one place to put a memory of what was last written,
// should reading ever cost too much.
func (o *Output) observe(c Content) ([]*live, []error) {
	lives, errs := make([]*live, len(o.opts.Files)), make([]error, len(o.opts.Files))
	byTarget := map[string]string{}
	for i, f := range o.opts.Files {
		lives[i], errs[i] = observe(f)
		lives[i].want = c[f.Name]
		if errs[i] != nil {
			errs[i] = fmt.Errorf("file %s: %w", f.Name, errs[i])
		} else if other, ok := byTarget[lives[i].target]; ok {
			errs[i] = fmt.Errorf("files %s and %s are both %s: give each a path of its own", other, f.Name, lives[i].target)
		}
		byTarget[lives[i].target] = f.Name
	}
	return lives, errs
}

// observe never returns a nil live.
func observe(f File) (*live, error) {
	l := &live{file: f, wantUID: -1, wantGID: -1, wantMode: defaultMode}
	var err error
	if l.target, err = resolve(f.Path); err != nil {
		return l, err
	}
	// Not blocking: a FIFO that takes the file's place must not hang the agent.
	h, err := os.OpenFile(l.target, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, syscall.ENXIO): // a socket, or a device without a driver
		return l, fmt.Errorf("%s is not a regular file; only regular files are replaced", l.target)
	case err != nil:
		return l, err
	default:
		defer h.Close()
		if err := l.read(h); err != nil {
			return l, err
		}
	}
	if f.Mode != nil {
		l.wantMode = *f.Mode
	}
	if f.Owner != "" {
		if l.wantUID, err = lookup(f.Owner, "owner", func(s string) (string, error) {
			u, err := user.Lookup(s)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		}); err != nil {
			return l, err
		}
	}
	if f.Group != "" {
		if l.wantGID, err = lookup(f.Group, "group", func(s string) (string, error) {
			g, err := user.LookupGroup(s)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		}); err != nil {
			return l, err
		}
	}
	return l, nil
}

// read fills in what is on disk; unless something else is set, it is to stay so.
func (l *live) read(h *os.File) error {
	info, err := h.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file (%s); only regular files are replaced", l.target, info.Mode().Type())
	}
	if l.bytes, err = readAll(h, info.Size()); err != nil {
		return err
	}
	l.exists = true
	l.mode = info.Mode() & modeBits
	l.wantMode = l.mode
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		l.uid, l.gid = int(st.Uid), int(st.Gid)
		l.wantUID, l.wantGID = l.uid, l.gid
	}
	return nil
}

// lookup turns a user's or group's name or number into a number. It happens in
// each transaction, because the daemon's package, which brings its user, may be
// installed while the agent runs.
func lookup(s, what string, byName func(string) (string, error)) (int, error) {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return int(n), nil
	}
	id, err := byName(s)
	if err != nil {
		return 0, fmt.Errorf("%s %q: %w (create it on this host, or set another %s)", what, s, err, what)
	}
	n, err := strconv.ParseUint(id, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s %q: number %q: %w", what, s, id, err)
	}
	return int(n), nil
}

// resolve follows the symlinks of path to the file that is to be replaced. The
// file itself need not exist (a dangling symlink is followed, too), its directory must.
func resolve(path string) (string, error) {
	at := path
	for range 40 { // as the kernel
		// Not filepath.Dir: it would take "link/../x" for "x".
		dir, base := filepath.Split(at)
		dir, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w: directory %s must exist; it is not created", err, filepath.Dir(at))
		} else if err != nil {
			return "", err
		}
		at = filepath.Join(dir, base)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return at, nil
		} else if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.Mode().IsRegular() {
				kind := "not a regular file"
				if info.IsDir() {
					kind = "a directory"
				}
				return "", fmt.Errorf("%s is %s; only regular files are replaced", at, kind)
			}
			return at, nil
		}
		link, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = dir + "/" + link
		}
		at = link
	}
	return "", fmt.Errorf("%s: %w", path, syscall.ELOOP)
}
