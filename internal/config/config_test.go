package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestFullConfig loads a config in which every key has its default: it must
// mean the same as one with only what is required.
func TestFullConfig(t *testing.T) {
	full, err := Load("testdata/full.yaml", Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o640)
	want := Defaults()
	want.Cluster.Kubeconfig = "/etc/lb-render/kubeconfig"
	want.Node.Scope = "cluster"
	want.TemplateDir = "/etc/lb-render/templates"
	want.Params = map[string]any{}
	want.Outputs = []Output{{
		Name:        "haproxy",
		Files:       []File{{Name: "cfg", Template: "haproxy.cfg.tmpl", Path: "/etc/haproxy/haproxy.cfg", Mode: &mode, Owner: "root", Group: "haproxy"}},
		Check:       &Command{Args: []string{"haproxy", "-c", "-f", "{{ .Staged }}"}, Timeout: 30 * time.Second},
		Reload:      &Command{Args: []string{"systemctl", "reload", "haproxy"}, Timeout: time.Minute},
		Rollback:    true,
		MinInterval: 5 * time.Second,
	}}
	if !reflect.DeepEqual(full, want) {
		t.Errorf("got  %+v\nwant %+v", full, want)
	}
}

const least = "cluster: {inCluster: true}\noutputs:\n  - {name: a, files: [{template: t, path: /p/a.cfg}]}\n"

func TestRelativePathsAndOverrides(t *testing.T) {
	c, err := Parse("/etc/x/lb.yaml", []byte("cluster: {manifests: m}\ntemplateDir: ../t\noutputs: [{name: a, files: [{template: t, path: out/a.b-c}]}]\nstateDir: s\n"),
		Overrides{NodeName: "n1", LogLevel: "debug", LogFormat: "json", RuntimeDir: "/run/other"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster.Manifests != "/etc/x/m" || c.TemplateDir != "/etc/t" || c.StateDir != "/etc/x/s" || c.RuntimeDir != "/run/other" ||
		c.Node.Scope != "node" || c.Log != (Log{"debug", "json"}) || c.Outputs[0].Files[0].Path != "/etc/x/out/a.b-c" || c.Outputs[0].Files[0].Name != "a_b_c" {
		t.Errorf("got %+v", c)
	}
	c, err = Parse("lb.yaml", []byte(strings.Replace(least, "inCluster: true", "kubeconfig: /k", 1)), Overrides{Manifests: "/m"})
	if err != nil || c.Cluster != (Cluster{Manifests: "/m"}) {
		t.Errorf("the flag does not win: %+v %v", c, err)
	}
}

func TestFaults(t *testing.T) {
	out := func(fields string) string {
		return "cluster: {inCluster: true}\noutputs:\n  - name: a\n    files: [{template: t, path: /p/a.cfg}]\n    " + fields + "\n"
	}
	file := func(fields string) string {
		return "cluster: {inCluster: true}\noutputs:\n  - name: a\n    files: [{template: t, path: /p/a.cfg, " + fields + "}]\n"
	}
	for _, c := range []struct{ name, config, want string }{
		{"empty", "", "f: the file is empty"},
		{"not YAML", "a: b: c", "f: not YAML: mapping values are not allowed"},
		{"tab", "cluster:\n\tinCluster: true", "f:2: not YAML"},
		{"a list", "- a", "f:1: is a list; the config is a map"},
		{"two documents", least + "---\n{}", "f:4: a second document begins here"},
		{"unknown key", least + "clustre: {}", "f:4: clustre: unknown key; did you mean cluster?"},
		{"unknown key, far from all", least + "zzzzzz: {}", "f:4: zzzzzz: unknown key; known are allowFunctions,"},
		{"wrong case", least + "TemplateDir: x", "f:4: TemplateDir: unknown key; did you mean templateDir?"},
		{"key twice", least + "pods: all\npods: all", "f:5: pods: the key is given twice"},
		{"no source", "outputs: [{name: a, files: [{template: t, path: /p}]}]", "f: cluster: names no source"},
		{"two sources", strings.Replace(least, "inCluster: true", "inCluster: true, manifests: x", 1), "f:1: cluster: names several sources"},
		{"text for a map", least + "timing: fast", `f:4: timing: is the text "fast"; it must be a map with the keys maxWait, quiet`},
		{"duration without unit", least + "timing: {quiet: 5}", "f:4: timing.quiet: is 5; it must be a duration with its unit"},
		{"negative duration", least + "timing: {quiet: -5s}", "f:4: timing.quiet: -5s is too short"},
		{"quiet over maxWait", least + "timing: {quiet: 5s}", "f:4: timing.quiet: 5s is longer than timing.maxWait, 2s"},
		{"percentage", least + "guard: {maxLoss: 0.5}", "f:4: guard.maxLoss: is 0.5; it must be a percentage"},
		{"percentage over 100", least + "guard: {maxLoss: 101%}", "f:4: guard.maxLoss:"},
		{"percentage not a number", least + "guard: {maxLoss: NaN%}", "f:4: guard.maxLoss:"},
		{"pods", least + "pods: some", `f:4: pods: is the text "some"; it must be one of all, node, none`},
		{"pods without node", least + "pods: node", "f:4: pods: is node, but node.name is not given"},
		{"scope without node", least + "node: {scope: node}", "f:4: node.scope: is node, but node.name is not given"},
		{"node name", least + "node: {name: A_B}", `f:4: node.name: "A_B" is not a node name`},
		{"auto", least + "auto: {service: web, port: 71}", `f:4: auto.service: "web" is not of the form namespace/service:port`},
		{"auto without port", least + "auto: {service: a/b:c}", "f:4: auto.port: is missing"},
		{"auto port", least + "auto: {service: a/b:c, port: 70000}", "f:4: auto.port: 70000 is out of range"},
		{"auto port without service", least + "auto: {port: 71}", "f:4: auto.service: is missing"},
		{"listen", least + "http: {listen: 9180}", `f:4: http.listen: "9180" is not an address; write host:port`},
		{"level", least + "log: {level: loud}", "f:4: log.level:"},
		{"delims", least + "delims: ['<%']", "f:4: delims: must be a list of two different texts"},
		{"params", least + "params: [a]", "f:4: params: is a list; it must be a map"},
		{"inCluster text", strings.Replace(least, "inCluster: true", "inCluster: 'yes'", 1), `f:1: cluster.inCluster: is the text "yes"; it must be true or false`},
		{"configMap name", least + "configMap: {name: a/b}", `f:4: configMap.name: "a/b" is not a name`},
		{"no outputs", "cluster: {inCluster: true}", "f: outputs: is missing"},
		{"outputs a map", "cluster: {inCluster: true}\noutputs: {}", "f:2: outputs: is a map; it must be a list"},
		{"output a text", "cluster: {inCluster: true}\noutputs: [x]", `f:2: outputs[0]: is the text "x"; an output is a map`},
		{"no name", "cluster: {inCluster: true}\noutputs: [{files: [{template: t, path: /p}]}]", `f:2: outputs[0].name: "" is not a name`},
		{"name twice", least + "  - {name: a, files: [{template: t, path: /p/b}]}", `f:4: outputs[1].name: "a" is the name of outputs[0] too`},
		{"path twice", least + "  - {name: b, files: [{template: t, path: /p/a.cfg}]}", "f:4: outputs[1].files[0].path: /p/a.cfg is written by outputs[0].files[0] too"},
		{"no files", "cluster: {inCluster: true}\noutputs: [{name: a}]", "f:2: outputs[0].files: is missing"},
		{"no path", "cluster: {inCluster: true}\noutputs: [{name: a, files: [{template: t}]}]", "f:2: outputs[0].files[0].path: is missing"},
		{"no template", "cluster: {inCluster: true}\noutputs: [{name: a, files: [{path: /p}]}]", "f:2: outputs[0].files[0].template: is missing"},
		{"file name", file("name: a-b"), "f:4: outputs[0].files[0].name: \"a-b\" is not a name; use letters, digits and underscore, so that commands can say .Files.a_b.Staged"},
		{"mode as number", file("mode: 0640"), `f:4: outputs[0].files[0].mode: is the number 0640; write the mode in quotes, such as "0640"`},
		{"mode as other number", file("mode: 640"), `is the number 640; write the mode in quotes, such as "0640"`},
		{"mode not octal", file("mode: '0980'"), `f:4: outputs[0].files[0].mode: is the text "0980"; it must be a mode in octal`},
		{"owner", file("owner: 'a b'"), "f:4: outputs[0].files[0].owner:"},
		{"command empty", out("reload: {command: []}"), "f:5: outputs[0].reload.command: is an empty list"},
		{"command missing", out("reload: {timeout: 5s}"), "f:5: outputs[0].reload.command: is missing"},
		{"command unquoted braces", out("check: {command: [haproxy, {{ .Staged }}]}"), "f:5: outputs[0].check.command[1]: is a map; an argument is text; put {{ … }} in quotes"},
		{"minInterval of a check", out("check: {command: 'x {{ .Staged }}', minInterval: 5s}"), "f:5: outputs[0].check.minInterval: unknown key"},
		{"check of the live path", out("check: {command: [haproxy, -c, -f, /p/a.cfg]}"), "f:5: outputs[0].check.command: checks the live file /p/a.cfg"},
		{"check of .Path", out("check: {command: 'haproxy -f {{ .Path }}'}"), "f:5: outputs[0].check.command: checks the live file"},
		{"check of $LB_RENDER_PATH", out("check: {command: 'haproxy -f $LB_RENDER_PATH'}"), "f:5: outputs[0].check.command: checks the live file"},
		{"check of nothing", out("check: {command: [true]}"), "f:5: outputs[0].check.command: does not look at the new file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(c.config), Overrides{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if err != nil && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("one fault, several errors:\n%v", err)
			}
		})
	}
}

func TestChecksThatAreFine(t *testing.T) {
	for _, command := range []string{
		`[haproxy, -c, -f, "{{ .Staged }}"]`, `"haproxy -c -f {{ .Files.a_cfg.Staged }}"`, `"haproxy -c -f $LB_RENDER_STAGED"`,
		`"haproxy -c -f $LB_RENDER_FILES_A_CFG_STAGED"`, `"diff /p/a.cfg.reference {{ .Staged }}"`,
	} {
		if _, err := Parse("f", []byte(strings.TrimSuffix(least, "}\n")+", check: {command: "+command+"}}\n"), Overrides{}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	_, err := Parse("f", []byte("clustre: {inCluster: true}\npods: some\noutputs:\n  - name: a b\n    files: [{template: t, path: /p, mode: 640}]\n    check: {command: [x]}\n"), Overrides{})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 5 {
		t.Errorf("want 5 lines:\n%v", err)
	}
}

func FuzzParse(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(full))
	f.Add(least)
	f.Add("a: &a [*a]")
	f.Add("outputs: &o [{files: *o}]")
	f.Add("params: &p {p: *p}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f", []byte(text), Overrides{})
		if err == nil && (len(c.Outputs) == 0 || c.Outputs[0].Files[0].Path == "") {
			t.Errorf("accepted without what is required: %+v", c)
		}
	})
}
