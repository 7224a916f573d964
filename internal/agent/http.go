package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve answers on l until ctx is done.
func (a *Agent) serve(ctx context.Context, l net.Listener) {
	server := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	a.group.Go(func() {
		defer close(stopped)
		<-ctx.Done()
		within, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(within) != nil {
			server.Close()
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		a.log.Error("the HTTP server ended", "err", err)
	}
	<-stopped
}

// Handler answers /metrics, /healthz, /readyz and /status.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.opts.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if since := time.Since(time.Unix(0, a.beat.Load())); since > 6*a.pulse() {
			http.Error(w, "the work loop has not moved for "+since.Round(time.Second).String(), http.StatusServiceUnavailable)
			return
		}
		writeText(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s := a.Status(); !s.InSync {
			http.Error(w, strings.Join(s.Reasons, "\n"), http.StatusServiceUnavailable)
			return
		}
		writeText(w, "ok\n")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(a.Status()) // the client is gone
	})
	return mux
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client is gone
}
