package bench

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"testing"
	"time"
)

// garbage is how much may be allocated between two collections of Rounds.
const garbage = 256 << 20

// Rounds measures do, and not the prepare before it, and reports the median of
// the rounds in the units of the testing package. The garbage collector runs
// between rounds: in a loop without pause it would run beside nearly all of
// them, which it does not where changes are some milliseconds apart. The testing
// package's own timer is not stopped in each round, since that stops the world
// and empties the allocator's caches.
func Rounds(b *testing.B, prepare, do func()) {
	b.Helper()
	b.ReportAllocs()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var collected uint64
	ready := func() {
		prepare()
		if metrics.Read(allocated); allocated[0].Value.Uint64()-collected > garbage {
			runtime.GC()
			collected = allocated[0].Value.Uint64()
		}
	}
	var times []float64
	for b.Loop() {
		ready()
		start := time.Now()
		do()
		times = append(times, float64(time.Since(start).Nanoseconds()))
	}
	var bytes, objects []float64
	for range min(len(times), 20) {
		ready()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		bytes, objects = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)), append(objects, float64(after.Mallocs-before.Mallocs))
	}
	b.ReportMetric(median(times), "ns/op")
	b.ReportMetric(median(bytes), "B/op")
	b.ReportMetric(median(objects), "allocs/op")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
