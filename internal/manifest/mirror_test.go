package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const webEndpoints = `apiVersion: v1
kind: Endpoints
metadata:
  name: web
  labels: {team: a, endpointslice.kubernetes.io/skip-mirror: "true"}
  annotations: {note: b, endpoints.kubernetes.io/last-change-trigger-time: "2026-01-01T00:00:00Z"}
subsets:
- addresses:
  - {ip: 192.0.2.1, nodeName: n1, hostname: web-0, targetRef: {kind: Pod, name: web-0, namespace: default}}
  - {ip: "2001:db8::1"}
  notReadyAddresses:
  - {ip: 192.0.2.2}
  ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]
- addresses:
  - {ip: 192.0.2.3}
  ports: [{name: http, port: 8080}]
- addresses: []
  ports: [{port: 9}]
- addresses:
  - {ip: 192.0.2.4}
  ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]
`

// show writes a slice in one line.
func show(s discoveryv1.EndpointSlice) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Labels[discoveryv1.LabelServiceName], s.AddressType)
	for _, p := range s.Ports {
		fmt.Fprintf(&b, " %s:%d/%s", *p.Name, *p.Port, *p.Protocol)
	}
	for _, e := range s.Endpoints {
		fmt.Fprintf(&b, " %s", e.Addresses[0])
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			b.WriteByte('!')
		}
	}
	return b.String()
}

func TestMirror(t *testing.T) {
	s, err := New(tree(t, "a.yaml", webEndpoints), nil, Options{})
	must(t, err)
	all := map[string]discoveryv1.EndpointSlice{}
	for _, slice := range slicesOf(t, s) {
		all[show(slice)] = slice
	}
	for _, want := range []string{
		"web IPv4 http:80/TCP dns:53/UDP 192.0.2.1 192.0.2.2! 192.0.2.4",
		"web IPv6 http:80/TCP dns:53/UDP 2001:db8::1",
		"web IPv4 http:8080/TCP 192.0.2.3",
	} {
		if _, ok := all[want]; !ok {
			t.Errorf("no slice %q", want)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d slices: %v", len(all), all)
	}
	for _, slice := range all {
		if slice.Labels["team"] != "a" || slice.Labels[discoveryv1.LabelManagedBy] != mirrorer || len(slice.Labels) != 3 ||
			len(slice.Annotations) != 1 || slice.Annotations["note"] != "b" || slice.Namespace != "default" || slice.UID == "" ||
			!metav1.IsControlledBy(&slice, &endpointsV1{ObjectMeta: metav1.ObjectMeta{UID: slice.OwnerReferences[0].UID}}) {
			t.Errorf("%+v", slice.ObjectMeta)
		}
	}
	first := all["web IPv4 http:80/TCP dns:53/UDP 192.0.2.1 192.0.2.2! 192.0.2.4"].Endpoints[0]
	if *first.NodeName != "n1" || *first.Hostname != "web-0" || first.TargetRef.Name != "web-0" || !*first.Conditions.Ready {
		t.Errorf("%+v", first)
	}
	if second := all["web IPv6 http:80/TCP dns:53/UDP 2001:db8::1"].Endpoints[0]; second.NodeName != nil || second.Hostname != nil || second.TargetRef != nil {
		t.Errorf("%+v", second)
	}
}

// A slice keeps its name when the subsets around it change, so that an edit is an edit.
func TestMirrorNamesAreStable(t *testing.T) {
	name := func(text, want string) string {
		s, err := New(tree(t, "a.yaml", text), nil, Options{})
		must(t, err)
		for _, slice := range slicesOf(t, s) {
			if strings.Contains(show(slice), want) {
				return slice.Name
			}
		}
		t.Fatalf("no slice %q", want)
		return ""
	}
	head, subsets, _ := strings.Cut(webEndpoints, "subsets:\n")
	parts := strings.SplitAfter(subsets, "- addresses:\n")
	moved := head + "subsets:\n- addresses:\n" + strings.TrimSuffix(parts[2], "- addresses: []\n  ports: [{port: 9}]\n- addresses:\n")
	if a, b := name(webEndpoints, "8080"), name(moved, "8080"); a != b {
		t.Errorf("%s became %s", a, b)
	}
}

func TestMirrorManyAndLong(t *testing.T) {
	e := &endpointsV1{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 253), Namespace: "b"}}
	var b strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&b, `,{"ip":"192.0.%d.%d"}`, i/250, i%250)
	}
	must(t, json.Unmarshal([]byte(`[{"ports":[{"port":80,"protocol":"TCP","appProtocol":"http"}],"addresses":[`+b.String()[1:]+`]}]`), &e.Subsets))
	total := 0
	names := map[string]bool{}
	for _, s := range mirror(e) {
		total += len(s.Endpoints)
		names[s.Name] = true
		if len(s.Endpoints) > maxEndpoints || len(s.Name) > 253 || *s.Ports[0].AppProtocol != "http" {
			t.Errorf("%d endpoints, name of %d", len(s.Endpoints), len(s.Name))
		}
	}
	if total != 2500 || len(names) != 3 {
		t.Errorf("%d endpoints in %d names", total, len(names))
	}
}

// EndpointSlices of a service win over its Endpoints, wherever they stand.
func TestMirrorGivesWay(t *testing.T) {
	slice := func(name, namespace, service string) string {
		return fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s, namespace: %s, labels: {kubernetes.io/service-name: %s}}\naddressType: IPv4\n", name, namespace, service)
	}
	for name, tc := range map[string]struct {
		slice string
		want  int
	}{
		"its own":              {slice("x", "default", "web"), 1},
		"of another service":   {slice("x", "default", "other"), 4},
		"of another namespace": {slice("x", "b", "web"), 4},
		"of no service":        {"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web}\naddressType: IPv4\n", 4},
	} {
		for _, file := range []string{"0.yaml", "z.yaml"} {
			s, err := New(tree(t, "a.yaml", webEndpoints, file, tc.slice), nil, Options{})
			must(t, err)
			if n := len(slicesOf(t, s)); n != tc.want {
				t.Errorf("%s in %s: %d slices, want %d", name, file, n, tc.want)
			}
		}
	}
}
