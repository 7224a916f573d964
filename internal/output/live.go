package output

import (
	"bytes"
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
	sure   bool        // bytes is what is on disk; otherwise it is that most likely, and not want
	mode   fs.FileMode // modeBits only
	uid    int
	gid    int

	staged identity // of what is staged for it

	want     []byte
	asWanted bool // bytes and want are equal
	wantMode fs.FileMode
	wantUID  int // -1: whatever a new file gets
	wantGID  int
}

func (l *live) dir() string { return filepath.Dir(l.target) }

func (l *live) bytesDiffer() bool { return !l.exists || !l.asWanted }
func (l *live) modeDiffers() bool { return l.exists && l.mode != l.wantMode }
func (l *live) ownerDiffers() bool {
	return l.exists && (l.wantUID >= 0 && l.uid != l.wantUID || l.wantGID >= 0 && l.gid != l.wantGID)
}
func (l *live) differs() bool { return l.bytesDiffer() || l.modeDiffers() || l.ownerDiffers() }

// observe looks at all files of the output on disk, and compares them with c,
// which m has adopted. A file that m knows is not read, unless fresh is set. There
// is one live per file, with what could be found out, and one error per file (nil:
// none). m is brought up to date.
func (o *Output) observe(c Content, m *memory, fresh bool) ([]*live, []error) {
	lives, errs := make([]*live, len(o.opts.Files)), make([]error, len(o.opts.Files))
	byTarget := map[string]string{}
	for i, f := range o.opts.Files {
		lives[i], errs[i] = o.look(f, c[f.Name], m, fresh)
		if errs[i] != nil {
			errs[i] = fmt.Errorf("file %s: %w", f.Name, errs[i])
		} else if other, ok := byTarget[lives[i].target]; ok {
			errs[i] = fmt.Errorf("files %s and %s are both %s: give each a path of its own", other, f.Name, lives[i].target)
		}
		byTarget[lives[i].target] = f.Name
	}
	return lives, errs
}

// look never returns a nil live.
func (o *Output) look(f File, want []byte, m *memory, fresh bool) (*live, error) {
	l := &live{file: f, want: want, wantUID: -1, wantGID: -1, wantMode: defaultMode}
	var err error
	if l.target, err = resolve(f.Path); err != nil {
		return l, err
	}
	h, info, err := l.open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return l, err
	default:
		defer h.Close()
		if err := o.inspect(l, h, info, m, fresh); err != nil {
			return l, err
		}
		l.found(info)
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

// open opens the file for reading, and nothing but a regular one.
func (l *live) open() (*os.File, fs.FileInfo, error) {
	// Not blocking: a FIFO that takes the file's place must not hang the agent.
	h, err := os.OpenFile(l.target, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket, or a device without a driver
		return nil, nil, fmt.Errorf("%s is not a regular file; only regular files are replaced", l.target)
	} else if err != nil {
		return nil, nil, err
	}
	info, err := h.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file (%s); only regular files are replaced", l.target, info.Mode().Type())
	}
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return h, info, nil
}

// found fills in what info says; unless something else is set, it is to stay so.
func (l *live) found(info fs.FileInfo) {
	l.exists = true
	l.mode = info.Mode() & modeBits
	l.wantMode = l.mode
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		l.uid, l.gid = int(st.Uid), int(st.Gid)
		l.wantUID, l.wantGID = l.uid, l.gid
	}
}

// inspect finds out what bytes the open file has, from m or by reading, and
// whether they are the wanted ones.
func (o *Output) inspect(l *live, h *os.File, info fs.FileInfo, m *memory, fresh bool) error {
	k := m.files[l.file.Name]
	at := o.opts.Now() // after info was taken, and before the bytes are read: slack lies between the two
	now := known{id: o.identityOf(l, info), since: at}
	if k.holds(now.id) {
		now.since = k.since
		// Bytes that are not the wanted ones need not be firm: see memory.
		if !fresh && (k.firm || !same(k.bytes, l.want)) {
			l.bytes, l.sure, l.asWanted = k.bytes, k.firm, same(k.bytes, l.want)
			return nil
		}
	}
	like := k.bytes
	if int64(len(like)) != info.Size() {
		like = l.want
	}
	b, err := o.read(h, info.Size(), like)
	if err != nil {
		return err
	}
	// What is like k.bytes was compared with what is wanted by adopt.
	l.asWanted = same(b, l.want) || !same(b, k.bytes) && bytes.Equal(b, l.want)
	if l.asWanted {
		b = l.want // one copy is enough
	}
	l.bytes, l.sure = b, true
	now.bytes, now.firm = b, at.Sub(now.since) >= slack
	m.put(l.file.Name, now)
	return nil
}

// ascertain reads what was only remembered.
func (o *Output) ascertain(l *live) error {
	if !l.exists || l.sure {
		return nil
	}
	h, info, err := l.open()
	if err != nil {
		return err
	}
	defer h.Close()
	b, err := o.read(h, info.Size(), l.bytes)
	if err == nil {
		l.bytes, l.sure = b, true
	}
	return err
}

// identityOf is for files that are replaced. One that is written in place is read
// in each pass: its previous bytes are all that a rollback has.
func (o *Output) identityOf(l *live, info fs.FileInfo) identity {
	if l.file.InPlace {
		return identity{}
	}
	return o.identify(info)
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
