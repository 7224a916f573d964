package output

import (
	"context"
	"fmt"
	"time"
)

// Result says what a transaction did.
type Result struct {
	// Hash is the hash of what was rendered.
	Hash string
	// Changed has the names of the files that differed from the disk. After a failure
	// they may have been put back.
	Changed []string
	// Reloaded tells whether the reload command was started.
	Reloaded bool
	// Drift: a file differed though the rendered content is what was last put in force; someone else changed it.
	Drift bool
	// Noop: everything was in force already.
	Noop bool
	// Duration is that of the whole transaction.
	Duration time.Duration
}

// transaction is the state of one transaction.
type transaction struct {
	o       *Output
	sum     *sum              // of what was rendered
	lives   []*live           // all files
	changed []*live           // those that differ from the disk
	staged  map[string]string // file name -> path of what is staged
	kept    map[string]string // file name -> path of the previous file
	done    []*live           // replaced so far
	res     Result

	rolledBack bool
}

// Apply brings c into force, in one transaction: compare, stage, check, commit,
// reload, verify, marker. It waits for another transaction of this output, in
// whatever process, but for no interval or backoff; that is Run's.
//
// When ctx is done, the command that runs is stopped, which counts as its
// failure: the files are put back as after any other. The error is an *Error.
//
// c's bytes must not be changed any more, also not after the return: the Output
// keeps them as its memory of what is on disk, until Options.Release.
func (o *Output) Apply(ctx context.Context, c Content) (Result, error) {
	return o.apply(ctx, ctx, c, false)
}

// apply is Apply with two contexts: one for the wait for the lock, one for the
// commands; and optionally as a resync.
func (o *Output) apply(lockCtx, ctx context.Context, c Content, resync bool) (Result, error) {
	start := o.opts.Now()
	t := &transaction{o: o, staged: map[string]string{}, kept: map[string]string{}}
	err := func() error {
		unlock, err := o.lock(lockCtx)
		if err != nil {
			return o.fail(PhaseLock, err)
		}
		defer unlock()
		defer o.release(c, o.known.all())
		defer t.finish()
		return t.run(ctx, c, resync)
	}()
	t.res.Duration = o.opts.Now().Sub(start)
	o.record(t.res, err)
	return t.res, err
}

func (t *transaction) run(ctx context.Context, c Content, resync bool) error {
	o := t.o
	o.step("begin")
	if err := t.compare(c, o.known, resync); err != nil {
		return err
	}
	if t.res.Drift = len(t.changed) > 0 && t.sum.is(o.applied); t.res.Drift {
		o.applied = "" // one drift, however often putting it right is tried
	}
	o.step("compared")
	if len(t.changed) == 0 {
		if done, err := t.inForce(ctx, resync); done || err != nil {
			return err
		}
	}
	defer t.discard()
	if err := t.stage(t.changed); err != nil {
		return err
	}
	if err := t.check(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return o.fail(PhaseCommit, context.Cause(ctx))
	}
	if err := t.commit(); err != nil {
		return o.fail(PhaseCommit, err)
	}
	if err := t.tell(ctx); err != nil {
		return err
	}
	if err := t.remember(); err != nil {
		return err
	}
	t.discard()
	o.step("cleaned")
	return nil
}

// finish ends what compare has begun, however the transaction went: after it no
// goroutine is left.
func (t *transaction) finish() {
	sum := t.sum.wait()
	if t.lives == nil { // nothing was found out
		return
	}
	t.res.Hash = sum
	t.o.known.settle(t.lives, sum)
}

// release gives back what was rendered, and what was known before, unless it is known now.
func (o *Output) release(c, before Content) {
	if o.opts.Release == nil {
		return
	}
	give := func(name string, b []byte) {
		if len(b) > 0 && !o.known.refersTo(b) {
			o.opts.Release(name, b)
		}
	}
	for name, b := range c {
		give(name, b)
		if old := before[name]; !same(old, b) {
			give(name, old)
		}
	}
}

// compare is step 2 of the design: what differs, from m where it suffices. With
// fresh it does not. finish, or a wait for t.sum, must follow.
func (t *transaction) compare(c Content, m *memory, fresh bool) error {
	c, err := t.o.normalise(c)
	if err != nil {
		return err
	}
	if known := m.adopt(c); known && m.hash != "" {
		t.sum = summed(m.hash)
	} else {
		t.sum = t.o.sum(c, m.hash)
	}
	lives, errs := t.o.observe(c, m, fresh)
	if err := join(errs...); err != nil {
		return t.o.fail(PhaseCompare, err)
	}
	t.lives = lives
	for _, l := range lives {
		if l.differs() {
			t.changed = append(t.changed, l)
			t.res.Changed = append(t.res.Changed, l.file.Name)
		}
	}
	return nil
}

// inForce is for files that are on disk as rendered. It returns true when the
// daemon has them as well, so that nothing is left to do.
func (t *transaction) inForce(ctx context.Context, resync bool) (bool, error) {
	o := t.o
	marked := t.sum.is(o.readMarker())
	if !marked && !t.sum.is(o.unwritten) {
		return false, nil
	}
	if resync {
		if err := t.verify(ctx); err != nil {
			o.log.Warn("verify failed on resync, reloading", "phase", PhaseVerify, "err", err)
			// Without the marker the reload is due until it succeeds, whatever comes in between.
			if err := o.removeMarker(); err != nil {
				return false, o.fail(PhaseMarker, err)
			}
			return false, nil
		}
	}
	if !marked { // only noting it had failed: no reason to reload again
		return true, t.remember()
	}
	t.res.Noop = true
	o.applied = t.sum.wait()
	return true, nil
}

func (t *transaction) stage(lives []*live) error {
	for _, l := range lives {
		path, id, err := t.o.stage(l, l.want, l.wantMode, l.wantUID, l.wantGID)
		if err != nil {
			return t.o.fail(PhaseStage, fmt.Errorf("file %s: %w", l.file.Name, err))
		}
		l.staged = id
		t.staged[l.file.Name] = path
		t.o.step("staged:" + l.file.Name)
	}
	return nil
}

func (t *transaction) check(ctx context.Context) error {
	if t.o.opts.Check == nil {
		return nil
	}
	if err := t.o.exec(ctx, PhaseCheck, t.o.opts.Check, t.vars()); err != nil {
		return t.o.fail(PhaseCheck, err)
	}
	t.o.step("checked")
	return nil
}

// tell makes the daemon take the committed files, and puts the previous ones
// back when it does not.
func (t *transaction) tell(ctx context.Context) error {
	o := t.o
	phase, err := PhaseReload, t.reload(ctx)
	if err == nil {
		if o.opts.Reload != nil {
			o.step("reloaded")
		}
		phase, err = PhaseVerify, t.verify(ctx)
	}
	if err == nil {
		if o.opts.Verify != nil {
			o.step("verified")
		}
		return nil
	}
	if o.opts.NoRollback {
		return o.fail(phase, err)
	}
	err = join(err, t.rollback())
	// A daemon that refused the files still runs the previous ones. One that took
	// them and then failed its verification must be told to go back.
	if phase == PhaseVerify && t.rolledBack && t.existedBefore() && t.res.Reloaded {
		// Also when the agent is being stopped: this reload mends what is broken now.
		if back := t.reload(context.WithoutCancel(ctx)); back != nil {
			err = join(err, fmt.Errorf("reloading the previous files: %w", back))
		}
		o.step("rollback-reloaded")
	}
	t.discard()
	o.step("cleaned")
	return o.fail(phase, err)
}

// remember writes the marker. A failure to do so is reported and tried again,
// but it is no reason to roll back or reload what is in force.
func (t *transaction) remember() error {
	o := t.o
	o.applied = t.sum.wait()
	if err := o.writeMarker(o.applied); err != nil {
		o.unwritten = o.applied
		return o.fail(PhaseMarker, err)
	}
	o.unwritten = ""
	o.step("marker-written")
	return nil
}

// Check stages all files, runs the check command on them, and removes them
// again. It takes no part in transactions, nor in their memory; the error is an *Error.
func (o *Output) Check(ctx context.Context, c Content) error {
	defer o.tryLock()()
	t := &transaction{o: o, staged: map[string]string{}, kept: map[string]string{}}
	defer func() { t.sum.wait() }() // its goroutine ends here
	if err := t.compare(c, newMemory(), true); err != nil {
		return err
	}
	defer t.discard()
	if err := t.stage(t.lives); err != nil {
		return err
	}
	return t.check(ctx)
}
