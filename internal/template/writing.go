package template

import "github.com/lb-render/lb-render/internal/types"

// sink is a text that is being written.
type sink struct {
	bytes []byte
	was   []byte // its last version
	fresh []span // what was not copied, if note is set
	note  bool
	mark  int // end of what was last copied
}

// Write implements io.Writer for what an execution writes.
func (s *sink) Write(b []byte) (int, error) {
	s.grow(len(b))
	s.bytes = append(s.bytes, b...)
	return len(b), nil
}

// grow makes room for n bytes. It doubles, where append would add a quarter:
// a first render of megabytes would be copied five times over.
func (s *sink) grow(n int) {
	if len(s.bytes)+n > cap(s.bytes) {
		s.bytes = append(make([]byte, 0, max(2*cap(s.bytes), len(s.bytes)+n)), s.bytes...)
	}
}

// copy appends what is in the last version at [from, to).
func (s *sink) copy(from, to int) {
	if s.note {
		s.fresh = append(s.fresh, span{s.mark, len(s.bytes)})
	}
	s.grow(to - from)
	s.bytes = append(s.bytes, s.was[from:to]...)
	s.mark = len(s.bytes)
}

// scope is the frame that is being written, and its last version.
type scope struct {
	rank     int
	now, was *frame // was may be nil
	base     int    // where now begins in the sink's bytes
	wasBase  int    // where was begins in the sink's last version
	ranges   []int  // how often each range was executed, by site
	calls    []reader[any]
	includes []reader[any]
}

func (s *session) newScope(rank int, now, was *frame, base, wasBase int) *scope {
	return &scope{rank: rank, now: now, was: was, base: base, wasBase: wasBase,
		ranges: make([]int, len(s.sites)), calls: make([]reader[any], len(s.sites)), includes: make([]reader[any], len(s.sites))}
}

// Ranks of what is remembered. Inside of an element only those of a lower rank
// are remembered for themselves, and those of rank 0, which are cheaper to print
// than to remember, only outside of any.
const (
	rankLeaf     = 0
	rankListener = 1
	rankVIP      = 2
	rankRoot     = 3
)

// rankOf returns the rank of a value that never changes once it is published
// (package types); ok is false for any other.
func rankOf(v any) (rank int, ok bool) {
	switch v := v.(type) {
	case *types.Listener:
		return rankListener, v != nil
	case *types.VIP:
		return rankVIP, v != nil
	case *types.Endpoint:
		return rankLeaf, v != nil
	case *types.RealServer:
		return rankLeaf, v != nil
	case *types.Node:
		return rankLeaf, v != nil
	case *types.ServiceDef:
		return rankLeaf, v != nil
	}
	return 0, false
}

func (s *scope) remembers(rank int) bool {
	return rank < s.rank && (rank > rankLeaf || s.rank == rankRoot)
}

// nextRange is the sequence for one more execution of a range.
func (s *scope) nextRange(id int) *sequence {
	list := s.now.ranges[id]
	if len(list) < cap(list) { // a spare one, emptied
		list = list[:len(list)+1]
		if list[len(list)-1] == nil {
			list[len(list)-1] = &sequence{}
		}
	} else {
		list = append(list, &sequence{})
	}
	s.now.ranges[id] = list
	return list[len(list)-1]
}

// lastRange is the sequence of the last render for this execution of a range:
// one near the expected place whose variables were the same, best one that
// began with the same element. If there is none, it is empty.
func (s *scope) lastRange(id int, vars []any, first any) *sequence {
	if s.was == nil {
		return &sequence{}
	}
	list := s.was.ranges[id]
	next := s.ranges[id]
	best := -1
	for i := max(next-lookAround, 0); i < min(next+lookAround, len(list)); i++ {
		if !same(list[i].vars, vars) {
			continue
		}
		if list[i].first() == first {
			best = i
			break
		}
		if best < 0 && i >= next {
			best = i
		}
	}
	if best < 0 {
		return &sequence{}
	}
	s.ranges[id] = best + 1
	return list[best]
}

func same(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameValue(a[i], b[i]) {
			return false
		}
	}
	return true
}
