package watcher

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// Option changes a default of NewWatcher.
type Option func(*options)

type options struct {
	source         Source
	node           string
	nodeScope      bool
	noCordoned     bool
	pods           PodsMode
	quiet, maxWait time.Duration
	lastValid      string
	readOnly       bool
	registerer     prometheus.Registerer
	metrics        WatcherMetrics
	allServices    bool
	debugAddress   string
	configMap      *v1.ConfigMap
	noStatusLog    bool
}

func defaults() options {
	return options{pods: PodsAll, quiet: 200 * time.Millisecond, maxWait: 2 * time.Second, debugAddress: "127.0.0.1:0"}
}

// PodsMode says which pods are watched.
type PodsMode string

// Pods are only needed for the queries about pods; the ClusterConfig is the same without them.
const (
	PodsAll  PodsMode = "all"
	PodsNode PodsMode = "node" // those on this host's node
	PodsNone PodsMode = "none"
)

// WithSource reads from something else than an API server, such as a directory of manifests.
func WithSource(s Source) Option { return func(o *options) { o.source = s } }

// WithNode names the node that this host is. Empty, the default, is none.
func WithNode(name string) Option { return func(o *options) { o.node = name } }

// WithNodeScope serves only endpoints on this node, and only listeners that have one. The default is the whole cluster.
func WithNodeScope(on bool) Option { return func(o *options) { o.nodeScope = on } }

// WithExcludeCordoned takes unschedulable nodes out of the real servers. By
// default they stay in, since an autoscaler cordons whole pools.
func WithExcludeCordoned(on bool) Option { return func(o *options) { o.noCordoned = on } }

// WithPods limits the watch for pods, which is most of the memory in a large cluster. The default is PodsAll.
func WithPods(m PodsMode) Option { return func(o *options) { o.pods = m } }

// WithTiming gathers changes until there was none for quiet (200 ms), but no
// longer than maxWait (2 s) after the first.
func WithTiming(quiet, maxWait time.Duration) Option {
	return func(o *options) { o.quiet, o.maxWait = quiet, maxWait }
}

// WithLastValid keeps the last valid entries of the ConfigMap in file, so
// that they outlive a restart. readOnly uses what is there and writes nothing.
func WithLastValid(file string, readOnly bool) Option {
	return func(o *options) { o.lastValid, o.readOnly = file, readOnly }
}

// WithRegisterer registers the watcher's metrics. Two watchers may share one registry.
func WithRegisterer(r prometheus.Registerer) Option { return func(o *options) { o.registerer = r } }

// WithMetrics replaces the metrics that NewWatcherMetrics makes.
func WithMetrics(m WatcherMetrics) Option { return func(o *options) { o.metrics = m } }

// WithAllServices fills ClusterConfig.Services from the start; see KeepAllServices.
func WithAllServices(on bool) Option { return func(o *options) { o.allServices = on } }

// WithDebugAddress is where StartDebugWebServer listens: host:port. The
// default is a free port on loopback; pprof is not for everyone.
func WithDebugAddress(address string) Option { return func(o *options) { o.debugAddress = address } }

// WithConfigMap uses cm in the place of the ConfigMap in the cluster, to see
// what would become of it. Its name does not matter.
func WithConfigMap(cm *v1.ConfigMap) Option { return func(o *options) { o.configMap = cm } }

// WithoutStatusLog leaves it to the caller, who reads Status, to say that a
// resource or the ConfigMap cannot be read.
func WithoutStatusLog() Option { return func(o *options) { o.noStatusLog = true } }
