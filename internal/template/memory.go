package template

import (
	"reflect"

	"github.com/lb-render/lb-render/internal/types"
)

// What the last render wrote is remembered as places in its output, not as
// copies: a text is the bytes and, by site, where in them each element is.

// rendering is what one execution wrote: the whole output, or one include.
type rendering struct {
	bytes []byte
	frame *frame
}

// frame is what the sites within one text, or within one remembered element of
// it, have written. Places in it count from where the frame begins, so that an
// element can move with all that is in it. A finished frame is never changed.
type frame struct {
	ranges   [][]*sequence // by site: one for each time the range was executed
	calls    []*sequence   // by site
	includes []*includes   // by site
}

// sequence is the elements of one range, or the dots of a template call, in
// the order in which they were written.
type sequence struct {
	vars []any // what the variables from outside were
	// list is what a range went over, a []*types.Listener and so on. Nobody changes
	// a list that a template has seen: it is published, or made for this one use.
	list  any
	keys  []any    // of a call: the dots; nil for a range
	start int      // of a range: where the text of the first element begins
	froms []int    // of a call: where the text of each dot begins
	ends  []int    // where each text ends; in a range the next one begins there
	inner []*frame // of those elements that have sites in them; else nil
}

// span is a place in a text: bytes from start to before end.
type span struct{ start, end int }

// from is where the text of the i-th element begins.
func (s *sequence) from(i int) int {
	switch {
	case s.froms != nil:
		return s.froms[i]
	case i == 0:
		return s.start
	}
	return s.ends[i-1]
}

// includes are the texts of one include, in order.
type includes struct {
	keys  []any        // an includedElement, or the template's name where the dot is no element
	texts []*rendering // nil where nothing in it can be used again
}

// includedElement is the key of an include whose text depends on its dot only.
type includedElement struct {
	name    string
	element any
}

func newFrame(sites int) *frame {
	return &frame{ranges: make([][]*sequence, sites), calls: make([]*sequence, sites), includes: make([]*includes, sites)}
}

// reset empties a frame for another use, and keeps its room.
func (f *frame) reset() {
	for i := range f.ranges {
		for _, s := range f.ranges[i] {
			s.reset()
		}
		f.ranges[i] = f.ranges[i][:0]
		if s := f.calls[i]; s != nil {
			s.reset()
		}
		if in := f.includes[i]; in != nil {
			clear(in.keys)
			clear(in.texts)
			in.keys, in.texts = in.keys[:0], in.texts[:0]
		}
	}
}

func (s *sequence) reset() {
	clear(s.keys)
	clear(s.inner)
	*s = sequence{keys: s.keys[:0], froms: s.froms[:0], ends: s.ends[:0], inner: s.inner[:0]}
}

// empty reports whether nothing at all is remembered.
func (f *frame) empty() bool {
	for i := range f.ranges {
		if len(f.ranges[i]) > 0 || f.calls[i] != nil || f.includes[i] != nil {
			return false
		}
	}
	return true
}

// first is the first element of a range.
func (s *sequence) first() any {
	switch list := s.list.(type) {
	case []*types.Listener:
		return list[0]
	case []*types.VIP:
		return list[0]
	case []*types.Endpoint:
		return list[0]
	case []*types.RealServer:
		return list[0]
	case []*types.Node:
		return list[0]
	case []any:
		return list[0]
	}
	return nil
}

// end notes where an element ends, and its frame, which may be nil.
func (s *sequence) end(at int, inner *frame) {
	s.ends = append(s.ends, at)
	if inner != nil || len(s.inner) > 0 {
		for len(s.inner) < len(s.ends)-1 {
			s.inner = append(s.inner, nil)
		}
		s.inner = append(s.inner, inner)
	}
}

// at returns the frame of the i-th element, or nil.
func (s *sequence) at(i int) *frame {
	if i < len(s.inner) {
		return s.inner[i]
	}
	return nil
}

// reader finds the elements of an earlier sequence again. Nearly always they
// come in the same order, with some new ones among them.
type reader[T comparable] struct {
	keys   []T // the elements
	next   int // where the next element is expected
	misses int // in a row
	index  map[T]int
}

const (
	lookAround = 8 // an element is looked for this far before and behind the expected place
	patience   = 8 // after so many misses in a row all elements are put into a map
)

// find returns the place of an element, and moves on behind it. If it is not
// there, it is taken for the new version of the expected one, whose place is
// returned (-1 if there is none).
func (r *reader[T]) find(key T) (at int, found bool) {
	keys := r.keys
	if r.next < len(keys) && keys[r.next] == key {
		r.next++
		r.misses = 0
		return r.next - 1, true
	}
	for i := r.next + 1; i < min(r.next+lookAround, len(keys)); i++ {
		if keys[i] == key {
			return r.found(i), true
		}
	}
	for i := min(r.next, len(keys)) - 1; i >= max(r.next-lookAround, 0); i-- {
		if keys[i] == key {
			return r.found(i), true
		}
	}
	if r.misses++; r.misses > patience {
		if r.index == nil {
			r.index = make(map[T]int, len(keys))
			for i, k := range keys {
				r.index[k] = i
			}
		}
		if i, ok := r.index[key]; ok {
			return r.found(i), true
		}
	}
	if r.next < len(keys) {
		r.next++
		return r.next - 1, false
	}
	return -1, false
}

func (r *reader[T]) found(i int) int {
	r.next, r.misses = i+1, 0
	return i
}

// run returns how many elements from the place at on are those of list. The first one is.
func (r *reader[T]) run(at int, list []T) int {
	keys := r.keys[at:]
	n := min(len(keys), len(list))
	i := 1
	for i < n && keys[i] == list[i] {
		i++
	}
	r.next = at + i
	return i
}

// sameValue reports whether a variable is what it was. Only values of which
// that can be said for sure are given to it: see session.comparable.
func sameValue(a, b any) bool {
	x, isRoot := a.(root)
	y, isRoot2 := b.(root)
	if isRoot && isRoot2 { // .Params and .Node are all that is used of it
		return x.Node == y.Node && sameIdentity(x.Params, y.Params)
	}
	if isRoot || isRoot2 {
		return false
	}
	if k := reflect.ValueOf(a).Kind(); k == reflect.Map || k == reflect.Slice {
		return reflect.TypeOf(a) == reflect.TypeOf(b) && sameIdentity(a, b)
	}
	return a == b
}

// sameIdentity reports whether two maps, or two slices, are one.
func sameIdentity(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.Pointer() == y.Pointer() && x.Len() == y.Len()
}
