package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The resources that are watched, as a Source and the metrics name them.
const (
	ConfigMaps     = "configmaps"
	Services       = "services"
	EndpointSlices = "endpointslices"
	Nodes          = "nodes"
	Pods           = "pods"
)

// Source hands out the list-watch of a resource. An API server and a directory
// of manifests are the same to all that follows. The objects that a
// ListerWatcher hands out are the watcher's own from then on: it strips them where they are.
type Source interface {
	ListerWatcher(resource string) cache.ListerWatcher
}

// apiSource lists and watches on an API server.
type apiSource struct {
	core, discovery     rest.Interface
	cmNamespace, cmName string
	node                string // limits pods; "" does not
	done                func() // closes connections that are idle
}

// newAPISource connects to nothing yet; it fails for a kubeconfig that cannot be read.
func newAPISource(kubeConfigFile, cmNamespace, cmName string, o options) (*apiSource, error) {
	var config *rest.Config
	var err error
	if kubeConfigFile == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("no kubeconfig is given, and this is not a pod of a cluster: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", kubeConfigFile); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeConfigFile, err)
	}
	config.UserAgent = "lb-render"
	// Protobuf is a third of JSON's size and a tenth of its cost to decode.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	rt, done, err := newTransport(config)
	if err != nil {
		if files := CredentialFiles(kubeConfigFile); len(files) > 0 {
			err = fmt.Errorf("%w (certificates are read from %s)", err, strings.Join(files, ", "))
		}
		return nil, fmt.Errorf("preparing the client for %s: %w", config.Host, err)
	}
	httpClient := &http.Client{Transport: rt}
	client := func(gv schema.GroupVersion, path string) (rest.Interface, error) {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.APIPath = &gv, path
		return rest.RESTClientForConfigAndClient(c, httpClient)
	}
	s := &apiSource{cmNamespace: cmNamespace, cmName: cmName, done: done}
	if o.pods == PodsNode {
		s.node = o.node
	}
	if s.core, err = client(v1.SchemeGroupVersion, "/api"); err == nil {
		s.discovery, err = client(discoveryv1.SchemeGroupVersion, "/apis")
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the client for %s: %w", config.Host, err)
	}
	return s, nil
}

// serviceAccountCA is where a pod finds the CA of its cluster (rest.InClusterConfig).
const serviceAccountCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// CredentialFiles are the files that a kubeconfig ("" for that of a pod) names
// and a running watcher does not read anew: the CA, and a client's certificate and key. When
// one of them has changed, it takes a new watcher to use it. A tokenFile is
// none of them. A kubeconfig that cannot be read names none; NewWatcher says why.
func CredentialFiles(kubeConfigFile string) []string {
	if kubeConfigFile == "" {
		return []string{serviceAccountCA}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeConfigFile)
	if err != nil {
		return nil
	}
	var files []string
	for _, f := range []string{config.CAFile, config.CertFile, config.KeyFile} {
		if f != "" {
			files = append(files, f)
		}
	}
	return files
}

// ListerWatcher watches just the one ConfigMap, so that RBAC can name it.
func (s *apiSource) ListerWatcher(resource string) cache.ListerWatcher {
	client, namespace, selector := s.core, metav1.NamespaceAll, fields.Everything()
	switch resource {
	case EndpointSlices:
		client = s.discovery
	case ConfigMaps:
		namespace, selector = s.cmNamespace, fields.OneTermEqualSelector("metadata.name", s.cmName)
	case Pods:
		if s.node != "" {
			selector = fields.OneTermEqualSelector("spec.nodeName", s.node)
		}
	}
	return cache.NewListWatchFromClient(client, resource, namespace, selector)
}

// reconnect is how long to wait before a list or watch is tried again: a
// load balancer that stays behind for the half minute that client-go allows by
// default is a load balancer with dead servers. With dialTimeout or tlsTimeout, which a
// try may hang for, it is the time after which a server that is back is heard again.
func reconnect() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: 3 * time.Second}
}

// follow lists and watches one resource into its store until ctx is done.
func (w *Watcher) follow(ctx context.Context, resource string, lw cache.ListerWatcher, example runtime.Object, into cache.ReflectorStore) {
	report := func(err error) { w.reportResource(ctx, resource, err) }
	// What the reflector says we report ourselves, once; its own words are for debugging.
	logger := logr.FromSlogHandler(debugOnly{w.logger.With("resource", resource).Handler()})
	ctx = logr.NewContext(ctx, logger)
	reporting := newReporting(lw, report, strip(resource, into))
	r := cache.NewReflectorWithOptions(reporting, example, into, cache.ReflectorOptions{Name: resource, Logger: &logger, Backoff: reconnect()})
	backoff := reconnect()
	for ctx.Err() == nil {
		started := time.Now()
		err := r.ListAndWatchWithContext(ctx)
		if told := reporting.told.Load(); err != nil && !errors.Is(err, io.EOF) && (told == nil || !errors.Is(err, *told)) {
			report(err)
		}
		if time.Since(started) > time.Minute {
			backoff = reconnect() // it had worked
		}
		pause := backoff.Step()
		w.metrics.WatchBackoffDuration(pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// strip is how a store strips the objects of a page. The ConfigMap is copied for it, and stays for the store.
func strip(resource string, into cache.ReflectorStore) cache.TransformFunc {
	if s, ok := into.(cache.TransformingStore); ok && resource != ConfigMaps {
		return s.Transformer()
	}
	return nil
}

// debugOnly lowers the level of whatever is logged through it.
type debugOnly struct{ slog.Handler }

func (d debugOnly) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d debugOnly) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d debugOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugOnly{d.Handler.WithAttrs(attrs)}
}
func (d debugOnly) WithGroup(name string) slog.Handler { return debugOnly{d.Handler.WithGroup(name)} }
