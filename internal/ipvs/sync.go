package ipvs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"
)

// Table is what Sync reads and changes: the Kernel, or a test's.
type Table interface {
	Read(scope *Scope) (*Rules, error)
	Do(op *Op) error
}

// Request is what Sync shall do. All but Drain must be set.
type Request struct {
	Table Table
	File  string // the name of the rules' file, for messages
	// Load gives the rules that shall be, and what part of the table they are for.
	// It is called with the lock held, and anew each time that the lock was given
	// away meanwhile: what is loaded must be the newest, or an older sync undoes a newer one.
	Load func() (*Rules, *Scope, error)
	// Lock keeps out other syncs until unlock is called.
	Lock func(context.Context) (unlock func(), err error)
	// Drain is how long a server that is to be deleted has weight 0 before; less, if it
	// has no connection any more. 0 deletes at once.
	Drain time.Duration
}

// Summary is what a Sync did. Services and servers count one each.
type Summary struct {
	Created, Updated, Deleted int
	// Drained are servers whose weight became 0 because they are to be deleted.
	Drained int
	// Unchanged is how many of the rules were there already, at the first pass.
	Unchanged int
	// Passes is how often the table was read: once if nothing was to be done.
	Passes   int
	Duration time.Duration
}

const (
	// maxPasses is how often the table is read before we take it that somebody
	// undoes what we do. Two are enough where nobody else writes.
	maxPasses = 10
	// drainPoll is how often a server that drains is looked at.
	drainPoll = time.Second
)

// Sync makes the part of the table that is in scope what the rules say. It
// changes what differs, reads the table again, and repeats until nothing is left,
// since the kernel takes one change at a time and others may write, too.
//
// A change that the kernel refuses does not stop the others; but a service of which
// one was refused loses no server, and no server of it all its weight: the one
// that should take over may be missing. What was refused is in the error, with
// the line of the file.
//
// While servers drain, the lock is given away, and the rules are loaded anew
// after that. When ctx ends, Sync stops between two changes.
func Sync(ctx context.Context, r Request) (Summary, error) {
	begin := time.Now()
	s := syncer{Request: r, drainer: newDrainer(r.Drain)}
	err := s.run(ctx)
	s.summary.Duration = time.Since(begin)
	return s.summary, err
}

type syncer struct {
	Request
	drainer drainer
	summary Summary
}

func (s *syncer) run(ctx context.Context) error {
	for {
		waiting, refused, err := s.converge(ctx)
		if err != nil {
			return both(err, refused)
		}
		if waiting == 0 {
			return refused
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("stopped while real servers drain (%d); they stay at weight 0 until the next sync: %w", waiting, context.Cause(ctx))
			return both(err, refused)
		case <-time.After(min(drainPoll, s.Drain)):
		}
	}
}

// both is why it ended, and what was refused before, in one list.
func both(err, refused error) error {
	if refused == nil {
		return err
	}
	return multierror.Append(err, refused)
}

// converge repeats passes until nothing is left but what the kernel refuses, and what
// waits for servers to drain; it says for how many.
func (s *syncer) converge(ctx context.Context) (waiting int, refused, err error) {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer unlock()
	want, scope, err := s.Load()
	if err != nil {
		return 0, nil, err
	}
	left := 0
	for range maxPasses {
		have, err := s.Table.Read(scope)
		if err != nil {
			return 0, refused, err
		}
		ops := Diff(have, want)
		if s.summary.Passes == 0 {
			s.summary.Unchanged = Plan(ops, want).Unchanged
		}
		s.summary.Passes++
		ops, waiting = s.drainer.hold(ops)
		if len(ops) == 0 {
			return waiting, nil, nil
		}
		left = len(ops)
		var done int
		done, refused, err = s.apply(ctx, ops)
		if err != nil {
			return 0, refused, err
		}
		if refused != nil && done == 0 {
			return waiting, refused, nil
		}
		// If something was done and something refused, what was refused is tried once
		// more: it may have been for want of what was done.
	}
	return 0, refused, fmt.Errorf("the table does not come to rest: after %d passes %d changes are left; "+
		"something else writes to it (keepalived, kube-proxy, ipvsadm): stop that, or name what is ours with --owned-vips", maxPasses, left)
}

// Plan is what operations would do, if each were done once, towards the rules in want.
func Plan(ops []Op, want *Rules) Summary {
	s := Summary{Unchanged: want.Len()}
	for i := range ops {
		s.count(&ops[i])
	}
	s.Unchanged -= s.Created + s.Updated
	return s
}

// apply does operations in order. It says how many were done, and what the
// kernel had against others; err is why it stopped before the end.
func (s *syncer) apply(ctx context.Context, ops []Op) (done int, refused, err error) {
	var list *multierror.Error
	failed := map[ServiceKey]bool{}
	for i := range ops {
		op := &ops[i]
		key := op.Service.ServiceKey
		if ctx.Err() != nil {
			return done, list.ErrorOrNil(), fmt.Errorf("stopped after %d of %d changes; the next sync does the rest: %w", done, len(ops), context.Cause(ctx))
		}
		if failed[key] && op.takesAway() {
			continue
		}
		err := s.Table.Do(op)
		var unavailable *UnavailableError
		switch {
		case err == nil:
			done++
			s.summary.count(op)
			if op.drain {
				if err := s.drainer.began(op); err != nil {
					return done, list.ErrorOrNil(), err
				}
			}
		case errors.Is(err, errRaced): // also a server of a service that was refused
		case errors.As(err, &unavailable):
			return done, list.ErrorOrNil(), err
		default:
			failed[key] = true
			list = multierror.Append(list, &RefusedError{s.File, op.line(), op.String(), err})
		}
	}
	return done, list.ErrorOrNil(), nil
}

// RefusedError is a change that the kernel refused.
type RefusedError struct {
	File string
	Line int    // of the file; 0 for a deletion
	Op   string // as a line for ipvsadm
	Err  error
}

func (e *RefusedError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s:%d: %s: %v", e.File, e.Line, e.Op, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// takesAway says whether a service may have less to serve it after the operation.
func (op *Op) takesAway() bool {
	switch op.Verb {
	case DeleteServer, DeleteService:
		return true
	case EditServer:
		return op.Server.Weight == 0
	}
	return false
}

// line is the line of the file that the operation comes from; 0 for none.
func (op *Op) line() int {
	switch op.Verb {
	case AddService, EditService:
		return int(op.Service.place.line)
	case AddServer, EditServer:
		return int(op.Server.place.line)
	}
	return 0
}

func (s *Summary) count(op *Op) {
	switch op.Verb {
	case AddService, AddServer:
		s.Created++
	case EditService:
		s.Updated++
	case EditServer:
		if op.drain {
			s.Drained++
		} else {
			s.Updated++
		}
	case DeleteServer:
		s.Deleted++
	case DeleteService:
		s.Deleted += 1 + len(op.Service.Servers)
	}
}
