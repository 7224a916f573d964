package manifest

import (
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// setDefaults fills what an API server fills when an object is stored, as far
// as it can be told from the object alone: no cluster IP is allocated.
func setDefaults(o object) {
	switch o := o.(type) {
	case *v1.Service:
		defaultService(o)
	case *discoveryv1.EndpointSlice:
		for i := range o.Ports {
			p := &o.Ports[i]
			if p.Name == nil {
				p.Name = ptr.To("")
			}
			if p.Protocol == nil {
				p.Protocol = ptr.To(v1.ProtocolTCP)
			}
		}
	case *endpointsV1:
		for i := range o.Subsets {
			for j := range o.Subsets[i].Ports {
				defaultProtocol(&o.Subsets[i].Ports[j].Protocol)
			}
		}
	case *v1.Pod:
		if o.Status.Phase == "" {
			o.Status.Phase = v1.PodPending
		}
		if o.Status.PodIP == "" && len(o.Status.PodIPs) > 0 {
			o.Status.PodIP = o.Status.PodIPs[0].IP
		}
		if o.Status.PodIP != "" && len(o.Status.PodIPs) == 0 {
			o.Status.PodIPs = []v1.PodIP{{IP: o.Status.PodIP}}
		}
		for i := range o.Spec.Containers {
			for j := range o.Spec.Containers[i].Ports {
				defaultProtocol(&o.Spec.Containers[i].Ports[j].Protocol)
			}
		}
	}
}

func defaultProtocol(p *v1.Protocol) {
	if *p == "" {
		*p = v1.ProtocolTCP
	}
}

func defaultService(s *v1.Service) {
	spec := &s.Spec
	if spec.Type == "" {
		spec.Type = v1.ServiceTypeClusterIP
	}
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = v1.ServiceAffinityNone
	}
	switch spec.SessionAffinity {
	case v1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case v1.ServiceAffinityClientIP:
		if spec.SessionAffinityConfig == nil || spec.SessionAffinityConfig.ClientIP == nil || spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: ptr.To(v1.DefaultClientIPServiceAffinitySeconds)}}
		}
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		defaultProtocol(&p.Protocol)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if spec.Type == v1.ServiceTypeExternalName {
		return
	}
	if spec.InternalTrafficPolicy == nil {
		spec.InternalTrafficPolicy = ptr.To(v1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == v1.ServiceTypeNodePort || spec.Type == v1.ServiceTypeLoadBalancer {
		if spec.ExternalTrafficPolicy == "" {
			spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyCluster
		}
	}
	if spec.Type == v1.ServiceTypeLoadBalancer && spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = ptr.To(true)
	}
	// The single value and the list say the same; either may have been written.
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if len(spec.IPFamilies) == 0 && spec.ClusterIP != v1.ClusterIPNone {
		for _, ip := range spec.ClusterIPs {
			spec.IPFamilies = append(spec.IPFamilies, v1.IPFamily(familyOf(ip)))
		}
	}
	if spec.IPFamilyPolicy == nil && len(spec.IPFamilies) > 0 {
		policy := v1.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) > 1 {
			policy = v1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
}

// familyOf is the family of an address, as IPFamily and AddressType both write it.
func familyOf(ip string) discoveryv1.AddressType {
	for _, c := range ip {
		if c == ':' {
			return discoveryv1.AddressTypeIPv6
		}
	}
	return discoveryv1.AddressTypeIPv4
}
