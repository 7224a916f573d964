package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// fault is a mistake in an object: where, and what to do about it.
type fault struct {
	path    []any // keys and indexes from the object's root
	message string
}

// fault is the result of a piece with one mistake.
func (d decoder) fault(p piece, what string, path []any, format string, args ...any) result {
	return result{failures: []func() []error{func() []error {
		return []error{d.error(p, what, fault{path: path, message: fmt.Sprintf(format, args...)})}
	}}}
}

func (d decoder) error(p piece, what string, f fault) error {
	parts := []string{d.placeOf(p, f.path).String()}
	if what != "" {
		if strings.ContainsFunc(what, func(r rune) bool { return !unicode.IsPrint(r) }) {
			what = strconv.Quote(what) // one error is one line
		}
		parts = append(parts, what)
	}
	if len(f.path) > 0 {
		parts = append(parts, pathString(f.path))
	}
	return errors.New(strings.Join(append(parts, f.message), ": "))
}

// placeOf is the place of a part of a piece. An empty path that is not nil
// costs nothing: the piece's first line.
func (d decoder) placeOf(p piece, path []any) place {
	at := place{file: d.name, doc: p.doc, line: p.line, item: p.item}
	if path != nil {
		if line := p.lineOf(path); line > 0 {
			at.line = line
		}
	}
	return at
}

// lineOf is the line of a part of the piece, or of the nearest thing around it
// that is there.
func (p *piece) lineOf(path []any) int {
	switch {
	case len(path) == 0:
		return p.line
	case p.origin != nil:
		return p.origin.lineOf(slices.Concat([]any{"items", p.item - 1}, path))
	case p.json:
		return p.line + bytes.Count(p.data[:jsonOffset(p.data, path)], []byte("\n"))
	}
	if p.tree == nil {
		p.tree = &yamlv3.Node{}
		if err := yamlv3.Unmarshal(p.data, p.tree); err != nil {
			p.tree = &yamlv3.Node{}
		}
	}
	if len(p.tree.Content) == 0 {
		return p.line
	}
	return p.line - 1 + yamlLine(p.tree.Content[0], path)
}

// yamlLine is the line of a path below a node.
func yamlLine(n *yamlv3.Node, path []any) int {
	line := n.Line
	for _, step := range path {
		if n.Kind == yamlv3.AliasNode {
			n = n.Alias
		}
		var next *yamlv3.Node
		switch s := step.(type) {
		case string:
			for i := 0; n.Kind == yamlv3.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == s {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		case int:
			if n.Kind == yamlv3.SequenceNode && s < len(n.Content) {
				next = n.Content[s]
				line = next.Line
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return line
}

func pathString(path []any) string {
	var b strings.Builder
	for i, step := range path {
		switch s := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", s)
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			if strings.ContainsAny(s, ".[]\"\n") {
				s = strconv.Quote(s)
			}
			b.WriteString(s)
		}
	}
	return b.String()
}

// mistyped is the result of a piece that does not fit its type.
func (d decoder) mistyped(p piece, raw []byte, into any) result {
	return result{failures: []func() []error{func() []error {
		var v any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &v); err != nil {
			return []error{fmt.Errorf("%v: %w", d.placeOf(p, nil), err)}
		}
		what := ""
		if root, ok := v.(map[string]any); ok {
			what, _ = root["kind"].(string)
			meta, _ := root["metadata"].(map[string]any)
			if name, ok := meta["name"].(string); ok {
				namespace, _ := meta["namespace"].(string)
				what = strings.TrimSpace(what + " " + strings.TrimPrefix(namespace+"/"+name, "/"))
			}
		}
		var errs []error
		for _, f := range misfits(v, into) {
			errs = append(errs, d.error(p, what, f))
		}
		return errs
	}}}
}

// misfits finds what in v cannot be decoded into the type of into. Decoders
// tell of the first mistake only, and of some without a place, so v is decoded
// with one branch at a time.
func misfits(v, into any) []fault {
	var faults []fault
	budget := 5000 // decodings; a document worse than that needs no full list
	var search func(v any, path []any, wrap func(any) any)
	search = func(v any, path []any, wrap func(any) any) {
		if budget--; budget < 0 {
			return
		}
		err := decodes(wrap(v), into)
		if err == nil {
			return
		}
		before := len(faults)
		switch v := v.(type) {
		case map[string]any:
			if decodes(wrap(map[string]any{}), into) != nil {
				break // keys have no business here at all
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				search(v[k], slices.Concat(path, []any{k}), func(x any) any { return wrap(map[string]any{k: x}) })
			}
		case []any:
			if decodes(wrap([]any{}), into) != nil {
				break
			}
			for i, x := range v {
				search(x, slices.Concat(path, []any{i}), func(x any) any { return wrap([]any{x}) })
			}
		}
		if len(faults) == before {
			faults = append(faults, fault{path: path, message: misfit(v, err)})
		}
	}
	search(v, nil, func(x any) any { return x })
	return faults
}

func decodes(v, into any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(reflect.TypeOf(into).Elem()).Interface())
}

// misfit says what a value is and what it should be.
func misfit(v any, err error) string {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return fmt.Sprintf("%s is not possible: %v", value(v), err)
	}
	switch t.Type.Kind() {
	case reflect.String:
		return fmt.Sprintf("%s, want a string; put it in quotes", value(v))
	case reflect.Bool:
		return fmt.Sprintf("%s, want true or false, without quotes", value(v))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("%s, want a whole number of %d bits, without quotes", value(v), t.Type.Bits())
	case reflect.Slice, reflect.Array:
		if t.Type.Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%s, want base64 in a string", value(v))
		}
		return fmt.Sprintf("%s, want a list; begin each item with a dash", value(v))
	case reflect.Struct, reflect.Map:
		return fmt.Sprintf("%s, want keys and values", value(v))
	}
	return fmt.Sprintf("%s, want %v", value(v), t.Type)
}

func value(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "keys and values"
	case []any:
		return "a list"
	case string:
		if len(v) > 40 {
			v = v[:40] + "…"
		}
		return fmt.Sprintf("the string %q", v)
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("the number %v", v)
}

// notJSON explains a syntax error at offset.
func (d decoder) notJSON(p piece, err error, offset int) []error {
	at := d.placeOf(p, nil)
	offset = min(max(offset-1, 0), len(p.data))
	at.line = p.line + bytes.Count(p.data[:offset], []byte("\n"))
	return []error{fmt.Errorf("%v: not valid JSON: %w; mend the text at this line or just before it", at, err)}
}

// notYAML explains what the YAML parser says, with the file's line numbers.
func (d decoder) notYAML(p piece, err error) []error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:\n"} {
		text = strings.TrimPrefix(text, prefix)
	}
	var errs []error
	for _, message := range strings.Split(text, "\n") {
		at := d.placeOf(p, nil)
		message = strings.TrimSpace(message)
		if rest, ok := strings.CutPrefix(message, "line "); ok {
			if number, what, ok := strings.Cut(rest, ": "); ok {
				if n, err := strconv.Atoi(number); err == nil {
					if strings.HasPrefix(what, "did not find expected") {
						n++ // the parser counts from 0, unlike the scanner
					}
					n = min(n, bytes.Count(bytes.TrimSpace(p.data), []byte("\n"))+1)
					at.line, message = p.line+n-1, what
				}
			}
		}
		hint := "check the indentation and the quotes there"
		switch {
		case strings.Contains(message, "cannot start any token"):
			hint = "indent with spaces, not tabs, and put quotes around values that begin with @, ` or %"
		case strings.Contains(message, "already set in map"):
			hint = "keep one of them"
		}
		errs = append(errs, fmt.Errorf("%v: not valid YAML: %s; %s", at, message, hint))
	}
	return errs
}
