package bench

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// namespace and application of the i-th service. A namespace has fifty of them.
func namespace(i int) string   { return fmt.Sprintf("team-%03d", i/50) }
func application(i int) string { return fmt.Sprintf("app-%05d", i) }

func (c *Cluster) service(i int) *v1.Service {
	name := application(i)
	s := &v1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta("service", i, namespace(i), name, version(c.Size.serviceVersion(i))),
		Spec: v1.ServiceSpec{
			Ports:                 []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("http")}},
			Selector:              map[string]string{"app": name},
			ClusterIP:             address(serviceNet, i),
			ClusterIPs:            []string{address(serviceNet, i)},
			Type:                  v1.ServiceTypeClusterIP,
			SessionAffinity:       v1.ServiceAffinityNone,
			IPFamilies:            []v1.IPFamily{v1.IPv4Protocol},
			IPFamilyPolicy:        new(v1.IPFamilyPolicySingleStack),
			InternalTrafficPolicy: new(v1.ServiceInternalTrafficPolicyCluster),
		},
	}
	if hasMetrics(i) {
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "metrics", Protocol: v1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromInt32(9090)})
	}
	s.Labels = map[string]string{
		"app": name, "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": namespace(i), "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "service-2.14.1",
	}
	s.Annotations = map[string]string{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace(i)}
	if i%3 == 0 { // a third is not from Helm, but applied: the whole object once more
		s.Annotations = map[string]string{v1.LastAppliedConfigAnnotation: fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{},"labels":{"app":%q},"name":%[1]q,"namespace":%q},"spec":{"ports":[{"name":"http","port":80,"targetPort":"http"}],"selector":{"app":%[1]q}}}`+"\n", name, namespace(i))}
	}
	s.ManagedFields = []metav1.ManagedFieldsEntry{managed("helm", "v1", "", s.CreationTimestamp, map[string]any{
		"metadata": map[string]any{"annotations": s.Annotations, "labels": s.Labels},
		"spec":     map[string]any{"ports": s.Spec.Ports, "selector": s.Spec.Selector, "sessionAffinity": "", "type": ""},
	})}
	return s
}

// hasMetrics: every fourth service has a second port.
func hasMetrics(i int) bool { return i%4 == 0 }

func (c *Cluster) endpointSlice(i int) *discoveryv1.EndpointSlice {
	service, name := uid("service", i), application(i)
	s := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  meta("slice", i, namespace(i), name+"-"+suffix(i, 5), version(c.Size.serviceVersion(i)+1)),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(v1.ProtocolTCP), Port: new(int32(8080))}},
	}
	if hasMetrics(i) {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("metrics"), Protocol: new(v1.ProtocolTCP), Port: new(int32(9090))})
	}
	s.GenerateName, s.Generation = name+"-", int64(10+i%90)
	s.Labels = map[string]string{
		// The controller copies those of the service, and adds its own.
		"app": name, "app.kubernetes.io/name": name, "app.kubernetes.io/part-of": namespace(i), "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "service-2.14.1",
		discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
	}
	s.Annotations = map[string]string{v1.EndpointsLastChangeTriggerTime: s.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z")}
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: service, Controller: new(true), BlockOwnerDeletion: new(true)}}
	for k := range c.Size.EndpointsPerService {
		pod := i*c.Size.EndpointsPerService + k
		leaving := i%50 == 0 && k > 0 && k == c.Size.EndpointsPerService-1 // here and there one drains
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{c.podIP(pod)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(!leaving), Serving: new(true), Terminating: new(leaving)},
			NodeName:   new(nodeName(c.nodeOf(pod))),
			Zone:       new(zone(c.nodeOf(pod))),
			TargetRef:  &v1.ObjectReference{Kind: "Pod", Namespace: namespace(i), Name: c.podName(pod), UID: uid("pod", pod)},
		})
	}
	s.ManagedFields = []metav1.ManagedFieldsEntry{managed("kube-controller-manager", "discovery.k8s.io/v1", "", s.CreationTimestamp, map[string]any{
		"addressType": "", "endpoints": []any{""}, "ports": []any{""},
		"metadata": map[string]any{"annotations": s.Annotations, "generateName": "", "labels": s.Labels, "ownerReferences": s.OwnerReferences},
	})}
	return s
}

// ChangedSlice is slice i with another address, of MovedAddress(n), in the place of its first
// endpoint, and a newer resource version; n is below a million.
func (c *Cluster) ChangedSlice(i, n int) *discoveryv1.EndpointSlice {
	s := c.EndpointSlices[i].DeepCopy()
	s.Endpoints[0].Addresses[0] = MovedAddress(n)
	s.ResourceVersion = version(c.Size.objects() + 1 + n)
	s.Generation += int64(1 + n)
	return s
}

// MovedAddress is the n-th address that no pod has.
func MovedAddress(n int) string { return address(movedNet, n) }
