package watcher

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// clientOf makes an API source for a server, with a token in a file.
func clientOf(t *testing.T, s *httptest.Server) (source *apiSource, tokenFile string) {
	t.Helper()
	dir := t.TempDir()
	tokenFile = filepath.Join(dir, "token")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"" + s.URL + "\", certificate-authority: ca.crt}}]\n" +
		"users: [{name: u, user: {tokenFile: token}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
	for name, content := range map[string]string{"token": "one\n", "ca.crt": string(ca), "kubeconfig": kubeconfig} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "kubeconfig")
	if got := CredentialFiles(path); len(got) != 1 || got[0] != filepath.Join(dir, "ca.crt") {
		t.Errorf("credential files: %q", got)
	}
	source, err := newAPISource(path, "ns", "cm", options{})
	if err != nil {
		t.Fatal(err)
	}
	return source, tokenFile
}

// watchOnce begins a watch of services and returns what is reported, until stop is called.
func watchOnce(t *testing.T, source *apiSource) (reports <-chan error, stop func()) {
	t.Helper()
	ch := make(chan error, 100)
	r := newReporting(source.ListerWatcher(Services), func(err error) { ch <- err }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		w, err := r.WatchWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-w.ResultChan():
				if !ok {
					return
				}
			}
		}
	}()
	return ch, func() {
		cancel()
		<-done
	}
}

func next(t *testing.T, reports <-chan error) error {
	t.Helper()
	select {
	case err := <-reports:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is reported")
		return nil
	}
}

func newTLSServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// TestWatchIsReported: what happens to a watch is known when it happens. client-go
// by itself tries again for ten seconds, and calls a failed watch an empty one.
func TestWatchIsReported(t *testing.T) {
	header := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
	}
	var server *httptest.Server
	var cut atomic.Bool
	abort := func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		want   []string // "" is success
	}{
		{"cut before the answer", func(w http.ResponseWriter, _ *http.Request) { abort(w) }, []string{"stream error"}},
		{"cut in the answer", func(w http.ResponseWriter, _ *http.Request) { header(w); abort(w) }, []string{"stream error"}},
		{"ended at once", func(w http.ResponseWriter, _ *http.Request) { header(w) }, []string{"ends the watch as soon as it has begun"}},
		{"busy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1") // client-go then tries again by itself
			w.WriteHeader(http.StatusServiceUnavailable)
		}, []string{"503 Service Unavailable"}},
		{"not Kubernetes", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, []string{"text/html"}},
		{"refused after a cut", func(w http.ResponseWriter, r *http.Request) {
			if cut.CompareAndSwap(false, true) {
				server.CloseClientConnections() // which client-go answers by trying again itself
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
		}, []string{"https://127.0.0.1", "no"}},
		{"an error in the stream", func(w http.ResponseWriter, r *http.Request) {
			header(w)
			_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"out of order"}}`+"\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, []string{"", "out of order"}},
		{"silent", func(w http.ResponseWriter, r *http.Request) { header(w); <-r.Context().Done() }, []string{""}},
		{"an event, then cut", func(w http.ResponseWriter, r *http.Request) {
			header(w)
			_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`+"\n")
			w.(http.Flusher).Flush()
			abort(w)
		}, []string{"", "stream error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) { c.answer(w, r) })
			server = s
			source, _ := clientOf(t, s)
			started := time.Now()
			reports, stop := watchOnce(t, source)
			defer stop()
			for _, want := range c.want {
				err := next(t, reports)
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Fatalf("reported %v, want %q", err, want)
				}
			}
			if c.name == "silent" && time.Since(started) < steady {
				t.Error("a watch was called good before anything was known of it")
			}
		})
	}
}

// TestTokenIsReadForEachRequest: a token that was renewed is used at once; one
// that is being written is waited for with the last; and a missing one is named.
func TestTokenIsReadForEachRequest(t *testing.T) {
	var got, valid atomic.Value
	valid.Store("")
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		if v := valid.Load().(string); v != "" && got.Load() != "Bearer "+v {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]}`)
	})
	source, file := clientOf(t, s)
	lw := cache.ToListerWatcherWithContext(source.ListerWatcher(Services))
	list := func() error {
		_, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
		return err
	}
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := list(); err != nil {
			t.Fatal(err)
		}
		if got.Load() != "Bearer "+token {
			t.Errorf("sent %q", got.Load())
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := list(); err != nil || got.Load() != "Bearer two" {
		t.Errorf("an empty file: sent %q, %v", got.Load(), err)
	}
	valid.Store("three")
	if err := list(); !apierrors.IsUnauthorized(err) {
		t.Errorf("an old token: %v", err)
	}
	if err := list(); err == nil || !strings.Contains(err.Error(), file+" is empty") {
		t.Errorf("an empty token: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := list(); err == nil || !strings.Contains(err.Error(), "reading the token") || !strings.Contains(err.Error(), file) {
		t.Errorf("no token: %v", err)
	}
}

// TestFailuresAreLoggedOnce: ports, times and numbers of streams in them differ
// each time, and two failures may take turns.
func TestFailuresAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	w := &Watcher{logger: logger, statusLog: logger, metrics: NewWatcherMetrics("test", "test"), status: Status{Resources: map[string]ResourceStatus{}}}
	for i := range 50 {
		w.reportResource(t.Context(), Services, fmt.Errorf("read tcp 192.0.2.9:%d->192.0.2.1:6443: connection reset by peer", 40000+i))
		w.reportResource(t.Context(), Services, fmt.Errorf("stream error: stream ID %d; INTERNAL_ERROR", i))
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("two failures were logged %d times:\n%s", n, log.String())
	}
	w.reportResource(t.Context(), Services, nil)
	w.reportResource(t.Context(), Services, errors.New("stream error: stream ID 99; INTERNAL_ERROR"))
	if n := strings.Count(log.String(), "level=WARN"); n != 3 {
		t.Errorf("a failure after a success was not logged:\n%s", log.String())
	}
}

// TestCredentialPlugin: a kubeconfig's exec section goes on working beneath our client.
func TestCredentialPlugin(t *testing.T) {
	got := make(chan string, 10)
	s := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]}`)
	})
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(path, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
		"clusters": [{"name": "c", "cluster": {"server": "`+s.URL+`", "certificate-authority-data": "`+ca+`"}}],
		"users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "echo",
			"args": ["{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"from-a-plugin\"}}"]}}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	source, err := newAPISource(path, "ns", "cm", options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.ToListerWatcherWithContext(source.ListerWatcher(Services)).ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if token := <-got; token != "Bearer from-a-plugin" {
		t.Errorf("sent %q", token)
	}
	if files := CredentialFiles(path); len(files) != 0 {
		t.Errorf("credential files: %q", files)
	}
}

// TestBadCertificateIsNamed: by its file, since a kubeconfig may name three.
func TestBadCertificateIsNamed(t *testing.T) {
	s := newTLSServer(t, func(http.ResponseWriter, *http.Request) {})
	_, token := clientOf(t, s)
	dir := filepath.Dir(token)
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newAPISource(filepath.Join(dir, "kubeconfig"), "ns", "cm", options{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "ca.crt")) || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("got %v", err)
	}
}
