package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// entry is one object of the directory. The object is shared and never changed:
// who hands it out copies it and gives the copy its resource version.
type entry struct {
	object   object
	mirrored []*discoveryv1.EndpointSlice // of v1 Endpoints, not nil for these
	place    place
	rv       uint64
}

// event is a change of one object. Which kind of change a watch sees depends
// on its selector too, so both states are kept.
type event struct {
	old, new *entry // old nil: added; new nil: deleted
	rv       uint64
}

// table is one resource's objects and newest events.
type table struct {
	byKey   map[string]*entry // read and written by the loader only
	sorted  []*entry          // by namespace and name; replaced, never changed
	events  []event           // oldest first; cut at the front and appended to, never changed in place
	dropped uint64            // the newest event that is no longer in events
}

// changes counts what a load changed.
type changes struct{ added, modified, deleted int }

func keyOf(o object) string { return o.GetNamespace() + "/" + o.GetName() }

// describe names an object as kubectl does.
func describe(o object) string {
	k, _ := kindOf(o)
	switch {
	case o.GetName() == "":
		return k.name
	case !k.namespaced:
		return k.name + " " + o.GetName()
	}
	return k.name + " " + keyOf(o)
}

// serviceOf is the service (as namespace/name) an EndpointSlice belongs to, else "".
func serviceOf(o object) string {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || s.Labels[discoveryv1.LabelServiceName] == "" {
		return ""
	}
	return s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
}

// uid is a stable UID for an object that has none of its own.
func uid(k kind, o object) types.UID {
	sum := sha256.Sum256([]byte(k.name + "\x00" + o.GetNamespace() + "\x00" + o.GetName()))
	sum[6] = sum[6]&0x0f | 0x80 // version 8: the bits mean what the maker wants
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return types.UID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// commit makes objects the state in force. Only Run's goroutine and New call it.
func (s *Source) commit(objects map[string]map[string]entry) changes {
	type update struct {
		byKey  map[string]*entry
		sorted []*entry
		events []event
	}
	updates := map[string]update{}
	var n changes
	rev := s.rev
	for _, resource := range slices.Sorted(maps.Keys(s.tables)) {
		old, now := s.tables[resource].byKey, objects[resource]
		u := update{byKey: make(map[string]*entry, len(now))}
		emit := func(was, is *entry) {
			rev++
			if is != nil {
				is.rv = rev
			}
			u.events = append(u.events, event{old: was, new: is, rv: rev})
		}
		for _, k := range slices.Sorted(maps.Keys(old)) {
			if _, still := now[k]; !still {
				emit(old[k], nil)
				n.deleted++
			}
		}
		for _, k := range slices.Sorted(maps.Keys(now)) {
			e, was := now[k], old[k]
			u.byKey[k], u.sorted = &e, append(u.sorted, &e)
			switch {
			case was == nil:
				emit(nil, &e)
				n.added++
			case was.object == e.object || apiequality.Semantic.DeepEqual(was.object, e.object):
				e.rv = was.rv
			case was.object.GetUID() != e.object.GetUID():
				// Another object of the same name: an API server tells of both.
				emit(was, nil)
				emit(nil, &e)
				n.modified++
			default:
				emit(was, &e)
				n.modified++
			}
		}
		updates[resource] = u
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = nil
	s.rev = rev
	for resource, u := range updates {
		t := s.tables[resource]
		t.byKey, t.sorted = u.byKey, u.sorted
		t.events = append(t.events, u.events...)
		if over := len(t.events) - s.opts.history; over > s.opts.history || len(u.events) > s.opts.history {
			t.dropped = t.events[over-1].rv
			t.events = slices.Clone(t.events[over:])
		}
	}
	if n != (changes{}) {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return n
}

// snapshot is a resource's objects, and the revision they are of.
func (s *Source) snapshot(resource string) ([]*entry, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[resource].sorted, s.rev
}

// after gives the events since rev, and a channel that is closed when there
// are more. expired: some of them are gone.
func (s *Source) after(resource string, rev uint64) (events []event, expired bool, more <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.tables[resource]
	if rev < t.dropped {
		return nil, true, s.changed
	}
	i, _ := slices.BinarySearchFunc(t.events, rev, func(e event, rev uint64) int {
		if e.rv <= rev {
			return -1
		}
		return 1
	})
	return t.events[i:len(t.events):len(t.events)], false, s.changed
}

// as is what a watch with the selector sees of an event; false: nothing.
func (e event) as(matches func(object) bool) (watch.EventType, *entry, bool) {
	was := e.old != nil && matches(e.old.object)
	is := e.new != nil && matches(e.new.object)
	switch {
	case was && is:
		return watch.Modified, e.new, true
	case is:
		return watch.Added, e.new, true
	case was: // gone, or no longer matching: an API server sends the last state that did
		return watch.Deleted, e.old, true
	}
	return "", nil, false
}
