package watcher

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WatcherMetrics is what a Watcher counts.
type WatcherMetrics interface {
	// WatchBackoffDuration notes the pause before a list or watch is tried again.
	WatchBackoffDuration(d time.Duration)
	// WatchErr counts a failed list or watch of a resource.
	WatchErr(endpoint string, err error)
	// WatchInit counts a start, and how long the first build took.
	WatchInit(d time.Duration)
	// WatchData counts an event of a resource.
	WatchData(endpoint string)
	// WatchClusterConfig counts a build: "publish", "noop" (nothing differed) or "error" (the document was not taken).
	WatchClusterConfig(event string)
	// ClusterConfigInfo says which document is in force.
	ClusterConfigInfo(sha, info string)
}

// Metrics counts on Prometheus series. It is a prometheus.Collector; NewWatcher
// registers it on the registry that it is given.
type Metrics struct {
	backoff     prometheus.Gauge
	errors      *prometheus.CounterVec
	inits       prometheus.Counter
	initLatency prometheus.Histogram
	data        *prometheus.CounterVec
	configs     *prometheus.CounterVec
	info        *prometheus.GaugeVec

	mu   sync.Mutex
	last string // the sha of the series that is kept
}

// NewWatcherMetrics returns metrics with the labels lb=kind and seczone=secZone. Nothing is registered yet.
func NewWatcherMetrics(kind, secZone string) WatcherMetrics {
	labels := prometheus.Labels{"lb": kind, "seczone": secZone}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "rdei_lb_" + name, Help: help, ConstLabels: labels}
	}
	return &Metrics{
		backoff: prometheus.NewGauge(prometheus.GaugeOpts{Name: "rdei_lb_watch_backoff_duration",
			Help: "Pause before the last retry of a list or watch, in seconds.", ConstLabels: labels}),
		errors: prometheus.NewCounterVec(counter("kube_connect_err_count", "Failed lists and watches."), []string{"endpoint"}),
		inits:  prometheus.NewCounter(counter("watch_init_count", "Times the cluster was read from the start.")),
		initLatency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rdei_lb_watch_init_latency_microseconds",
			Help: "Time of the first build, in microseconds.", ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(100, 4, 10)}),
		data:    prometheus.NewCounterVec(counter("watch_data_count", "Events of the watched resources."), []string{"endpoint"}),
		configs: prometheus.NewCounterVec(counter("watch_cluster_config_count", "Builds of the cluster config by outcome."), []string{"event"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rdei_lb_cluster_config_info",
			Help: "The document in force, 1.", ConstLabels: labels}, []string{"sha", "info", "date"}),
	}
}

// WatchBackoffDuration implements WatcherMetrics.
func (m *Metrics) WatchBackoffDuration(d time.Duration) { m.backoff.Set(d.Seconds()) }

// WatchErr implements WatcherMetrics.
func (m *Metrics) WatchErr(endpoint string, _ error) { m.errors.WithLabelValues(endpoint).Inc() }

// WatchInit implements WatcherMetrics.
func (m *Metrics) WatchInit(d time.Duration) {
	m.inits.Inc()
	m.initLatency.Observe(float64(d.Microseconds()))
}

// WatchData implements WatcherMetrics.
func (m *Metrics) WatchData(endpoint string) { m.data.WithLabelValues(endpoint).Inc() }

// WatchClusterConfig implements WatcherMetrics.
func (m *Metrics) WatchClusterConfig(event string) { m.configs.WithLabelValues(event).Inc() }

// ClusterConfigInfo implements WatcherMetrics. Only the current series is
// kept: one per config ever seen is how a Prometheus server dies.
func (m *Metrics) ClusterConfigInfo(sha, info string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sha+info == m.last {
		return
	}
	m.last = sha + info
	m.info.Reset()
	m.info.WithLabelValues(sha, info, time.Now().UTC().Format(time.RFC3339)).Set(1)
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.backoff, m.errors, m.inits, m.initLatency, m.data, m.configs, m.info}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
}
