package watcher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Status is how the watcher itself is doing.
type Status struct {
	// Synced is true once every resource was listed.
	Synced bool
	// ConfigError is why the ConfigMap's document is not in force; nil if it is.
	ConfigError error
	// LastEvent is when the source last said anything; zero if never.
	LastEvent time.Time
	// Resources says of each watched resource whether it can be read.
	Resources map[string]ResourceStatus
}

// ResourceStatus is how following one resource goes.
type ResourceStatus struct {
	Listed bool
	// Err is the newest failure; nil when the last list or watch succeeded.
	Err error
	// Since is when it began to fail; zero if it does not.
	Since time.Time

	// Refused: trying again does not help until somebody changes a right, a
	// credential or a certificate.
	Refused bool

	logged []string // failures since then
}

// Refused says whether any resource is.
func (s Status) Refused() bool {
	for _, r := range s.Resources {
		if r.Refused {
			return true
		}
	}
	return false
}

// refused: HTTP 401 and 403, and a server's certificate that we do not accept.
func refused(err error) bool {
	var certificate *tls.CertificateVerificationError
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.As(err, &certificate)
}

// Waiting says in one line which resources hold up the start, or fail, and why; "" if none does.
func (s Status) Waiting() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Resources)) {
		switch r := s.Resources[name]; {
		case r.Err != nil:
			out = append(out, fmt.Sprintf("%s: %v", name, r.Err))
		case !r.Listed:
			out = append(out, name+": not listed yet")
		}
	}
	return strings.Join(out, "; ")
}

// Status returns a snapshot.
func (w *Watcher) Status() Status {
	w.RLock()
	defer w.RUnlock()
	s := w.status
	s.Resources = maps.Clone(s.Resources)
	return s
}

func (w *Watcher) setResource(resource string, s ResourceStatus) {
	w.Lock()
	defer w.Unlock()
	w.status.Resources[resource] = s
}

func (w *Watcher) noteEvent() {
	w.Lock()
	defer w.Unlock()
	w.status.LastEvent = time.Now()
}

var digits = regexp.MustCompile(`[0-9]+`)

// reportResource notes how a list or watch went; nil is success. A failure is
// logged when it is new, not each time it is met again, nor when two take turns.
func (w *Watcher) reportResource(ctx context.Context, resource string, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return // we are stopping
	}
	if err != nil && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		// History was compacted; the reflector lists anew.
		w.logger.Debug("the server has forgotten what was seen last; listing anew", "resource", resource, "err", err)
		return
	}
	w.Lock()
	was := w.status.Resources[resource]
	now := ResourceStatus{Listed: was.Listed || err == nil, Err: explain(resource, err)}
	isNew := false
	if err != nil {
		now.Since, now.logged, now.Refused = was.Since, was.logged, refused(err)
		if was.Err == nil {
			now.Since = time.Now()
		}
		// Ports, times and numbers of streams differ each time.
		text := digits.ReplaceAllString(now.Err.Error(), "#")
		if isNew = !slices.Contains(was.logged, text); isNew {
			now.logged = append(slices.Clone(was.logged[max(0, len(was.logged)-20):]), text)
		}
	}
	w.status.Resources[resource] = now
	w.Unlock()
	if err != nil {
		w.metrics.WatchErr(resource, err)
	}
	switch {
	case isNew:
		w.statusLog.Warn("cannot watch; the last state stays in force", "resource", resource, "err", now.Err)
	case err == nil && was.Err != nil:
		w.statusLog.Info("watching again", "resource", resource, "after", time.Since(was.Since).Round(time.Millisecond))
	}
}

// explain takes away what differs from one try to the next, so that the same
// failure reads the same, and adds the way out to errors that have one.
func explain(resource string, err error) error {
	var status *apierrors.StatusError
	var request *url.Error
	switch {
	case errors.As(err, &status):
		err = status
	case errors.As(err, &request): // the URL has the resource version in it
		host := request.URL
		if u, parseErr := url.Parse(request.URL); parseErr == nil {
			host = u.Scheme + "://" + u.Host
		}
		err = fmt.Errorf("%s: %w", host, request.Err)
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; grant list and watch on %s (see examples/kubernetes)", err, resource)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; the credentials in the kubeconfig are not accepted", err)
	}
	return err
}
