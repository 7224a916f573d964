package watcher

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// interner keeps one copy of what many objects have in common: the names of
// namespaces, nodes and zones, labels, conditions. It belongs to one
// reflector.
type interner struct {
	texts    map[string]string
	pointers map[string]*string
	sets     map[string]map[string]string // of labels, by all of them in one text
	ready    map[v1.ConditionStatus][]v1.PodCondition
	yes, no  bool   // what all pointers to a bool point at
	key      []byte // of a set; reused
}

func newInterner() *interner {
	return &interner{
		texts: map[string]string{}, pointers: map[string]*string{}, sets: map[string]map[string]string{},
		ready: map[v1.ConditionStatus][]v1.PodCondition{}, yes: true,
	}
}

// maxInterned bounds each table. What comes and goes for a year, such as the
// hashes of ReplicaSets, must not stay for a year: a table that is full begins
// anew, and all that it costs is that some text is there twice.
const (
	maxInterned = 100_000
	maxSets     = 30_000 // of labels, which are larger; StatefulSets give each pod one of its own
)

func (in *interner) text(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := in.texts[s]; ok {
		return known
	}
	if len(in.texts) >= maxInterned {
		in.texts = map[string]string{}
	}
	in.texts[s] = s
	return s
}

// pointer is text for the API's optional fields.
func (in *interner) pointer(s *string) *string {
	if s == nil {
		return nil
	}
	if known, ok := in.pointers[*s]; ok {
		return known
	}
	if len(in.pointers) >= maxInterned {
		in.pointers = map[string]*string{}
	}
	text := in.text(*s)
	in.pointers[text] = &text
	return &text
}

// bool is the same for optional truth. Nobody writes through what it returns.
func (in *interner) bool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return &in.yes
	}
	return &in.no
}

// labels returns the same labels in interned text.
func (in *interner) labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[in.text(k)] = in.text(v)
	}
	return out
}

// sharedLabels returns one map for all that are equal: the pods of a workload
// have the same labels. Nobody writes to what it returns.
func (in *interner) sharedLabels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	key := in.key[:0]
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key = append(append(append(append(key, k...), 0), m[k]...), 0) // neither can hold a NUL
	}
	in.key = key
	if known, ok := in.sets[string(key)]; ok {
		return known
	}
	if len(in.sets) >= maxSets {
		in.sets = map[string]map[string]string{}
	}
	set := in.labels(m)
	in.sets[string(key)] = set
	return set
}

// podReady is the only condition that is kept of a pod.
func (in *interner) podReady(status v1.ConditionStatus) []v1.PodCondition {
	if known, ok := in.ready[status]; ok {
		return known
	}
	if len(in.ready) >= maxInterned {
		in.ready = map[v1.ConditionStatus][]v1.PodCondition{}
	}
	in.ready[status] = []v1.PodCondition{{Type: v1.PodReady, Status: status}}
	return in.ready[status]
}
