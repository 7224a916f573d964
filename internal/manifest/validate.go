package manifest

import (
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// validate checks what an API server guarantees and what readers of its
// objects rely on: names, ports, protocols and addresses. It is no full validation.
func validate(o object, k kind) []fault {
	c := &checks{}
	if o.GetName() == "" {
		message := "missing; every object needs a name"
		if o.GetGenerateName() != "" {
			message = "missing; generateName is for API servers, give a name"
		}
		c.bad(message, "metadata", "name")
	} else {
		c.name(validation.IsDNS1123Subdomain(o.GetName()), o.GetName(), "metadata", "name")
	}
	if k.namespaced {
		c.name(validation.IsDNS1123Label(o.GetNamespace()), o.GetNamespace(), "metadata", "namespace")
	}
	switch o := o.(type) {
	case *v1.Service:
		c.service(o)
	case *discoveryv1.EndpointSlice:
		c.slice(o)
	case *endpointsV1:
		c.endpoints(o)
	}
	return c.faults
}

type checks struct{ faults []fault }

func (c *checks) bad(message string, path ...any) {
	c.faults = append(c.faults, fault{path: path, message: message})
}

func (c *checks) name(wrong []string, name string, path ...any) {
	if len(wrong) > 0 {
		c.bad(fmt.Sprintf("%q is not a name: %s", name, strings.Join(wrong, "; ")), path...)
	}
}

func (c *checks) port(n int32, path ...any) {
	if n < 1 || n > 65535 {
		c.bad(fmt.Sprintf("%d is not a port; write one from 1 to 65535", n), path...)
	}
}

func (c *checks) protocol(p v1.Protocol, path ...any) {
	switch p {
	case v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
	default:
		c.bad(fmt.Sprintf("%q is not a protocol; write TCP, UDP or SCTP", p), path...)
	}
}

// address checks an IP address. No mapped addresses: the same host would have two names.
func (c *checks) address(ip string, path ...any) bool {
	a, err := netip.ParseAddr(ip)
	if err == nil && a.Zone() == "" && !a.Is4In6() {
		return true
	}
	c.bad(fmt.Sprintf("%q is not an IP address; write it without zone, prefix length or leading zeros", ip), path...)
	return false
}

func (c *checks) service(s *v1.Service) {
	for i, p := range s.Spec.Ports {
		c.port(p.Port, "spec", "ports", i, "port")
		c.protocol(p.Protocol, "spec", "ports", i, "protocol")
		if p.NodePort != 0 {
			c.port(p.NodePort, "spec", "ports", i, "nodePort")
		}
	}
	for i, ip := range s.Spec.ClusterIPs {
		if ip != v1.ClusterIPNone && ip != "" {
			c.address(ip, "spec", "clusterIPs", i)
		}
	}
}

func (c *checks) slice(s *discoveryv1.EndpointSlice) {
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN:
	case "":
		c.bad("missing; write IPv4, IPv6 or FQDN", "addressType")
	default:
		c.bad(fmt.Sprintf("%q is not an address type; write IPv4, IPv6 or FQDN", s.AddressType), "addressType")
	}
	for i, p := range s.Ports {
		if p.Port != nil {
			c.port(*p.Port, "ports", i, "port")
		}
		c.protocol(*p.Protocol, "ports", i, "protocol")
	}
	if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
		return
	}
	for i, e := range s.Endpoints {
		for j, ip := range e.Addresses {
			if c.address(ip, "endpoints", i, "addresses", j) && familyOf(ip) != s.AddressType {
				c.bad(fmt.Sprintf("%s is not of the slice's addressType %s; put it in a slice of its own", ip, s.AddressType), "endpoints", i, "addresses", j)
			}
		}
	}
}

func (c *checks) endpoints(e *endpointsV1) {
	for i, subset := range e.Subsets {
		for j, p := range subset.Ports {
			c.port(p.Port, "subsets", i, "ports", j, "port")
			c.protocol(p.Protocol, "subsets", i, "ports", j, "protocol")
		}
		for j, a := range subset.Addresses {
			c.address(a.IP, "subsets", i, "addresses", j, "ip")
		}
		for j, a := range subset.NotReadyAddresses {
			c.address(a.IP, "subsets", i, "notReadyAddresses", j, "ip")
		}
	}
}
