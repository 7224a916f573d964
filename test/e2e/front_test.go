package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// front is an HTTP proxy before an API server: it sees requests, where proxy sees
// bytes only. It holds back the first list of one resource.
type front struct {
	server *httptest.Server
	ca     string // of its certificate
	asked  atomic.Int64
	held   atomic.Bool // the list is held back now
}

func (f *front) address() string { return f.server.Listener.Addr().String() }

func newFront(t *testing.T, c *cluster, resource string, hold time.Duration) *front {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.read(t, "ca.crt")))
	back := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: c.server(t, 0)})
	back.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	back.FlushInterval = -1 // a watch is passed on as it comes
	f := &front{}
	var once atomic.Bool
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		list := q.Get("watch") == "" || q.Get("sendInitialEvents") == "true"
		if list && strings.HasSuffix(r.URL.Path, "/"+resource) && once.CompareAndSwap(false, true) {
			f.held.Store(true)
			f.asked.Add(1)
			select {
			case <-time.After(hold):
			case <-r.Context().Done():
				f.held.Store(false)
				return
			}
			f.held.Store(false)
		}
		back.ServeHTTP(w, r)
	}))
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	f.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}))
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}
