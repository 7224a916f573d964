package bench

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	readyLimit = 10 * time.Minute
	changes    = 200 // after the start, one by one
)

// BenchmarkPeakRSS reports the peak of the agent's resident memory in MiB, over
// its start and 200 changes, and how long it took from exec to a green /readyz.
// The server and this test are another process. Run it with -benchtime 1x: a run is whole.
func BenchmarkPeakRSS(b *testing.B) {
	binary := needBinary(b)
	for _, v := range []struct {
		name, pods string
		lists      Lists
	}{
		{"pods=all", "all", Streamed},
		{"pods=node", "node", Streamed},
		{"pods=none", "none", Streamed},
		{"pods=all,list=plain", "all", Paged},
		{"pods=all,list=whole", "all", Whole}, // what is plain with a real server
	} {
		for _, n := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%s/size=1of%d", v.name, n), func(b *testing.B) {
				c := Generate(Full.Over(n))
				var peak, start, ready float64
				for b.Loop() {
					p, s, r := measure(b, binary, c, v.lists, v.pods)
					peak, start, ready = max(peak, p), max(start, s), max(ready, r)
				}
				b.ReportMetric(peak, "peak-RSS-MB")
				b.ReportMetric(start, "start-RSS-MB") // of the peak until ready
				b.ReportMetric(ready, "ready-s")
				b.ReportMetric(0, "ns/op") // of the server, the waiting and all: it says nothing
			})
		}
	}
}

// measure is one run. It returns the peak of all, and that of the start, and the seconds of the start.
func measure(b *testing.B, binary string, c *Cluster, l Lists, pods string) (peak, start, ready float64) {
	b.Helper()
	server := NewServer(c, l)
	api := httptest.NewServer(server)
	defer api.Close()
	node := ""
	if pods == "node" {
		node = nodeName(0)
	}
	a := startAgent(b, binary, api.URL, pods, node)
	eventually(b, readyLimit, a.isReady)
	ready = time.Since(a.started).Seconds()
	eventually(b, soon, func() error { return a.has("\nlisten ", c.Size.Services) })
	eventually(b, soon, func() error { return a.has("\n    server ", c.Size.endpoints()) })
	start = a.peakRSS(b)
	for n := range changes {
		// Far from each other: 7,919 is prime, and no divisor of a number of services.
		server.Push("endpointslices", watch.Modified, c.ChangedSlice(n*7919%c.Size.Services, n))
		address := " " + MovedAddress(n) + ":8080 "
		eventually(b, soon, func() error { return a.has(address, 1) })
	}
	peak = a.peakRSS(b)
	a.stop(b)
	return peak, start, ready
}
