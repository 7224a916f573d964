package template

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/lb-render/lb-render/internal/types"
)

var (
	execMessage  = regexp.MustCompile(`(?s)^template: (.*?):(\d+):(\d+): executing "(.*?)" at <(.*?)>: (.*)$`)
	noField      = regexp.MustCompile(`can't evaluate field (\S+) in type (.*)`)
	noKey        = regexp.MustCompile(`map has no entry for key "(.*)"`)
	nilPointer   = regexp.MustCompile(`nil pointer evaluating (\S+)`)
	errorCalling = regexp.MustCompile(`(?s)^error calling (\S+): (.*)$`)
)

// explain turns text/template's error into one that begins with file:line:column
// of the innermost place, says what is there instead of a field or key that is
// not, and names the includes on the way there.
func explain(err error, dot any) error {
	var via []string
	for {
		var inc *includeError
		if !errors.As(err, &inc) {
			break
		}
		if at, _, _, ok := parseExec(err); ok {
			via = append(via, fmt.Sprintf("%q from %s", inc.name, at))
		}
		err = inc.err
	}
	at, where, message, ok := parseExec(err)
	if !ok {
		return err
	}
	message = hint(message, where, dot)
	// More than a few includes are a recursion; its ends tell all.
	if n := len(via); n > 4 {
		via = append(append(via[:2:2], fmt.Sprintf("… %d more", n-3)), via[n-1])
	}
	slices.Reverse(via)
	if len(via) > 0 {
		message += "; included as " + strings.Join(via, ", ")
	}
	return &placeError{place: at, message: fmt.Sprintf("at <%s>: %s", where, message)}
}

// parseExec takes an execution error apart: place, expression, message.
func parseExec(err error) (place, string, string, bool) {
	var e template.ExecError
	if !errors.As(err, &e) {
		return place{}, "", "", false
	}
	m := execMessage.FindStringSubmatch(e.Error())
	if m == nil {
		return place{}, "", "", false
	}
	line, _ := strconv.Atoi(m[2])
	column, _ := strconv.Atoi(m[3])
	return place{file: m[1], line: line, column: column + 1}, m[5], m[6], true
}

// hint adds the way out to a message of text/template.
func hint(message, where string, dot any) string {
	if m := errorCalling.FindStringSubmatch(message); m != nil {
		return m[1] + ": " + m[2]
	}
	if m := noField.FindStringSubmatch(message); m != nil {
		field, of := m[1], m[2]
		if strings.HasPrefix(of, "[") {
			return fmt.Sprintf("there is no field %s in a list; take its elements with range or index", field)
		}
		if fields := fieldsOf(of, dot); fields != nil {
			return fmt.Sprintf("there is no field %s in %s; it has %s", field, nameOf(of), strings.Join(fields, ", "))
		}
		return fmt.Sprintf("there is no field %s in a value of type %s", field, of)
	}
	if m := noKey.FindStringSubmatch(message); m != nil {
		if r, ok := dot.(root); ok && paramsOf.MatchString(where) {
			known := "there are none"
			if keys := sortedKeys(r.Params); len(keys) > 0 {
				known = "there are " + strings.Join(keys, ", ")
			}
			return fmt.Sprintf("params has no key %q; %s; a param that may be absent is read with dig %q DEFAULT .Params", m[1], known, m[1])
		}
		return fmt.Sprintf("the map has no key %q; one that may be absent is read with get or dig", m[1])
	}
	if m := nilPointer.FindStringSubmatch(message); m != nil {
		return message + "; put it inside of {{with}} or {{if}}, for where there is none"
	}
	return message
}

// nameOf returns what to call a type of ours.
func nameOf(typeName string) string {
	name := typeName[strings.LastIndexAny(typeName, ".*")+1:]
	switch {
	case strings.HasPrefix(strings.TrimLeft(typeName, "*"), "struct {"), name == "root":
		return "the dot"
	case strings.ContainsAny(name[:1], "AEIOU"):
		return "an " + name
	}
	return "a " + name
}

var paramsOf = regexp.MustCompile(`^\$?\.Params\.[^.]+$`)

// fieldsOf lists the fields of a type of ours by the name text/template gives it.
func fieldsOf(name string, dot any) []string {
	known := []any{dot, types.ClusterConfig{}, types.ServiceDef{}, types.IPVSOptions{}, types.VIP{}, types.Listener{}, types.Endpoint{},
		types.RealServer{}, types.Node{}, types.NodeAddress{}, types.ServiceEndpoints{}, types.ServicePort{}, types.Problem{}}
	for _, k := range known {
		t := reflect.TypeOf(k)
		if t == nil {
			continue
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t.String() != strings.TrimLeft(name, "*") {
			continue
		}
		var out []string
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && !f.Anonymous {
				out = append(out, "."+f.Name)
			}
		}
		for m := range reflect.PointerTo(t).Methods() { // one that takes nothing and returns one value is as good as a field
			if m.Type.NumIn() == 1 && m.Type.NumOut() == 1 {
				out = append(out, "."+m.Name)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return nil
}
