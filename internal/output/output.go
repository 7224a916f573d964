package output

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lb-render/lb-render/internal/command"
)

// Output keeps one output in force. See the package comment for what it guarantees.
type Output struct {
	opts Options
	log  *slog.Logger
	seams

	// busy holds one value during a transaction; it guards the three fields below.
	busy chan struct{}
	// known is what this process knows of the files without reading them.
	known *memory
	// applied is the hash of what this process last brought into force, "" from the
	// moment on when that may not be so any more.
	applied string
	// unwritten is applied when only the marker could not be written.
	unwritten string

	mu    sync.Mutex // guards state
	state State
}

// seams are what tests replace.
type seams struct {
	run      func(context.Context, command.Spec) (command.Result, error) // command.Run
	rand     func() float64                                              // in [0,1)
	link     func(oldname, newname string) error                         // os.Link
	identify func(fs.FileInfo) identity                                  // identify
	read     func(h io.Reader, size int64, like []byte) ([]byte, error)  // readLike
	hash     func(files []File, c Content) string                        // hash
}

// State is a snapshot of an output, for status pages.
type State struct {
	Name string `json:"name"`
	// InSync: the last pass ended with the rendered files on disk and the daemon told.
	// False before the first pass.
	InSync bool `json:"inSync"`
	// Pending: newer input waits for splay, minInterval or backoff.
	Pending bool `json:"pending"`
	// Phase, Error and Since say in which phase the last pass failed, why, and when the
	// first of the failures in a row was. Zero while nothing is wrong.
	Phase Phase     `json:"phase,omitempty"`
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Attempts counts the failures in a row, NextTry says when the next try is due (only under Run).
	Attempts int       `json:"attempts,omitempty"`
	NextTry  time.Time `json:"nextTry,omitzero"`
	// Hash is of the content that was last in force.
	Hash        string    `json:"hash,omitempty"`
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// LastReload is when the last reload command was started, Reloads how many there were since the start.
	LastReload time.Time `json:"lastReload,omitzero"`
	Reloads    int       `json:"reloads"`
	// Passes counts what was tried since the start, successful or not.
	Passes int `json:"passes"`
}

// New returns an output. It validates o, with every error at once, expands each
// command once with made-up values, and touches no file.
func New(o Options) (*Output, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	return &Output{
		opts:  o,
		log:   o.Logger.With("output", o.Name),
		seams: seams{run: command.Run, rand: random, link: os.Link, identify: identify, read: readLike, hash: hash},
		busy:  make(chan struct{}, 1),
		known: newMemory(),
		state: State{Name: o.Name},
	}, nil
}

// Name returns the output's name.
func (o *Output) Name() string { return o.opts.Name }

// State returns a snapshot.
func (o *Output) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state
}

// TakeOver makes MinInterval count from the last reload of the output that o
// succeeds, whose options were others. Call it before Run.
func (o *Output) TakeOver(from State) {
	o.update(func(s *State) { s.LastReload = from.LastReload })
}

// update changes the state and returns a snapshot of it.
func (o *Output) update(f func(*State)) State {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(&o.state)
	return o.state
}

// record notes how a pass ended, err being an *Error or nil.
func (o *Output) record(res Result, err error) {
	now := o.opts.Now()
	s := o.update(func(s *State) {
		s.Passes++
		s.NextTry = time.Time{}
		if err != nil {
			s.InSync, s.Phase, s.Error = false, phaseOf(err), err.Error()
			s.Attempts++
			if s.Since.IsZero() {
				s.Since = now
			}
			return
		}
		s.InSync, s.Phase, s.Error, s.Attempts, s.Since = true, "", "", 0, time.Time{}
		s.Hash, s.LastSuccess = res.Hash, now
	})
	o.opts.Metrics.pass(s, res)
}

func (o *Output) noteReload() {
	now := o.opts.Now()
	o.update(func(s *State) {
		s.LastReload = now
		s.Reloads++
	})
}

func (o *Output) step(name string) {
	if o.opts.Hook != nil {
		o.opts.Hook(name)
	}
}
