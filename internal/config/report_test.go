package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-multierror"
)

// TestEveryFaultAtOnce: five mistakes, five lines, each with its place, in the
// order of the file; and none that follows from another.
func TestEveryFaultAtOnce(t *testing.T) {
	_, err := Load("testdata/five.yaml", Overrides{})
	want, readErr := os.ReadFile("testdata/five.errors")
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err == nil || err.Error()+"\n" != string(want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	var all *multierror.Error
	if !errors.As(err, &all) || len(all.Errors) != 5 {
		t.Errorf("not five errors: %#v", err)
	}
}

// TestMisspelledBesideRight: a misspelled key does not hide what is wrong with the right one.
func TestMisspelledBesideRight(t *testing.T) {
	_, err := Parse("f", []byte("cluster: {inCluster: true}\noutputs:\n  - {naem: a, name: a b, files: [{template: t, path: /p}]}\n"), Overrides{})
	want := "f:3: outputs[0].naem: unknown key; did you mean name?\nf:3: outputs[0].name: \"a b\" is not a name; use letters, digits, dot, dash and underscore"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestSyntaxErrorLines: the YAML library counts lines now from zero and now from one.
func TestSyntaxErrorLines(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{"a: [1, 2\nb: 3\n", "f:2: not YAML: did not find expected ',' or ']'"},
		{"x: 1\na: {b: 1\nc: 2\n", "f:2: not YAML: did not find expected ',' or '}'"},
		{"cluster:\n  x: 1\n y: 2\n", "f:3: not YAML: did not find expected key"},
		{"a: 1\nb:\n  - c\n  d: e\n", "f:3: not YAML: did not find expected '-' indicator"}, // where the list begins
		{"a: 1\nb: @x\n", "f:2: not YAML: found character that cannot start any token; indent with spaces"},
		{"a: 1\nb: c: d\n", "f:2: not YAML: mapping values are not allowed in this context"},
		{"a: 1\nb: !x!y z\n", "f:2: not YAML: found undefined tag handle"},
		{"a: 1\nb: *x\n", "f:2: not YAML: unknown anchor 'x' referenced"},
		{"a: 1\n\n%\n", "f:3: not YAML:"},
		{"a: &x\n  b: 1\n  b: *y\n", "f:3: not YAML: unknown anchor 'y' referenced"},
	} {
		_, err := Parse("f", []byte(c.config), Overrides{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q\ngot  %v\nwant %s", c.config, err, c.want)
		}
	}
}

// TestParams: templates get the types that are written, at any depth.
func TestParams(t *testing.T) {
	c, err := Parse("f", []byte(least+`params:
  int: 9180
  float: 0.5
  bool: true
  text: "010"
  yes: no
  date: 2026-01-02
  none:
  list: [1, two, {three: 3, date: 2026-01-02T03:04:05Z}]
  base: &base {a: 1, b: {c: 2}}
  same: *base
  more: {<<: *base, a: 3}
`), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	base := map[string]any{"a": 1, "b": map[string]any{"c": 2}}
	want := map[string]any{
		"int": 9180, "float": 0.5, "bool": true, "text": "010", "yes": "no", "date": "2026-01-02", "none": nil,
		"list": []any{1, "two", map[string]any{"three": 3, "date": "2026-01-02T03:04:05Z"}},
		"base": base, "same": base, "more": map[string]any{"a": 3, "b": map[string]any{"c": 2}},
	}
	if !reflect.DeepEqual(c.Params, want) {
		t.Errorf("got  %#v\nwant %#v", c.Params, want)
	}
}

// TestAnchors: a part that is said once may be used twice.
func TestAnchors(t *testing.T) {
	c, err := Parse("f", []byte("cluster: {inCluster: true}\noutputs:\n"+
		"  - {name: a, files: [{template: t, path: /p/a}], reload: &r {command: [systemctl, reload, x], timeout: 5s}}\n"+
		"  - {name: b, files: [{template: t, path: /p/b}], reload: *r}\n"), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Outputs[0].Reload, c.Outputs[1].Reload) || len(c.Outputs[1].Reload.Args) != 3 {
		t.Errorf("got %+v", c.Outputs[1].Reload)
	}
}

// TestFileNames: a file without a name is called by its path.
func TestFileNames(t *testing.T) {
	for path, want := range map[string]string{
		"/p/haproxy.cfg": "haproxy_cfg", "/p/10-lb.conf": "_10_lb_conf", "/p/.hidden": "_hidden", "/p/ä": "_",
	} {
		c, err := Parse("f", []byte("cluster: {inCluster: true}\noutputs: [{name: a, files: [{template: t, path: "+path+"}]}]"), Overrides{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if got := c.Outputs[0].Files[0].Name; got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
