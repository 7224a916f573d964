package ipvs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// memory is a table with the kernel's rules: what is there cannot be added, what is
// not there cannot be changed, a service takes its servers along.
type memory struct {
	rules Rules
	did   []string
	// before is called before each operation, and may refuse it.
	before func(*Op) error
	reads  int
	onRead func()
}

func (m *memory) Read(scope *Scope) (*Rules, error) {
	m.reads++
	if m.onRead != nil {
		m.onRead()
	}
	owned := scope.Within(&m.rules)
	copied := &Rules{Services: slices.Clone(owned.Services)}
	for i := range copied.Services {
		copied.Services[i].Servers = slices.Clone(copied.Services[i].Servers)
	}
	return copied, nil
}

func (m *memory) Do(op *Op) error {
	if m.before != nil {
		if err := m.before(op); err != nil {
			return err
		}
	}
	if err := m.do(op); err != nil {
		return explain(op, err)
	}
	m.did = append(m.did, op.String())
	return nil
}

func (m *memory) do(op *Op) error {
	at, found := slices.BinarySearchFunc(m.rules.Services, op.Service.ServiceKey, func(s Service, k ServiceKey) int { return s.Compare(k) })
	if op.Verb == AddService {
		if found {
			return unix.EEXIST
		}
		s := *op.Service
		s.Servers, s.place = nil, place{}
		m.rules.Services = slices.Insert(m.rules.Services, at, s)
		return nil
	}
	if !found {
		return unix.ESRCH
	}
	s := &m.rules.Services[at]
	switch op.Verb {
	case EditService:
		servers := s.Servers
		*s = *op.Service
		s.Servers = servers
		return nil
	case DeleteService:
		m.rules.Services = slices.Delete(m.rules.Services, at, at+1)
		return nil
	}
	j, found := slices.BinarySearchFunc(s.Servers, op.Server.ServerKey, func(s Server, k ServerKey) int { return s.Compare(k) })
	switch op.Verb {
	case AddServer:
		if found {
			return unix.EEXIST
		}
		s.Servers = slices.Insert(s.Servers, j, *op.Server)
		return nil
	case EditServer:
		if !found {
			return unix.ENOENT
		}
		connections := s.Servers[j].connections
		s.Servers[j] = *op.Server
		s.Servers[j].connections = connections
		return nil
	}
	if !found {
		return unix.ENOENT
	}
	s.Servers = slices.Delete(s.Servers, j, j+1)
	return nil
}

func mustParse(t testing.TB, text string) *Rules {
	t.Helper()
	p, err := Parse("test", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return &p.Rules
}

// applied is a copy of the rules after the operations.
func applied(t testing.TB, ops []Op, from *Rules) *Rules {
	t.Helper()
	all := Scope{}
	m := &memory{rules: *from}
	copied, err := m.Read(&all)
	if err != nil {
		t.Fatal(err)
	}
	m.rules = *copied
	for i := range ops {
		if err := m.Do(&ops[i]); err != nil {
			t.Fatalf("%s: %v", &ops[i], err)
		}
	}
	return &m.rules
}
