package manifest

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode reads YAML or JSON as kubectl prints it: several documents, lists, or
// both. It returns the ConfigMaps, Services, EndpointSlices, Endpoints, Nodes and
// Pods among them, in order, with apiVersion, kind, and the API server's defaults
// set; other kinds are skipped, and so are unknown fields. name is what errors call data.
// Every mistake is an error, all at once; there are then no objects.
func Decode(name string, data []byte) ([]kruntime.Object, error) {
	entries, faults := decode(name, data)
	if err := faults.err(); err != nil {
		return nil, err
	}
	objects := make([]kruntime.Object, 0, len(entries))
	for _, e := range entries {
		k, _ := kindOf(e.object)
		e.object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(k.apiVersion, k.name))
		objects = append(objects, e.object)
	}
	return objects, nil
}

// decode reads one file.
func decode(name string, data []byte) ([]entry, problems) {
	var bad problems
	if !utf8.Valid(data) {
		line := 1
		for len(data) > 0 {
			r, n := utf8.DecodeRune(data)
			if r == utf8.RuneError && n == 1 {
				break
			}
			if r == '\n' {
				line++
			}
			data = data[n:]
		}
		bad.add(fmt.Errorf("%s: line %d: not UTF-8; save the file as UTF-8", name, line))
		return nil, bad
	}
	d := decoder{name: name}
	whole := d.all(d.pieces(data), 0)
	for _, f := range whole.failures {
		if bad.full() {
			bad.more++ // explaining one costs more than decoding it
			continue
		}
		for _, err := range f() {
			bad.add(err)
		}
	}
	return whole.entries, bad
}

type decoder struct{ name string }

// piece is the text of one object, or of a list of them.
type piece struct {
	data   []byte
	line   int // of the first byte
	doc    int // from 1
	json   bool
	whole  bool   // not to be cut into items
	origin *piece // of an item taken out of YAML: the list it was in
	item   int    // its number there, from 1
	kind   kind   // of a list's items that do not say theirs

	tree *yamlv3.Node // the data as YAML, once an error has had to know a line
}

// result is what a piece holds.
type result struct {
	entries  []entry
	parts    []piece // to be decoded instead
	syntax   bool    // could not be parsed at all
	failures []func() []error
}

// pieces cuts a file into documents.
func (d decoder) pieces(data []byte) []piece {
	var all []piece
	doc := 0
	split(data, func(c chunk) {
		c = c.trimmed()
		for len(c.data) > 0 {
			doc++
			p := piece{data: c.data, line: c.line, doc: doc, json: looksJSON(c.data)}
			if p.json {
				p.data = c.data[:jsonEnd(c.data)]
			}
			all = append(all, p)
			c.line += bytes.Count(p.data, []byte("\n"))
			c.data = c.data[len(p.data):]
			c = c.trimmed()
		}
	})
	return all
}

// maxDepth is how deep lists may be in lists; kubectl makes none.
const maxDepth = 4

// all decodes pieces, several at a time, and joins the results in order.
func (d decoder) all(pieces []piece, depth int) result {
	results := make([]result, len(pieces))
	each(len(pieces), func(i int) { results[i] = d.one(pieces[i], depth) })
	var sum result
	for i, r := range results {
		if r.parts != nil {
			r = d.all(r.parts, depth+1)
			if r.syntax && !pieces[i].json && pieces[i].origin == nil {
				whole := pieces[i]
				whole.whole = true
				r = d.one(whole, depth)
				if r.parts != nil {
					r = d.all(r.parts, depth+1)
				}
			}
		}
		sum.entries = append(sum.entries, r.entries...)
		sum.failures = append(sum.failures, r.failures...)
		sum.syntax = sum.syntax || r.syntax
	}
	return sum
}

// each calls f for 0 to n-1, on all processors when it is worth it, and
// returns when all calls have.
func each(n int, f func(int)) {
	workers := min(runtime.GOMAXPROCS(0), n/16)
	if workers < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// header is what is looked at before the type of a document is known.
type header struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Items      rawMessage `json:"items"`
}

// rawMessage keeps its bytes without a copy: they are part of a file that is in
// memory anyhow.
type rawMessage []byte

// UnmarshalJSON implements json.Unmarshaler.
func (m *rawMessage) UnmarshalJSON(b []byte) error {
	*m = b
	return nil
}

// one decodes a piece.
func (d decoder) one(p piece, depth int) result {
	raw := p.data
	if !p.json {
		if !p.whole {
			if parts := d.items(p); parts != nil {
				return d.list(parts, p, depth)
			}
		}
		var err error
		if raw, err = yaml.YAMLToJSONStrict(p.data); err != nil {
			return result{syntax: true, failures: []func() []error{func() []error { return d.notYAML(p, err) }}}
		}
	}
	if string(bytes.TrimSpace(raw)) == "null" {
		return result{}
	}
	var h header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		if is, offset := kjson.SyntaxErrorOffset(err); is {
			if p.json && p.origin == nil {
				asYAML := p
				asYAML.json, asYAML.whole = false, true
				if r := d.one(asYAML, depth); !r.syntax {
					return r // flow style YAML, which only looks like JSON
				}
			}
			return result{syntax: true, failures: []func() []error{func() []error { return d.notJSON(p, err, int(offset)) }}}
		}
		return d.mistyped(p, raw, &header{})
	}
	if h.APIVersion == "" && h.Kind == "" {
		h.APIVersion, h.Kind = p.kind.apiVersion, p.kind.name
	}
	if h.Kind == "" || h.APIVersion == "" {
		return d.fault(p, "", nil, "no kind or no apiVersion, so this is no Kubernetes object; add them, or move the file out of the directory")
	}
	if k, ok := listNamed(h.APIVersion, h.Kind); ok {
		parts, ok := d.jsonItems(p, h.Items, k)
		if !ok {
			return d.fault(p, h.Kind, []any{"items"}, "not a list; write the objects as a list")
		}
		return d.list(parts, p, depth)
	}
	k, ok := kindNamed(h.APIVersion, h.Kind)
	if !ok {
		if k, other := otherVersion(h.APIVersion, h.Kind); other {
			return d.fault(p, h.Kind, []any{"apiVersion"}, "%s is not read; write %s (kubectl get %s.%s prints it)",
				h.APIVersion, k.apiVersion, k.resource, versionAndGroup(k.apiVersion))
		}
		return result{}
	}
	return d.object(p, raw, k)
}

// versionAndGroup writes an apiVersion as kubectl wants it behind a resource's name.
func versionAndGroup(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Version + "." + gv.Group
}

// list is a result of parts, unless they are too deep.
func (d decoder) list(parts []piece, p piece, depth int) result {
	if depth >= maxDepth {
		return d.fault(p, "List", nil, "lists in lists, more than %d deep; write the objects as documents", maxDepth)
	}
	return result{parts: parts}
}

// items gives the objects of a YAML list in kubectl's layout; nil if p is
// something else, or of another layout.
func (d decoder) items(p piece) []piece {
	if !bytes.HasPrefix(p.data, []byte("items:")) && !bytes.Contains(p.data, []byte("\nitems:")) {
		return nil
	}
	rest, chunks, ok := listItems(chunk{data: p.data, line: p.line})
	if !ok {
		return nil
	}
	raw, err := yaml.YAMLToJSONStrict(rest)
	if err != nil {
		return nil
	}
	var h header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &h); err != nil {
		return nil
	}
	k, ok := listNamed(h.APIVersion, h.Kind)
	if !ok {
		return nil
	}
	parts := make([]piece, 0, len(chunks))
	for _, c := range chunks {
		if c = c.trimmed(); len(c.data) > 0 {
			parts = append(parts, piece{data: c.data, line: c.line, doc: p.doc, kind: k, whole: true})
		}
	}
	return parts
}

// jsonItems cuts the items of a list; false when they are none.
func (d decoder) jsonItems(p piece, raw []byte, k kind) ([]piece, bool) {
	parts := []piece{}
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return parts, true
	}
	if trimmed[0] != '[' {
		return nil, false
	}
	line := p.line
	if p.json {
		// raw is a part of p.data, without a copy.
		line += bytes.Count(p.data[:jsonOffset(p.data, []any{"items"})], []byte("\n"))
	}
	elements(raw, func(start, end, lines int) {
		part := piece{data: raw[start:end], line: line + lines, doc: p.doc, json: true, kind: k}
		if !p.json || p.origin != nil {
			part.origin, part.item, part.line = &p, len(parts)+1, p.line
		}
		parts = append(parts, part)
	})
	return parts, true
}

// object decodes one object of a kind that is read.
func (d decoder) object(p piece, raw []byte, k kind) result {
	o := k.empty()
	var twice []error
	var err error
	if p.json && p.origin == nil {
		twice, err = kjson.UnmarshalStrict(raw, o, kjson.DisallowDuplicateFields)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, o) // YAML was strict already
	}
	if err != nil {
		return d.mistyped(p, raw, k.empty())
	}
	if len(twice) > 0 {
		return result{failures: []func() []error{func() []error {
			var errs []error
			for _, err := range twice {
				errs = append(errs, fmt.Errorf("%v: %s: %w; keep one of them", d.placeOf(p, nil), k.name, err))
			}
			return errs
		}}}
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients return them
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	switch {
	case !k.namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace("default")
	}
	setDefaults(o)
	if faults := validate(o, k); len(faults) > 0 {
		return result{failures: []func() []error{func() []error {
			var errs []error
			for _, f := range faults {
				errs = append(errs, d.error(p, describe(o), f))
			}
			return errs
		}}}
	}
	if o.GetUID() == "" {
		o.SetUID(uid(k, o))
	}
	e := entry{object: o, place: d.placeOf(p, []any{})}
	if endpoints, ok := o.(*endpointsV1); ok {
		e.mirrored = mirror(endpoints)
	}
	return result{entries: []entry{e}}
}
