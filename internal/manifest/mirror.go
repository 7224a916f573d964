package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// mirrorer is the managed-by label of slices made from Endpoints, as in a cluster.
const mirrorer = "endpointslicemirroring-controller.k8s.io"

// maxEndpoints is how many endpoints an API server allows in a slice.
const maxEndpoints = 1000

// mirror makes EndpointSlices of v1 Endpoints as the EndpointSlice mirroring
// controller does: one for each set of ports and each family. Unlike it, a
// slice is also made where the Endpoints say that they are mirrored by someone
// else: that one is not in the directory. The result is never nil.
func mirror(e *endpointsV1) []*discoveryv1.EndpointSlice {
	type group struct {
		ports  []discoveryv1.EndpointPort
		name   string
		family discoveryv1.AddressType
		all    []discoveryv1.Endpoint
	}
	var order []*group
	byName := map[string]*group{}
	add := func(ports []discoveryv1.EndpointPort, portsID string, a v1.EndpointAddress, ready bool) {
		family := familyOf(a.IP)
		name := strings.ToLower(string(family)) + "-" + portsID
		g := byName[name]
		if g == nil {
			g = &group{ports: ports, name: name, family: family}
			byName[name] = g
			order = append(order, g)
		}
		endpoint := discoveryv1.Endpoint{
			Addresses:  []string{a.IP},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)},
			TargetRef:  a.TargetRef.DeepCopy(),
		}
		if a.NodeName != nil {
			endpoint.NodeName = ptr.To(*a.NodeName)
		}
		if a.Hostname != "" {
			endpoint.Hostname = ptr.To(a.Hostname)
		}
		g.all = append(g.all, endpoint)
	}
	for _, subset := range e.Subsets {
		ports := make([]discoveryv1.EndpointPort, len(subset.Ports))
		for i, p := range subset.Ports {
			ports[i] = discoveryv1.EndpointPort{Name: ptr.To(p.Name), Port: ptr.To(p.Port), Protocol: ptr.To(p.Protocol), AppProtocol: p.AppProtocol}
		}
		id := portsID(ports)
		for _, a := range subset.Addresses {
			add(ports, id, a, true)
		}
		for _, a := range subset.NotReadyAddresses {
			add(ports, id, a, false)
		}
	}
	slices := []*discoveryv1.EndpointSlice{}
	for _, g := range order {
		for i := 0; i*maxEndpoints < len(g.all); i++ {
			name := g.name
			if i > 0 {
				name = fmt.Sprintf("%s-%d", name, i)
			}
			s := &discoveryv1.EndpointSlice{
				ObjectMeta:  mirrorMeta(e, name),
				AddressType: g.family,
				Ports:       g.ports,
				Endpoints:   g.all[i*maxEndpoints : min((i+1)*maxEndpoints, len(g.all))],
			}
			k, _ := kindOf(s)
			s.UID = uid(k, s)
			slices = append(slices, s)
		}
	}
	return slices
}

// portsID tells sets of ports apart, so that a slice keeps its name when
// subsets come, go or change places.
func portsID(ports []discoveryv1.EndpointPort) string {
	raw, err := json.Marshal(ports)
	if err != nil {
		return "" // strings and numbers do not fail
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:4])
}

func mirrorMeta(e *endpointsV1, suffix string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: e.Name + "-" + suffix, Namespace: e.Namespace, CreationTimestamp: e.CreationTimestamp,
		Labels: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Endpoints", Name: e.Name, UID: e.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	if over := len(meta.Name) - 253; over > 0 {
		meta.Name = e.Name[:len(e.Name)-over] + "-" + suffix
	}
	for k, v := range e.Labels {
		meta.Labels[k] = v
	}
	delete(meta.Labels, discoveryv1.LabelSkipMirror)
	meta.Labels[discoveryv1.LabelServiceName] = e.Name
	meta.Labels[discoveryv1.LabelManagedBy] = mirrorer
	for k, v := range e.Annotations {
		if k == v1.EndpointsLastChangeTriggerTime || k == v1.LastAppliedConfigAnnotation {
			continue
		}
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[k] = v
	}
	return meta
}
