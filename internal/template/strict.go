package template

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

// noValue is what text/template prints for nil: a param that is null, say.
// missingkey=error does not see it.
const noValue = "<no value>"

var address = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// suspicious reports whether output holds what a nil value or the address of a
// pointer prints as. Neither belongs into a file: the one is a missing value,
// the other differs from process to process.
func suspicious(out []byte) bool {
	return bytes.Contains(out, []byte(noValue)) || bytes.Contains(out, []byte("0x")) && address.Match(out)
}

// anySuspicious is suspicious for an output of which only the fresh parts have not been looked at before.
func anySuspicious(out []byte, fresh []span) bool {
	const around = 16 // more than either of the two needs to be recognised
	for _, f := range fresh {
		if suspicious(out[max(0, f.start-around):min(len(out), f.end+around)]) {
			return true
		}
	}
	return false
}

// diagnose executes the template once more with a check around every printed
// value, and returns an error with the place of one that is nil or holds
// pointers. It returns nil if the output only looks like it: an annotation may
// say "<no value>". Doing so only on suspicion keeps every other render as fast
// as text/template is.
func (t *Template) diagnose(dot root) error {
	strict, err := t.set.Clone()
	if err != nil {
		return err
	}
	for _, p := range strict.Templates() {
		tree := p.Tree.Copy()
		walk(tree.Root, func(n parse.Node) {
			a, ok := n.(*parse.ActionNode)
			if !ok || len(a.Pipe.Decl) > 0 {
				return
			}
			last := a.Pipe.Cmds[len(a.Pipe.Cmds)-1]
			check := last.Copy().(*parse.CommandNode)
			check.Args = []parse.Node{parse.NewIdentifier(checkName).SetPos(last.Pos).SetTree(tree)}
			a.Pipe.Cmds = append(a.Pipe.Cmds, check)
		})
		if _, err := strict.AddParseTree(p.Name(), tree); err != nil {
			return err
		}
	}
	strict.Funcs(checked(t.funcs))
	_, err = t.execute(strict, dot)
	return err
}

const checkName = "_printed"

// checked returns checkPrinted, and the functions that make text of any value
// with the same check before them.
func checked(funcs template.FuncMap) template.FuncMap {
	out := template.FuncMap{checkName: checkPrinted}
	all := template.FuncMap{"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln}
	for _, name := range []string{"toString", "toStrings", "quote", "squote", "cat", "join",
		"haproxyQuote", "keepalivedQuote", "comment", "identifier"} {
		all[name] = funcs[name]
	}
	for name, f := range all {
		call := reflect.ValueOf(f)
		out[name] = func(args ...any) (any, error) {
			in := make([]reflect.Value, len(args))
			for i, a := range args {
				if holdsPointer(reflect.ValueOf(a), 0) {
					return nil, errAddress
				}
				if in[i] = reflect.ValueOf(a); a == nil {
					in[i] = reflect.Zero(reflect.TypeFor[any]())
				}
			}
			if name == "printf" {
				if format, ok := args[0].(string); ok && strings.Contains(format, "%p") {
					return nil, errAddress
				}
			}
			return call.Call(in)[0].Interface(), nil
		}
	}
	return out
}

var errAddress = errors.New("this prints memory addresses; print a field of it, or use toYaml")

func checkPrinted(v any) (any, error) {
	if v == nil {
		return nil, errors.New("the value is null; give a default, as in {{ .Params.x | default 5 }}")
	}
	if holdsPointer(reflect.ValueOf(v), 0) {
		return nil, errAddress
	}
	return v, nil
}

// holdsPointer reports whether fmt prints addresses for a value. The outermost
// pointer is followed; one inside is not.
func holdsPointer(v reflect.Value, depth int) bool {
	if !v.IsValid() {
		return false
	}
	if t := v.Type(); t.Implements(reflect.TypeFor[error]()) || t.Implements(reflect.TypeFor[fmt.Stringer]()) {
		return false
	}
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && (depth > 0 || holdsPointer(v.Elem(), depth+1))
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return !v.IsZero()
	case reflect.Interface:
		return holdsPointer(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if holdsPointer(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if holdsPointer(it.Key(), depth+1) || holdsPointer(it.Value(), depth+1) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if holdsPointer(v.Field(i), depth+1) {
				return true
			}
		}
	}
	return false
}
