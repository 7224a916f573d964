package config

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/go-multierror"
)

// fault is one thing that is wrong, and where.
type fault struct {
	file string // "" for a fault of a flag
	line int
	key  string
	text string
}

// Error is one line, whatever was in the file: keys and values are foreign
// text, and a newline in one must not look like another fault.
func (f *fault) Error() string {
	var parts []string
	switch {
	case f.file != "" && f.line > 0:
		parts = append(parts, f.file+":"+strconv.Itoa(f.line))
	case f.file != "":
		parts = append(parts, f.file)
	}
	if f.key != "" {
		parts = append(parts, f.key)
	}
	return oneLine(strings.Join(append(parts, f.text), ": "))
}

func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fail collects a fault of a key of the file.
func (d *decoder) fail(line int, key, format string, args ...any) {
	d.faulty[key] = true
	d.faults = append(d.faults, &fault{d.file, line, key, fmt.Sprintf(format, args...)})
}

// failFlag collects a fault of a flag.
func (d *decoder) failFlag(flag, format string, args ...any) {
	d.faults = append(d.faults, &fault{key: flag, text: fmt.Sprintf(format, args...)})
}

// err returns all faults, those of flags first and then in the order of the file.
func (d *decoder) err() error {
	if len(d.faults) == 0 {
		return nil
	}
	sort.SliceStable(d.faults, func(i, j int) bool { return d.faults[i].line < d.faults[j].line })
	all := &multierror.Error{ErrorFormat: func(errs []error) string {
		lines := make([]string, len(errs))
		for i, e := range errs {
			lines[i] = e.Error()
		}
		return strings.Join(lines, "\n")
	}}
	for _, f := range d.faults {
		all = multierror.Append(all, f)
	}
	return all
}

// rule reports a fault of a key unless it holds, or the key has one already. A
// key that is missing is a fault of the place where it is missing.
func (d *decoder) rule(holds bool, key, format string, args ...any) {
	if holds || d.faultyWithin(key) {
		return
	}
	at := key
	for d.at[at] == 0 && at != "" {
		at = parent(at)
	}
	d.fail(d.at[at], key, format, args...)
}

// faultyWithin reports whether a key, or one below it, has a fault already.
func (d *decoder) faultyWithin(key string) bool {
	for k := range d.faulty {
		if rest, ok := strings.CutPrefix(k, key); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

func parent(key string) string {
	if i := strings.LastIndexAny(key, ".["); i >= 0 {
		return key[:i]
	}
	return ""
}
