package template

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/lb-render/lb-render/internal/types"
)

func TestExecutionErrorsNamePlaceAndWhatThereIs(t *testing.T) {
	for text, want := range map[string][]string{
		"a\n{{ .Foo }}": {"t.tmpl:2:4: ", "<.Foo>", "no field Foo in the dot", ".Listeners, ", ".Params, "},
		"a\n{{ range .Listeners }}\n {{ .Foo }}{{ end }}":                            {"t.tmpl:3:5: ", "no field Foo in a Listener", ".Annotations, ", ".VIP"},
		"{{ range .VIPs }}{{ .Foo }}{{ end }}":                                       {"no field Foo in a VIP", ".Address, "},
		"{{ range .Listeners }}{{ range .Endpoints }}{{ .Foo }}{{ end }}{{ end }}":   {"no field Foo in an Endpoint", ".IP, "},
		"{{ range .Listeners }}{{ range .RealServers }}{{ .Foo }}{{ end }}{{ end }}": {"no field Foo in a RealServer", ".Address, "},
		"{{ .Listeners.Name }}":                                                      {"no field Name in a list", "range"},
		"{{ .Params.interface }}":                                                    {"t.tmpl:1:11: ", `no key "interface"`, "there are a, big, ", `dig "interface" DEFAULT .Params`},
		"{{ .Params.a.x }}":                                                          {`no key "x"`, "get or dig"},
		"{{ .Node.Name }}":                                                           {"t.tmpl:1:9: ", "nil pointer", "{{with}} or {{if}}"},
		"{{ index .VIPs 9 }}":                                                        {"t.tmpl:1:4: ", "index out of range"},
		"{{ .VIPs | upper }}":                                                        {"t.tmpl:1:", "upper"},
	} {
		_, err := renderText(t, text)
		wantError(t, err, append(want, "rendering ")...)
		if err != nil && strings.Contains(err.Error(), "template: ") {
			t.Errorf("text/template's own prefix is left in: %v", err)
		}
	}
}

func TestErrorInsideOfIncludesNamesTheInnermostPlace(t *testing.T) {
	dir := directory(t, map[string]string{
		"main.tmpl": "\n{{ include \"a\" . }}",
		"a.tmpl":    "{{ define \"a\" }}\n\n{{ include \"b\" . | upper }}{{ end }}",
		"b.tmpl":    "{{ define \"b\" }}\n\n\n{{ .Foo }}{{ end }}",
	})
	tmpl, err := Load("main.tmpl", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tmpl.Render(smallCluster(), nil)
	wantError(t, err, "rendering main.tmpl: "+filepath.Join(dir, "b.tmpl")+":4:4: at <.Foo>: there is no field Foo",
		`included as "b" from `+filepath.Join(dir, "a.tmpl")+":3:4", `"a" from `+filepath.Join(dir, "main.tmpl")+":2:4")
}

func TestRecursionEnds(t *testing.T) {
	for _, text := range []string{
		`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
		`{{ define "a" }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ template "a" . }}{{ end }}{{ include "a" . }}`,
	} {
		_, err := renderText(t, text)
		wantError(t, err, "includes nest more than 100 deep", "include itself", "more")
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("the error is %d bytes long", len(err.Error()))
		}
	}
	// What ends by itself may nest.
	out, err := renderText(t, `{{ define "a" }}{{ if . }}{{ len . }} {{ include "a" (rest .) }}{{ end }}{{ end }}{{ include "a" (until 50) }}`)
	if err != nil || !strings.HasPrefix(out, "50 49 48") {
		t.Errorf("got %q, %v", out, err)
	}
}

// nil prints as "<no value>", a pointer as an address that the next process
// does not have: neither gets into a file.
func TestNoNilAndNoAddressIsPrinted(t *testing.T) {
	for text, want := range map[string][]string{
		"a\n{{ .Params.null }}":      {"t.tmpl:2:", "is null", "default"},
		`{{ index .Params "gone" }}`: {"is null"},
		`{{ include "x" . }}{{ define "x" }}{{ .Params.null }}{{ end }}`: {"is null", `included as "x"`},
		"{{ .Listeners }}":                              {"t.tmpl:1:", "memory addresses"},
		"{{ range .Listeners }}{{ . }}{{ end }}":        {"memory addresses"},
		"{{ . }}":                                       {"memory addresses"},
		`{{ printf "%v" .Listeners }}`:                  {"memory addresses"},
		`{{ range .VIPs }}{{ printf "%p" . }}{{ end }}`: {"memory addresses"},
		`{{ with index .Listeners 0 }}{{ printf "%p" (index .RealServers 0) }}{{ end }}`: {"memory addresses"},
		`{{ toString .VIPs }}`:                  {"memory addresses"},
		`{{ $x := printf "%v" .VIPs }}{{ $x }}`: {"memory addresses"},
		`{{ join "," .VIPs }}`:                  {"memory addresses"},
		`{{ print .Params .VIPs }}`:             {"memory addresses"},
	} {
		out, err := renderText(t, text)
		if err == nil {
			t.Errorf("%s gave %q", text, out)
			continue
		}
		wantError(t, err, want...)
	}
	// What only looks like it is let through.
	for text, want := range map[string]string{
		`<no value> 0xc000123456`: "<no value> 0xc000123456",
		`{{ "<no value>" | upper | lower }} {{ .Params.a.b }} {{ printf "%#x" 3735928559 }}`: "<no value> 5 0xdeadbeef",
		`{{ .VIPPool }} {{ .NodeLabels }} 0xdeadbeef`:                                        "[192.0.2.2 192.0.2.1] map[rack:r1 zone:z1] 0xdeadbeef",
	} {
		if out, err := renderText(t, text); err != nil || out != want {
			t.Errorf("%s: got %q, %v", text, out, err)
		}
	}
}

func TestRenderWithoutClusterConfig(t *testing.T) {
	_, err := load(t, "haproxy.cfg.tmpl").Render(nil, nil)
	wantError(t, err, "haproxy.cfg.tmpl", "no cluster config")
}

// Output depends on the cluster, the params and the template: rendering again,
// loading again and filling the maps in another order change nothing.
func TestRenderIsDeterministic(t *testing.T) {
	everything := `{{ range $k, $v := .Params }}{{ $k }}={{ $v }};{{ end }}{{ keys .Params }}{{ values .Params }}{{ .NodeLabels }}{{ toYaml .Params }}{{ toJson .Params }}
{{ pick .Params "k1" "k2" }}{{ omit .Params "k1" }}{{ dict "b" 1 "a" 2 }}{{ range .Listeners }}{{ .Labels }}{{ toYaml .Annotations }}{{ keys .Labels }}{{ end }}`
	templates := []*Template{}
	again := []*Template{}
	dir := directory(t, map[string]string{"all.tmpl": everything})
	for _, l := range []*[]*Template{&templates, &again} {
		for _, o := range outputs {
			*l = append(*l, load(t, o.template))
		}
		all, err := Load("all.tmpl", Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		*l = append(*l, all)
	}
	random := rand.New(rand.NewSource(1))
	params := map[string]any{"interface": "eth0"}
	labels := map[string]string{}
	for i := range 50 {
		params[fmt.Sprint("k", i)] = map[string]any{fmt.Sprint(i): i, "x": []any{i, 1.0}}
		labels[fmt.Sprint("l", i)] = fmt.Sprint(i)
	}
	for _, f := range fixtures() {
		for _, l := range f.cc.Listeners {
			l.Labels, l.Annotations = labels, labels
		}
		f.cc.NodeLabels = labels
		for i, tmpl := range templates {
			f.params = params
			want := f.render(t, tmpl)
			for range 3 {
				f.params = shuffled(random, params)
				shuffle := shuffled(random, labels)
				for _, l := range f.cc.Listeners {
					l.Labels, l.Annotations = shuffle, shuffle
				}
				f.cc.NodeLabels = shuffle
				if got := f.render(t, again[i]); !bytes.Equal(got, want) {
					t.Fatalf("%s of %s differs:\n%s\n%s", tmpl.Name(), f.name, short(got), short(want))
				}
			}
		}
	}
}

// shuffled copies a map in a random order of insertion.
func shuffled[V any](r *rand.Rand, m map[string]V) map[string]V {
	keys := sortedKeys(m)
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	out := map[string]V{}
	for _, k := range keys {
		out[k] = m[k]
	}
	return out
}

func TestRenderIsConcurrent(t *testing.T) {
	all := fixtures()
	var wg sync.WaitGroup
	shared := map[string]any{"interface": "eth0", "deep": map[string]any{"list": []any{1.0, 2.0}}}
	for _, o := range outputs {
		tmpl := load(t, o.template)
		for g := range 8 {
			wg.Go(func() {
				for i := range all {
					f := all[(i+g)%len(all)]
					out, err := tmpl.Render(f.cc, shared)
					if err != nil {
						t.Error(err)
					} else if len(f.params) == 0 {
						want, err := os.ReadFile(filepath.Join(goldens, f.name, o.golden))
						if err != nil || !bytes.Equal(out, want) {
							t.Errorf("%s of %s differs (%v)", o.golden, f.name, err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
}

// Rendering leaves cluster and params as they are.
func TestRenderChangesNothing(t *testing.T) {
	text := `{{ sortAlpha .VIPPool }}{{ reverse .VIPPool }}{{ append .Params.list 4 }}{{ prepend .Params.list 0 }}{{ without .Params.list 2 }}{{ uniq .Params.list }}{{ concat .VIPPool .VIPPool }}`
	tmpl, err := Load(writeFile(t, "t.tmpl", text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	params := func() map[string]any { return map[string]any{"list": []any{3.0, 2.0, 1.0}} }
	cc, p := smallCluster(), params()
	if _, err := tmpl.Render(cc, p); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cc, smallCluster()) || !reflect.DeepEqual(p, params()) {
		t.Errorf("became %v, %v", cc, p)
	}
}

func TestArgs(t *testing.T) {
	type file struct{ Staged, Path string }
	vars := struct {
		Staged  string
		Files   map[string]file
		Changed []string
	}{"/etc/x/.lb-render-1.tmp", map[string]file{"cfg": {"/s", "/p"}, "a-b": {"/s2", "/p2"}}, []string{"cfg", "a-b"}}
	a, err := ParseArgs("check of output haproxy", []string{"haproxy", "-c", "{{ .Staged }}", "{{ .Files.cfg.Path }}:{{ (index .Files \"a-b\").Staged }}", "{{ join \",\" .Changed | upper }}", ""})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := a.Expand(vars)
		if want := []string{"haproxy", "-c", vars.Staged, "/p:/s2", "CFG,A-B", ""}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	_, err = ParseArgs("reload of output x", []string{"ok", "{{ now }}", "{{ .X", "{{ include \"a\" . }}", "{{ endpoints 1 2 3 }}", "{{ template \"t\" }}"})
	wantError(t, err, "reload of output x, argument 2:1:4: ", `"now" is refused`, "reload of output x, argument 3:1: ", "argument 4:1:", "no partials", "argument 5:1:", "argument 6:1:")
	for text, want := range map[string]string{"{{ .Stagd }}": "no field Stagd in the dot; it has .Changed, .Files, .Staged", "{{ .Files.none.Path }}": `no key "none"`} {
		a, err := ParseArgs("check", []string{"x", text})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Expand(vars)
		wantError(t, err, "check, argument 2:1:", want)
	}
}

// Two listeners on one socket cannot be rendered: no daemon's check sees it.
func TestOneBindTwiceIsAnError(t *testing.T) {
	l := func(name string) *types.Listener {
		return listener("192.0.2.1", 80, func(l *types.Listener) { l.Name, l.Service = name, name })
	}
	_, err := load(t, "haproxy.cfg.tmpl").Render(cluster(l("a"), l("b")), nil)
	wantError(t, err, "192.0.2.1 port 80/TCP has two listeners", "a for shop/a", "b for shop/b")
	if errors.Unwrap(err) == nil {
		t.Error("is not wrapped")
	}
}

func TestPlainParams(t *testing.T) {
	in := map[string]any{"a": 1.0, "b": 1.5, "c": []any{int64(2), map[any]any{3: uint64(4)}}, "d": map[string]string{"x": "y"}, "e": 1e300, "f": nil, "g": []string{"s"}, "h": map[string]any{"i": 5.0}}
	want := map[string]any{"a": 1, "b": 1.5, "c": []any{2, map[string]any{"3": 4}}, "d": map[string]string{"x": "y"}, "e": 1e300, "f": nil, "g": []string{"s"}, "h": map[string]any{"i": 5}}
	before := maps.Clone(in)
	if got := plainParams(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
	if !reflect.DeepEqual(in, before) {
		t.Error("the input changed")
	}
}

func BenchmarkRender(b *testing.B) {
	var ls []*types.Listener
	for i := range 10000 {
		ls = append(ls, listener(fmt.Sprintf("192.0.%d.%d", i/250, i%250+1), 80, func(l *types.Listener) {
			for j := range 10 {
				l.Endpoints = append(l.Endpoints, endpoint(fmt.Sprintf("web-%d-%d", i, j), fmt.Sprintf("198.51.100.%d", j+1), 8080))
				l.SetRealServers(nil, append(l.RealServers(), realServer(fmt.Sprintf("203.0.113.%d", j+1), 1)))
			}
		}))
	}
	cc := cluster(ls...)
	for _, o := range outputs {
		tmpl := load(b, o.template)
		b.Run(o.golden, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(cc, map[string]any{"interface": "eth0"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
