package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxQuiets bounds the wait for a directory that is never quiet, such as one
// that something else writes to all the time.
const maxQuiets = 20

// Run follows the directory until ctx is done, and starts with what has
// changed since New. It may be called once. Watches go on after it, but
// nothing changes any more.
func (s *Source) Run(ctx context.Context) {
	n := newNotifier(s.dir, s.opts.silent)
	defer n.close()
	warned := false
	look := func() listing {
		l := n.look()
		if n.err != nil && !warned {
			warned = true
			s.logger.Warn("no file events, changes are found by looking", "dir", s.dir, "every", s.opts.Poll, "err", n.err)
		}
		return l
	}
	poll := time.NewTicker(s.opts.Poll)
	defer poll.Stop()
	timer := time.NewTimer(s.opts.quiet)
	defer timer.Stop()

	seen := look()              // what the directory was like at the last look
	settling := true            // timer runs: something has changed, wait until no more does
	byEvent := false            // the change came as an event, so that silence means quiet
	var deadline = s.deadline() // of the wait
	settle := func(event bool) {
		if !settling {
			settling, byEvent, deadline = true, event, s.deadline()
		}
		byEvent = byEvent || event
		if now := time.Now(); now.Before(deadline) {
			timer.Reset(min(s.opts.quiet, deadline.Sub(now)))
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-n.events():
			if n.concerns(e) {
				settle(true)
			}
		case <-n.errors():
			settle(true) // events were lost
		case <-poll.C:
			if settling {
				continue
			}
			if l := look(); !s.current(l) {
				seen = l
				settle(false)
			}
		case <-timer.C:
			l := look()
			// Without events, quiet is when two looks see the same.
			if !byEvent && !l.equal(seen) && time.Now().Before(deadline) {
				seen = l
				settle(false)
				continue
			}
			settling, byEvent, seen = false, false, l
			s.load(l)
		}
	}
}

func (s *Source) deadline() time.Time { return time.Now().Add(maxQuiets * s.opts.quiet) }

// notifier watches the directories of a listing. Without a watcher it still
// lists.
type notifier struct {
	root    string
	parent  string // of root, whose link may be swapped or which may be created again
	watcher *fsnotify.Watcher
	watched map[string]bool
	err     error // why not every change comes as an event
}

func newNotifier(root string, silent bool) *notifier {
	n := &notifier{root: filepath.Clean(root), watched: map[string]bool{}}
	if silent {
		return n
	}
	n.watcher, n.err = fsnotify.NewWatcher()
	if n.err != nil {
		n.watcher = nil
		return n
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(n.root)); err == nil {
		n.parent = parent
	}
	return n
}

func (n *notifier) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // it only releases descriptors
	}
}

// events is nil, which blocks for ever, where there is no watcher.
func (n *notifier) events() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n *notifier) errors() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

// concerns tells whether an event may mean a change of the manifests.
func (n *notifier) concerns(e fsnotify.Event) bool {
	name := filepath.Base(e.Name)
	dir := filepath.Dir(e.Name)
	if dir == n.parent {
		if name == filepath.Base(n.root) {
			return true
		}
		if !n.watched[dir] {
			return false
		}
	}
	// Hidden files are not read; `..data` is what a mounted ConfigMap's files hang on.
	return !strings.HasPrefix(name, ".") || strings.HasPrefix(name, "..")
}

// look lists the files and watches their directories. A directory is read
// again after its watch has begun, so that nothing slips in between.
func (n *notifier) look() listing {
	for range 10 {
		l := scan(n.root)
		if n.watcher == nil || !n.follow(l.dirs) {
			return l
		}
	}
	return scan(n.root)
}

// follow watches just these directories, and the parent; true if one of them is new.
func (n *notifier) follow(dirs []string) bool {
	want := map[string]bool{}
	for _, d := range dirs {
		want[d] = true
	}
	alive := map[string]bool{}
	for _, d := range n.watcher.WatchList() {
		alive[d] = true // the kernel drops the watch of a directory that is removed
		if !want[d] && d != n.parent {
			_ = n.watcher.Remove(d) // it may be gone already
			delete(alive, d)
		}
	}
	n.watched = want
	if n.parent != "" && !alive[n.parent] {
		_ = n.watcher.Add(n.parent) // the poll does without
	}
	added := false
	for d := range want {
		if alive[d] {
			continue
		}
		switch err := n.watcher.Add(d); {
		case err == nil:
			added = true
		case !errors.Is(err, fs.ErrNotExist): // too many watches, most likely
			n.err = fmt.Errorf("watching %s: %w", d, err)
		}
	}
	return added
}
