package output

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// after returns the wait after the n-th failure in a row (n >= 1), with r in
// [0,1) for the jitter. It is never less than Min: only added to.
func (b Backoff) after(n int, r float64) time.Duration {
	d := b.Min
	for i := 1; i < n && d < b.Max; i++ {
		d *= 2
	}
	d = min(d, b.Max)
	return d + time.Duration(r*float64(d)/4)
}

func random() float64 { return rand.Float64() }

// share returns the part of splay that the host has to wait, in [0,splay). It
// depends on the name alone, so that a host keeps its place among the others.
func share(splay time.Duration, host string) time.Duration {
	sum := sha256.Sum256([]byte(host)) // spreads names as alike as lb1 and lb2, too
	return time.Duration(float64(splay) * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
}

// earliest returns the earliest of those that are not zero.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// latest returns the latest; zero times are earlier than any other.
func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
