package manifest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// file is what was read from one file.
type file struct {
	sig     signature
	racy    bool // see signature.racy
	sum     [sha256.Size]byte
	entries []entry
	faults  problems
}

// errChanging says that a file was written to while it was read.
var errChanging = errors.New("changed while it was read")

// read gives the objects of a listing, by resource and key. Only files that
// differ from the last time are opened.
func (s *Source) read(l listing) (map[string]map[string]entry, error) {
	s.listed = l
	var errs problems
	if l.err != nil {
		errs.add(l.err)
	}
	var files []*file
	kept := make(map[string]*file, len(l.files))
	for _, f := range l.files {
		have := s.files[f.path]
		if have == nil || have.racy || have.sig != f.sig {
			var err error
			if have, err = readFile(f.path, have); err != nil {
				errs.add(fmt.Errorf("manifests: %w", err))
				continue
			}
		}
		kept[f.path] = have
		errs.join(have.faults)
		files = append(files, have)
	}
	s.files = kept
	if err := errs.err(); err != nil {
		return nil, err
	}
	return merge(files)
}

// current tells whether a listing is the one last read and nothing in it can have changed since.
func (s *Source) current(l listing) bool {
	if !s.listed.equal(l) {
		return false
	}
	for _, f := range l.files {
		if have := s.files[f.path]; have == nil || have.racy || have.sig != f.sig {
			return false
		}
	}
	return true
}

// readFile reads a file; was is what it held before, nil if it is new. Equal
// bytes are not decoded again.
func readFile(path string, was *file) (*file, error) {
	now := time.Now()
	data, sig, err := slurp(path)
	if err != nil {
		return nil, err
	}
	f := &file{sig: sig, racy: sig.racy(now), sum: sha256.Sum256(data)}
	if was != nil && was.sum == f.sum {
		f.entries, f.faults = was.entries, was.faults
		return f, nil
	}
	f.entries, f.faults = decode(path, data)
	return f, nil
}

func slurp(path string) ([]byte, signature, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, signature{}, err
	}
	defer func() { _ = r.Close() }() // nothing was written
	before, err := r.Stat()
	if err != nil {
		return nil, signature{}, err
	}
	data := make([]byte, 0, before.Size()+512)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, signature{}, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
	after, err := r.Stat()
	if err != nil {
		return nil, signature{}, err
	}
	if signatureOf(before) != signatureOf(after) || int64(len(data)) != after.Size() {
		return nil, signature{}, fmt.Errorf("%s: %w; it is tried again", path, errChanging)
	}
	return data, signatureOf(after), nil
}
