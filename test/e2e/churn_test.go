package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// seen is the test's own clock: when the API server said of an address that it
// is ready or not, and when the file said so.
type seen struct {
	mu        sync.Mutex
	now       map[string]bool      // as the API server has it
	at        map[string]time.Time // since when the file lacks it
	latencies []time.Duration
	overtaken int // changes whose address changed again before the file had them
}

func (s *seen) changed(ip string, ready bool, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.now[ip]
	if known && was == ready {
		return
	}
	s.now[ip] = ready
	if !known {
		return // the state before the churn
	}
	if before, waits := s.at[ip]; waits {
		// It never was in the file; what it waited counts.
		s.overtaken++
		s.latencies = append(s.latencies, at.Sub(before))
	}
	s.at[ip] = at
}

// file notes what a new version of the file has.
func (s *seen) file(cfg string, at time.Time) {
	in := map[string]bool{}
	for _, server := range servers(cfg) {
		ip, weight, _ := strings.Cut(server, " ")
		ip, _, _ = strings.Cut(ip, ":")
		in[ip] = weight != "0"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ip, since := range s.at {
		if in[ip] == s.now[ip] {
			s.latencies = append(s.latencies, at.Sub(since))
			delete(s.at, ip)
		}
	}
}

func quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Clone(of)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// histogramQuantile is the upper bound of the bucket that has the quantile.
func (a *agent) histogramQuantile(name string, q float64) float64 {
	_, body := a.get("/metrics")
	type bucket struct{ le, n float64 }
	var buckets []bucket
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name+`_bucket{le="`)
		if !ok {
			continue
		}
		le, n, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
		bound, count := math.Inf(1), 0.0
		if le != "+Inf" {
			bound, _ = strconv.ParseFloat(le, 64)
		}
		count, _ = strconv.ParseFloat(n, 64)
		buckets = append(buckets, bucket{bound, count})
	}
	for _, b := range buckets {
		if b.n >= q*buckets[len(buckets)-1].n {
			return b.le
		}
	}
	return math.Inf(1)
}

// TestChurn is five minutes of 50 pod changes a second, with three outputs. It
// measures, so it runs alone, with the binary that is shipped.
// LB_RENDER_E2E_CHURN is another duration, for those who work on the test.
func TestChurn(t *testing.T) {
	needControlPlane(t)
	length := 5 * time.Minute
	if s := os.Getenv("LB_RENDER_E2E_CHURN"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	const ns, rate, apps, each = "churn", 50, 10, 40
	const minInterval = time.Second
	c := newCluster(t, 1)
	c.createNamespace(t, ns)
	var nodes []string
	for i := range 8 {
		nodes = append(nodes, fmt.Sprintf("churn-%d", i))
		c.node(t, nodes[i], fmt.Sprintf("203.0.113.%d", 1+i), map[string]string{"example.org/lb": ns})
	}
	var pods []pod
	document := strings.Builder{}
	fmt.Fprintf(&document, "labels: {example.org/lb: %s}\nconfig:\n  192.0.2.10:\n", ns)
	for i := range apps {
		app := fmt.Sprintf("app%d", i)
		c.service(t, ns, app, nil)
		pods = append(pods, c.pods(t, ns, app, each, 1000*i, nodes...)...)
		fmt.Fprintf(&document, "    %d: {namespace: %s, service: %s, portName: http}\n", 8000+i, ns, app)
	}
	c.config(t, ns, document.String())
	a := c.startAgent(t, settings{key: ns, binary: plainBinary, minInterval: minInterval})
	eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	eventually(t, soon, a.settled)
	// Neighbours in the list are of different services.
	var mixed []pod
	for i := range each {
		for j := range apps {
			mixed = append(mixed, pods[j*each+i])
		}
	}

	clock := &seen{now: map[string]bool{}, at: map[string]time.Time{}}
	w, err := c.client.DiscoveryV1().EndpointSlices(ns).Watch(background, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var watchers sync.WaitGroup
	quit := make(chan struct{})
	watchers.Go(func() { // ends when w is stopped
		for e := range w.ResultChan() {
			now := time.Now()
			s, ok := e.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			for _, ep := range s.Endpoints {
				clock.changed(ep.Addresses[0], ep.Conditions.Ready == nil || *ep.Conditions.Ready, now)
			}
		}
	})
	watchers.Go(func() { // ends with quit
		var last os.FileInfo
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
			}
			fi, err := os.Stat(filepath.Join(a.dir, "live", haproxy))
			if err == nil && (last == nil || !os.SameFile(fi, last)) {
				now := time.Now()
				clock.file(a.live(haproxy), now)
				last = fi
			}
		}
	})
	type sample struct{ goroutines, heap float64 }
	var samples []sample
	watchers.Go(func() { // ends with quit
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				samples = append(samples, sample{a.metric("go_goroutines"), a.metric("go_memstats_heap_alloc_bytes")})
			}
		}
	})
	before := len(a.reloads())
	started := time.Now()
	stop := c.churn(t, mixed, rate)
	time.Sleep(length) // how long the churn lasts
	changes := stop()
	took := time.Since(started)
	for i := range apps {
		c.waitSlices(t, ns, fmt.Sprintf("app%d", i), each)
	}
	eventually(t, soon, func() error { return a.serves(weighted(1, pods...)...) })
	eventually(t, soon, a.settled)
	w.Stop()
	close(quit)
	watchers.Wait()
	reloads := len(a.reloads()) - before
	a.inOrder(t)

	if float64(changes) < 0.9*rate*length.Seconds() {
		t.Errorf("only %d changes were made in %s: this machine is too slow for the test", changes, took)
	}
	if most := len(outputs) * (int(time.Since(started)/minInterval) + 2); reloads > most {
		t.Errorf("%d reloads; minInterval allows %d", reloads, most)
	}
	p50, p99, longest := quantile(clock.latencies, .5), quantile(clock.latencies, .99), quantile(clock.latencies, 1)
	metric := a.histogramQuantile("lb_render_change_latency_seconds", .99)
	figure(t, "%d pod changes in %s: %d changes of an address, in the file after %s (median), %s (99th percentile), %s (longest); overtaken: %d; change_latency_seconds has %v s as the 99th percentile's bucket",
		changes, took.Round(time.Second), len(clock.latencies), p50.Round(time.Millisecond), p99.Round(time.Millisecond), longest.Round(time.Millisecond), clock.overtaken, metric)
	if len(clock.latencies) < changes/2 {
		t.Errorf("only %d changes were measured", len(clock.latencies))
	}
	if len(clock.at) > 0 {
		t.Errorf("%d changes never reached the file", len(clock.at))
	}
	if p99 > 3*time.Second {
		t.Errorf("99 %% of the changes were in the file after %s, not 3 s", p99)
	}
	if metric > 3 {
		t.Errorf("change_latency_seconds: 99 %% within %v s, not 3 s", metric)
	}
	// The metric counts each change to the end of its reload, the test to the file: it may not flatter.
	if metric < p99.Seconds()-0.25 {
		t.Errorf("change_latency_seconds says %v s, the test's clock %s", metric, p99)
	}

	minute := min(60, len(samples)/3)
	first, last := samples[:minute], samples[len(samples)-minute:]
	// The least of the minute is what is alive after a collection.
	least := func(s []sample, of func(sample) float64) float64 {
		least := math.Inf(1)
		for _, x := range s {
			least = min(least, of(x))
		}
		return least
	}
	goroutines, heap := func(s sample) float64 { return s.goroutines }, func(s sample) float64 { return s.heap / (1 << 20) }
	figure(t, "first minute and last: %.0f and %.0f goroutines, %.1f and %.1f MiB of heap; %d reloads of 3 outputs", least(first, goroutines), least(last, goroutines), least(first, heap), least(last, heap), reloads)
	if least(last, goroutines) > least(first, goroutines)+3 {
		t.Errorf("goroutines grow: %v, then %v", least(first, goroutines), least(last, goroutines))
	}
	if least(last, heap) > 1.2*least(first, heap)+4 {
		t.Errorf("the heap grows: %.1f MiB, then %.1f MiB", least(first, heap), least(last, heap))
	}
}
