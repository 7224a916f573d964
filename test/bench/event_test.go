package bench

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lb-render/lb-render/internal/agent"
	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/template"
)

// BenchmarkEvent is a changed slice, from the event to the renamed file: the
// whole agent without quiet time and without commands; and the same with a
// template that prints next to nothing. Beside it is the bare
// write, fsync and rename of the same bytes in the same directory.
func BenchmarkEvent(b *testing.B) {
	for _, n := range sizes {
		b.Run("bare/"+sizeName(n), func(b *testing.B) {
			content, err := load(b, shipped()).Render(newLive(b, generated(n)).config, nil)
			if err != nil {
				b.Fatal(err)
			}
			dir := b.TempDir()
			Rounds(b, func() {}, func() { bare(b, dir, content) })
		})
		b.Run("slice/"+sizeName(n), func(b *testing.B) { benchmarkEvent(b, n, shipped(), ":") })
		b.Run("slice-not-copying/"+sizeName(n), func(b *testing.B) {
			benchmarkEvent(b, n, write(b, "short.tmpl", short), "")
		})
	}
}

// bare is the least that a durable and atomic replacement costs.
func bare(b *testing.B, dir string, content []byte) {
	f, err := os.CreateTemp(dir, "x*")
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, "haproxy.cfg"))
	}
	if err != nil {
		b.Fatal(err)
	}
}

// benchmarkEvent renders with a template. An address in its output has mark behind it; "" is for output without addresses.
func benchmarkEvent(b *testing.B, n int, file, mark string) {
	l := &live{source: newSource(generated(n))}
	renamed, done := make(chan struct{}, 1), make(chan struct{}, 1)
	dir := b.TempDir()
	settings := &agent.Settings{
		ClusterKey: "bench",
		Cluster: func(ctx context.Context, _ prometheus.Registerer) (agent.Cluster, error) {
			return l.follow(ctx)
		},
		Templates: template.Options{Dir: filepath.Dir(file)},
		Outputs: []agent.OutputSettings{{
			Templates: map[string]string{"cfg": filepath.Base(file)},
			Options: output.Options{
				Name: "haproxy", RuntimeDir: runtimeDir(b),
				Files: []output.File{{Name: "cfg", Path: filepath.Join(dir, "haproxy.cfg")}},
				Hook: func(step string) {
					switch {
					case strings.HasPrefix(step, "renamed:"):
						renamed <- struct{}{}
					case step == "cleaned":
						done <- struct{}{}
					}
				},
			},
		}},
	}
	a, err := agent.New(agent.Options{
		Load:   func() (*agent.Settings, error) { return settings, nil },
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, nil) }() // ends with cancel
	b.Cleanup(func() {
		cancel()
		l.slices.Stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	<-renamed // the first config
	var next *discoveryv1.EndpointSlice
	prepare := func() {
		<-done
		next = l.next() // as it comes from the decoder
	}
	change := func() {
		l.slices.Modify(next)
		<-renamed
	}
	for range 3 { // until all that is reused is there
		prepare()
		change()
	}
	Rounds(b, prepare, change)
	<-done
	if mark == "" {
		return
	}
	want := MovedAddress(l.n) + mark
	if data, err := os.ReadFile(filepath.Join(dir, "haproxy.cfg")); err != nil || !strings.Contains(string(data), want) {
		b.Errorf("the last change (%s) is not in the file: %v", want, err)
	}
}

// runtimeDir is in memory where there is such a place, as /run is.
func runtimeDir(b *testing.B) string {
	b.Helper()
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "lb-render-bench-")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
