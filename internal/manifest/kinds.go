package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// object is what every API object is.
type object interface {
	runtime.Object
	metav1.Object
}

// endpointsV1 is deprecated in favour of EndpointSlice, and still what many
// a manifest holds: it is read in order to be turned into slices.
//
//lint:ignore SA1019 see above
type endpointsV1 = v1.Endpoints

// kind is one kind of object that is read.
type kind struct {
	apiVersion string
	name       string
	resource   string // of the list-watch that shows it; Endpoints show as endpointslices
	namespaced bool
}

// empty is a new object of the kind.
func (k kind) empty() object {
	switch k.name {
	case "ConfigMap":
		return &v1.ConfigMap{}
	case "Service":
		return &v1.Service{}
	case "Endpoints":
		return &endpointsV1{}
	case "Node":
		return &v1.Node{}
	case "Pod":
		return &v1.Pod{}
	default:
		return &discoveryv1.EndpointSlice{}
	}
}

// kinds are the kinds that are read; every other one is skipped.
func kinds() []kind {
	return []kind{
		{apiVersion: "v1", name: "ConfigMap", resource: "configmaps", namespaced: true},
		{apiVersion: "v1", name: "Service", resource: "services", namespaced: true},
		{apiVersion: "discovery.k8s.io/v1", name: "EndpointSlice", resource: "endpointslices", namespaced: true},
		{apiVersion: "v1", name: "Node", resource: "nodes"},
		{apiVersion: "v1", name: "Pod", resource: "pods", namespaced: true},
		{apiVersion: "v1", name: "Endpoints", resource: "endpointslices", namespaced: true},
	}
}

// kindNamed is the kind of a document's apiVersion and kind.
func kindNamed(apiVersion, name string) (kind, bool) {
	for _, k := range kinds() {
		if k.name == name && k.apiVersion == apiVersion {
			return k, true
		}
	}
	return kind{}, false
}

// listNamed tells whether a document is a list that is read, and the kind of
// its items: an empty kind when each item says its own.
func listNamed(apiVersion, name string) (kind, bool) {
	item, ok := strings.CutSuffix(name, "List")
	if !ok {
		return kind{}, false
	}
	if item == "" {
		return kind{}, apiVersion == "v1"
	}
	return kindNamed(apiVersion, item)
}

// otherVersion is the kind that a document would be, were its apiVersion of
// the version that is read.
func otherVersion(apiVersion, name string) (kind, bool) {
	group, _, grouped := strings.Cut(apiVersion, "/")
	name = strings.TrimSuffix(name, "List")
	for _, k := range kinds() {
		g, _, ok := strings.Cut(k.apiVersion, "/")
		if k.name != name || apiVersion == k.apiVersion {
			continue
		}
		if grouped == ok && (!ok || g == group) {
			return k, true
		}
	}
	return kind{}, false
}

// kindOf is the kind of a typed object.
func kindOf(o runtime.Object) (kind, bool) {
	var name string
	switch o.(type) {
	case *v1.ConfigMap:
		name = "ConfigMap"
	case *v1.Service:
		name = "Service"
	case *endpointsV1:
		name = "Endpoints"
	case *v1.Node:
		name = "Node"
	case *v1.Pod:
		name = "Pod"
	case *discoveryv1.EndpointSlice:
		name = "EndpointSlice"
	}
	for _, k := range kinds() {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}
