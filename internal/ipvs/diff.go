package ipvs

import (
	"slices"
	"strings"
)

// Verb is what an operation does, in the words of ipvsadm(8).
type Verb uint8

// The order of the constants is the order in which operations are done: see Diff.
const (
	AddService Verb = iota
	AddServer
	EditService
	EditServer
	DeleteServer
	DeleteService
)

// Op is one change of the table: one call to the kernel.
type Op struct {
	Verb    Verb
	Service *Service // after the change; for a deletion as it is
	Server  *Server  // of AddServer, EditServer and DeleteServer: likewise
	// drain marks an EditServer to weight 0 that comes before a deletion.
	drain bool
}

// String is the operation as a line for ipvsadm(8).
func (op *Op) String() string {
	switch op.Verb {
	case AddService:
		return "-A " + op.Service.options()
	case EditService:
		return "-E " + op.Service.options()
	case DeleteService:
		return "-D " + op.Service.selector()
	case AddServer:
		return "-a " + op.Service.selector() + " " + op.Server.options()
	case EditServer:
		return "-e " + op.Service.selector() + " " + op.Server.options()
	}
	return "-d " + op.Service.selector() + " -r " + op.Server.ServerKey.String()
}

// Print writes operations as lines for ipvsadm(8), which takes them with -R.
func Print(ops []Op) string {
	var b strings.Builder
	for i := range ops {
		b.WriteString(ops[i].String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Diff is what makes one set of rules into another, in an order that keeps the
// table serving after each step:
//
//   - what is new first, a service right before its servers;
//   - then edits: a weight or threshold is an edit, which keeps connections. Servers that
//     come back from weight 0 are before those that go there, so that a
//     service whose servers take turns is never without one;
//   - deletions last: servers, then services, which take theirs along.
func Diff(from, to *Rules) []Op {
	d := differ{}
	i, j := 0, 0
	for i < len(from.Services) || j < len(to.Services) {
		switch c := compareAt(from.Services, to.Services, i, j); {
		case c < 0:
			s := &from.Services[i]
			d.deletedServices = append(d.deletedServices, Op{Verb: DeleteService, Service: s})
			i++
		case c > 0:
			s := &to.Services[j]
			d.added = append(d.added, Op{Verb: AddService, Service: s})
			for k := range s.Servers {
				d.added = append(d.added, Op{Verb: AddServer, Service: s, Server: &s.Servers[k]})
			}
			j++
		default:
			d.service(&from.Services[i], &to.Services[j])
			i, j = i+1, j+1
		}
	}
	return slices.Concat(d.added, d.edited, d.raised, d.changed, d.deleted, d.deletedServices)
}

// differ gathers operations by the time at which they are done.
type differ struct {
	added           []Op
	edited          []Op // services
	raised          []Op // servers from weight 0
	changed         []Op // other servers
	deleted         []Op
	deletedServices []Op
}

func (d *differ) service(from, to *Service) {
	if !from.same(to) {
		d.edited = append(d.edited, Op{Verb: EditService, Service: to})
	}
	i, j := 0, 0
	for i < len(from.Servers) || j < len(to.Servers) {
		c := 0
		switch {
		case i == len(from.Servers):
			c = 1
		case j == len(to.Servers):
			c = -1
		default:
			c = from.Servers[i].Compare(to.Servers[j].ServerKey)
		}
		switch {
		case c < 0:
			d.deleted = append(d.deleted, Op{Verb: DeleteServer, Service: to, Server: &from.Servers[i]})
			i++
		case c > 0:
			d.added = append(d.added, Op{Verb: AddServer, Service: to, Server: &to.Servers[j]})
			j++
		default:
			a, b := &from.Servers[i], &to.Servers[j]
			op := Op{Verb: EditServer, Service: to, Server: b}
			switch {
			case a.same(b):
			case a.Weight == 0 && b.Weight > 0:
				d.raised = append(d.raised, op)
			default:
				d.changed = append(d.changed, op)
			}
			i, j = i+1, j+1
		}
	}
}

// compareAt compares the services at the heads of two lists; the end of a list
// is behind everything.
func compareAt(from, to []Service, i, j int) int {
	switch {
	case i == len(from):
		return 1
	case j == len(to):
		return -1
	}
	return from[i].Compare(to[j].ServiceKey)
}
