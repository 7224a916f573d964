package manifest

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestServiceDefaults(t *testing.T) {
	cluster := v1.ServiceInternalTrafficPolicyCluster
	plain := v1.ServiceSpec{
		Type: v1.ServiceTypeClusterIP, SessionAffinity: v1.ServiceAffinityNone, InternalTrafficPolicy: &cluster,
	}
	with := func(change func(*v1.ServiceSpec)) v1.ServiceSpec {
		s := *plain.DeepCopy()
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		spec string
		want v1.ServiceSpec
	}{
		"empty": {"{}", plain},
		"ports": {`{"ports":[{"port":80},{"port":81,"protocol":"UDP","targetPort":"web"},{"port":82,"targetPort":8082}]}`,
			with(func(s *v1.ServiceSpec) {
				s.Ports = []v1.ServicePort{
					{Protocol: v1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(80)},
					{Protocol: v1.ProtocolUDP, Port: 81, TargetPort: intstr.FromString("web")},
					{Protocol: v1.ProtocolTCP, Port: 82, TargetPort: intstr.FromInt32(8082)},
				}
			})},
		"client IP": {`{"sessionAffinity":"ClientIP"}`, with(func(s *v1.ServiceSpec) {
			s.SessionAffinity = v1.ServiceAffinityClientIP
			s.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(10800))}}
		})},
		"client IP with a timeout": {`{"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":5}}}`, with(func(s *v1.ServiceSpec) {
			s.SessionAffinity = v1.ServiceAffinityClientIP
			s.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(5))}}
		})},
		"node port": {`{"type":"NodePort"}`, with(func(s *v1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy = v1.ServiceTypeNodePort, v1.ServiceExternalTrafficPolicyCluster
		})},
		"load balancer": {`{"type":"LoadBalancer","externalTrafficPolicy":"Local"}`, with(func(s *v1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy = v1.ServiceTypeLoadBalancer, v1.ServiceExternalTrafficPolicyLocal
			s.AllocateLoadBalancerNodePorts = ptr.To(true)
		})},
		"external name": {`{"type":"ExternalName","externalName":"example.org"}`, v1.ServiceSpec{
			Type: v1.ServiceTypeExternalName, ExternalName: "example.org", SessionAffinity: v1.ServiceAffinityNone,
		}},
		"headless": {`{"clusterIP":"None"}`, with(func(s *v1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "None", []string{"None"}
		})},
		"cluster IP": {`{"clusterIP":"192.0.2.1"}`, with(func(s *v1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "192.0.2.1", []string{"192.0.2.1"}
			s.IPFamilies, s.IPFamilyPolicy = []v1.IPFamily{v1.IPv4Protocol}, ptr.To(v1.IPFamilyPolicySingleStack)
		})},
		"dual stack": {`{"clusterIPs":["2001:db8::1","192.0.2.1"]}`, with(func(s *v1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "2001:db8::1", []string{"2001:db8::1", "192.0.2.1"}
			s.IPFamilies, s.IPFamilyPolicy = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}, ptr.To(v1.IPFamilyPolicyRequireDualStack)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			got := one[*v1.Service](t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":`+tc.spec+`}`)
			if !apiequality.Semantic.DeepEqual(got.Spec, tc.want) {
				t.Fatalf("got  %+v\nwant %+v", got.Spec, tc.want)
			}
		})
	}
}

func TestEndpointSliceDefaults(t *testing.T) {
	s := one[*discoveryv1.EndpointSlice](t, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"a"},"addressType":"IPv4",
		"ports":[{"port":80},{"name":"dns","protocol":"UDP"}],"endpoints":[{"addresses":["192.0.2.1"]}]}`)
	want := []discoveryv1.EndpointPort{
		{Name: ptr.To(""), Protocol: ptr.To(v1.ProtocolTCP), Port: ptr.To(int32(80))},
		{Name: ptr.To("dns"), Protocol: ptr.To(v1.ProtocolUDP)},
	}
	if !apiequality.Semantic.DeepEqual(s.Ports, want) {
		t.Errorf("ports: %+v", s.Ports)
	}
	// The API server leaves these to the reader.
	if c := s.Endpoints[0].Conditions; c.Ready != nil || c.Serving != nil || c.Terminating != nil || s.Endpoints[0].NodeName != nil {
		t.Errorf("conditions: %+v", s.Endpoints[0])
	}
}

func TestPodDefaults(t *testing.T) {
	p := one[*v1.Pod](t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}]},"status":{"podIP":"192.0.2.1"}}`)
	if p.Status.Phase != v1.PodPending || len(p.Status.PodIPs) != 1 || p.Status.PodIPs[0].IP != "192.0.2.1" || p.Spec.Containers[0].Ports[0].Protocol != v1.ProtocolTCP {
		t.Errorf("%+v", p)
	}
	p = one[*v1.Pod](t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{"phase":"Running","podIPs":[{"ip":"2001:db8::1"}]}}`)
	if p.Status.Phase != v1.PodRunning || p.Status.PodIP != "2001:db8::1" {
		t.Errorf("%+v", p.Status)
	}
}
