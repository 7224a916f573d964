package watcher

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is not used is not kept: of a pod's 10 kB some 300 bytes are left
// beside the empty fields of its struct, and an update that touches only the
// rest is no change. Objects are stripped where they are, since a reflector's
// objects are the store's own (see Source): a copy of each of 150,000 pods
// would be 190 MB of garbage at the start. Stripping twice does nothing.

// stripMeta keeps what names an object, its version, and its labels.
func (in *interner) stripMeta(m *metav1.ObjectMeta) {
	*m = metav1.ObjectMeta{Name: m.Name, Namespace: in.text(m.Namespace), ResourceVersion: m.ResourceVersion, Labels: in.labels(m.Labels)}
}

func (in *interner) service(s *v1.Service) *v1.Service {
	annotations := s.Annotations
	s.TypeMeta = metav1.TypeMeta{}
	in.stripMeta(&s.ObjectMeta)
	// Annotations are for templates, but this one is the whole object once more.
	delete(annotations, v1.LastAppliedConfigAnnotation)
	if len(annotations) > 0 {
		s.Annotations = annotations
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		p.Name, p.Protocol = in.text(p.Name), v1.Protocol(in.text(string(p.Protocol)))
	}
	s.Spec = v1.ServiceSpec{
		Ports: s.Spec.Ports, ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, Type: v1.ServiceType(in.text(string(s.Spec.Type))),
		ExternalName: s.Spec.ExternalName, SessionAffinity: v1.ServiceAffinity(in.text(string(s.Spec.SessionAffinity))),
		SessionAffinityConfig: s.Spec.SessionAffinityConfig,
		ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicy(in.text(string(s.Spec.ExternalTrafficPolicy))),
	}
	s.Status = v1.ServiceStatus{}
	return s
}

func (in *interner) slice(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.TypeMeta = metav1.TypeMeta{}
	in.stripMeta(&s.ObjectMeta)
	s.AddressType = discoveryv1.AddressType(in.text(string(s.AddressType)))
	for i := range s.Ports {
		p := &s.Ports[i]
		*p = discoveryv1.EndpointPort{Name: in.pointer(p.Name), Port: p.Port, Protocol: p.Protocol}
	}
	if cap(s.Endpoints) > len(s.Endpoints) {
		s.Endpoints = slices.Clone(s.Endpoints) // the decoder leaves room for more, up to as much again
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		c := e.Conditions
		*e = discoveryv1.Endpoint{
			Addresses: e.Addresses, Hostname: e.Hostname, NodeName: in.pointer(e.NodeName), Zone: in.pointer(e.Zone), TargetRef: e.TargetRef,
			Conditions: discoveryv1.EndpointConditions{Ready: in.bool(c.Ready), Serving: in.bool(c.Serving), Terminating: in.bool(c.Terminating)},
		}
		if t := e.TargetRef; t != nil {
			*t = v1.ObjectReference{Kind: in.text(t.Kind), Namespace: in.text(t.Namespace), Name: t.Name}
		}
	}
	return s
}

func (in *interner) node(n *v1.Node) *v1.Node {
	n.TypeMeta = metav1.TypeMeta{}
	in.stripMeta(&n.ObjectMeta)
	n.Spec = v1.NodeSpec{Unschedulable: n.Spec.Unschedulable}
	addresses, conditions := n.Status.Addresses, n.Status.Conditions
	n.Status = v1.NodeStatus{Addresses: addresses}
	for i := range addresses {
		addresses[i].Type = v1.NodeAddressType(in.text(string(addresses[i].Type)))
	}
	for _, c := range conditions {
		if c.Type == v1.NodeReady { // without its heartbeat
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionStatus(in.text(string(c.Status)))}}
		}
	}
	return n
}

func (in *interner) pod(p *v1.Pod) *v1.Pod {
	deleted := p.DeletionTimestamp
	p.TypeMeta = metav1.TypeMeta{}
	labels := p.Labels
	p.Labels = nil
	in.stripMeta(&p.ObjectMeta)
	p.Labels, p.DeletionTimestamp = in.sharedLabels(labels), deleted
	p.Spec = v1.PodSpec{NodeName: in.text(p.Spec.NodeName), HostNetwork: p.Spec.HostNetwork}
	ips, conditions := p.Status.PodIPs, p.Status.Conditions
	p.Status = v1.PodStatus{Phase: v1.PodPhase(in.text(string(p.Status.Phase))), PodIP: p.Status.PodIP, PodIPs: ips}
	if len(ips) > 0 && ips[0].IP == p.Status.PodIP {
		p.Status.PodIP = ips[0].IP // one string, not two
	}
	for _, c := range conditions {
		if c.Type == v1.PodReady {
			p.Status.Conditions = in.podReady(c.Status)
		}
	}
	return p
}

// stripConfigMap keeps one key: another key's change is none of ours. It
// makes a copy, since WithConfigMap gives us somebody else's.
func stripConfigMap(c *v1.ConfigMap, key string) *v1.ConfigMap {
	m := c.ObjectMeta
	out := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}}
	if v, ok := c.Data[key]; ok {
		out.Data = map[string]string{key: v}
	} else if b, ok := c.BinaryData[key]; ok {
		out.Data = map[string]string{key: string(b)}
	}
	return out
}
