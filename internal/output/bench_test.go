package output

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// big are two configurations of 8 MB, a few bytes apart.
func big() [2][]byte {
	var pair [2][]byte
	for i := range pair {
		b := make([]byte, 0, 8<<20)
		for line := 0; len(b) < 8<<20-64; line++ {
			b = fmt.Appendf(b, "\tserver web-%06d 192.0.2.%d:8080 check\n", line, line%250)
		}
		copy(b[len(b)/2:], fmt.Sprintf("# %d", i))
		pair[i] = b
	}
	return pair
}

// bigOutput has one file and no commands. Its runtime directory is on the disk,
// as the file is, or in memory, as it should be.
func bigOutput(b *testing.B, runDir string) (*Output, string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "a")
	o, err := New(Options{Name: "lb", RuntimeDir: runDir, Files: []File{{Name: "a", Path: path}}})
	if err != nil {
		b.Fatal(err)
	}
	return o, path
}

// BenchmarkApply changes a few bytes of 8 MB each time. What counts is how long
// it takes until the file is renamed, against BenchmarkBare: the rest of a
// transaction is for the next one.
func BenchmarkApply(b *testing.B) {
	for _, tc := range []struct {
		name   string
		runDir func(testing.TB) string
	}{
		{"runtime dir on disk", func(t testing.TB) string { return t.TempDir() }},
		{"runtime dir in memory", quickDir},
	} {
		b.Run(tc.name, func(b *testing.B) {
			pair := big()
			o, _ := bigOutput(b, tc.runDir(b))
			var start time.Time
			var renamed time.Duration
			o.opts.Hook = func(s string) {
				if s == "renamed:a" {
					renamed += time.Since(start)
				}
			}
			apply := func(i int) {
				start = time.Now()
				if res, err := o.Apply(b.Context(), Content{"a": pair[i%2]}); err != nil || res.Noop {
					b.Fatal(res, err)
				}
			}
			apply(1)
			renamed = 0
			b.ResetTimer()
			for i := range b.N {
				apply(i)
			}
			b.ReportMetric(float64(renamed.Nanoseconds())/float64(b.N), "ns/renamed")
		})
	}
}

// BenchmarkBare is the least that replacing the same file durably takes, up to
// the rename.
func BenchmarkBare(b *testing.B) {
	pair := big()
	path := filepath.Join(b.TempDir(), "a")
	b.ResetTimer()
	for i := range b.N {
		h, err := os.Create(path + ".tmp")
		if err != nil {
			b.Fatal(err)
		}
		_, err = h.Write(pair[i%2])
		for _, err := range []error{err, h.Sync(), h.Close(), os.Rename(path+".tmp", path)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkNoop renders the same again, into other memory, as a renderer does.
func BenchmarkNoop(b *testing.B) {
	for _, tc := range []struct {
		name  string
		later time.Duration
	}{
		{"known", slack},
		{"just written", 0}, // and therefore read
	} {
		b.Run(tc.name, func(b *testing.B) {
			same := [2][]byte{big()[0], big()[0]}
			o, _ := bigOutput(b, b.TempDir())
			now := time.Now()
			o.opts.Now = func() time.Time { return now }
			for i := range 2 {
				if _, err := o.Apply(b.Context(), Content{"a": same[0]}); err != nil {
					b.Fatal(i, err)
				}
				now = now.Add(tc.later)
			}
			b.ResetTimer()
			for i := range b.N {
				if res, err := o.Apply(b.Context(), Content{"a": same[i%2]}); err != nil || !res.Noop {
					b.Fatal(res, err)
				}
			}
		})
	}
}
