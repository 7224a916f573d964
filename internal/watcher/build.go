//lint:file-ignore SA1019 the documented API of this package is in terms of v1.Endpoints; they are made from EndpointSlices and never watched

package watcher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lb-render/lb-render/internal/types"
)

// run builds once, then after every change, until ctx is done. It owns all that is built.
func (w *Watcher) run(ctx context.Context) {
	w.Lock()
	w.status.Synced = true
	w.Unlock()
	started := time.Now()
	w.build(true) // the first one is not delayed
	w.metrics.WatchInit(time.Since(started))
	close(w.built)

	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	var first time.Time // of the changes that are being gathered
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.stores.wake:
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			timer.Reset(min(w.opts.quiet, first.Add(w.opts.maxWait).Sub(now)))
		case <-w.rebuild:
			w.build(true)
		case <-timer.C:
			first = time.Time{}
			w.build(false)
		}
	}
}

// build brings everything up to date with the stores and publishes the
// ClusterConfig if it differs from the last. all does it for every service.
func (w *Watcher) build(all bool) {
	d := w.stores.take()
	w.apply(d, all)
	if w.authored == nil {
		w.joined = map[string]*joined{}
		return // no document was ever valid: there is nothing to serve by
	}
	if w.unsaved {
		w.saveLastValid()
	}
	next, differs := w.resolve(all, len(d.nodes) > 0, d.services)
	w.joined = map[string]*joined{}
	if !differs {
		w.metrics.WatchClusterConfig("noop")
		return
	}
	w.Lock()
	w.ClusterConfig = next
	w.Unlock()
	if w.described != w.authored {
		w.describe(next)
		w.described = w.authored
	}
	w.metrics.WatchClusterConfig("publish")
	since := d.since
	if since.IsZero() {
		since = time.Now()
	}
	w.publish(Update{next, since})
}

// publish puts u in the channel, in the place of one that was not taken yet.
func (w *Watcher) publish(u Update) {
	select {
	case old := <-w.updates:
		if old.Since.Before(u.Since) {
			u.Since = old.Since
		}
	default:
	}
	w.updates <- u // nobody else sends
}

// describe keeps the info metric current: one series, whatever the number of configs there were.
func (w *Watcher) describe(c *types.ClusterConfig) {
	doc, err := c.MarshalAuthored()
	if err != nil {
		return
	}
	sum := sha256.Sum256(doc)
	sha := hex.EncodeToString(sum[:8])
	if sha == w.lastSHA {
		return
	}
	w.lastSHA = sha
	defs := 0
	for _, ports := range c.Config {
		defs += len(ports)
	}
	for _, ports := range c.Config6 {
		defs += len(ports)
	}
	w.metrics.ClusterConfigInfo(sha, fmt.Sprintf("%d VIPs, %d entries", len(c.VIPs), defs))
}

// apply brings the documented maps and what is derived from them up to date.
func (w *Watcher) apply(d dirty, all bool) {
	s := w.stores
	s.mu.Lock()
	if all {
		for k := range s.services.objects {
			d.services[k] = struct{}{}
		}
		for k := range s.byService {
			d.services[k] = struct{}{}
		}
	}
	services := make(map[string]*v1.Service, len(d.services))
	slicesOf := make(map[string][]*discoveryv1.EndpointSlice, len(d.services))
	for k := range d.services {
		services[k] = s.services.objects[k]
		for _, slice := range s.byService[k] {
			slicesOf[k] = append(slicesOf[k], slice)
		}
	}
	pods := make(map[string]*v1.Pod, len(d.pods))
	for k := range d.pods {
		pods[k] = s.pods.objects[k]
	}
	nodes := make(map[string]*v1.Node, len(d.nodes))
	for k := range d.nodes {
		nodes[k] = s.nodes.objects[k]
	}
	configMap := s.configMaps.objects[w.ConfigMapNamespace+"/"+w.ConfigMapName] // the same object unless our key has changed
	if w.opts.configMap != nil {
		configMap = w.opts.configMap
	}
	s.mu.Unlock()

	for k := range d.gone {
		delete(w.warnings, k)
	}
	endpoints := make(map[string]*v1.Endpoints, len(services))
	for k := range services {
		j := w.join(slicesOf[k])
		endpoints[k] = j.endpoints(k)
		if !all {
			w.joined[k] = j
		}
	}
	w.Lock()
	defer w.Unlock()
	for k, svc := range services {
		if svc == nil {
			delete(w.AllServices, k)
		} else {
			w.AllServices[k] = svc
		}
		if len(slicesOf[k]) == 0 {
			delete(w.AllEndpoints, k)
		} else {
			w.AllEndpoints[k] = endpoints[k]
		}
	}
	w.applyPods(pods)
	if len(nodes) > 0 {
		w.applyNodes(nodes)
	}
	if !w.configMapRead || configMap != w.ConfigMap {
		w.ConfigMap, w.configMapRead = configMap, true
		w.applyConfigMap(configMap)
	}
}

// applyPods updates AllPods and AllPodsByNode; a nil pod is gone.
func (w *Watcher) applyPods(pods map[string]*v1.Pod) {
	touched := map[string]bool{}
	for k, p := range pods {
		if old := w.AllPods[k]; old != nil {
			touched[old.Spec.NodeName] = true
			delete(w.AllPods, k)
		}
		if p == nil || w.opts.pods == PodsNode && p.Spec.NodeName != w.opts.node {
			continue
		}
		w.AllPods[k] = p
		touched[p.Spec.NodeName] = true
	}
	delete(touched, "") // not scheduled
	if len(touched) == 0 {
		return
	}
	// Fresh slices: a reader may still hold the old ones.
	byNode := make(map[string][]*v1.Pod, len(touched))
	for node := range touched {
		for _, p := range w.AllPodsByNode[node] {
			if w.AllPods[key(p)] == p {
				byNode[node] = append(byNode[node], p)
			}
		}
	}
	for k, p := range pods {
		if p != nil && w.AllPods[k] == p && p.Spec.NodeName != "" {
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
		}
	}
	for node := range touched {
		if len(byNode[node]) == 0 {
			delete(w.AllPodsByNode, node)
			continue
		}
		slices.SortFunc(byNode[node], func(a, b *v1.Pod) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
		w.AllPodsByNode[node] = slices.CompactFunc(byNode[node], func(a, b *v1.Pod) bool { return a == b })
	}
}
