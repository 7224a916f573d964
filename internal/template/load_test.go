package template

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-multierror"

	"github.com/lb-render/lb-render/internal/types"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// directory makes a folder of files.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRefusedWhereverItIs(t *testing.T) {
	for text, place := range map[string]string{
		`{{ now }}`:                                           "1:4",
		"a\n\n  {{ now }}":                                    "3:6",
		`{{ .Params | now }}`:                                 "1:14",
		`{{ upper (printf "%s" (now)) }}`:                     "1:24",
		`{{ (now).Unix }}`:                                    "1:5",
		`{{ $x := now }}{{ $x }}`:                             "1:10",
		"{{ $x := 1 }}\n{{ $x = now }}":                       "2:9",
		`{{ if now }}{{ end }}`:                               "1:7",
		`{{ if true }}{{ else if now }}{{ end }}`:             "1:25",
		`{{ if true }}{{ else }}{{ now }}{{ end }}`:           "1:27",
		`{{ range now }}{{ end }}`:                            "1:10",
		`{{ range $i, $x := now }}{{ end }}`:                  "1:20",
		`{{ range .VIPs }}{{ now }}{{ end }}`:                 "1:21",
		`{{ range .VIPs }}{{ else }}{{ now }}{{ end }}`:       "1:31",
		`{{ with now }}{{ end }}`:                             "1:9",
		`{{ with .Node }}{{ else with now }}{{ end }}`:        "1:30",
		"{{ define \"x\" }}\n{{ now }}{{ end }}":              "2:4",
		`{{ block "x" now }}{{ end }}`:                        "1:14",
		`{{ block "x" . }}{{ now }}{{ end }}`:                 "1:21",
		"{{ define \"x\" }}{{ end }}{{ template \"x\" now }}": "1:42",
		`{{ dict "a" (list 1 (dict "b" now)) }}`:              "1:31",
		`{{ and true now }}`:                                  "1:13",
		"{{ printf\n  \"%s\"\n  now }}":                       "3:3",
		`{{ call now }}`:                                      "1:9",
	} {
		_, err := Load(writeFile(t, "t.tmpl", text), Options{})
		wantError(t, err, "t.tmpl:"+place+": ", `function "now" is refused`, "reads the clock", "allowFunctions")
	}
}

func TestEachRefusedFunctionIsRefusedAndCanBeAllowed(t *testing.T) {
	for name, why := range refusals() {
		path := writeFile(t, "t.tmpl", "{{ if false }}{{ "+name+" 1 2 }}{{ end }}")
		_, err := Load(path, Options{})
		wantError(t, err, "t.tmpl:1:18: ", `"`+name+`"`, why.reason, why.instead)
		if _, err := Load(path, Options{AllowFunctions: []string{name}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAllowedFunctionWorks(t *testing.T) {
	tmpl, err := Load(writeFile(t, "t.tmpl", `{{ $_ := set .Params "x" 1 }}{{ $_ := set .Params.deep "z" 1 }}{{ .Params.x }}`), Options{AllowFunctions: []string{"set"}})
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]any{"y": 2, "deep": map[string]any{}}
	out, err := tmpl.Render(&types.ClusterConfig{}, params)
	if err != nil || string(out) != "1" {
		t.Errorf("got %q, %v", out, err)
	}
	if !reflect.DeepEqual(params, map[string]any{"y": 2, "deep": map[string]any{}}) {
		t.Errorf("the caller's params became %v", params)
	}
}

func TestSyntaxErrorsSayWhereAndWhatToDo(t *testing.T) {
	for text, want := range map[string][]string{
		"a\n{{ if true }}\nb":          {"t.tmpl:3: ", "unexpected EOF", "has no {{end}}"},
		"a\n{{ end }}":                 {"t.tmpl:2: ", "one {{end}} more"},
		"a\n{{ .Foo \n\n":              {"t.tmpl:4: ", "t.tmpl:2", "unclosed action"},
		"a\n{{ 'text' }}":              {"t.tmpl:2: ", "double quotes or back quotes"},
		"a\n{{ .a-b }}":                {"t.tmpl:2: ", "index"},
		"a\n{{ $x }}":                  {"t.tmpl:2: ", "undefined variable", ":="},
		"a\n{{ uper \"x\" }}":          {"t.tmpl:2:4: ", `no function "uper"`, `did you mean "upper"?`},
		"a\n{{ haproxyqoute .X }}":     {"t.tmpl:2:4: ", `did you mean "haproxyQuote"?`},
		"a\n{{ frobnicate .X }}":       {"t.tmpl:2:4: ", `no function "frobnicate"`},
		"a\n{{ template \"nope\" . }}": {"t.tmpl:2:", `no template "nope"`, "t.tmpl"},
		"a\n{{ include \"nope\" . }}":  {"t.tmpl:2:4: ", `no template "nope"`},
		`{{define "heading"}}x{{end}}{{ include "headin" . }}`: {`did you mean "heading"?`},
		"{{define \"a\"}}x{{end}}\n\n{{define \"a\"}}y{{end}}": {"t.tmpl:3: ", "multiple definition", "rename"},
		"a\n{{/* never closed":                                 {"t.tmpl:2: ", "unclosed comment", "*/"},
	} {
		_, err := Load(writeFile(t, "t.tmpl", text), Options{})
		wantError(t, err, want...)
		if err != nil && strings.Contains(err.Error(), "template: ") {
			t.Errorf("text/template's own prefix is left in: %v", err)
		}
	}
}

// Everything that is wrong in all files is said at once.
func TestAllErrorsOfAllFiles(t *testing.T) {
	dir := directory(t, map[string]string{
		"main.tmpl": "{{ now }}\n{{ uper 1 }}\n{{ template \"gone\" }}",
		"b.tpl":     "{{ define \"b\" }}\n{{ env \"HOME\" }}{{ end }}",
		"c.tmpl":    "{{ if }}",
		"ignored":   "{{ now",
		".hid.tmpl": "{{ now",
	})
	_, err := Load("main.tmpl", Options{Dir: dir})
	wantError(t, err, "main.tmpl:1:4: ", "main.tmpl:2:4: ", "main.tmpl:3:", "b.tpl:2:4: ", "c.tmpl:1: ", filepath.Join(dir, "b.tpl"))
	var m *multierror.Error
	if !errors.As(err, &m) || m.Len() != 5 {
		t.Errorf("want five errors: %v", err)
	}
}

func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Load("gone.tmpl", Options{Dir: dir})
	wantError(t, err, filepath.Join(dir, "gone.tmpl"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("is not ErrNotExist: %v", err)
	}
	_, err = Load(writeFile(t, "t.tmpl", ""), Options{Dir: filepath.Join(dir, "gone")})
	wantError(t, err, "directory of partials", "gone")
}

func TestPartials(t *testing.T) {
	dir := directory(t, map[string]string{
		"main.tmpl":  `{{ template "head" . }}{{ include "foot.tpl" . | upper }}{{ include "own" . }}`,
		"head.tmpl":  `{{ define "head" }}head {{ .Params.x }} {{ end }}{{ define "own" }}other{{ end }}`,
		"foot.tpl":   `foot {{ include "sub" (dict "y" .Params.x) }}`,
		"third.tmpl": `{{ define "sub" }}sub {{ .y }} {{ end }}{{ define "twice" }}1{{ end }}`,
		"other.tmpl": `{{ define "twice" }}2{{ end }}{{ define "private" }}{{ template "twice" }}{{ end }}`,
	})
	if err := os.WriteFile(filepath.Join(dir, "main.tmpl"),
		[]byte(`{{ template "head" . }}{{ include "foot.tpl" . | upper }}{{ include "own" . }}{{ define "own" }}own{{ end }}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.tmpl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gone", filepath.Join(dir, "dangling.tmpl")); err != nil {
		t.Fatal(err)
	}
	tmpl, err := Load("main.tmpl", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tmpl.Render(&types.ClusterConfig{}, map[string]any{"x": "v"})
	if err != nil {
		t.Fatal(err)
	}
	// The main file's own "own" goes before the partial's.
	if want := "head v FOOT SUB V own"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
	var files []string
	for _, f := range tmpl.Files() {
		files = append(files, filepath.Base(f))
	}
	if want := []string{"foot.tpl", "head.tmpl", "main.tmpl", "other.tmpl", "third.tmpl"}; !reflect.DeepEqual(files, want) {
		t.Errorf("files %v, want %v", files, want)
	}
	if tmpl.Name() != "main.tmpl" {
		t.Errorf("name %q", tmpl.Name())
	}
	// An absolute file from elsewhere has the same partials.
	abs, err := Load(writeFile(t, "abs.tmpl", `{{ template "head" . }}`), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := abs.Render(&types.ClusterConfig{}, map[string]any{"x": 1}); err != nil || string(out) != "head 1 " {
		t.Errorf("got %q, %v", out, err)
	}
}

// A name that two partials define is a fault where it is used, and only there.
func TestAmbiguousPartial(t *testing.T) {
	dir := directory(t, map[string]string{
		"a.tmpl":       `{{ define "x" }}1{{ end }}`,
		"b.tmpl":       `{{ define "x" }}2{{ end }}`,
		"direct.tmpl":  `{{ template "x" }}`,
		"through.tmpl": `{{ template "via" }}`,
		"via.tmpl":     `{{ define "via" }}{{ include "x" . }}{{ end }}`,
		"clean.tmpl":   `fine`,
		"name.tmpl":    `{{ include .Params.name . }}`,
	})
	for _, name := range []string{"direct.tmpl", "through.tmpl"} {
		_, err := Load(name, Options{Dir: dir})
		wantError(t, err, `template "x" is defined in several files`, "a.tmpl", "b.tmpl", "rename")
	}
	tmpl, err := Load("clean.tmpl", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := tmpl.Render(&types.ClusterConfig{}, nil); err != nil || string(out) != "fine" {
		t.Errorf("got %q, %v", out, err)
	}
	os.Remove(filepath.Join(dir, "via.tmpl"))
	os.Remove(filepath.Join(dir, "through.tmpl"))
	os.Remove(filepath.Join(dir, "direct.tmpl"))
	named, err := Load("name.tmpl", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = named.Render(&types.ClusterConfig{}, map[string]any{"name": "x"})
	wantError(t, err, `template "x" is defined in several files`)
	_, err = named.Render(&types.ClusterConfig{}, map[string]any{"name": "y"})
	wantError(t, err, `no template "y"`)
}

func TestUsesEndpoints(t *testing.T) {
	for text, want := range map[string]bool{
		`{{ len .VIPs }}`:            false,
		`{{ endpoints "a" "b" "" }}`: true,
		`{{ if false }}{{ range endpoints "a" "b" "" }}{{ end }}{{ end }}`: true,
		`{{ template "uses" }}`:               true,
		`{{ template "not" }}`:                false,
		`{{ include "uses" . }}`:              true,
		`{{ include (printf "no%s" "t") . }}`: true, // any of them
	} {
		dir := directory(t, map[string]string{"t.tmpl": text,
			"p.tmpl": `{{ define "uses" }}{{ endpoints "a" "b" "" }}{{ end }}{{ define "not" }}{{ end }}`})
		tmpl, err := Load("t.tmpl", Options{Dir: dir})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if tmpl.UsesEndpoints() != want {
			t.Errorf("%s: UsesEndpoints is %v", text, !want)
		}
	}
}

func TestDelimiters(t *testing.T) {
	dir := directory(t, map[string]string{"t.tmpl": `{{ x }} [[ .Params.a ]] [[ template "p" ]]`, "p.tmpl": `[[ define "p" ]]part[[ end ]]`})
	tmpl, err := Load("t.tmpl", Options{Dir: dir, LeftDelim: "[[", RightDelim: "]]"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tmpl.Render(&types.ClusterConfig{}, map[string]any{"a": 1})
	if err != nil || string(out) != "{{ x }} 1 part" {
		t.Errorf("got %q, %v", out, err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{"{{ now }}", "{{ .X | upper }}", "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}", "{{ range $i, $x := .VIPs }}{{ $i }}{{ else }}{{ end }}",
		"{{ with (index .VIPs 0).Address }}{{ . }}{{ end }}", "{{- /* c */ -}}", "{{ block \"a\" . }}{{ break }}{{ end }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "t.tmpl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, Options{}); err != nil && !strings.Contains(err.Error(), path+":") {
			t.Errorf("error without a place: %v", err)
		}
	})
}
