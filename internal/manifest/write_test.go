package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestWrite(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: metav1.Now(),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, Labels: map[string]string{"a": "yes"},
		}
	}
	var b strings.Builder
	must(t, Write(&b, []runtime.Object{
		&v1.Node{ObjectMeta: meta("", "n1")},
		&v1.ConfigMap{ObjectMeta: meta("b", "a")},
		&v1.ConfigMap{ObjectMeta: meta("a", "b"), Data: map[string]string{"k": "x\n---\ny\n"}},
		&v1.ConfigMap{ObjectMeta: meta("a", "a")},
	}))
	want := `---
apiVersion: v1
kind: ConfigMap
metadata:
  labels:
    a: "yes"
  name: a
  namespace: a
---
apiVersion: v1
data:
  k: |
    x
    ---
    y
kind: ConfigMap
metadata:
  labels:
    a: "yes"
  name: b
  namespace: a
---
apiVersion: v1
kind: ConfigMap
metadata:
  labels:
    a: "yes"
  name: a
  namespace: b
---
apiVersion: v1
kind: Node
metadata:
  labels:
    a: "yes"
  name: n1
`
	if got, _, _ := strings.Cut(b.String(), "spec:"); got != want {
		t.Errorf("got\n%s", b.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriteErrors(t *testing.T) {
	err := Write(full{}, []runtime.Object{&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}})
	if err == nil || err.Error() != "writing Node /n1: no space" {
		t.Error(err)
	}
	for _, o := range []runtime.Object{&v1.NodeList{}, &v1.Secret{}} {
		if err := Write(&bytes.Buffer{}, []runtime.Object{o}); err == nil {
			t.Errorf("%T was written", o)
		}
	}
}

// What Write writes, New reads back, whatever the strings.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		objects := randomCluster(r)
		var b bytes.Buffer
		must(t, Write(&b, objects))
		s, err := New(tree(t, "a.yaml", b.String()), nil, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, &b)
		}
		var back []runtime.Object
		for _, table := range s.tables {
			for _, e := range table.sorted {
				back = append(back, e.object)
			}
		}
		if len(back) != len(objects) {
			t.Fatalf("seed %d: %d objects became %d", seed, len(objects), len(back))
		}
		for _, want := range objects {
			var got runtime.Object
			for _, o := range back {
				if describe(o.(object)) == describe(want.(object)) {
					got = o
				}
			}
			want.(object).SetUID(got.(object).GetUID())
			if !apiequality.Semantic.DeepEqual(got, want) {
				t.Fatalf("seed %d:\ngot  %+v\nwant %+v\n%s", seed, got, want, &b)
			}
		}
		var again bytes.Buffer
		r.Shuffle(len(back), func(i, j int) { back[i], back[j] = back[j], back[i] })
		must(t, Write(&again, back))
		if again.String() != b.String() {
			t.Fatalf("seed %d: written again, shuffled, it differs:\n%s\n%s", seed, &b, &again)
		}
	}
}

// randomString is made of what YAML and JSON trip over.
func randomString(r *rand.Rand) string {
	parts := []string{
		"a", "---", "\n", "\n---\n", "\n...\n", " ", "  ", "\t", "\r", "\r\n", ":", ": ", "#", " #", "- ", "'", "\"", "\\", "{", "}", "[", "]", "&a", "*a", "!", "|", ">", "%", "@", "`",
		"yes", "no", "null", "~", "true", "0x1f", "010", "1e3", "1_000", "1:20", ".inf", "2026-01-01", "=", "<<", "<", "é", "\u00a0", "\u0085", "\u2028", "\ufeff", "\U0001f600", "\x00", "\x07", "\x7f", ",", "?", "? ",
	}
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func randomStrings(r *rand.Rand) map[string]string {
	var m map[string]string
	for range r.IntN(5) {
		if m == nil {
			m = map[string]string{}
		}
		m[randomString(r)] = randomString(r)
	}
	return m
}

func randomCluster(r *rand.Rand) []runtime.Object {
	var all []runtime.Object
	meta := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: fmt.Sprintf("o%d", i), Namespace: fmt.Sprintf("ns%d", r.IntN(3)), Labels: randomStrings(r), Annotations: randomStrings(r)}
	}
	for i := range r.IntN(4) {
		all = append(all, &v1.ConfigMap{ObjectMeta: meta(i), Data: randomStrings(r), BinaryData: map[string][]byte{"b": []byte(randomString(r))}})
	}
	for i := range r.IntN(4) {
		s := &v1.Service{ObjectMeta: meta(i), Spec: v1.ServiceSpec{ClusterIP: "192.0.2.1", Selector: randomStrings(r)}}
		for range r.IntN(3) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: randomString(r), Port: 1 + r.Int32N(65535)})
		}
		setDefaults(s)
		all = append(all, s)
	}
	for i := range r.IntN(4) {
		s := &discoveryv1.EndpointSlice{ObjectMeta: meta(i), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(1 + r.Int32N(65535))}}}
		for range r.IntN(3) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}, NodeName: ptr.To(randomString(r)), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(r.IntN(2) == 0)}})
		}
		setDefaults(s)
		all = append(all, s)
	}
	for i := range r.IntN(4) {
		m := meta(i)
		m.Namespace = ""
		all = append(all, &v1.Node{ObjectMeta: m, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: randomString(r)}}}})
	}
	return all
}
