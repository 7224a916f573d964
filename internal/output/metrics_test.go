package output

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrape returns the series as "name{label="v"} value", sums and counts for histograms left out.
func scrape(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			b.WriteString(f.GetName())
			for _, l := range m.GetLabel() {
				b.WriteString(" " + l.GetName() + "=" + l.GetValue())
			}
			switch {
			case m.Counter != nil:
				b.WriteString(" " + num(m.Counter.GetValue()))
			case m.Gauge != nil:
				b.WriteString(" " + num(m.Gauge.GetValue()))
			case m.Histogram != nil:
				b.WriteString(" " + num(float64(m.Histogram.GetSampleCount())))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func num(v float64) string {
	return time.Unix(0, 0).Add(time.Duration(v * float64(time.Second))).Sub(time.Unix(0, 0)).String()
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := newHost(t, t.TempDir(), "a")
	now := time.Unix(1000, 0)
	h.opts.Now = func() time.Time { return now }
	h.opts.Metrics = NewMetrics(reg)
	o := h.output()
	want := func(lines ...string) {
		t.Helper()
		got := scrape(t, reg)
		for _, line := range lines {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("no %q in\n%s", line, got)
			}
		}
	}
	if got := scrape(t, reg); strings.Contains(got, "output=lb") {
		t.Errorf("an output that never ran has series:\n%s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	o.Run(ended, nil, nil)
	want("lb_render_output_in_sync output=lb 0s", "lb_render_transactions_total output=lb result=reload_failed 0s", "lb_render_drift_total output=lb 0s")

	h.failing("reload", true)
	_, _ = o.Apply(t.Context(), h.content("1"))
	now = now.Add(time.Minute)
	_, _ = o.Apply(t.Context(), h.content("1"))
	want("lb_render_output_in_sync output=lb 0s", "lb_render_output_failing_since_timestamp_seconds output=lb 16m40s",
		"lb_render_output_last_success_timestamp_seconds output=lb 0s", "lb_render_transactions_total output=lb result=reload_failed 2s",
		"lb_render_command_duration_seconds command=check output=lb result=ok 2s", "lb_render_command_duration_seconds command=reload output=lb result=failed 2s")

	h.failing("reload", false)
	for _, v := range []string{"1", "1", "2"} {
		if _, err := o.Apply(t.Context(), h.content(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(h.opts.Files[0].Path); err != nil {
		t.Fatal(err)
	}
	// One drift, though the first attempt to put it right fails.
	h.failing("check", true)
	_, _ = o.Apply(t.Context(), h.content("2"))
	h.failing("check", false)
	if _, err := o.Apply(t.Context(), h.content("2")); err != nil {
		t.Fatal(err)
	}
	sum, _ := o.Hash(h.content("2"))
	want("lb_render_output_in_sync output=lb 1s", "lb_render_output_failing_since_timestamp_seconds output=lb 0s",
		"lb_render_output_last_success_timestamp_seconds output=lb 17m40s", "lb_render_transactions_total output=lb result=success 3s",
		"lb_render_transactions_total output=lb result=noop 1s", "lb_render_drift_total output=lb 1s", "lb_render_output_info hash="+sum+" output=lb 1s")
	if got := scrape(t, reg); strings.Count(got, "lb_render_output_info") != 1 {
		t.Errorf("more than the current hash in\n%s", got)
	}

	h.opts.Reload = sh("exec sleep 1000")
	h.opts.Reload.Timeout = 1
	_, _ = h.output().Apply(t.Context(), h.content("3")) // a new Output with the same series, as after a new config
	want("lb_render_command_duration_seconds command=reload output=lb result=timeout 1s", "lb_render_transactions_total output=lb result=success 3s")

	h.opts.Metrics.Forget("lb")
	if got := scrape(t, reg); got != "" {
		t.Errorf("left:\n%s", got)
	}
}

func TestNoMetrics(t *testing.T) {
	var m *Metrics
	m.Forget("x")
	h := newHost(t, t.TempDir(), "a")
	h.mustApply("1")
}
