package manifest

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	cmA  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	cmB  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`
	cmAB = "ConfigMap default/a, ConfigMap default/b"
)

func TestDecode(t *testing.T) {
	yamlA := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	yamlB := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n"
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                     {"", ""},
		"comments only":               {"# a\n---\n# b\n---\n\n", ""},
		"null":                        {"---\nnull\n---\n~\n", ""},
		"byte order mark":             {"\xef\xbb\xbf" + yamlA, "ConfigMap default/a"},
		"byte order mark, JSON":       {"\xef\xbb\xbf" + cmA + cmB, cmAB},
		"byte order mark, separator":  {"\xef\xbb\xbf---\n" + yamlA, "ConfigMap default/a"},
		"two documents":               {yamlA + "---\n" + yamlB, cmAB},
		"separator first and last":    {"---\n" + yamlA + "---\n" + yamlB + "---\n", cmAB},
		"CRLF":                        {strings.ReplaceAll(yamlA+"---\n"+yamlB, "\n", "\r\n"), cmAB},
		"separator with comment":      {yamlA + "--- # next\n" + yamlB, cmAB},
		"document on the separator":   {"--- " + cmA + "\n--- " + cmB + "\n", cmAB},
		"document end marker":         {yamlA + "...\n%YAML 1.1\n---\n" + yamlB, cmAB},
		"directive":                   {"%YAML 1.1\n---\n" + yamlA, "ConfigMap default/a"},
		"a line in a block scalar":    {yamlA + "data:\n  k: |\n    ---\n    x\n---\n" + yamlB, cmAB},
		"JSON between separators":     {"---\n" + cmA + "\n---\n" + cmB, cmAB},
		"concatenated JSON":           {cmA + cmB, cmAB},
		"JSON lines":                  {cmA + "\n" + cmB + "\n", cmAB},
		"JSON, then YAML":             {cmA + "\n---\n" + yamlB, cmAB},
		"brackets in a JSON string":   {strings.Replace(cmA, `"a"`, `"a","annotations":{"x":"}]\"{"}`, 1) + cmB, cmAB},
		"flow style":                  {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "ConfigMap default/a"},
		"flow style like JSON":        {"{\"apiVersion\": v1, # or so\n \"kind\": ConfigMap, metadata: {name: a}}", "ConfigMap default/a"},
		"list":                        {"apiVersion: v1\nkind: List\nitems:\n- " + indent(yamlA) + "- " + indent(yamlB), cmAB},
		"list as kubectl prints it":   {"apiVersion: v1\nitems:\n- " + indent(yamlA) + "- " + indent(yamlB) + "kind: List\nmetadata:\n  resourceVersion: \"\"\n", cmAB},
		"list, indented":              {"apiVersion: v1\nkind: List\nitems:\n  - " + indent(indent(yamlA)) + "  # and\n\n  - " + indent(indent(yamlB)), cmAB},
		"list, dash on its own line":  {"apiVersion: v1\nkind: List\nitems:\n-\n  " + indent(yamlA) + "-\n  " + indent(yamlB), cmAB},
		"list in flow style":          {"apiVersion: v1\nkind: List\nitems: [" + cmA + "," + cmB + "]\n", cmAB},
		"list with an anchor":         {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: &v v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: *v, kind: ConfigMap, metadata: {name: b}}\n", cmAB},
		"list in JSON":                {`{"apiVersion":"v1","kind":"List","items":[` + cmA + `,` + cmB + `]}`, cmAB},
		"list of nothing":             {"apiVersion: v1\nkind: List\nitems: []\n", ""},
		"list without items":          {`{"apiVersion":"v1","kind":"List"}`, ""},
		"list with null":              {`{"apiVersion":"v1","kind":"List","items":[null,` + cmA + `]}`, "ConfigMap default/a"},
		"list in a list":              {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + cmA + `]},` + cmB + `]}`, cmAB},
		"typed list":                  {`{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, cmAB},
		"typed list in YAML":          {"apiVersion: v1\nitems:\n- metadata:\n    name: a\n- metadata:\n    name: b\nkind: ConfigMapList\n", cmAB},
		"list of another kind":        {`{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"a"}}]}`, ""},
		"unknown kinds":               {"apiVersion: apps/v1\nkind: Deployment\nspec: 7\n---\n" + yamlA + "---\napiVersion: v1\nkind: Secret\n", "ConfigMap default/a"},
		"known kind of another group": {"apiVersion: serving.knative.dev/v1\nkind: Service\nspec: 7\n", ""},
		"unknown field":               {yamlA + "future:\n  x: 1\n", "ConfigMap default/a"},
		"unknown field in JSON":       {strings.Replace(cmA, `"kind"`, `"future":{"x":1},"kind"`, 1), "ConfigMap default/a"},
		"a node has no namespace":     {"apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  namespace: x\n", "Node n1"},
		"YAML 1.1, as kubectl":        {yamlA + "immutable: yes\n", "ConfigMap default/a"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Decode("a.yaml", []byte(tc.text))
			if err != nil || names(objects) != tc.want {
				t.Fatalf("%s, %v; want %s\n%s", names(objects), err, tc.want, tc.text)
			}
		})
	}
}

// indent moves all lines but the first two columns to the right, to stand behind a dash.
func indent(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

func TestDecodeSetsKind(t *testing.T) {
	o := one[*v1.ConfigMap](t, cmA)
	if o.APIVersion != "v1" || o.Kind != "ConfigMap" || o.UID == "" || o.ResourceVersion != "" {
		t.Fatalf("%+v", o)
	}
}

func TestDecodeErrors(t *testing.T) {
	svc := "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n"
	for name, tc := range map[string]struct{ text, want string }{
		"wrong type": {
			"# first\n\n---\n" + configMap("a", "x") + "---\n\n" + svc + "  - port: 80\n  - port: http\n",
			`a.yaml: document 2 (line 20): Service web: spec.ports[1].port: the string "http", want a whole number of 32 bits, without quotes`},
		"two wrong types": {
			svc + "  - port: http\n    name: 7\n",
			"a.yaml: document 1 (line 8): Service web: spec.ports[0].name: the number 7, want a string; put it in quotes\n" +
				`a.yaml: document 1 (line 7): Service web: spec.ports[0].port: the string "http", want a whole number of 32 bits, without quotes`},
		"wrong type in JSON": {
			cmA + "\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\n\"metadata\":{\"name\":\"b\"},\n\"data\":{\"x\":\"\",\n\"y\":[]}}",
			"a.yaml: document 2 (line 5): ConfigMap b: data.y: a list, want a string; put it in quotes"},
		"wrong type in a JSON list": {
			"{\"apiVersion\":\"v1\",\"kind\":\"List\",\n\"items\":[" + cmA + ",\n{\"apiVersion\":\"v1\",\"kind\":\"Node\",\n\"metadata\":7}]}",
			"a.yaml: document 1 (line 4): Node: metadata: the number 7, want keys and values"},
		"wrong type in a YAML list": {
			"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: a\n  data:\n    x: true\nkind: List\n",
			"a.yaml: document 1 (line 8): ConfigMap a: data.x: true, want a string; put it in quotes"},
		"wrong type in a flow list": {
			"apiVersion: v1\nkind: List\nitems: [\n " + cmA + ",\n {apiVersion: v1, kind: ConfigMap, metadata: {name: b},\n data: {x: 1}}]\n",
			"a.yaml: document 1 (line 6), item 2: ConfigMap b: data.x: the number 1, want a string; put it in quotes"},
		"not a boolean": {
			configMap("a", "x") + "immutable: \"yes\"\n",
			`a.yaml: document 1 (line 8): ConfigMap lb/a: immutable: the string "yes", want true or false, without quotes`},
		"not a list": {
			"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n    port: 80\n",
			"a.yaml: document 1 (line 5): Service web: spec.ports: keys and values, want a list; begin each item with a dash"},
		"a value its own decoder refuses": {
			"apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\nstatus:\n  capacity:\n    cpu: 4\n    memory: lots\n",
			`a.yaml: document 1 (line 8): Node n1: status.capacity.memory: the string "lots" is not possible: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`},
		"no kind":       {"a: 1\n", "a.yaml: document 1 (line 1): no kind or no apiVersion, so this is no Kubernetes object; add them, or move the file out of the directory"},
		"no apiVersion": {"\nkind: ConfigMap\n", "a.yaml: document 1 (line 2): no kind or no apiVersion, so this is no Kubernetes object; add them, or move the file out of the directory"},
		"text":          {"hello\n", "a.yaml: document 1 (line 1): the string \"hello\", want keys and values"},
		"list document": {"- a\n", "a.yaml: document 1 (line 1): a list, want keys and values"},
		"kind is no string": {"apiVersion: v1\nkind: [x]\n",
			"a.yaml: document 1 (line 2): kind: a list, want a string; put it in quotes"},
		"old version": {"apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: a}\n",
			"a.yaml: document 1 (line 1): EndpointSlice: apiVersion: discovery.k8s.io/v1beta1 is not read; write discovery.k8s.io/v1 (kubectl get endpointslices.v1.discovery.k8s.io prints it)"},
		"items is no list": {"apiVersion: v1\nkind: List\nitems:\n  a: 1\n",
			"a.yaml: document 1 (line 3): List: items: not a list; write the objects as a list"},
		"lists in lists": {strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 6) + strings.Repeat("]}", 6),
			"a.yaml: document 1 (line 1): List: lists in lists, more than 4 deep; write the objects as documents"},
		"no name": {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels: {}\n",
			"a.yaml: document 1 (line 3): ConfigMap: metadata.name: missing; every object needs a name"},
		"generateName": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n",
			"a.yaml: document 1 (line 3): ConfigMap: metadata.name: missing; generateName is for API servers, give a name"},
		"YAML 1.1's no": {"apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n",
			"a.yaml: document 1 (line 4): Node: metadata.name: false, want a string; put it in quotes"},
		"tab": {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: a\n",
			"a.yaml: document 1 (line 4): not valid YAML: found character that cannot start any token; indent with spaces, not tabs, and put quotes around values that begin with @, ` or %"},
		"indentation": {"---\n# x\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n namespace: b\n",
			"a.yaml: document 1 (line 7): not valid YAML: did not find expected key; check the indentation and the quotes there"},
		"colon": {configMap("a", "x") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: name: a\n",
			"a.yaml: document 2 (line 11): not valid YAML: mapping values are not allowed in this context; check the indentation and the quotes there"},
		"keys twice": {"apiVersion: v1\nkind: ConfigMap\nkind: Service\nmetadata:\n  name: a\n  name: b\n",
			"a.yaml: document 1 (line 3): not valid YAML: key \"kind\" already set in map; keep one of them\n" +
				"a.yaml: document 1 (line 6): not valid YAML: key \"name\" already set in map; keep one of them"},
		"keys twice in JSON": {"\n" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}`,
			`a.yaml: document 1 (line 2): ConfigMap: duplicate field "data.x"; keep one of them`},
		"JSON cut short": {"{\"apiVersion\": \"v1\",\n\"kind\": \"ConfigMap\",\n\"metadata\": {",
			"a.yaml: document 1 (line 3): not valid JSON: unexpected end of JSON input; mend the text at this line or just before it"},
		"JSON without a comma": {"{\"apiVersion\": \"v1\"\n\"kind\": \"ConfigMap\"}",
			"a.yaml: document 1 (line 2): not valid JSON: invalid character '\"' after object key:value pair; mend the text at this line or just before it"},
		"each document": {"a: [\n---\nb: 1\n---\n" + configMap("a", "x"),
			"a.yaml: document 1 (line 1): not valid YAML: did not find expected node content; check the indentation and the quotes there\n" +
				"a.yaml: document 2 (line 3): no kind or no apiVersion, so this is no Kubernetes object; add them, or move the file out of the directory"},
		"an item of a list": {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Config\"Map\n  metadata: {name: b\n",
			"a.yaml: document 1 (line 9): not valid YAML: did not find expected ',' or '}'; check the indentation and the quotes there"},
		"not UTF-8": {configMap("a", "x") + "\xff\n", "a.yaml: line 8: not UTF-8; save the file as UTF-8"},
		"service values": {svc + "  - port: 0\n    protocol: ICMP\n  - port: 70000\n    nodePort: -1\n  clusterIPs: [10.0.0.01]\n",
			"a.yaml: document 1 (line 7): Service default/web: spec.ports[0].port: 0 is not a port; write one from 1 to 65535\n" +
				"a.yaml: document 1 (line 8): Service default/web: spec.ports[0].protocol: \"ICMP\" is not a protocol; write TCP, UDP or SCTP\n" +
				"a.yaml: document 1 (line 9): Service default/web: spec.ports[1].port: 70000 is not a port; write one from 1 to 65535\n" +
				"a.yaml: document 1 (line 10): Service default/web: spec.ports[1].nodePort: -1 is not a port; write one from 1 to 65535\n" +
				"a.yaml: document 1 (line 11): Service default/web: spec.clusterIPs[0]: \"10.0.0.01\" is not an IP address; write it without zone, prefix length or leading zeros"},
		"slice values": {"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nports:\n- port: 0\n  protocol: tcp\nendpoints:\n- addresses: [192.0.2.1, x]\n- addresses:\n  - 2001:db8::1\n",
			"a.yaml: document 1 (line 6): EndpointSlice default/a: ports[0].port: 0 is not a port; write one from 1 to 65535\n" +
				"a.yaml: document 1 (line 7): EndpointSlice default/a: ports[0].protocol: \"tcp\" is not a protocol; write TCP, UDP or SCTP\n" +
				"a.yaml: document 1 (line 9): EndpointSlice default/a: endpoints[0].addresses[1]: \"x\" is not an IP address; write it without zone, prefix length or leading zeros\n" +
				"a.yaml: document 1 (line 11): EndpointSlice default/a: endpoints[1].addresses[0]: 2001:db8::1 is not of the slice's addressType IPv4; put it in a slice of its own"},
		"no addressType": {"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\n",
			"a.yaml: document 1 (line 1): EndpointSlice default/a: addressType: missing; write IPv4, IPv6 or FQDN"},
		"unknown addressType": {"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: ipv4\n",
			"a.yaml: document 1 (line 4): EndpointSlice default/a: addressType: \"ipv4\" is not an address type; write IPv4, IPv6 or FQDN"},
		"endpoints values": {"apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\nsubsets:\n- ports:\n  - port: -1\n    protocol: x\n  addresses:\n  - ip: 192.0.2.300\n  notReadyAddresses:\n  - ip: fe80::1%eth0\n",
			"a.yaml: document 1 (line 6): Endpoints default/a: subsets[0].ports[0].port: -1 is not a port; write one from 1 to 65535\n" +
				"a.yaml: document 1 (line 7): Endpoints default/a: subsets[0].ports[0].protocol: \"x\" is not a protocol; write TCP, UDP or SCTP\n" +
				"a.yaml: document 1 (line 9): Endpoints default/a: subsets[0].addresses[0].ip: \"192.0.2.300\" is not an IP address; write it without zone, prefix length or leading zeros\n" +
				"a.yaml: document 1 (line 11): Endpoints default/a: subsets[0].notReadyAddresses[0].ip: \"fe80::1%eth0\" is not an IP address; write it without zone, prefix length or leading zeros"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Decode("a.yaml", []byte(tc.text))
			if err == nil || err.Error() != tc.want {
				t.Fatalf("got  %v\nwant %s", err, tc.want)
			}
			if objects != nil {
				t.Errorf("objects beside the error: %s", names(objects))
			}
		})
	}
}

func TestDecodeRefusesNames(t *testing.T) {
	for _, field := range []string{"name", "namespace"} {
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: b\n"
		text = strings.Replace(text, "  "+field+": ", "  "+field+": \"x\\ny\" # ", 1)
		_, err := Decode("a.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), `metadata.`+field+`: "x\ny" is not a name`) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A file of the wrong shape gives a readable number of errors, in time.
func TestDecodeManyErrors(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: List\nitems: [")
	for i := range 5000 {
		fmt.Fprintf(&b, "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'a%d'}, data: {x: 1}},\n", i)
	}
	b.WriteString("]\n")
	_, err := Decode("a.yaml", []byte(b.String()))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxProblems+1 || lines[maxProblems] != "and 4950 more" {
		t.Fatalf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if !strings.Contains(lines[9], "(line 12), item 10: ConfigMap a9: data.x") {
		t.Error(lines[9])
	}
}

// Many pieces are decoded at once; the order is theirs all the same.
func TestDecodeKeepsOrder(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\n", i)
	}
	objects, err := Decode("a.yaml", []byte(b.String()))
	must(t, err)
	if len(objects) != 500 {
		t.Fatalf("%d objects", len(objects))
	}
	for i, o := range objects {
		if name := o.(*v1.ConfigMap).Name; name != fmt.Sprintf("a%d", i) {
			t.Fatalf("%d is %s", i, name)
		}
	}
}

// The cut of a list into items is an optimisation: without it the result is the same.
func TestListItemsMeanTheSame(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  data:\n    x: |\n      - b\n\n      c\n    y: \"d\n      - e\"\nkind: List\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  data: {x: \"b\n- c\"}\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  data: {x: [\n- c]}\n",
	} {
		d := decoder{name: "a.yaml"}
		p := piece{data: []byte(text), line: 1, doc: 1}
		cut := d.all([]piece{p}, 0)
		p.whole = true
		whole := d.all([]piece{p}, 0)
		var a, b strings.Builder
		must(t, Write(&a, objectsOf(cut)))
		must(t, Write(&b, objectsOf(whole)))
		if a.String() != b.String() || len(cut.failures) != len(whole.failures) || a.Len() == 0 && len(cut.failures) == 0 {
			t.Errorf("cut:\n%s\nwhole:\n%s", &a, &b)
		}
	}
}

func objectsOf(r result) []runtime.Object {
	var objects []runtime.Object
	for _, e := range r.entries {
		objects = append(objects, e.object)
	}
	return objects
}

func BenchmarkDecodeJSON(b *testing.B) { benchmarkDecode(b, "---\n%s\n", "", "") }

func BenchmarkDecodeYAMLList(b *testing.B) {
	benchmarkDecode(b, "- %s\n", "apiVersion: v1\nitems:\n", "kind: List\n")
}

func benchmarkDecode(b *testing.B, format, head, tail string) {
	var text strings.Builder
	text.WriteString(head)
	const n = 10000
	for i := range n {
		fmt.Fprintf(&text, format, fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"s-%d","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv4","ports":[{"port":80}],"endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":true},"nodeName":"n"}]}`, i))
	}
	text.WriteString(tail)
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if objects, err := Decode("a", []byte(text.String())); err != nil || len(objects) != n {
			b.Fatal(err)
		}
	}
}
