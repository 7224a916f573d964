package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lb-render/lb-render/internal/output"
)

// worker keeps one output in force. Its goroutine ends with its context; done is closed then.
type worker struct {
	unit     *Unit
	renderer atomic.Pointer[renderer]
	wake     chan struct{}
	stop     context.CancelFunc
	done     chan struct{}
	stopped  atomic.Bool // it ends with its transaction

	mu       sync.Mutex
	waiting  time.Time // since when a change waits to be in force; zero if none does
	rendered *release  // what the pass that runs has rendered
	reloads  int       // as of the last pass
}

// startWorkers starts a worker for each output of the setup, keeps those whose
// output is the same, and stops the others. Nothing here waits: a new worker
// begins when those before it that have its name or one of its files have
// finished their transactions, or else their rollback would undo its work.
func (a *Agent) startWorkers(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := map[string]*worker{}
	before := a.workers
	var starts []func() // of the new workers, once the old ones are told to stop
	for _, u := range a.setup.Units {
		name := u.Output.Name()
		old := a.workers[name]
		if old != nil && sameOutput(old.unit.settings, u.settings) {
			r := u.renderer
			old.renderer.Store(&r)
			old.poke()
			next[name] = old
			continue
		}
		w := &worker{unit: u, wake: make(chan struct{}, 1), done: make(chan struct{})}
		r := u.renderer
		w.renderer.Store(&r)
		var own context.Context
		own, w.stop = context.WithCancel(ctx)
		next[name] = w
		w.poke()
		starts = append(starts, func() {
			defer close(w.done)
			for _, b := range before {
				if b.stopped.Load() && b.unit.overlaps(u) {
					<-b.done
				}
			}
			if old != nil {
				u.Output.TakeOver(old.unit.Output.State())
			}
			a.work(own, w)
		})
	}
	for name, old := range a.workers {
		if next[name] == old {
			continue
		}
		old.stopped.Store(true)
		old.stop()
		if next[name] == nil {
			a.log.Info("output is configured no more; its files stay", "output", name)
			a.group.Go(func() {
				<-old.done // its last pass still counts
				a.forget(name)
			})
		}
	}
	a.workers = next
	for _, start := range starts {
		a.group.Go(start)
	}
}

// forget removes the series of an output, unless there is one of that name again.
func (a *Agent) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.workers[name] == nil {
		a.outputs.Forget(name)
		a.metrics.forget(name)
	}
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// work is the worker's goroutine.
func (a *Agent) work(ctx context.Context, w *worker) {
	if a.opts.DryRun != nil {
		a.rehearse(ctx, w)
		return
	}
	o := w.unit.Output
	if err := o.Sweep(); err != nil {
		a.log.Warn("leftover staged files cannot be removed", "output", o.Name(), "err", err)
	}
	o.Run(ctx, w.wake, func() (output.Content, error) { return a.render(w) })
}

// rehearse compares and shows, and writes and runs nothing.
func (a *Agent) rehearse(ctx context.Context, w *worker) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		content, err := a.render(w)
		if errors.Is(err, output.ErrNotReady) {
			continue
		}
		var c output.Comparison
		if err == nil {
			c, err = w.unit.Output.Compare(content)
		}
		if err != nil {
			a.log.Error("cannot render", "output", w.unit.Output.Name(), "err", err)
			continue
		}
		a.opts.DryRun(w.unit.Output.Name(), c)
		a.passed()
	}
}

// render is one worker's view of the newest released ClusterConfig.
func (a *Agent) render(w *worker) (output.Content, error) {
	rel := a.released.Load()
	if rel == nil {
		return nil, output.ErrNotReady
	}
	r := w.renderer.Load()
	if rel.config.Services == nil && r.usesEndpoints() {
		return nil, output.ErrNotReady // the watcher was asked for them just now
	}
	start := time.Now()
	content, err := r.render(rel.config)
	a.metrics.rendered(w.unit.Output.Name(), time.Since(start), err)
	w.mu.Lock()
	w.rendered = rel
	w.mu.Unlock()
	return content, err
}

// changed notes that a newer config waits for this worker, and wakes it.
func (w *worker) changed(since time.Time) {
	w.mu.Lock()
	if w.waiting.IsZero() {
		w.waiting = since
	}
	w.mu.Unlock()
	w.poke()
}

// onState is called by the output after each pass.
func (a *Agent) onState(name string, s output.State) {
	a.mu.Lock()
	w := a.workers[name]
	a.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	if s.InSync && !s.Pending && w.rendered != nil {
		if s.Reloads > w.reloads && !w.waiting.IsZero() {
			a.metrics.latency.Observe(time.Since(w.waiting).Seconds())
		}
		w.waiting = time.Time{}
		if newest := a.released.Load(); newest != w.rendered {
			w.waiting = newest.since // it came while the pass ran
		}
	}
	w.reloads = s.Reloads
	w.mu.Unlock()
	a.passed()
}

// onRelease is called by an output with bytes that it needs no more: the next
// render writes into them.
func (a *Agent) onRelease(name, file string, b []byte) {
	a.mu.Lock()
	w := a.workers[name]
	a.mu.Unlock()
	if w == nil {
		return
	}
	if t := w.renderer.Load().templates[file]; t != nil {
		t.Recycle(b)
	}
}

// passed tells the loop that a worker has finished a pass.
func (a *Agent) passed() {
	select {
	case a.moved <- struct{}{}:
	default:
	}
}

// states are the outputs' snapshots, by name.
func (a *Agent) states() []output.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []output.State
	for _, w := range a.workers {
		out = append(out, w.unit.Output.State())
	}
	slices.SortFunc(out, func(x, y output.State) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	return out
}
