package output

import (
	"context"
	"errors"
	"time"
)

// Run brings what render returns into force whenever wake says that it may have
// changed, until ctx is done; then a transaction that runs is finished (its
// commands have timeouts of their own) and Run returns. Call it once.
//
// It pulls: render is called when a transaction may start, and returns the newest
// content; what came and went while it could not start is never written. In detail:
//
//   - A wake starts a pass, after this host's share of Splay. Further wakes in the
//     meantime are covered by it and do not delay it.
//   - MinInterval after the start of the last reload must be over before any pass.
//   - A failed transaction is tried again, whole and with newly rendered content, after
//     Backoff or MinInterval, whichever ends later. A wake takes the place of the wait,
//     but Backoff.Min after the end of a failed pass must always be over.
//   - An error of render, or content that this output cannot write, leaves the files and
//     is not tried again before the next wake or resync: the same input gives the same error.
//   - ErrNotReady is no failure and no pass.
//   - Every Resync the disk is read again and the verify command run. Where it fails
//     the marker is removed, so that check and reload run and go on to be tried until they succeed.
//
// As with Apply, content's bytes must not be changed once render has returned them.
//
// A closed wake channel means that there will be no more events.
func (o *Output) Run(ctx context.Context, wake <-chan struct{}, render func() (Content, error)) {
	o.opts.Metrics.declare(o.opts.Name) // an output that never runs has no series
	w := &worker{o: o}
	w.armResync()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if at := w.next(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(at.Sub(o.opts.Now()))
		}
		select {
		case <-ctx.Done():
		case _, ok := <-wake:
			if !ok {
				wake = nil
				continue
			}
			w.woken()
		case <-timer.C:
			if at := w.next(); at.IsZero() || o.opts.Now().Before(at) {
				continue
			}
			if ctx.Err() != nil {
				return
			}
			drain(wake)
			w.pass(ctx, render)
		}
	}
}

// drain takes the wakes that the coming call of render covers.
func drain(wake <-chan struct{}) {
	for {
		select {
		case _, ok := <-wake:
			if ok {
				continue
			}
		default:
		}
		return
	}
}

// worker is the schedule of one output. It belongs to Run's goroutine. A zero
// time means that nothing is due.
type worker struct {
	o        *Output
	eventAt  time.Time // the pass for the oldest wake that has none yet
	retryAt  time.Time // the next try after a failure
	resyncAt time.Time

	started  bool      // there has been a pass
	attempts int       // failed transactions in a row
	notUntil time.Time // Backoff.Min after a failed pass
	lastErr  string
}

// next returns when the next pass is due, or zero.
func (w *worker) next() time.Time {
	at := earliest(w.eventAt, w.retryAt, w.resyncAt)
	if at.IsZero() {
		return at
	}
	return latest(at, w.notUntil, w.reloadFrom())
}

// reloadFrom returns when the daemon may be reloaded again.
func (w *worker) reloadFrom() time.Time {
	last := w.o.State().LastReload
	if last.IsZero() {
		return last
	}
	return last.Add(w.o.opts.MinInterval)
}

// woken notes an event. The oldest one sets the time, or a steady stream of
// events would put the pass off for ever.
func (w *worker) woken() {
	if !w.eventAt.IsZero() {
		return
	}
	w.eventAt = w.o.opts.Now()
	if w.started {
		w.eventAt = w.eventAt.Add(share(w.o.opts.Splay, w.o.opts.HostName))
	}
	w.tellState(true)
}

func (w *worker) tellState(pending bool) {
	next := w.next()
	s := w.o.update(func(s *State) {
		s.Pending = pending
		s.NextTry = time.Time{}
		if pending || s.Error != "" {
			s.NextTry = next
		}
	})
	if w.o.opts.OnState != nil {
		w.o.opts.OnState(s)
	}
}

func (w *worker) armResync() {
	if d := w.o.opts.Resync; d > 0 {
		w.resyncAt = w.o.opts.Now().Add(d)
	}
}

// pass renders and applies once, and sets up what comes next.
func (w *worker) pass(ctx context.Context, render func() (Content, error)) {
	o := w.o
	resync := !w.resyncAt.IsZero() && !o.opts.Now().Before(w.resyncAt)
	if resync {
		w.armResync()
	}
	w.eventAt, w.retryAt = time.Time{}, time.Time{}
	content, err := render()
	if errors.Is(err, ErrNotReady) {
		if w.attempts > 0 { // a reload that failed is not forgotten over it
			w.retryAt = o.opts.Now().Add(o.opts.Backoff.after(w.attempts, o.rand()))
		}
		w.tellState(false)
		return
	}
	var res Result
	if err != nil {
		err = o.fail(PhaseRender, err)
		o.record(res, err)
	} else {
		res, err = o.apply(ctx, context.WithoutCancel(ctx), content, resync)
		if phaseOf(err) == PhaseLock && ctx.Err() != nil {
			return // told to stop while it waited for another process
		}
	}
	w.started = true
	if err == nil {
		w.attempts, w.notUntil = 0, time.Time{}
	} else {
		w.notUntil = o.opts.Now().Add(o.opts.Backoff.Min)
		if phaseOf(err) != PhaseRender {
			w.attempts++
			w.retryAt = o.opts.Now().Add(o.opts.Backoff.after(w.attempts, o.rand()))
		}
	}
	w.report(res, err)
	w.tellState(false)
}

// report logs what a pass did: nothing for nothing, one line for a change, and
// an error that is the same as before only for those who look closely.
func (w *worker) report(res Result, err error) {
	log := w.o.log
	if err != nil {
		level := log.Error
		if err.Error() == w.lastErr {
			level = log.Debug
		}
		w.lastErr = err.Error()
		level("output not in sync", "phase", phaseOf(err), "err", err, "duration", res.Duration.Round(time.Millisecond), "retryAt", w.next())
		return
	}
	again := w.lastErr != ""
	w.lastErr = ""
	switch {
	case res.Drift:
		log.Warn("files had been changed by someone else, put right", "hash", res.Hash, "changed", res.Changed, "duration", res.Duration.Round(time.Millisecond))
	case !res.Noop:
		log.Info("output in force", "hash", res.Hash, "changed", res.Changed, "reloaded", res.Reloaded, "duration", res.Duration.Round(time.Millisecond))
	case again:
		log.Info("output in sync again", "hash", res.Hash)
	}
}
