package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOrderOfObjectsDoesNotMatter renders random clusters, each with its objects
// in different files and orders, through all shipped templates: the bytes are equal.
func TestOrderOfObjectsDoesNotMatter(t *testing.T) {
	templates, err := filepath.Abs("../../templates")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 7))
		objects := randomManifests(rng)
		var want string
		for round := range 3 {
			dir := t.TempDir()
			config := "cluster: {manifests: m}\ntemplateDir: " + templates + "\nparams: {interface: eth0}\noutputs:\n" +
				"  - name: all\n    files:\n"
			for i, name := range []string{"haproxy.cfg", "keepalived-vrrp.conf", "keepalived-ipvs.conf", "ipvs.rules"} {
				config += fmt.Sprintf("      - {name: f%d, template: %s.tmpl, path: /tmp/f%d, allowEmpty: true}\n", i, name, i)
			}
			if err := os.WriteFile(filepath.Join(dir, "lb-render.yaml"), []byte(config+"stateDir: s\nruntimeDir: r\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "m"), 0o755); err != nil {
				t.Fatal(err)
			}
			rng.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
			files := make([][]string, 1+round)
			for _, o := range objects {
				i := rng.IntN(len(files))
				files[i] = append(files[i], o)
			}
			for i, f := range files {
				if err := os.WriteFile(filepath.Join(dir, "m", fmt.Sprintf("%d.yaml", i)), []byte("---\n"+strings.Join(f, "---\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"render", "-c", filepath.Join(dir, "lb-render.yaml")}, program{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }})
			if code != 0 || stdout.Len() < 1000 {
				t.Fatalf("exit code %d\n%s\n%s", code, stderr.String(), stdout.String())
			}
			// The warnings too are the same, and in the same order.
			got := stdout.String() + stderr.String()
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("seed %d, round %d: got\n%s\nwant\n%s", seed, round, got, want)
			}
		}
	}
}

// randomManifests has overlapping slices that disagree about endpoints, two
// families, nodes with the same address, and entries that lead nowhere.
func randomManifests(rng *rand.Rand) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	conditions := []string{"{ready: true}", "{}", "{ready: false, serving: true, terminating: true}", "{ready: false}"}
	entries, entries6 := "", ""
	for s := range 6 {
		add("apiVersion: v1\nkind: Service\nmetadata: {name: s%d, labels: {l%d: a}, annotations: {b: c}}\nspec: {ports: [{name: a, port: 80}, {name: b, port: 53, protocol: UDP}]}\n", s, s)
		entries += fmt.Sprintf("        192.0.2.%d: {80: {namespace: default, service: s%d, portName: a}, 53: {namespace: default, service: s%d, portName: b, ipvsOptions: {scheduler: mh}}}\n", s+1, s, rng.IntN(8))
		entries6 += fmt.Sprintf("        2001:db8::%d: {80: {namespace: default, service: s%d, portName: a}}\n", s+1, s)
		for i := range 3 {
			family, pattern := "IPv4", "203.0.113.%d"
			if i == 2 {
				family, pattern = "IPv6", `"2001:db8:1::%d"`
			}
			eps := ""
			for range 1 + rng.IntN(5) {
				eps += fmt.Sprintf("  - {addresses: [%s], conditions: %s, nodeName: n%d", fmt.Sprintf(pattern, rng.IntN(5)+1), conditions[rng.IntN(4)], rng.IntN(4))
				if rng.IntN(2) == 0 {
					eps += fmt.Sprintf(", targetRef: {kind: Pod, name: p%d}", rng.IntN(3))
				}
				eps += "}\n"
			}
			add("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s%d-%d, labels: {kubernetes.io/service-name: s%d}}\naddressType: %s\n"+
				"ports: [{name: a, port: %d}, {name: b, port: 5353, protocol: UDP}]\nendpoints:\n%s", s, i, s, family, 8080+rng.IntN(2), eps)
		}
	}
	for i := range 4 {
		add("apiVersion: v1\nkind: Node\nmetadata: {name: n%d}\nstatus: {addresses: [{type: InternalIP, address: 198.51.100.%d}, {type: InternalIP, address: \"2001:db8:2::%d\"}], conditions: [{type: Ready, status: \"True\"}]}\n",
			i, rng.IntN(3)+1, i+1)
	}
	add("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: platform-load-balancer, name: lb-config}\ndata:\n  green: |\n    config:\n%s    config6:\n%s", entries, entries6)
	return out
}
