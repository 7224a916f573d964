package template

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"text/template"

	"github.com/lb-render/lb-render/internal/types"
)

// incremental renders a set again and again, and executes only what has
// changed since the last time. One render at a time has it; see Template.Render.
type incremental struct {
	mu      sync.Mutex
	set     *template.Template
	main    *template.Template
	sites   []site
	purity  map[string]bool // templates that depend on their dot only
	session session
}

// session is one render, and what is left of the one before.
type session struct {
	*incremental
	run    run // for endpoints, and to count how deep includes nest
	root   root
	last   *rendering // what the last render wrote
	free   []byte     // room for the next one
	given  bool       // the caller needs last no more
	spare  *frame     // the frame of the one before that, emptied
	fresh  []span     // of the output: what was not copied from the last one
	filter memos

	into *sink
	here *scope
	vars []reflect.Value // of the body that is executed
	rest reflect.Value   // what _rest returns
}

// sink is a text that is being written.
type sink struct {
	bytes []byte
	was   []byte // its last version
	fresh []span // where bytes come from an execution; nil is not noted
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
	sc := &scope{rank: rank, now: now, was: was, base: base, wasBase: wasBase,
		ranges: make([]int, len(s.sites)), calls: make([]reader[any], len(s.sites)), includes: make([]reader[any], len(s.sites))}
	return sc
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

// newIncremental compiles a set. funcs are those it was loaded with.
func newIncremental(t *Template) (*incremental, error) {
	set, sites, purity, err := compile(t.set)
	if err != nil {
		return nil, err
	}
	inc := &incremental{set: set, sites: sites, purity: purity.templates}
	inc.main = set.Lookup(t.main)
	inc.session.incremental, inc.session.filter = inc, memos{}
	inc.session.run = run{set: set, ambiguous: t.ambiguous, suffix: withoutSites}
	s := &inc.session
	set.Funcs(template.FuncMap{
		"_range": s.rangeSite, "_call": s.callSite, "_include": s.includeSite, "_var": s.variable,
		"_rest":      func() reflect.Value { return s.rest },
		"include":    s.run.include,
		"endpoints":  s.run.endpoints,
		"ofProtocol": s.filter.ofProtocol,
	})
	return inc, nil
}

var errBusy = errors.New("another render has the memory")

// render executes the set on dot, and reports whether what is new in the output
// is suspicious. On an error nothing is known of what is right: the caller
// executes the template as it was written, and says what that says.
func (inc *incremental) render(dot root) (out []byte, suspicious bool, err error) {
	if !inc.mu.TryLock() {
		return nil, false, errBusy
	}
	defer inc.mu.Unlock()
	s := &inc.session
	if reflect.DeepEqual(dot.Params, s.root.Params) {
		dot.Params = s.root.Params // one by identity, too: see sameValue
	}
	s.root, s.run.cc = dot, dot.ClusterConfig
	if s.spare == nil {
		s.spare = newFrame(len(s.sites))
	}
	last := s.last
	if last == nil {
		last = &rendering{}
	}
	to := &sink{was: last.bytes, fresh: s.fresh[:0], note: true}
	if size := len(last.bytes) + len(last.bytes)/64 + 4096; cap(s.free) >= size {
		to.bytes = s.free[:0]
	} else {
		to.bytes = make([]byte, 0, size)
	}
	s.free = nil
	now := s.spare
	s.into, s.here, s.vars, s.rest = to, s.newScope(rankRoot, now, last.frame, 0, 0), nil, reflect.Value{}
	err = inc.main.Execute(to, dot)
	s.into, s.here, s.vars, s.rest, s.run.cc, s.run.depth = nil, nil, nil, reflect.Value{}, nil, 0
	if err != nil {
		now.reset()
		s.free = to.bytes
		return nil, false, err
	}
	if s.given {
		s.free, s.given = last.bytes, false
	}
	s.fresh = append(to.fresh, span{to.mark, len(to.bytes)})
	s.spare = last.frame
	if s.spare != nil {
		s.spare.reset()
	}
	s.last = &rendering{bytes: to.bytes, frame: now}
	return to.bytes, anySuspicious(to.bytes, s.fresh), nil
}

// forget drops all that is remembered.
func (inc *incremental) forget() {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	s := &inc.session
	s.last, s.spare, s.given = nil, nil, false
}

// recycle takes bytes that nobody else will look at any more. Those of the last
// render are still copied from in the next one.
func (inc *incremental) recycle(b []byte) {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	s := &inc.session
	switch {
	case cap(b) == 0:
	case s.last != nil && cap(s.last.bytes) > 0 && &s.last.bytes[:1][0] == &b[:1][0]:
		s.given = true
	case cap(b) > cap(s.free):
		s.free = b
	}
}

// variable is _var: a variable from outside of the body that is executed.
func (s *session) variable(i int) reflect.Value { return s.vars[i] }

// rangeSite is _range: it writes the bodies of a list of elements and returns
// false, or returns true if it cannot. The last of args is the list, those before it are the variables.
func (s *session) rangeSite(id int, args ...reflect.Value) (bool, error) {
	list, vars := args[len(args)-1], args[:len(args)-1]
	s.rest = list
	site := &s.sites[id]
	values, ok := s.captured(site.vars, vars)
	if !ok || !list.IsValid() || list.Kind() != reflect.Slice || list.Len() == 0 {
		return true, nil
	}
	switch list := list.Interface().(type) {
	case []*types.Listener:
		return rangeOver(s, id, vars, values, list)
	case []*types.VIP:
		return rangeOver(s, id, vars, values, list)
	case []*types.Endpoint:
		return rangeOver(s, id, vars, values, list)
	case []*types.RealServer:
		return rangeOver(s, id, vars, values, list)
	case []*types.Node:
		return rangeOver(s, id, vars, values, list)
	case []any:
		return rangeOver(s, id, vars, values, list)
	}
	return true, nil
}

func rangeOver[T comparable](s *session, id int, vars []reflect.Value, values []any, list []T) (bool, error) {
	here, site := s.here, &s.sites[id]
	rank, ok := rankOf(list[0])
	if !ok || !here.remembers(rank) {
		return true, nil
	}
	if mixed, ok := any(list).([]any); ok {
		for _, e := range mixed {
			if r, ok := rankOf(e); !ok || r != rank {
				return true, nil
			}
		}
	}
	now, last := here.nextRange(id), here.lastRange(id, values, list[0])
	now.vars, now.list, now.start = values, list, len(s.into.bytes)-here.base
	now.ends = slices.Grow(now.ends, len(list))
	known, _ := last.list.([]T)
	was := reader[T]{keys: known}
	defer func(vars []reflect.Value) { s.vars = vars }(s.vars)
	for i := 0; i < len(list); {
		at, found := was.find(list[i])
		if !found {
			if err := s.body(site, list[i], rank, now, last, at, vars); err != nil {
				return false, err
			}
			i++
			continue
		}
		n := was.run(at, list[i:]) // neighbours are copied at once
		s.copyElements(now, last, at, at+n)
		i += n
	}
	return false, nil
}

// copyElements copies the text of elements [at, end) of was, which is in one piece, and notes them in now.
func (s *session) copyElements(now, was *sequence, at, end int) {
	start := len(s.into.bytes) - s.here.base
	from := was.from(at)
	s.into.copy(s.here.wasBase+from, s.here.wasBase+was.ends[end-1])
	if len(was.inner) > 0 || len(now.inner) > 0 {
		for len(now.inner) < len(now.ends) {
			now.inner = append(now.inner, nil)
		}
		for i := at; i < end; i++ {
			now.inner = append(now.inner, was.at(i))
		}
	}
	first, moved := len(now.ends), start-from
	now.ends = append(now.ends, was.ends[at:end]...)
	if moved != 0 {
		for i := range now.ends[first:] {
			now.ends[first+i] += moved
		}
	}
}

// body executes a site on an element that is new, and notes it in now. was and at
// are the sequence and the place of its last version, if it has one; its parts may still be the same.
func (s *session) body(site *site, element any, rank int, now, was *sequence, at int, vars []reflect.Value) error {
	here := s.here
	start := len(s.into.bytes)
	var inner *frame
	t := site.without
	if rank > rankListener { // has listeners in it
		t = site.with
		inner = newFrame(len(s.sites))
		sc := s.newScope(rank, inner, nil, start, 0)
		if at >= 0 {
			sc.was, sc.wasBase = was.at(at), here.wasBase+was.from(at)
		}
		s.here = sc
	}
	s.vars = vars
	err := t.Execute(s.into, element)
	s.here = here
	if err != nil {
		return err
	}
	if inner != nil && inner.empty() {
		inner = nil
	}
	now.end(len(s.into.bytes)-here.base, inner)
	return nil
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

// callSite is _call: it writes what a template gives on an element, and
// returns false, or returns true if it cannot.
func (s *session) callSite(id int, dot reflect.Value) (bool, error) {
	s.rest = dot
	if !dot.IsValid() || dot.Kind() != reflect.Pointer || !dot.CanInterface() {
		return true, nil
	}
	element := dot.Interface()
	rank, ok := rankOf(element)
	here := s.here
	if !ok || !here.remembers(rank) {
		return true, nil
	}
	now := here.now.calls[id]
	if now == nil {
		now = &sequence{}
		here.now.calls[id] = now
	}
	last := &sequence{}
	if here.was != nil && here.was.calls[id] != nil {
		last = here.was.calls[id]
	}
	was := &here.calls[id]
	was.keys = last.keys
	at, found := was.find(element)
	now.keys, now.froms = append(now.keys, element), append(now.froms, len(s.into.bytes)-here.base)
	if found {
		s.copyElements(now, last, at, at+1)
		return false, nil
	}
	vars := s.vars
	err := s.body(&s.sites[id], element, rank, now, last, at, nil)
	s.vars = vars
	return false, err
}

// includeSite is _include: include, which remembers the text of an element, and
// of any other dot where in its text the elements are.
func (s *session) includeSite(id int, name string, dot any) (string, error) {
	t := s.set.Lookup(name)
	if t == nil || s.run.depth == maxIncludes {
		return s.run.include(name, dot) // which says what is wrong
	}
	here := s.here
	rank, element := rankOf(dot)
	element = element && here.remembers(rank) && s.purity[name]
	var key any = name
	if element {
		key = includedElement{name, dot}
	} else {
		rank = here.rank
	}
	now := here.now.includes[id]
	if now == nil {
		now = &includes{}
		here.now.includes[id] = now
	}
	was := &here.includes[id]
	last := &rendering{}
	if here.was != nil && here.was.includes[id] != nil {
		texts := here.was.includes[id]
		was.keys = texts.keys
		at, found := was.find(key)
		if at >= 0 && texts.texts[at] != nil {
			last = texts.texts[at]
			if found && element {
				now.keys, now.texts = append(now.keys, key), append(now.texts, last)
				return string(last.bytes), nil
			}
		}
	}
	written := &rendering{}
	if rank > rankListener {
		written.frame = newFrame(len(s.sites))
	} else {
		t = s.set.Lookup(name + withoutSites)
	}
	outer, vars := s.into, s.vars
	s.into, s.vars = &sink{was: last.bytes}, nil
	s.here = s.newScope(rank, written.frame, last.frame, 0, 0)
	s.run.depth++
	err := t.Execute(s.into, dot)
	s.run.depth--
	written.bytes = s.into.bytes
	s.into, s.vars, s.here = outer, vars, here
	if err != nil {
		return "", &includeError{name: name, err: err}
	}
	out := string(written.bytes)
	if !element && written.frame.empty() {
		written = nil
	}
	now.keys, now.texts = append(now.keys, key), append(now.texts, written)
	return out, nil
}

// captured returns what the variables from outside are; ok is false if it
// cannot be said of one of them whether it will be the same the next time.
func (s *session) captured(captures []capture, vars []reflect.Value) (values []any, ok bool) {
	for i, v := range vars {
		if v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if !v.IsValid() {
			values = append(values, nil)
			continue
		}
		switch v.Kind() {
		case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
			reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		case reflect.Pointer:
			if _, ok := rankOf(v.Interface()); !ok {
				return nil, false
			}
		case reflect.Struct:
			if v.Type() != reflect.TypeFor[root]() || !captures[i].partly {
				return nil, false
			}
		case reflect.Map, reflect.Slice: // nobody changes one that a template has seen
		default:
			return nil, false
		}
		values = append(values, v.Interface())
	}
	return values, true
}
