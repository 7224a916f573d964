package agent

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lb-render/lb-render/internal/types"
)

// metrics are those of the agent itself; the outputs and the watcher have their own.
type metrics struct {
	renderDuration *prometheus.HistogramVec
	renders        *prometheus.CounterVec
	latency        prometheus.Histogram
	holds          prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, version string, a *Agent) *metrics {
	m := &metrics{
		renderDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "lb_render_render_duration_seconds",
			Help: "Time to render all files of an output.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}, []string{"output"}),
		renders: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lb_render_renders_total",
			Help: "Renders of an output by result."}, []string{"output", "result"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lb_render_change_latency_seconds",
			Help:    "Time from the first event of a change to the end of the reload that made it effective.",
			Buckets: []float64{.1, .25, .5, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 20, 30, 60, 120, 300}}),
		holds: prometheus.NewCounter(prometheus.CounterOpts{Name: "lb_render_guard_holds_total",
			Help: "Times a config was held back because too many endpoints were gone at once."}),
	}
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lb_render_" + name, Help: help}, value))
	}
	config := func(count func(*types.ClusterConfig) int) func() float64 {
		return func() float64 {
			if r := a.released.Load(); r != nil {
				return float64(count(r.config))
			}
			return 0
		}
	}
	reg.MustRegister(m.renderDuration, m.renders, m.latency, m.holds, &problemCollector{a})
	gauge("listeners", "Listeners served.", config(func(c *types.ClusterConfig) int { return len(c.Listeners) }))
	gauge("endpoints", "Endpoints that receive connections, over all listeners.", config((*types.ClusterConfig).EndpointCount))
	gauge("source_last_event_timestamp_seconds", "When the cluster last said anything.", func() float64 {
		return seconds(a.clusterStatus().LastEvent)
	})
	gauge("config_valid", "1 if the newest agent config, templates and ConfigMap are all in force.", func() float64 {
		a.mu.Lock()
		bad := a.loadErr != nil
		a.mu.Unlock()
		if bad || a.clusterStatus().ConfigError != nil {
			return 0
		}
		return 1
	})
	gauge("guard_holding", "1 while a config is held back because too many endpoints are gone at once.", func() float64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.held.Until.IsZero() {
			return 0
		}
		return 1
	})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lb_render_build_info", Help: "What runs, 1."}, []string{"version", "goversion"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	reg.MustRegister(build)
	return m
}

func (m *metrics) rendered(output string, d time.Duration, err error) {
	m.renderDuration.WithLabelValues(output).Observe(d.Seconds())
	result := "success"
	if err != nil {
		result = "error"
	}
	m.renders.WithLabelValues(output, result).Inc()
}

func (m *metrics) forget(output string) {
	m.renderDuration.DeletePartialMatch(prometheus.Labels{"output": output})
	m.renders.DeletePartialMatch(prometheus.Labels{"output": output})
}

// seconds is t as a Unix time, 0 for the zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// problemCollector counts the problems of the current config by reason.
type problemCollector struct{ a *Agent }

var problemDesc = prometheus.NewDesc("lb_render_problems", "Entries that are not served as they are written, by reason.", []string{"reason"}, nil)

// Describe implements prometheus.Collector.
func (c *problemCollector) Describe(ch chan<- *prometheus.Desc) { ch <- problemDesc }

// Collect implements prometheus.Collector. Every reason is there, so that an alert sees the 0 too.
func (c *problemCollector) Collect(ch chan<- prometheus.Metric) {
	count := map[types.Reason]int{types.Invalid: 0, types.Conflict: 0, types.NoSuchService: 0, types.NoSuchPort: 0, types.NoEndpoint: 0, types.UnknownKey: 0}
	for _, p := range c.a.currentProblems() {
		count[p.Reason]++
	}
	for reason, n := range count {
		ch <- prometheus.MustNewConstMetric(problemDesc, prometheus.GaugeValue, float64(n), string(reason))
	}
}
