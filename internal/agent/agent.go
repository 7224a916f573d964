// Package agent joins the stages: cluster state comes in from the watcher,
// goes through the guard, and each output renders it, checks it, puts it in
// place and reloads its daemon.
//
//	watcher.Updates() -> loop (loop.go) -> guard (guard.go) -> released ClusterConfig
//	    -> one worker per output (worker.go): render, output.Run's transaction
//	    -> Status (status.go), HTTP (http.go), metrics (metrics.go)
//
// Beside it, files.go notices changes of the agent's own config and templates,
// and setup.go turns Settings into templates and outputs, all of them or none.
//
// Concurrency: one goroutine, the loop, owns the settings, the guard and the
// list of workers. Each worker is a goroutine that pulls: it looks up the
// newest released ClusterConfig when its transaction may start. Nothing waits
// for a worker but the end of the agent. The outside sees snapshots.
//
// The config file reaches the agent as a loader function; the package reads
// neither the environment nor flags.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/template"
	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

// Cluster is where ClusterConfigs come from; *watcher.Watcher is one.
type Cluster interface {
	Updates() <-chan watcher.Update
	Status() watcher.Status
	KeepAllServices(bool)
}

// Settings is the agent's config, ready to be put to use.
type Settings struct {
	// Files are the config files, for noticing changes.
	Files []string
	// Cluster starts to follow the cluster until ctx is done. It is called when
	// the agent starts and whenever ClusterKey is another one.
	Cluster    func(ctx context.Context, reg prometheus.Registerer) (Cluster, error)
	ClusterKey string

	Templates template.Options
	Params    map[string]any
	Outputs   []OutputSettings

	// StartTimeout is how long READY waits for the first pass of all outputs; 0 does not wait.
	StartTimeout time.Duration
	Guard        Guard
	// RuntimeDir keeps the guard's memory across restarts; "" keeps none.
	RuntimeDir string
	// Listen is the address of the HTTP server; "" for none. It is read once, at the start.
	Listen string
}

// OutputSettings is one output before its templates are parsed.
type OutputSettings struct {
	// Options without the commands' Expand, the logger and the metrics.
	Options output.Options
	// Templates has the template of each file, by the file's name.
	Templates map[string]string
	// Check, Reload and Verify are nil for none.
	Check, Reload, Verify *Command
}

// Command is a command whose arguments are templates. With Shell, Args is one line for sh -c.
type Command struct {
	Args    []string
	Shell   bool
	Timeout time.Duration
}

// Options are what an Agent is made of. Load, Logger and Registry are required.
type Options struct {
	// Load reads the config. Its error names every fault.
	Load   func() (*Settings, error)
	Logger *slog.Logger
	// Registry takes all metrics.
	Registry *prometheus.Registry
	// Notify tells the service manager, in the words of sd_notify(3); nil for none.
	Notify func(state string)
	// Watchdog is how often WATCHDOG=1 is due; 0 for never.
	Watchdog time.Duration
	// Poll is how often files are looked at beside file events; 0 means 10 seconds.
	Poll time.Duration
	// DryRun, if set, is called with what would be written, and nothing is.
	DryRun func(o string, c output.Comparison)
	// Version is shown.
	Version string
}

// Agent is the running program. New makes one, Run runs it.
type Agent struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	outputs *output.Metrics

	released atomic.Pointer[release] // what the workers render; nil before the first
	beat     atomic.Int64            // when the loop last moved, unix nanoseconds

	mu       sync.Mutex // guards what follows, for the snapshots
	cluster  Cluster
	workers  map[string]*worker
	loadErr  error // why the newest config is not in force
	loadedAt time.Time
	held     heldState
	started  time.Time // not changed after New

	// Owned by the loop.
	setup       *Setup
	settings    *Settings
	clusterKey  string
	stopCluster context.CancelFunc
	group       sync.WaitGroup
	moved       chan struct{} // a worker finished a pass
	guard       guardState
	problems    map[types.Problem]bool
	noted       []types.Problem // the list that problems was made of
	prints      string          // fingerprint of the files that were last loaded
}

// release is a ClusterConfig that the guard let through.
type release struct {
	config *types.ClusterConfig
	since  time.Time
}

// New loads the config and everything it names. Its error has every fault, each with its place.
func New(o Options) (*Agent, error) {
	if o.Poll == 0 {
		o.Poll = 10 * time.Second // the fallback where events do not reach us, as on network file systems
	}
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	a := &Agent{opts: o, log: o.Logger, workers: map[string]*worker{}, moved: make(chan struct{}, 1), problems: map[types.Problem]bool{}, started: time.Now()}
	a.outputs = output.NewMetrics(o.Registry)
	a.metrics = newMetrics(o.Registry, o.Version, a)
	l := a.load(nil)
	if l.err != nil {
		return nil, l.err
	}
	a.settings, a.setup, a.loadedAt, a.prints = l.settings, l.setup, time.Now(), l.prints
	return a, nil
}

// Run runs until ctx is done, which is a clean end: transactions that run are
// finished within their timeouts. Each value on reload makes it load its
// config anew. An error means that it could not start.
func (a *Agent) Run(ctx context.Context, reload <-chan struct{}) error {
	var listener net.Listener
	if a.settings.Listen != "" {
		var err error
		if listener, err = net.Listen("tcp", a.settings.Listen); err != nil {
			return fmt.Errorf("http.listen: %w; is another lb-render running?", err)
		}
	}
	// Workers finish their transaction after ctx is done, then they end.
	workers, stopWorkers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorkers()
	if _, err := a.switchCluster(ctx, a.settings, a.setup); err != nil {
		if listener != nil {
			listener.Close()
		}
		return err
	}
	if listener != nil {
		a.group.Go(func() { a.serve(ctx, listener) })
	}
	changes := make(chan struct{}, 1)
	a.group.Go(func() { a.watchFiles(ctx, changes) })
	a.startWorkers(workers)
	a.loop(ctx, workers, reload, changes)
	a.opts.Notify("STOPPING=1")
	stopWorkers()
	a.stopCluster()
	a.group.Wait()
	return nil
}

// switchCluster follows the cluster of the settings, and reports whether it
// is another one than before. On failure everything is as it was.
func (a *Agent) switchCluster(ctx context.Context, s *Settings, setup *Setup) (bool, error) {
	if a.stopCluster != nil && s.ClusterKey == a.clusterKey {
		a.cluster.KeepAllServices(setup.UsesEndpoints())
		return false, nil
	}
	own, cancel := context.WithCancel(ctx)
	c, err := s.Cluster(own, a.opts.Registry)
	if err != nil {
		cancel()
		return false, err
	}
	c.KeepAllServices(setup.UsesEndpoints())
	if a.stopCluster != nil {
		a.stopCluster()
	}
	a.stopCluster, a.clusterKey = cancel, s.ClusterKey
	a.mu.Lock()
	a.cluster = c
	a.mu.Unlock()
	return true, nil
}
