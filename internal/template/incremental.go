package template

import (
	"errors"
	"reflect"
	"sync"
	"text/template"
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
	doubt  bool // the last output had something suspicious in it

	into *sink
	here *scope
	vars []reflect.Value // of the body that is executed
	rest reflect.Value   // what _rest returns
}

// newIncremental compiles a set. funcs are those it was loaded with.
func newIncremental(t *Template) (*incremental, error) {
	set, sites, purity, err := compile(t.set, t.reached)
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

// render executes the set on dot, and reports whether something in the output is
// suspicious. On an error nothing is known of what is right: the caller
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
	// There is room for a somewhat longer output, and for one that is longer still the next time.
	if size := len(last.bytes); cap(s.free) >= size+size/128+4096 {
		to.bytes = s.free[:0]
	} else {
		to.bytes = make([]byte, 0, size+size/16+8192)
	}
	s.free = nil
	now := s.spare
	s.into, s.here, s.vars, s.rest = to, s.newScope(rankRoot, now, last.frame, 0, 0), nil, reflect.Value{}
	err = inc.main.Execute(to, dot)
	s.into, s.here, s.vars, s.rest, s.run.cc, s.run.depth = nil, nil, nil, reflect.Value{}, nil, 0
	if err != nil {
		now.reset()
		clear(s.filter)
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
	s.filter.sweep()
	// Once something is suspicious, all of the output counts until nothing is: plain renders look at all of it.
	s.doubt = anySuspicious(to.bytes, s.fresh) || s.doubt && anySuspicious(to.bytes, []span{{0, len(to.bytes)}})
	return to.bytes, s.doubt, nil
}

// forget drops all that is remembered.
func (inc *incremental) forget() {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	s := &inc.session
	s.last, s.spare, s.given, s.doubt = nil, nil, false, false
	clear(s.filter)
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
