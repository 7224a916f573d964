package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watched are the files whose change makes the agent load anew.
func (a *Agent) watched() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return watchedFiles(a.settings, a.setup)
}

func watchedFiles(s *Settings, setup *Setup) []string {
	files := append([]string{}, s.Files...)
	files = append(files, setup.templateFiles()...)
	if dir := s.Templates.Dir; dir != "" {
		// A partial that is new, or gone, is a change too.
		for _, pattern := range []string{"*.tmpl", "*.tpl"} {
			if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil {
				files = append(files, found...)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// fingerprint identifies the content of the files. It looks at bytes, not at
// times: an editor that renames, a ..data link that is swapped and a copy that
// keeps the time are all the same to it.
func fingerprint(files []string) string {
	h := sha256.New()
	for _, f := range files {
		data, err := os.ReadFile(f)
		fmt.Fprintf(h, "%q %v %d\n", f, err, len(data))
		h.Write(data)
	}
	return string(h.Sum(nil))
}

// watchFiles sends on changes when the watched files have changed. File events
// only make it look sooner; the slow poll sees what they miss. Directories are
// watched, since the file that is watched is gone after a rename.
func (a *Agent) watchFiles(ctx context.Context, changes chan<- struct{}) {
	var events chan fsnotify.Event
	var errs chan error
	n, err := fsnotify.NewWatcher()
	if err != nil {
		a.log.Warn("no file events; changes are seen by the poll only", "poll", a.opts.Poll, "err", err)
	} else {
		defer n.Close()
		events, errs = n.Events, n.Errors
	}
	follow := func() {
		if n == nil {
			return
		}
		for _, f := range a.watched() {
			// The file, and what it links to: an edit behind a symlink is an edit.
			for _, path := range []string{f, resolved(f)} {
				if err := n.Add(filepath.Dir(path)); err != nil {
					a.log.Debug("no file events for a directory", "dir", filepath.Dir(path), "err", err)
				}
			}
		}
	}
	follow()
	poll := time.NewTicker(a.opts.Poll)
	defer poll.Stop()
	settle := time.NewTimer(time.Hour)
	settle.Stop()
	defer settle.Stop()
	look := func(always bool) {
		now := fingerprint(a.watched())
		a.mu.Lock()
		same, failed := now == a.prints, a.loadErr != nil
		a.mu.Unlock()
		// After a failed load the missing file may be one that is not watched yet.
		if !same || always && failed {
			select {
			case changes <- struct{}{}:
			default:
			}
		}
		follow()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			settle.Reset(100 * time.Millisecond) // several events make one edit
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			a.log.Debug("file events", "err", err)
		case <-settle.C:
			look(false)
		case <-poll.C:
			look(true)
		}
	}
}

func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
