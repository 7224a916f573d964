package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/lb-render/lb-render/internal/ipvs"
)

// rulesFile reads rules, as often as they are asked for.
type rulesFile struct {
	path  string // - is the standard input
	stdin io.Reader
	// text is what was read of something that can be read just once: the standard
	// input or a pipe, which the second time would be an empty file, that is an empty table.
	text *string
}

// name is the file's for messages.
func (f *rulesFile) name() string {
	if f.path == "-" {
		return "stdin"
	}
	return f.path
}

func (f *rulesFile) read(ctx context.Context, scope *ipvs.Scope) (*ipvs.Parsed, error) {
	if f.text == nil {
		text, once, err := f.content(ctx)
		if err != nil {
			return nil, err
		}
		if once {
			f.text = &text
		}
		return f.parse(text, scope)
	}
	return f.parse(*f.text, scope)
}

func (f *rulesFile) parse(text string, scope *ipvs.Scope) (*ipvs.Parsed, error) {
	parsed, err := ipvs.Parse(f.name(), text)
	if err != nil {
		return nil, err
	}
	return parsed, scope.Check(f.name(), &parsed.Rules)
}

// content reads the file, and says whether that can be done just once. It waits for
// the other end of a pipe no longer than ctx.
func (f *rulesFile) content(ctx context.Context) (text string, once bool, err error) {
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
		if f.path != "-" {
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
		if r.text, r.err = io.ReadAll(in); r.err != nil && f.path == "-" {
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
