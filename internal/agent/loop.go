package agent

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

// loop is the agent's one goroutine that decides. It never waits for an output.
func (a *Agent) loop(ctx, workers context.Context, reload, changes <-chan struct{}) {
	a.recallEndpoints()
	ready := false
	start := time.NewTimer(a.settings.StartTimeout)
	defer start.Stop()
	hold := time.NewTimer(time.Hour)
	hold.Stop()
	defer hold.Stop()
	// The loop's own pulse: what it feeds is the watchdog and /healthz.
	pulse := time.NewTicker(a.pulse())
	defer pulse.Stop()
	var held *watcher.Update
	becomeReady := func(why string) {
		if !ready {
			ready = true
			a.log.Info("ready", "because", why)
			a.opts.Notify("READY=1")
		}
	}
	take := func(u watcher.Update) {
		a.noteProblems(u.Config.Problems)
		if until, ok := a.admit(u.Config, time.Now()); !ok {
			held = &u
			hold.Reset(time.Until(until))
			return
		}
		held = nil
		hold.Stop()
		a.release(u)
	}
	loaded := func(switched bool) {
		switch {
		case switched: // what the old cluster said counts no more
			held = nil
			hold.Stop()
			a.guard.until = time.Time{}
			a.setHeld(heldState{})
		case held != nil: // the guard may be another one
			take(*held)
		}
	}
	for {
		a.beat.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return
		case u := <-a.cluster.Updates():
			take(u)
		case <-hold.C:
			if held != nil {
				take(*held)
			}
		case <-a.moved:
			if a.allPassed() {
				becomeReady("every output had its first pass")
			}
			a.opts.Notify("STATUS=" + a.statusLine())
		case <-start.C:
			becomeReady("startTimeout is over; the files of the last run stay in force until the cluster is read")
			a.opts.Notify("STATUS=" + a.statusLine())
		case <-reload:
			loaded(a.reload(ctx, workers, ready))
		case <-changes:
			loaded(a.reload(ctx, workers, ready))
		case <-pulse.C:
			if a.opts.Watchdog > 0 {
				a.opts.Notify("WATCHDOG=1")
			}
		}
	}
}

// pulse is how often the loop moves without any event: well within the watchdog's time.
func (a *Agent) pulse() time.Duration {
	const most = 5 * time.Second
	if a.opts.Watchdog > 0 && a.opts.Watchdog/3 < most {
		return a.opts.Watchdog / 3
	}
	return most
}

// release gives a config to all outputs.
func (a *Agent) release(u watcher.Update) {
	a.released.Store(&release{u.Config, u.Since})
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.workers {
		w.changed(u.Since)
	}
}

// allPassed reports whether each output was brought into force, or failed in trying, once.
func (a *Agent) allPassed() bool {
	if a.released.Load() == nil {
		return false
	}
	for _, s := range a.states() {
		if s.Passes == 0 && a.opts.DryRun == nil {
			return false
		}
	}
	return true
}

// reload loads the config and the templates anew, and reports whether the
// cluster is another one now. If anything is wrong with them the old ones stay.
func (a *Agent) reload(ctx, workers context.Context, ready bool) (switched bool) {
	if ready {
		a.opts.Notify("RELOADING=1")
		defer a.opts.Notify("READY=1")
	}
	l := a.load(a.watched())
	if l.err == nil {
		switched, l.err = a.switchCluster(ctx, l.settings, l.setup)
	}
	a.mu.Lock()
	known := a.loadErr != nil && l.err != nil && a.loadErr.Error() == l.err.Error()
	a.loadErr, a.prints = l.err, l.prints
	if l.err == nil {
		a.loadedAt = time.Now()
	}
	a.mu.Unlock()
	if l.err != nil {
		if !known {
			a.log.Error("the new config or templates are wrong; the old ones stay in force", "err", l.err)
		}
		return false
	}
	if l.settings.Listen != a.settings.Listen {
		a.log.Warn("http.listen is only read at the start; restart to change it", "listening", a.settings.Listen)
		l.settings.Listen = a.settings.Listen
	}
	a.mu.Lock()
	a.settings, a.setup = l.settings, l.setup
	a.mu.Unlock()
	a.log.Info("config and templates loaded", "outputs", len(l.settings.Outputs))
	a.startWorkers(workers)
	return switched
}

// noteProblems logs each problem when it comes and when it is gone.
func (a *Agent) noteProblems(problems []types.Problem) {
	if len(problems) == len(a.noted) && (len(problems) == 0 || &problems[0] == &a.noted[0]) {
		return // the watcher shares the list as long as nothing in it changes
	}
	a.noted = problems
	now := make(map[types.Problem]bool, len(problems))
	for _, p := range problems {
		now[p] = true
		if !a.problems[p] {
			a.log.Warn("not served as written: "+p.Message, "vip", p.VIP, "port", p.Port, "service", p.Service,
				"reason", string(p.Reason), "served", p.Served, "place", p.Place, "line", p.Line)
		}
	}
	var gone []types.Problem
	for p := range a.problems {
		if !now[p] {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(x, y types.Problem) int { return types.CompareVIP(x.VIP, y.VIP) })
	for _, p := range gone {
		a.log.Info("mended: "+p.Message, "vip", p.VIP, "port", p.Port, "service", p.Service)
	}
	a.problems = now
}

// statusLine is what systemctl status shows.
func (a *Agent) statusLine() string {
	bad := 0
	states := a.states()
	for _, s := range states {
		if !s.InSync {
			bad++
		}
	}
	if bad == 0 {
		return "all " + strconv.Itoa(len(states)) + " outputs in sync"
	}
	return strconv.Itoa(bad) + " of " + strconv.Itoa(len(states)) + " outputs not in sync"
}
