package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// signature tells whether a file is still the one that was read.
type signature struct {
	dev, inode   uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

// racy tells whether a file may have been written again, unseen, after it was
// read: clocks of file systems tick in milliseconds to two seconds, and two
// writes of equal size within a tick look the same.
func (s signature) racy(read time.Time) bool {
	const tick = 2 * time.Second
	age := read.Sub(time.Unix(0, max(s.mtime, s.ctime)))
	return age < tick && age > -tick
}

// found is a manifest file and what it looked like.
type found struct {
	path string
	sig  signature
}

// listing is the files of a directory at one time.
type listing struct {
	files []found  // sorted by path
	dirs  []string // what to watch: every directory read, and those that files are links into; symbolic links resolved
	err   error    // why the listing is not whole
}

func (l listing) equal(m listing) bool {
	if (l.err == nil) != (m.err == nil) || l.err != nil && l.err.Error() != m.err.Error() {
		return false
	}
	return slices.Equal(l.files, m.files)
}

// scan finds the manifests in dir and below without opening any.
func scan(dir string) listing {
	s := scanner{seen: map[string]bool{}}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.fail(fmt.Errorf("manifests %s: does not exist; name a directory with *.yaml, *.yml or *.json files, or one such file", dir))
	case err != nil:
		s.fail(fmt.Errorf("manifests: %w", err))
	case info.IsDir():
		s.dir(dir)
		if s.err == nil && len(s.files) == 0 {
			s.fail(fmt.Errorf("manifests %s: no *.yaml, *.yml or *.json file in this directory or below; an empty file would mean an empty cluster", dir))
		}
	default:
		s.watch(filepath.Dir(dir))
		s.file(dir)
	}
	slices.SortFunc(s.files, func(a, b found) int { return strings.Compare(a.path, b.path) })
	slices.Sort(s.dirs)
	s.dirs = slices.Compact(s.dirs)
	return s.listing
}

type scanner struct {
	listing
	seen map[string]bool // directories, links resolved: a link to a parent must not be followed for ever
}

func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// watch notes a directory to watch and tells its real name.
func (s *scanner) watch(dir string) string {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir // it went away; the next look tells
	}
	s.dirs = append(s.dirs, resolved)
	return resolved
}

func (s *scanner) dir(dir string) {
	resolved := s.watch(dir)
	if s.seen[resolved] {
		return
	}
	s.seen[resolved] = true
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.fail(fmt.Errorf("manifests: %w", err))
		return
	}
	for _, e := range entries {
		// Hidden names are editors' files, and the `..data` and `..2006_01_02` of a mounted
		// ConfigMap, whose files are reached through the links beside them.
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			info, err := os.Stat(path)
			if err == nil {
				mode = info.Mode().Type()
			}
		}
		switch {
		case mode.IsDir():
			s.dir(path)
		case isManifest(path):
			s.file(path)
		}
	}
}

func isManifest(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func (s *scanner) file(path string) {
	link, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return // removed since the directory was read
	}
	info := link
	if err == nil && link.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			s.dirs = append(s.dirs, filepath.Dir(target))
		}
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.fail(fmt.Errorf("%s: a symbolic link to a file that does not exist; mend or remove it", path))
	case err != nil:
		s.fail(fmt.Errorf("manifests: %w", err))
	case !info.Mode().IsRegular():
		s.fail(fmt.Errorf("%s: not a regular file; remove it, or give it another extension", path))
	default:
		s.files = append(s.files, found{path: path, sig: signatureOf(info)})
	}
}
