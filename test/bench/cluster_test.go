package bench

import (
	"bytes"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestCluster holds what the benchmarks rest on: the cluster is of one piece, and always the same.
func TestCluster(t *testing.T) {
	size := Full.Over(100)
	c, again := Generate(size), Generate(size)
	for what, n := range map[string][2]int{
		"services": {len(c.Services), 100}, "slices": {len(c.EndpointSlices), 100}, "nodes": {len(c.Nodes), 50}, "endpoints": {len(c.EndpointSlices[7].Endpoints), 10},
	} {
		if n[0] != n[1] {
			t.Errorf("%d %s, want %d", n[0], what, n[1])
		}
	}
	names, addresses, versions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range size.Pods {
		p := c.Pod(i)
		names[p.Namespace+"/"+p.Name], addresses[p.Status.PodIP], versions[p.ResourceVersion] = true, true, true
		if n := p.Size(); n < 6_000 || n > 10_000 {
			t.Fatalf("pod %d has %d bytes", i, n)
		}
		if !equality.Semantic.DeepEqual(p, again.Pod(i)) {
			t.Fatalf("pod %d is another one the second time", i)
		}
		if i >= size.endpoints() {
			continue
		}
		e := c.EndpointSlices[i/10].Endpoints[i%10]
		if e.Addresses[0] != p.Status.PodIP || *e.NodeName != p.Spec.NodeName || e.TargetRef.Name != p.Name || e.TargetRef.UID != p.UID || e.TargetRef.Namespace != p.Namespace {
			t.Fatalf("endpoint %v is not pod %s/%s on %s with %s", e, p.Namespace, p.Name, p.Spec.NodeName, p.Status.PodIP)
		}
	}
	for i, s := range c.Services {
		versions[s.ResourceVersion], versions[c.EndpointSlices[i].ResourceVersion] = true, true
		if !equality.Semantic.DeepEqual(c.EndpointSlices[i], again.EndpointSlices[i]) || !equality.Semantic.DeepEqual(s, again.Services[i]) {
			t.Fatalf("service %d is another one the second time", i)
		}
	}
	for _, n := range c.Nodes {
		versions[n.ResourceVersion] = true
		if len(n.Labels) != 12 || len(n.Status.Images) != 20 {
			t.Errorf("node %s has %d labels and %d images", n.Name, len(n.Labels), len(n.Status.Images))
		}
	}
	if len(names) != size.Pods || len(addresses) != size.Pods || len(versions) != size.Pods+2*size.Services+size.Nodes {
		t.Errorf("%d names, %d addresses and %d versions are distinct", len(names), len(addresses), len(versions))
	}
	if a, b := c.ChangedSlice(3, 0), c.ChangedSlice(3, 1); a.Endpoints[0].Addresses[0] == b.Endpoints[0].Addresses[0] || a.ResourceVersion == b.ResourceVersion ||
		addresses[a.Endpoints[0].Addresses[0]] || c.EndpointSlices[3].Endpoints[0].Addresses[0] != c.podIP(30) {
		t.Errorf("changed slices: %v, %v", a, b)
	}
}

// TestFullConfigMap: an API server takes no more than 1 MiB.
func TestFullConfigMap(t *testing.T) {
	c := &Cluster{Size: Full}
	for i := range Full.Services {
		c.Services = append(c.Services, &v1.Service{})
		c.Services[i].Namespace, c.Services[i].Name = namespace(i), application(i)
	}
	document := []byte(c.configMap().Data[ConfigKey])
	if n := bytes.Count(document, []byte(`"service"`)); n != Full.Services || len(document) > 1<<20 {
		t.Errorf("%d entries in %d bytes", n, len(document))
	}
}
