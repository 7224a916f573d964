//lint:file-ignore SA1019 the documented API of this package is in terms of v1.Endpoints; they are made from EndpointSlices and never watched

// Package watcher turns the state of a cluster into the ClusterConfig of this host.
//
// Data flow, in a straight line:
//
//	list-watches (source.go)  one reflector per resource, over our own client (transport.go, reporting.go), into
//	stores (store.go)         the only copy of each object, stripped (strip.go, intern.go); a change marks its service dirty
//	builder (build.go)        gathers changes, brings the documented maps up to date,
//	plan (plan.go)            is the document in the order in which it is served, made anew when it changes,
//	resolve (resolve.go …)    joins the slices of the dirty services, selects endpoints and real servers,
//	share (share.go)          keeps the pointer of whatever is equal to what was published before,
//	assemble (assemble.go)    patches copies of the last lists, and
//	Updates()                 hands over the newest ClusterConfig; one that was not taken is replaced.
//
// Beside it are the ConfigMap with its last valid version (configmap.go), the
// documented queries (query.go), metrics (metrics.go) and the debug server (debug.go).
//
// Concurrency: the reflectors write the stores, under the stores' lock. One
// goroutine, run, owns everything that is built; it alone changes the exported
// fields, under the Watcher's own RWMutex, so that readers lock for reading.
// All goroutines end with the context given to NewWatcher; Wait waits for that.
// Published ClusterConfigs are immutable.
//
// With package manifest this is the only user of client-go.
package watcher

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/lb-render/lb-render/internal/types"
)

// Watcher follows a cluster. Its exported fields are the newest state; hold the
// read lock while using them, and change nothing in them.
type Watcher struct {
	sync.RWMutex
	ConfigMapNamespace string
	ConfigMapName      string
	ConfigKey          string

	// AllServices, AllEndpoints and AllPods are keyed by "namespace/name".
	// AllEndpoints is made of the EndpointSlices of each service.
	AllServices   map[string]*v1.Service
	AllEndpoints  map[string]*v1.Endpoints
	AllPods       map[string]*v1.Pod
	AllPodsByNode map[string][]*v1.Pod
	ConfigMap     *v1.ConfigMap        // nil if there is none
	ClusterConfig *types.ClusterConfig // nil until one was built
	Nodes         []*v1.Node           // sorted by name

	AutoSvc  string
	AutoPort int

	ctx    context.Context // of the goroutines' lives
	opts   options
	logger *slog.Logger
	// statusLog is for what Status says too.
	statusLog *slog.Logger
	metrics   WatcherMetrics
	stores    *stores
	auto      *types.ServiceDef // nil if there is no auto service

	updates chan Update
	rebuild chan struct{} // asks for a build though no object changed
	built   chan struct{} // closed after the first build
	group   sync.WaitGroup

	// Owned by run.
	authored      *types.ClusterConfig   // the entries in force; nil until a document was valid
	inForce       *types.ClusterConfig   // authored, as it was when last published
	problems      []types.Problem        // of the document
	joined        map[string]*joined     // by service
	plan          *plan                  // of the entries in force
	planned       *types.ClusterConfig   // authored, as it was when the plan was made
	results       []resolved             // of the plan's entries
	starts        []int                  // where the listeners of each entry begin in ClusterConfig.Listeners
	pools         map[string]*serverPool // by family
	nodes         []*types.Node          // eligible, sorted by name
	allNodes      map[string]*types.Node
	services      map[string]*types.ServiceEndpoints
	described     *types.ClusterConfig // what the info metric tells
	configMapRead bool                 // ConfigMap was applied once

	status   Status // guarded by the RWMutex
	keepAll  bool   // guarded by the RWMutex: Services is wanted
	saved    []byte // what the last-valid file says
	unsaved  bool   // it should say something else
	lastSHA  string
	warnings map[string]string // slice -> warning that was logged for it
}

// Update is a ClusterConfig on its way to the outputs.
type Update struct {
	Config *types.ClusterConfig
	// Since is when the first of the changes that led to it was seen.
	Since time.Time
}

// NewWatcher starts to follow the cluster that kubeConfigFile names (the
// cluster this process runs in, if it is empty; WithSource replaces both). The
// operator's document is configKey of the ConfigMap cmNamespace/cmName. lbKind
// names this kind of load balancer in the metrics. autoSvc ("namespace/service:port",
// or empty for none) is served on autoPort of every VIP of the pool that has no
// listener there.
//
// It returns an error for arguments that can never work; a cluster that cannot
// be reached is no error: it is tried until ctx is done.
func NewWatcher(ctx context.Context, kubeConfigFile, cmNamespace, cmName, configKey, lbKind string,
	autoSvc string, autoPort int, logger *slog.Logger, opts ...Option) (*Watcher, error) {
	w := &Watcher{
		ConfigMapNamespace: cmNamespace, ConfigMapName: cmName, ConfigKey: configKey,
		AllServices: map[string]*v1.Service{}, AllEndpoints: map[string]*v1.Endpoints{},
		AllPods: map[string]*v1.Pod{}, AllPodsByNode: map[string][]*v1.Pod{},
		AutoSvc: autoSvc, AutoPort: autoPort,
		ctx: ctx, opts: defaults(), logger: logger,
		updates: make(chan Update, 1), rebuild: make(chan struct{}, 1), built: make(chan struct{}),
		joined: map[string]*joined{}, allNodes: map[string]*types.Node{}, pools: map[string]*serverPool{}, warnings: map[string]string{},
	}
	if logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	for _, o := range opts {
		o(&w.opts)
	}
	if w.opts.configMap != nil {
		w.opts.configMap = stripConfigMap(w.opts.configMap, configKey)
	}
	w.statusLog = w.logger
	if w.opts.noStatusLog {
		w.statusLog = slog.New(slog.DiscardHandler)
	}
	if cmNamespace == "" || cmName == "" || configKey == "" {
		return nil, fmt.Errorf("the ConfigMap's namespace, name and key must all be given; got %q, %q and %q", cmNamespace, cmName, configKey)
	}
	if err := w.parseAuto(); err != nil {
		return nil, err
	}
	w.keepAll = w.opts.allServices
	w.metrics = w.opts.metrics
	if w.metrics == nil {
		w.metrics = NewWatcherMetrics(lbKind, configKey)
	}
	if c, ok := w.metrics.(prometheus.Collector); ok && w.opts.registerer != nil {
		if err := w.opts.registerer.Register(c); err != nil {
			already, ok := err.(prometheus.AlreadyRegisteredError)
			existing, isOurs := already.ExistingCollector.(WatcherMetrics)
			if !ok || !isOurs {
				return nil, fmt.Errorf("registering the watcher's metrics: %w", err)
			}
			w.metrics = existing // a watcher before us had the same kind and zone: go on counting
		}
	}
	source := w.opts.source
	if source == nil {
		api, err := newAPISource(kubeConfigFile, cmNamespace, cmName, w.opts)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() {
			w.group.Wait() // a connection is idle when the last watch has ended
			api.done()
		})
		source = api
	}
	w.loadLastValid()
	w.status.Resources = map[string]ResourceStatus{}
	w.stores = newStores(w)
	w.start(ctx, source)
	return w, nil
}

// parseAuto reads "namespace/service:port".
func (w *Watcher) parseAuto() error {
	if w.AutoSvc == "" {
		return nil
	}
	ns, rest, ok := strings.Cut(w.AutoSvc, "/")
	svc, port, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || ns == "" || svc == "" || port == "" {
		return fmt.Errorf("the auto service %q is not of the form namespace/service:port", w.AutoSvc)
	}
	if w.AutoPort < 1 || w.AutoPort > 65535 {
		return fmt.Errorf("the auto port %s is out of range; a port is 1 to 65535", strconv.Itoa(w.AutoPort))
	}
	w.auto = &types.ServiceDef{Namespace: ns, Service: svc, PortName: port, IPVSOptions: types.IPVSOptions{ForwardingMethod: "i"}}
	return nil
}

// Updates delivers the newest ClusterConfig, once after the start and then
// whenever it differs from the one before. It is never closed.
func (w *Watcher) Updates() <-chan Update { return w.updates }

// Wait returns when all goroutines have ended, which they do when the context given to NewWatcher is done.
func (w *Watcher) Wait() { w.group.Wait() }

// Config waits until the cluster has been read once, and returns the
// ClusterConfig, or why there is none.
func (w *Watcher) Config(ctx context.Context) (*types.ClusterConfig, error) {
	if err := w.Sync(ctx); err != nil {
		return nil, err
	}
	w.RLock()
	defer w.RUnlock()
	if w.ClusterConfig == nil {
		return nil, w.status.ConfigError
	}
	return w.ClusterConfig, nil
}

// Sync waits until the cluster has been read once.
func (w *Watcher) Sync(ctx context.Context) error {
	select {
	case <-w.built:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("reading the cluster: %w: %s", context.Cause(ctx), w.Status().Waiting())
	}
}

// KeepAllServices says whether ClusterConfig.Services is wanted. It costs
// memory, and makes every change of every service a change of the config.
func (w *Watcher) KeepAllServices(keep bool) {
	w.Lock()
	changed := w.keepAll != keep
	w.keepAll = keep
	w.Unlock()
	if changed {
		select {
		case w.rebuild <- struct{}{}:
		default:
		}
	}
}
