package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// StartDebugWebServer serves pprof under /debug/pprof/ and the watcher's state
// under /watcherDump, on loopback unless WithDebugAddress said otherwise. It
// returns the address it listens on; the server ends with the watcher.
func (w *Watcher) StartDebugWebServer() (string, error) {
	l, err := net.Listen("tcp", w.opts.debugAddress)
	if err != nil {
		return "", fmt.Errorf("starting the debug server: %w", err)
	}
	mux := http.NewServeMux() // not the default one: pprof must not turn up elsewhere
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/watcherDump", w.dump)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	w.group.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.logger.Error("the debug server ended", "err", err)
		}
	})
	w.group.Go(func() {
		<-w.ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	})
	return l.Addr().String(), nil
}

func (w *Watcher) dump(rw http.ResponseWriter, _ *http.Request) {
	counts := w.counts()
	w.RLock()
	status := map[string]any{
		"counts": counts, "synced": w.status.Synced, "waiting": w.status.Waiting(), "lastEvent": w.status.LastEvent,
		"services": w.AllServices, "endpoints": w.AllEndpoints, "nodes": w.Nodes, "configMap": w.ConfigMap,
	}
	if w.status.ConfigError != nil {
		status["configError"] = w.status.ConfigError.Error()
	}
	if c := w.ClusterConfig; c != nil {
		status["vips"], status["problems"] = c.VIPs, c.Problems
	}
	// Into memory first: a client that stops reading must not hold the lock.
	b, err := json.MarshalIndent(status, "", "  ")
	w.RUnlock()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	if _, err := rw.Write(append(b, '\n')); err != nil {
		w.logger.Debug("writing the dump", "err", err)
	}
}
