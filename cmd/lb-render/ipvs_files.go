package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/lb-render/lb-render/internal/ipvs"
)

// textFile is a file that may be read more than once.
type textFile struct {
	path  string
	stdin io.Reader // for the path -; without it that is a file like any other
	// text is what was read of something that can be read just once: the standard
	// input or a pipe. The second time it would be empty, and an empty file of rules is
	// an empty table.
	text *string
}

// name is the file's for messages.
func (f *textFile) name() string {
	if f.isStdin() {
		return "stdin"
	}
	return f.path
}

func (f *textFile) isStdin() bool { return f.path == "-" && f.stdin != nil }

// read reads the file anew, where that can be done.
func (f *textFile) read(ctx context.Context) (string, error) {
	if f.text != nil {
		return *f.text, nil
	}
	text, once, err := f.content(ctx)
	if err != nil {
		return "", err
	}
	if once {
		f.text = &text
	}
	return text, nil
}

// rules are those of the file, which must be in scope.
func (f *textFile) rules(ctx context.Context, scope *ipvs.Scope) (*ipvs.Parsed, error) {
	text, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	parsed, err := ipvs.Parse(f.name(), text)
	if err != nil {
		return nil, err
	}
	return parsed, scope.Check(f.name(), &parsed.Rules)
}

// content reads the file, and says whether that can be done just once. It waits for
// the other end of a pipe no longer than ctx.
func (f *textFile) content(ctx context.Context) (text string, once bool, err error) {
	type result struct {
		text []byte
		once bool
		err  error
	}
	read := make(chan result, 1)
	go func() { // ends with the file, or with the program
		var r result
		defer func() { read <- r }()
		in := f.stdin
		r.once = true
		if !f.isStdin() {
			file, err := os.Open(f.path)
			if err != nil {
				r.err = err
				return
			}
			defer file.Close()
			info, err := file.Stat()
			if err != nil {
				r.err = err
				return
			}
			in, r.once = file, !info.Mode().IsRegular()
		}
		if r.text, r.err = io.ReadAll(in); r.err != nil && f.isStdin() {
			r.err = fmt.Errorf("reading the standard input: %w", r.err)
		}
	}()
	select {
	case r := <-read:
		return string(r.text), r.once, r.err
	case <-ctx.Done():
		return "", false, fmt.Errorf("reading %s: %w", f.name(), context.Cause(ctx))
	}
}
