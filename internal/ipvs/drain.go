package ipvs

import "time"

// drainer keeps servers from being deleted before they have drained: before
// they were at weight 0 for some time, or have no connection left.
type drainer struct {
	period time.Duration // 0 deletes at once
	since  map[serverID]time.Time
	now    func() time.Time
}

type serverID struct {
	ServiceKey
	ServerKey
}

// hold goes through operations that shall be done. A deletion that is not due
// is taken out; where its server still has a weight, an edit to weight 0 is in
// its place. waiting is how many servers still drain.
func (d *drainer) hold(ops []Op) (due []Op, waiting int) {
	if d.period == 0 {
		return ops, 0
	}
	for _, op := range ops {
		var servers []Server
		switch op.Verb {
		case DeleteServer:
			servers = []Server{*op.Server}
		case DeleteService:
			servers = op.Service.Servers
		}
		drained := true
		for i := range servers {
			s := &servers[i]
			if d.drained(op.Service.ServiceKey, s) {
				continue
			}
			drained = false
			waiting++
			if s.Weight != 0 {
				quiet := *s
				quiet.Weight = 0
				due = append(due, Op{Verb: EditServer, Service: op.Service, Server: &quiet, drain: true})
			}
		}
		if drained {
			due = append(due, op)
		}
	}
	return due, waiting
}

// drained says whether a server may be deleted; the first time, it never may.
// A server that got a weight again, from whoever, begins anew.
func (d *drainer) drained(service ServiceKey, s *Server) bool {
	id := serverID{service, s.ServerKey}
	since, seen := d.since[id]
	if !seen || s.Weight != 0 {
		d.since[id] = d.now()
		return false
	}
	return s.connections == 0 || d.now().Sub(since) >= d.period
}
