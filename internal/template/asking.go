package template

import (
	"reflect"
	"slices"

	"github.com/lb-render/lb-render/internal/types"
)

// The functions that stand at the sites of a compiled template: see site.

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
