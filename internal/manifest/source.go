package manifest

import (
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Options are the settings of a Source.
type Options struct {
	// Poll is how often the directory is looked at besides the events that the
	// kernel reports, for file systems that report none; 0 means 5 s. A look at
	// an unchanged directory opens no file.
	Poll time.Duration

	quiet   time.Duration // without an event before a load; 0: 50 ms
	history int           // events kept per resource, at least; 0: 4096
	silent  bool          // no file events, as on a network file system
}

func (o Options) withDefaults() Options {
	if o.Poll <= 0 {
		o.Poll = 5 * time.Second
	}
	if o.quiet <= 0 {
		// Long enough for an editor or a `cp` to finish, too short for anyone to notice.
		o.quiet = 50 * time.Millisecond
	}
	if o.history <= 0 {
		// A burst that is longer costs each watch one more list, which is no harm.
		o.history = 4096
	}
	return o
}

// Source is the objects of a directory of manifests.
type Source struct {
	dir    string
	logger *slog.Logger
	opts   Options

	// Owned by New and then by Run.
	files  map[string]*file
	listed listing
	logged map[string]struct{} // errors already logged since the last good load

	mu      sync.RWMutex
	err     error
	rev     uint64            // of the newest event
	tables  map[string]*table // the map itself never changes
	changed chan struct{}     // closed and replaced when events were added
}

// New reads every manifest (*.yaml, *.yml, *.json) in dir and below; dir may
// also be a single file. A mistake in any of them is an error that names each
// file, document and line. A nil logger logs nothing.
//
// The objects stay as they are until Run is called.
func New(dir string, logger *slog.Logger, o Options) (*Source, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Source{
		dir: dir, logger: logger, opts: o.withDefaults(),
		files: map[string]*file{}, logged: map[string]struct{}{},
		tables: map[string]*table{}, changed: make(chan struct{}),
	}
	for _, k := range kinds() {
		s.tables[k.resource] = &table{}
	}
	objects, err := s.read(scan(dir))
	if err != nil {
		return nil, err
	}
	s.commit(objects)
	for _, t := range s.tables {
		// The first objects are no events: a watch from before them has nothing to go on.
		t.events, t.dropped = nil, s.rev
	}
	return s, nil
}

// Dir is the directory or file that New was given.
func (s *Source) Dir() string { return s.dir }

// Err is why the newest state of the directory is not the one in force, nil when it is.
func (s *Source) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// ListerWatcher is the list-watch of a resource: configmaps, services,
// endpointslices, nodes or pods. It streams lists (WatchList) as new API servers do.
// Any other resource fails every list and watch as an API server's would.
func (s *Source) ListerWatcher(resource string) cache.ListerWatcher {
	return &listWatch{source: s, resource: resource}
}

// load makes what the directory holds now the state in force, or says in Err why it is not.
func (s *Source) load(l listing) {
	if s.current(l) {
		return // with the same result
	}
	before := s.Err()
	objects, err := s.read(l)
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		if _, known := s.logged[err.Error()]; !known {
			if len(s.logged) > 100 {
				clear(s.logged)
			}
			s.logged[err.Error()] = struct{}{}
			s.logger.Error("manifests cannot be read, the last good ones stay", "dir", s.dir, "err", err)
		}
		return
	}
	n := s.commit(objects)
	clear(s.logged)
	if before != nil {
		s.logger.Info("manifests can be read again", "dir", s.dir)
	}
	if n != (changes{}) {
		s.logger.Info("manifests changed", "dir", s.dir, "added", n.added, "modified", n.modified, "deleted", n.deleted)
	}
}
