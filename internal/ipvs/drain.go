package ipvs

import (
	"fmt"
	"slices"
	"time"
)

// drainer keeps servers from being deleted before they have drained: before
// they were at weight 0 for some time, or have no connection left.
type drainer struct {
	period time.Duration // 0 deletes at once
	since  map[serverID]time.Time
	starts map[serverID]int // how often it began to drain
	now    func() time.Time
}

func newDrainer(period time.Duration) drainer {
	return drainer{period: period, since: map[serverID]time.Time{}, starts: map[serverID]int{}, now: time.Now}
}

type serverID struct {
	ServiceKey
	ServerKey
}

// hold goes through operations that shall be done. A deletion that is not due
// is taken out; where its server still has a weight, an edit to weight 0 is in
// its place, which began is to be told of. waiting is how many servers drain.
func (d *drainer) hold(ops []Op) (due []Op, waiting int) {
	if d.period == 0 {
		return ops, 0
	}
	for _, op := range ops {
		drained := true
		for _, s := range op.gone() {
			id := serverID{op.Service.ServiceKey, s.ServerKey}
			since, seen := d.since[id]
			switch {
			case s.Weight != 0: // or has a weight again, from whoever
				due = append(due, quiet(&op, s))
				drained = false
			case s.connections == 0:
			case !seen:
				d.since[id] = d.now()
				waiting++
				drained = false
			case d.now().Sub(since) < d.period:
				waiting++
				drained = false
			}
		}
		if drained {
			due = append(due, op)
		}
	}
	return due, waiting
}

// began notes that a server has weight 0 now. The error says that somebody keeps
// giving it its weight back.
func (d *drainer) began(op *Op) error {
	id := serverID{op.Service.ServiceKey, op.Server.ServerKey}
	d.since[id] = d.now()
	d.starts[id]++
	if d.starts[id] > maxPasses {
		return fmt.Errorf("real server %s of service %s does not drain: %d times it was at weight 0, and something else gave it a weight again",
			id.ServerKey, id.ServiceKey, maxPasses)
	}
	return nil
}

// gone are the servers that a deletion takes away.
func (op *Op) gone() []*Server {
	switch op.Verb {
	case DeleteServer:
		return []*Server{op.Server}
	case DeleteService:
		servers := make([]*Server, len(op.Service.Servers))
		for i := range servers {
			servers[i] = &op.Service.Servers[i]
		}
		return servers
	}
	return nil
}

// quiet is the edit to weight 0 that comes before a deletion.
func quiet(deletion *Op, s *Server) Op {
	server := *s
	server.Weight = 0
	return Op{Verb: EditServer, Service: deletion.Service, Server: &server, drain: true}
}

// WithDrain is the operations that a Sync does that drains: with edits to
// weight 0 before the deletions.
func WithDrain(ops []Op) []Op {
	first := slices.IndexFunc(ops, func(op Op) bool { return op.gone() != nil })
	if first < 0 {
		return ops
	}
	with := slices.Clone(ops[:first])
	for i := range ops {
		for _, s := range ops[i].gone() {
			if s.Weight != 0 {
				with = append(with, quiet(&ops[i], s))
			}
		}
	}
	return append(with, ops[first:]...)
}
