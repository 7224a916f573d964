package output

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lb-render/lb-render/internal/command"
)

// Metrics are the series of all outputs of one agent. A nil *Metrics does nothing.
type Metrics struct {
	transactions *prometheus.CounterVec
	commands     *prometheus.HistogramVec
	inSync       *prometheus.GaugeVec
	failingSince *prometheus.GaugeVec
	lastSuccess  *prometheus.GaugeVec
	info         *prometheus.GaugeVec
	drift        *prometheus.CounterVec
}

// NewMetrics registers the series with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lb_render_" + name, Help: help}, labels)
	}
	m := &Metrics{
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lb_render_transactions_total",
			Help: "Passes over an output by result: noop, success, or the phase that failed with _failed after it.",
		}, []string{"output", "result"}),
		commands: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lb_render_command_duration_seconds",
			Help: "How long check, reload and verify commands took, by result: ok, failed, timeout.",
			// From a signal sent to a daemon to the default timeout.
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"output", "command", "result"}),
		inSync:       gauge("output_in_sync", "1 when the rendered files are on disk and the daemon has them.", "output"),
		failingSince: gauge("output_failing_since_timestamp_seconds", "When the first of the present failures in a row was; 0 while nothing fails.", "output"),
		lastSuccess:  gauge("output_last_success_timestamp_seconds", "When the output was last found or brought in sync.", "output"),
		info:         gauge("output_info", "Always 1; the hash is of the content last in force.", "output", "hash"),
		drift: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lb_render_drift_total",
			Help: "How often a file was found changed or missing though the rendered content was the same.",
		}, []string{"output"}),
	}
	reg.MustRegister(m.transactions, m.commands, m.inSync, m.failingSince, m.lastSuccess, m.info, m.drift)
	return m
}

// Forget removes the series of an output that is configured no more.
func (m *Metrics) Forget(output string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"output": output}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.transactions, m.commands, m.inSync, m.failingSince, m.lastSuccess, m.info, m.drift,
	} {
		v.DeletePartialMatch(l)
	}
}

// declare makes the series exist, so that rate() sees their first increment.
// Those that exist keep their value, across a reload of the config.
func (m *Metrics) declare(output string) {
	if m == nil {
		return
	}
	for _, result := range []string{"noop", "success"} {
		m.transactions.WithLabelValues(output, result)
	}
	for _, p := range []Phase{PhaseRender, PhaseLock, PhaseCompare, PhaseStage, PhaseCheck, PhaseCommit, PhaseReload, PhaseVerify, PhaseMarker} {
		m.transactions.WithLabelValues(output, string(p)+"_failed")
	}
	m.inSync.WithLabelValues(output)
	m.failingSince.WithLabelValues(output)
	m.lastSuccess.WithLabelValues(output)
	m.drift.WithLabelValues(output)
}

// pass notes how a pass ended; s is the state after it.
func (m *Metrics) pass(s State, res Result) {
	if m == nil {
		return
	}
	m.declare(s.Name)
	if res.Drift {
		m.drift.WithLabelValues(s.Name).Inc()
	}
	if !s.InSync {
		m.transactions.WithLabelValues(s.Name, string(s.Phase)+"_failed").Inc()
		m.inSync.WithLabelValues(s.Name).Set(0)
		m.failingSince.WithLabelValues(s.Name).Set(seconds(s.Since))
		return
	}
	result := "success"
	if res.Noop {
		result = "noop"
	}
	m.transactions.WithLabelValues(s.Name, result).Inc()
	m.inSync.WithLabelValues(s.Name).Set(1)
	m.failingSince.WithLabelValues(s.Name).Set(0)
	m.lastSuccess.WithLabelValues(s.Name).Set(seconds(s.LastSuccess))
	// One series per output, not one per content it ever had.
	m.info.DeletePartialMatch(prometheus.Labels{"output": s.Name})
	m.info.WithLabelValues(s.Name, s.Hash).Set(1)
}

func (m *Metrics) command(output string, p Phase, res command.Result, err error) {
	if m == nil {
		return
	}
	result := "ok"
	switch {
	case res.TimedOut:
		result = "timeout"
	case err != nil:
		result = "failed"
	}
	m.commands.WithLabelValues(output, string(p), result).Observe(res.Duration.Seconds())
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
