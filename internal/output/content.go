package output

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Content is what was rendered: file name to bytes, for all files of the output.
// Once it is given to Apply or Run its bytes must not be changed any more.
type Content map[string][]byte

// hashLen is the length of a hash in hexadecimal digits.
const hashLen = 2 * sha256.Size

// Normalise returns b with a final newline. HAProxy refuses a configuration
// whose last line is cut short ("Missing LF on last line"), and a template whose
// last action trims white space easily makes one. Everything that hashes,
// compares, shows or writes content does so after Normalise. b is not changed.
func Normalise(b []byte) []byte {
	if len(b) == 0 || b[len(b)-1] == '\n' {
		return b
	}
	return append(append(make([]byte, 0, len(b)+1), b...), '\n') // not bytes.Clone, which may have no room for one more
}

// normalise checks that c has exactly the files of the output, each with
// something in it, and returns it normalised.
func (o *Output) normalise(c Content) (Content, error) {
	var errs []error
	out := make(Content, len(o.opts.Files))
	for _, f := range o.opts.Files {
		b, ok := c[f.Name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("file %s was not rendered", f.Name))
		case len(bytes.TrimSpace(b)) == 0 && !f.AllowEmpty:
			// A template that ranges over nothing; a daemon that reads it serves nothing.
			errs = append(errs, fmt.Errorf("file %s rendered to nothing; an empty file is rarely wanted: let it have a comment, or set allowEmpty: true", f.Name))
		default:
			out[f.Name] = Normalise(b)
		}
	}
	var unknown []string
	for name := range c {
		if !slices.ContainsFunc(o.opts.Files, func(f File) bool { return f.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		errs = append(errs, errors.New("rendered, but not a file of this output: "+strings.Join(unknown, ", ")))
	}
	if err := join(errs...); err != nil {
		return nil, o.fail(PhaseRender, err)
	}
	return out, nil
}

// Hash returns the hash of c, which names it in the marker, the metrics and the
// commands' environment: hexadecimal SHA-256 over name, path and bytes of each
// file, in the order of the names.
func (o *Output) Hash(c Content) (string, error) {
	c, err := o.normalise(c)
	if err != nil {
		return "", err
	}
	return hash(o.opts.Files, c), nil
}

// hash hashes normalised content. Each part has its length before it, so that
// no two different groups of files can run together to the same bytes.
func hash(files []File, c Content) string {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	for _, f := range files {
		part([]byte(f.Name))
		part([]byte(f.Path))
		part(c[f.Name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
