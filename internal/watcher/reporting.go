package watcher

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// reporting tells how every list and watch of a resource went, so that status
// and metrics know of a failure the moment it happens and of its end. What the
// network does to them it hears from the transport.
type reporting struct {
	cache.ListerWatcherWithContext
	plain  cache.ListerWatcher
	report func(error)
	// strip is applied to every object of a list that is not streamed. The pages
	// of such a list are gathered before the store sees any; 150,000 pods that are whole would be gigabytes.
	strip cache.TransformFunc
	// told is the newest error of a list or watch, which the reflector gives out once more.
	told *atomic.Pointer[error]
}

func newReporting(lw cache.ListerWatcher, report func(error), strip cache.TransformFunc) reporting {
	return reporting{cache.ToListerWatcherWithContext(lw), lw, report, strip, &atomic.Pointer[error]{}}
}

func (r reporting) List(o metav1.ListOptions) (runtime.Object, error) {
	return r.ListWithContext(context.Background(), o)
}

func (r reporting) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return r.WatchWithContext(context.Background(), o)
}

func (r reporting) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" && o.Limit > 0 {
		// A server that cannot stream lists answers version 0 from its cache: in one
		// piece, whatever the limit. That piece, decoded, is 5 GB for 150,000 pods. Without a
		// version the limit counts, and the server reads pages, as of one moment.
		o.ResourceVersion = ""
	}
	c := &call{report: r.report}
	defer overdue(c)()
	list, err := r.ListerWatcherWithContext.ListWithContext(c.in(ctx), o)
	if _, failed := c.returned(); err == nil || !failed {
		r.report(err)
	}
	r.told.Store(&err)
	if err != nil || r.strip == nil {
		return list, err
	}
	return list, meta.EachListItem(list, func(o runtime.Object) error {
		_, err := r.strip(o) // where it is
		return err
	})
}

func (r reporting) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	c := &call{report: r.report, watch: true}
	defer overdue(c)()
	w, err := r.ListerWatcherWithContext.WatchWithContext(c.in(ctx), o)
	met, failed := c.returned()
	r.told.Store(&err)
	switch {
	case err != nil:
		c.close()
		// An older server cannot stream a list; the reflector lists instead.
		if !failed && (o.SendInitialEvents == nil || !apierrors.IsInvalid(err)) {
			r.report(err)
		}
		return nil, err
	case !met:
		r.report(nil)
	} // else the transport tells how it goes
	return tellErrors(w, func(err error) {
		if !c.isCut() { // which the transport told already
			r.report(err)
		}
	}), nil
}

// errorsTold passes a watch on, and tells of the errors that come as events.
type errorsTold struct {
	watch.Interface
	out  chan watch.Event
	stop context.CancelFunc
}

func tellErrors(w watch.Interface, tell func(error)) watch.Interface {
	ctx, cancel := context.WithCancel(context.Background())
	t := &errorsTold{Interface: w, out: make(chan watch.Event), stop: cancel}
	go func() { // ends with the watch, or when it is stopped
		defer close(t.out)
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				tell(apierrors.FromObject(e.Object))
			}
			select {
			case t.out <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return t
}

// ResultChan implements watch.Interface.
func (t *errorsTold) ResultChan() <-chan watch.Event { return t.out }

// Stop implements watch.Interface.
func (t *errorsTold) Stop() {
	t.Interface.Stop()
	t.stop()
}

// patience is how long an answer may take before its absence is reported. It
// is no timeout: a large list may take longer, and is then reported to work.
const patience = 10 * time.Second

// overdue reports a server that accepts connections and does not answer, as
// one that hangs does. The returned function ends the wait.
func overdue(c *call) (answered func()) {
	t := time.AfterFunc(patience, func() { c.overdue(fmt.Errorf("no answer for %s", patience)) })
	return func() { t.Stop() }
}

// IsWatchListSemanticsUnSupported passes on what the list-watch beneath says of
// itself; the reflector asks for it by this name.
func (r reporting) IsWatchListSemanticsUnSupported() bool {
	u, ok := r.plain.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && u.IsWatchListSemanticsUnSupported()
}
