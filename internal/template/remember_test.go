package template

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/lb-render/lb-render/internal/types"
)

// fromText loads a template that is written in the test.
func fromText(t testing.TB, text string, o Options) *Template {
	t.Helper()
	o.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.Dir, "test.tmpl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tmpl, err := Load("test.tmpl", o)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// shop has 40 listeners on 2 VIPs.
func shop() *types.ClusterConfig {
	var all []*types.Listener
	for i := range 40 {
		all = append(all, listener(fmt.Sprintf("192.0.2.%d", 1+i/20), 80+i, func(l *types.Listener) {
			l.Endpoints = []*types.Endpoint{endpoint(fmt.Sprintf("pod-%d", i), "198.51.100.1", 8080), endpoint(fmt.Sprintf("pod-%d-b", i), "198.51.100.2", 8080)}
		}))
	}
	cc := cluster(all...)
	cc.Node = &types.Node{Name: "here"}
	cc.Services = map[string]*types.ServiceEndpoints{}
	return cc
}

// replaced is cc with another i-th listener, as the watcher publishes it.
func replaced(cc *types.ClusterConfig, i int) *types.ClusterConfig {
	next := *cc
	l := *cc.Listeners[i]
	l.Service += "x"
	next.Listeners = slices.Clone(cc.Listeners)
	next.Listeners[i] = &l
	next.VIPs = slices.Clone(cc.VIPs)
	for k, v := range cc.VIPs {
		if at := slices.Index(v.Listeners, cc.Listeners[i]); at >= 0 {
			w := *v
			w.Listeners = slices.Clone(v.Listeners)
			w.Listeners[at] = &l
			next.VIPs[k] = &w
		}
	}
	return &next
}

// TestWhatIsRemembered: after one listener of 40 has changed, a template whose
// text depends on the element executes its body once more, and one whose text
// depends on anything else executes it 40 times more.
func TestWhatIsRemembered(t *testing.T) {
	const yes, no = true, false
	params := map[string]any{"x": "text", "m": map[string]any{"a": "b"}}
	for _, c := range []struct {
		name, text string
		remembered bool
	}{
		{"element", `{{ range .Listeners }}{{ count }}{{ .Service }}{{ end }}`, yes},
		{"else", `{{ range .Listeners }}{{ count }}{{ .Service }}{{ else }}none{{ end }}`, yes},
		{"variable", `{{ range $l := .Listeners }}{{ count }}{{ $l.Service }}{{ end }}`, yes},
		{"variable in an inner range", `{{ range $l := .Listeners }}{{ count }}{{ range .Endpoints }}{{ $l.Service }}{{ .IP }}{{ end }}{{ end }}`, yes},
		{"unused index", `{{ range $i, $l := .Listeners }}{{ count }}{{ $l.Service }}{{ end }}`, yes},
		{"index", `{{ range $i, $l := .Listeners }}{{ count }}{{ $i }}{{ end }}`, no},
		{"own variables", `{{ range .Listeners }}{{ count }}{{ $s := .Service }}{{ if .Port }}{{ $s = upper $s }}{{ end }}{{ $s }}{{ end }}`, yes},
		{"params", `{{ range .Listeners }}{{ count }}{{ $.Params.x }}{{ dig "m" "a" "" $.Params }}{{ end }}`, yes},
		{"node", `{{ range .Listeners }}{{ count }}{{ $.Node.Name }}{{ end }}`, yes},
		{"root in a variable", `{{ $root := . }}{{ range .Listeners }}{{ count }}{{ $root.Params.x }}{{ end }}`, yes},
		{"params in a variable", `{{ $p := .Params }}{{ range .Listeners }}{{ count }}{{ $p.x }}{{ end }}`, yes},
		{"the cluster from outside", `{{ range .Listeners }}{{ count }}{{ len $.Listeners }}{{ end }}`, no},
		{"text from outside", `{{ $x := printf "%d" (len .Listeners) }}{{ range .Listeners }}{{ count }}{{ $x }}{{ end }}`, yes},
		{"list from outside", `{{ $x := list 1 }}{{ range .Listeners }}{{ count }}{{ len $x }}{{ end }}`, no},
		{"assignment to the outside", `{{ $x := 0 }}{{ range .Listeners }}{{ count }}{{ $x = .Port }}{{ end }}{{ $x }}`, no},
		{"break", `{{ range .Listeners }}{{ count }}{{ if eq .Port 9999 }}{{ break }}{{ end }}{{ end }}`, no},
		{"break of an inner loop", `{{ range .Listeners }}{{ count }}{{ range .Endpoints }}{{ break }}{{ end }}{{ end }}`, yes},
		{"continue", `{{ range .Listeners }}{{ count }}{{ if eq .Port 9999 }}{{ continue }}{{ end }}{{ end }}`, no},
		{"template", `{{ define "l" }}{{ count }}{{ .Service }}{{ end }}{{ range .Listeners }}{{ template "l" . }}{{ end }}`, yes},
		{"template where the range is not", `{{ define "l" }}{{ count }}{{ .Service }}{{ end }}{{ range $i, $l := .Listeners }}{{ $i }}{{ template "l" $l }}{{ end }}`, yes},
		{"template that is not pure", `{{ define "l" }}{{ count }}{{ len (endpoints "a" "b" "") }}{{ end }}{{ range .Listeners }}{{ template "l" . }}{{ end }}`, no},
		{"range in a template of the root", `{{ define "all" }}{{ range .Listeners }}{{ count }}{{ $.Params.x }}{{ end }}{{ end }}{{ template "all" . }}`, yes},
		{"range in an include of the root", `{{ define "all" }}{{ range .Listeners }}{{ count }}{{ .Service }}{{ end }}{{ end }}{{ include "all" . | indent 2 }}`, yes},
		{"include", `{{ define "l" }}{{ count }}{{ .Service }}{{ end }}{{ range $i, $l := .Listeners }}{{ $i }}{{ include "l" $l | upper }}{{ end }}`, yes},
		{"endpoints", `{{ range .Listeners }}{{ count }}{{ len (endpoints "a" "b" "") }}{{ end }}`, no},
		{"listeners of a VIP", `{{ range .VIPs }}{{ .Address }}{{ range .Listeners }}{{ count }}{{ .Service }}{{ end }}{{ end }}`, yes},
		{"listeners of a VIP with its address", `{{ range $v := .VIPs }}{{ range .Listeners }}{{ count }}{{ $.Params.x }}{{ .Service }}{{ end }}{{ end }}`, yes},
		{"selected", `{{ range ofProtocol "TCP" .Listeners }}{{ count }}{{ .Service }}{{ end }}`, yes},
		{"a list of a function", `{{ range reverse .Listeners }}{{ count }}{{ .Service }}{{ end }}`, yes},
		{"trimmed", "{{- range .Listeners -}}\n {{ count }} x \n{{- end -}}", yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl := fromText(t, strings.ReplaceAll(c.text, "{{ count }}", `{{ include "count" "x" }}`)+`{{ define "count" }}{{ upper . }}{{ end }}`, Options{})
			n := 0
			tmpl.memory.set.Funcs(map[string]any{"upper": func(s string) string {
				if s == "x" {
					n++
				}
				return strings.ToUpper(s)
			}})
			cc := shop()
			renders := func(cc *types.ClusterConfig) int {
				n = 0
				if _, err := tmpl.Render(cc, params); err != nil {
					t.Fatal(err)
				}
				return n
			}
			renders(cc)
			all := renders(&types.ClusterConfig{Listeners: slices.Clone(cc.Listeners), VIPs: slices.Clone(cc.VIPs), Node: cc.Node, Services: cc.Services})
			if (all == 0) != c.remembered {
				t.Errorf("nothing has changed, and %d bodies are executed", all)
			}
			if one := renders(replaced(cc, 33)); c.remembered && one != 1 {
				t.Errorf("one of 40 has changed, and %d bodies are executed", one)
			}
			if c.remembered {
				if other := renders(cc); other != 1 {
					t.Errorf("it is back as it was, and %d bodies are executed; older versions are not kept", other)
				}
			}
		})
	}
}

// TestKeyOfMemory: what belongs to the key makes everything new when it changes.
func TestKeyOfMemory(t *testing.T) {
	tmpl := fromText(t, `{{ range .Listeners }}{{ $.Params.x }} {{ $.Node.Name }} {{ .Name }}
{{ end }}`, Options{})
	cc := shop()
	other := *cc
	other.Node = &types.Node{Name: "there"}
	for _, c := range []struct {
		cc     *types.ClusterConfig
		params map[string]any
	}{{cc, map[string]any{"x": 1}}, {cc, map[string]any{"x": 2}}, {&other, map[string]any{"x": 2}}, {cc, map[string]any{"x": 2.0}}, {cc, map[string]any{"x": "2"}}} {
		got, err := tmpl.Render(c.cc, c.params)
		want, err2 := tmpl.RenderPlain(c.cc, c.params)
		if err != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("params %v, node %s: %v, %v, got\n%s", c.params, c.cc.Node.Name, err, err2, got)
		}
	}
}

// TestNamesMeanTheSame: templates in which a name means one thing here and another there.
func TestNamesMeanTheSame(t *testing.T) {
	for _, text := range []string{
		`{{ $a := "one" }}{{ range .Listeners }}{{ template "x" ($a := .Name) }}{{ $a }}{{ end }}{{ $a }}{{ define "x" }}{{ . }}{{ end }}`,
		`{{ $a := index .Listeners 0 }}{{ template "x" ($a := index .Listeners 1) }}{{ $a.Name }}{{ define "x" }}{{ .Name }}{{ end }}`,
		`{{ $x := "a" }}{{ $y := "b" }}{{ range $v := .VIPs }}{{ range .Listeners }}{{ $y }}{{ end }}{{ $x }}{{ range $v.Listeners }}{{ $x }}{{ end }}{{ $y }}{{ end }}`,
		`{{ $x := "a" }}{{ $y := "b" }}{{ range .VIPs }}{{ $y }}{{ range .Listeners }}{{ $x }}{{ end }}{{ $y }}{{ end }}`,
		`{{ range $l := .Listeners }}{{ range $ := .Endpoints }}{{ $l.Name }};{{ end }}{{ end }}`,
		`{{ range $l := .Listeners }}{{ with $ := index .Endpoints 0 }}{{ $l.Name }};{{ end }}{{ end }}`,
		`{{ range $l := .Listeners }}{{ $ := index .Endpoints 0 }}{{ $l.Name }};{{ end }}`,
		`{{ $a := "x" }}{{ range .Listeners }}{{ if .Port }}{{ $a := "y" }}{{ end }}{{ $a }}{{ end }}`,
		`{{ range $a := .Listeners }}{{ $a := $a.Name }}{{ $a }}{{ end }}`,
		`{{ range $a := .Listeners }}{{ range $a := .Endpoints }}{{ $a.IP }}{{ end }}{{ $a.Name }}{{ end }}`,
		`{{ range $a := .Listeners }}{{ with $b := .Name }}{{ $a.Name }}{{ $b }}{{ else }}{{ $a.Name }}{{ end }}{{ end }}`,
		`{{ range $i, $a := .Listeners }}{{ range $j, $b := $a.Endpoints }}{{ $i }}{{ $b.IP }}{{ end }}{{ else }}{{ $a }}{{ end }}`,
		`{{ range $a := list }}x{{ else }}{{ len $a }}{{ range $.Listeners }}{{ len $a }}{{ end }}{{ end }}`,
		`{{ $d := dict "k" "v" }}{{ range .Listeners }}{{ $d.k }}{{ end }}`,
		`{{ $all := .Listeners }}{{ range .Listeners }}{{ len $all }}{{ end }}`,
		`{{ define "all" }}{{ range .Listeners }}{{ $.Params.x }}{{ $.Address }}{{ end }}{{ end }}{{ range .VIPs }}{{ range .Listeners }}{{ .Name }}{{ end }}{{ end }}`,
		`{{ define "vip" }}{{ range .Listeners }}{{ $.Address }}{{ end }}{{ end }}{{ range .VIPs }}{{ template "vip" . }}{{ end }}`,
		`{{ define "d" }}{{ range .list }}{{ .Name }}{{ $.text }}{{ end }}{{ end }}{{ template "d" (dict "list" .Listeners "text" "t") }}`,
		`{{ define "d" }}{{ len (endpoints "a" "b" "") }}{{ end }}{{ range .Listeners }}{{ include "d" . }}{{ end }}`,
		`{{ define "a" }}{{ if . }}{{ template "b" . }}{{ end }}{{ end }}{{ define "b" }}{{ if .Endpoints }}{{ range .Endpoints }}{{ .IP }}{{ end }}{{ else }}{{ template "a" . }}{{ end }}{{ end }}{{ range .Listeners }}{{ template "a" . }}{{ end }}`,
	} {
		tmpl := fromText(t, text, Options{})
		cc := shop()
		for i := range 6 {
			params := map[string]any{"x": i % 2}
			got, err := tmpl.Render(cc, params)
			want, err2 := tmpl.RenderPlain(cc, params)
			if err != nil || err2 != nil || string(got) != string(want) {
				t.Errorf("%s, render %d: %v, %v\n got %s\nwant %s", text, i, err, err2, got, want)
			}
			cc = replaced(cc, i*17%40)
			if i == 3 {
				cc.Services = map[string]*types.ServiceEndpoints{"a/b": {Ports: []types.ServicePort{{Name: "p", Port: 1, Protocol: "TCP", Endpoints: []*types.Endpoint{endpoint("e", "198.51.100.9", 1)}}}}}
			}
		}
	}
}

// TestSuspicionIsForTheWhole: as long as something in the output looks like a
// missing value, every value is looked at, as without a memory.
func TestSuspicionIsForTheWhole(t *testing.T) {
	tmpl := fromText(t, `{{ range .Listeners }}{{ index .Annotations "a" }} {{ if eq .Service "webx" }}{{ printf "%v" .Endpoints | sha256sum }}{{ end }}
{{ end }}`, Options{})
	cc := shop()
	for _, l := range cc.Listeners {
		l.Annotations = map[string]string{"a": "fine"}
	}
	cc.Listeners[20].Annotations["a"] = "<no value>"
	for i, cc := range []*types.ClusterConfig{cc, replaced(cc, 39), replaced(cc, 5), cc} {
		got, err := tmpl.Render(cc, nil)
		want, wantErr := tmpl.RenderPlain(cc, nil)
		if string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("render %d: %v, want %v", i, err, wantErr)
		}
		if (err != nil) != (i == 1 || i == 2) {
			t.Errorf("render %d: %v", i, err)
		}
	}
}

// TestMemosAreBounded: arguments of the template's own making are not remembered, and what is not used is dropped.
func TestMemosAreBounded(t *testing.T) {
	tmpl := fromText(t, `{{ range .Listeners }}{{ len (ofProtocol .Name $.Listeners) }}{{ end }}{{ if .Node }}{{ len (ofProtocol "UDP" .Listeners) }}{{ end }}`, Options{})
	cc := shop()
	for i, want := range []int{1, 0} {
		if i == 1 {
			cc.Node = nil
		}
		if _, err := tmpl.Render(cc, nil); err != nil {
			t.Fatal(err)
		}
		if n := len(tmpl.memory.session.filter); n != want {
			t.Errorf("%d memos, want %d", n, want)
		}
	}
}

// TestNothingOlderIsKept: the memory holds what the last render used.
func TestNothingOlderIsKept(t *testing.T) {
	tmpl := fromText(t, `{{ range .VIPs }}{{ range .Listeners }}{{ .Name }}{{ end }}{{ end }}{{ range $i, $l := .Listeners }}{{ include "x" $l }}{{ template "x" $l }}{{ end }}{{ range .Listeners }}{{ .Name }}{{ end }}{{ define "x" }}{{ .Name }}{{ end }}`, Options{})
	var old weak.Pointer[types.Listener]
	func() {
		cc := shop()
		old = weak.Make(cc.Listeners[7])
		if _, err := tmpl.Render(cc, nil); err != nil {
			t.Fatal(err)
		}
	}()
	runtime.GC()
	if old.Value() == nil {
		t.Fatal("what the last render used is gone: this test proves nothing")
	}
	if _, err := tmpl.Render(shop(), nil); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if old.Value() != nil {
		t.Error("a listener of the render before the last is still held")
	}
}

// TestRendersAtOnce: the memory is one render's at a time, and the others do without.
func TestRendersAtOnce(t *testing.T) {
	tmpl := fromText(t, `{{ range .Listeners }}{{ .Name }} {{ .Service }}{{ end }}`, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			cc := shop()
			for i := range 50 {
				cc = replaced(cc, (g*7+i)%40)
				got, err := tmpl.Render(cc, nil)
				want, err2 := tmpl.RenderPlain(cc, nil)
				if err != nil || err2 != nil || string(got) != string(want) {
					t.Errorf("%v, %v, got %.60s, want %.60s", err, err2, got, want)
				}
				tmpl.Recycle(got)
			}
		})
	}
	wg.Wait()
}

// TestMutatorsForbidMemory: with a function allowed that changes its input, nothing is remembered.
func TestMutatorsForbidMemory(t *testing.T) {
	tmpl := fromText(t, `{{ $d := dict "n" 0 }}{{ range .Listeners }}{{ $d = set $d "n" .Port }}{{ end }}{{ $d.n }}`, Options{AllowFunctions: []string{"set"}})
	if tmpl.memory != nil {
		t.Error("there is a memory")
	}
	if got, err := tmpl.Render(shop(), nil); err != nil || string(got) != "119" {
		t.Errorf("got %q, %v", got, err)
	}
}
