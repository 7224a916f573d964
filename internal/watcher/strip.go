package watcher

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is not used is not kept: of a pod's 10 kB some 300 bytes are left, and
// an update that touches only the rest is no change.

// stripMeta keeps what identifies an object, and its labels.
func stripMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
}

func stripService(s *v1.Service) *v1.Service {
	out := &v1.Service{ObjectMeta: stripMeta(s.ObjectMeta), Spec: v1.ServiceSpec{
		Ports: s.Spec.Ports, ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, Type: s.Spec.Type,
		ExternalName: s.Spec.ExternalName, SessionAffinity: s.Spec.SessionAffinity,
		SessionAffinityConfig: s.Spec.SessionAffinityConfig, ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy,
	}}
	// Annotations are for templates, but this one is the whole object once more.
	if n := len(s.Annotations); n > 0 {
		if _, ok := s.Annotations[v1.LastAppliedConfigAnnotation]; !ok {
			out.Annotations = s.Annotations
		} else if n > 1 {
			out.Annotations = maps.Clone(s.Annotations)
			delete(out.Annotations, v1.LastAppliedConfigAnnotation)
		}
	}
	return out
}

func stripSlice(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: stripMeta(s.ObjectMeta), AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
}

func stripNode(n *v1.Node) *v1.Node {
	out := &v1.Node{ObjectMeta: stripMeta(n.ObjectMeta), Spec: v1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	out.Status.Addresses = n.Status.Addresses
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady { // without its heartbeat
			out.Status.Conditions = []v1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}

func stripPod(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: stripMeta(p.ObjectMeta), Spec: v1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork}}
	out.DeletionTimestamp = p.DeletionTimestamp
	out.Status = v1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			out.Status.Conditions = []v1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}

// stripConfigMap keeps one key: another key's change is none of ours.
func stripConfigMap(c *v1.ConfigMap, key string) *v1.ConfigMap {
	out := &v1.ConfigMap{ObjectMeta: stripMeta(c.ObjectMeta)}
	if v, ok := c.Data[key]; ok {
		out.Data = map[string]string{key: v}
	} else if b, ok := c.BinaryData[key]; ok {
		out.Data = map[string]string{key: string(b)}
	}
	return out
}
