package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Write writes objects as YAML documents that New and Decode read back, sorted
// by kind, namespace and name, so that two snapshots can be compared. What an
// API server adds and no reader needs is left out: managedFields, uid,
// resourceVersion, generation, creationTimestamp. Lists are refused.
func Write(w io.Writer, objects []runtime.Object) error {
	type one struct {
		kind, namespace, name string
		object                runtime.Object
		apiVersion            string
	}
	all := make([]one, 0, len(objects))
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil {
			return fmt.Errorf("writing a %T: %w", o, err)
		}
		gvk := o.GetObjectKind().GroupVersionKind()
		apiVersion, name := gvk.GroupVersion().String(), gvk.Kind
		if k, ok := kindOf(o); ok {
			apiVersion, name = k.apiVersion, k.name
		}
		if name == "" {
			return fmt.Errorf("writing a %T: its kind is not known", o)
		}
		all = append(all, one{name, m.GetNamespace(), m.GetName(), o, apiVersion})
	}
	slices.SortStableFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, o := range all {
		doc, err := document(o.object, o.apiVersion, o.kind)
		if err == nil {
			_, err = w.Write(append([]byte("---\n"), doc...))
		}
		if err != nil {
			return fmt.Errorf("writing %s %s/%s: %w", o.kind, o.namespace, o.name, err)
		}
	}
	return nil
}

// document is an object's text.
func document(o runtime.Object, apiVersion, kind string) ([]byte, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	if m, ok := fields["metadata"].(map[string]any); ok {
		for _, k := range []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink"} {
			delete(m, k)
		}
	}
	if raw, err = json.Marshal(fields); err != nil {
		return nil, err
	}
	// A string that the YAML writer refuses or gets wrong (control characters, some line
	// ends) must not be lost or become another one; JSON can hold them all.
	if text, err := yaml.JSONToYAML(raw); err == nil {
		back, err := yaml.YAMLToJSONStrict(text)
		if err == nil && sameJSON(back, raw) && !holdsMarker(text) {
			return text, nil
		}
	}
	return append(raw, '\n'), nil
}

// holdsMarker tells whether a line of text would end the document.
func holdsMarker(text []byte) bool {
	n := 0
	split(text, func(chunk) { n++ })
	return n > 1
}

func sameJSON(a, b []byte) bool {
	canonical := func(raw []byte) ([]byte, bool) {
		var v any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			return nil, false
		}
		out, err := json.Marshal(v)
		return out, err == nil
	}
	x, ok := canonical(a)
	y, okToo := canonical(b)
	return ok && okToo && bytes.Equal(x, y)
}
