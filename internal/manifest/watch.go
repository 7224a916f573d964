package manifest

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch. It pulls from the source's history at the speed of its
// reader and keeps no queue.
type watcher struct {
	*listWatch
	matches  func(object) bool
	initial  []*entry
	bookmark bool   // tell where the initial events end
	rev      uint64 // of the newest event told
	results  chan watch.Event
	once     sync.Once
	stop     chan struct{}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface; it may be called more than once, from anywhere.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

// run tells until it is stopped, and closes the channel then.
func (w *watcher) run(ctx context.Context, timeoutSeconds *int64) {
	defer close(w.results)
	var timeout <-chan time.Time
	if timeoutSeconds != nil && *timeoutSeconds > 0 {
		t := time.NewTimer(time.Duration(min(*timeoutSeconds, int64(24*time.Hour/time.Second))) * time.Second)
		defer t.Stop()
		timeout = t.C
	}
	// send tells one event; false: the watch is over.
	send := func(e watch.Event) bool {
		select {
		case w.results <- e:
			return true
		case <-w.stop:
		case <-ctx.Done():
		case <-timeout:
		}
		return false
	}
	for _, e := range w.initial {
		if w.matches(e.object) && !send(told(watch.Added, e, e.rv)) {
			return
		}
	}
	w.initial = nil
	if w.bookmark && !send(w.end()) {
		return
	}
	for {
		events, expired, more := w.source.after(w.resource, w.rev)
		if expired {
			status := expiredAt(w.rev).Status()
			send(watch.Event{Type: watch.Error, Object: &status})
			return
		}
		for _, e := range events {
			w.rev = e.rv
			if kind, seen, ok := e.as(w.matches); ok && !send(told(kind, seen, e.rv)) {
				return
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		case <-timeout:
			return
		}
	}
}

// told is an event with a copy of its object: whoever gets it may change it.
func told(kind watch.EventType, e *entry, rev uint64) watch.Event {
	o := e.object.DeepCopyObject().(object)
	o.SetResourceVersion(format(rev))
	return watch.Event{Type: kind, Object: o}
}

// end is the bookmark that ends the initial events of a streamed list.
func (w *watcher) end() watch.Event {
	o := w.emptyObject()
	o.SetResourceVersion(format(w.rev))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return watch.Event{Type: watch.Bookmark, Object: o}
}
