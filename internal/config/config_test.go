package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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
	files := func(list string) string {
		return "cluster: {inCluster: true}\noutputs:\n  - name: a\n    files: [" + list + "]\n"
	}
	file := func(fields string) string {
		return "cluster: {inCluster: true}\noutputs:\n  - name: a\n    files: [{template: t, path: /p/a.cfg, " + fields + "}]\n"
	}
	for _, c := range []struct{ name, config, want string }{
		{"empty", "", "f:1: the file is empty"},
		{"not YAML", "a: b: c", "f:1: not YAML: mapping values are not allowed"},
		{"tab", "cluster:\n\tinCluster: true", "f:2: not YAML"},
		{"only comments", "# nothing\n", "f:1: the file is empty"},
		{"an empty document", "---\n", "f:1: the file is empty"},
		{"not UTF-8", "pods: all\npods: \xff\n", "f:2: is not UTF-8"},
		{"a control character", "pods: all\npods: \x01\n", "f:2: has the control character U+0001"},
		{"an anchor that is nowhere", "pods: all\nlog: *l\n", "f:2: not YAML: unknown anchor 'l' referenced"},
		{"a list", "- a", "f:1: is a list; the config is a map"},
		{"two documents", least + "---\n{}", "f:4: a second document begins here"},
		{"unknown key", least + "clustre: {}", "f:4: clustre: unknown key; did you mean cluster?"},
		{"unknown key, far from all", least + "zzzzzz: {}", "f:4: zzzzzz: unknown key; known are allowFunctions,"},
		{"wrong case", least + "TemplateDir: x", "f:4: TemplateDir: unknown key; did you mean templateDir?"},
		{"key twice", least + "pods: all\npods: all", "f:5: pods: the key is given twice"},
		{"a list as a key", least + "? [a]\n: b", "f:4: has a list as a key; the keys are allowFunctions"},
		{"a newline in a key", least + `"a\nb": c`, `f:4: a\nb: unknown key`},
		{"a newline in a value", least + `pods: !x "a\nb"`, `f:4: pods: is a\nb; it must be one of`},
		{"null for text", least + "pods:", "f:4: pods: is empty; it must be one of all, node, none"},
		{"null in a list", least + "allowFunctions: [now]\ndelims: [~, x]", "f:5: delims[0]: is empty; it must be text"},
		{"a wrong type in a list", least + "allowFunctions: [[now]]", "f:4: allowFunctions[0]: is a list; it must be text"},
		{"no source", "outputs: [{name: a, files: [{template: t, path: /p}]}]", "f:1: cluster: names no source"},
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
		{"auto port in octal, or not", least + "auto: {service: a/b:c, port: 010}", "f:4: auto.port: is 010; it must be a whole number"},
		{"auto service with port 0", least + "auto: {service: a/b:0, port: 71}", `f:4: auto.service: "a/b:0" is not of the form`},
		{"auto port without service", least + "auto: {port: 71}", "f:4: auto.service: is missing"},
		{"listen", least + "http: {listen: 9180}", `f:4: http.listen: "9180" is not an address; write host:port`},
		{"listen at a URL", least + "http: {listen: 'http//x:80'}", `f:4: http.listen: "http//x:80" is not an address`},
		{"a state that does not outlive a boot", least + "runtimeDir: /var/lib/lb-render", "f:4: runtimeDir: is stateDir too"},
		{"no state", least + "stateDir: ''", "f:4: stateDir: is empty"},
		{"no resync", least + "timing: {resync: 0s}", "f:4: timing.resync: 0s is too short; the least is 1s"},
		{"format", least + "log: {format: xml}", `f:4: log.format: is the text "xml"; it must be one of text, json`},
		{"level", least + "log: {level: loud}", "f:4: log.level:"},
		{"delims", least + "delims: ['<%']", "f:4: delims: must be a list of two different texts"},
		{"params", least + "params: [a]", "f:4: params: is a list; it must be a map"},
		{"a number as a key of params", least + "params:\n  a: {b: [{1: c}]}", "f:5: params.a.b[0]: has 1 as a key; keys are text, so put it in quotes"},
		{"a key of params twice", least + "params:\n  a: 1\n  b: 2\n  a: 3", "f:7: params.a: the key is given twice"},
		{"params that hold themselves", least + "params: &p {p: *p}", "f:4: params: anchor 'p' value contains itself"},
		{"params with a wrong tag", least + "params: {p: !!int x}", "f:4: params: cannot decode"},
		{"inCluster text", strings.Replace(least, "inCluster: true", "inCluster: 'yes'", 1), `f:1: cluster.inCluster: is the text "yes"; it must be true or false`},
		{"configMap name", least + "configMap: {name: a/b}", `f:4: configMap.name: "a/b" is not a name`},
		{"configMap namespace", least + "configMap: {namespace: a.b}", `f:4: configMap.namespace: "a.b" is not a namespace`},
		{"configMap key", least + "configMap: {key: ../green}", `f:4: configMap.key: "../green" is not a key`},
		{"configMap key of dots", least + "configMap: {key: ..}", `f:4: configMap.key: ".." is not a key`},
		{"no outputs", "cluster: {inCluster: true}", "f:1: outputs: is missing"},
		{"outputs a map", "cluster: {inCluster: true}\noutputs: {}", "f:2: outputs: is a map; it must be a list"},
		{"output a text", "cluster: {inCluster: true}\noutputs: [x]", `f:2: outputs[0]: is the text "x"; an output is a map`},
		{"no name", "cluster: {inCluster: true}\noutputs: [{files: [{template: t, path: /p}]}]", "f:2: outputs[0].name: is missing"},
		{"no name, further down", least + "  - files: [{template: t, path: /p/b}]", "f:4: outputs[1].name: is missing"},
		{"null for an output", least + "  -", "f:4: outputs[1]: is empty; an output is a map"},
		{"output name", strings.Replace(least, "name: a", "name: a/b", 1), `f:3: outputs[0].name: "a/b" is not a name`},
		{"path twice in two spellings", least + "  - {name: b, files: [{template: t, path: /p/../p//a.cfg}]}", "f:4: outputs[1].files[0].path: /p/a.cfg is written by outputs[0].files[0] too"},
		{"path twice in one output", files("{template: t, path: /p/a}, {template: u, path: /p/a}"), "f:4: outputs[0].files[1].path: /p/a is written by outputs[0].files[0] too"},
		{"path of a directory", files("{template: t, path: /p/}"), `f:4: outputs[0].files[0].path: "/p/" is a directory`},
		{"path of the directory above", files("{template: t, path: ..}"), `f:4: outputs[0].files[0].path: ".." is a directory`},
		{"path with a newline", files(`{template: t, path: "/p/a\nb"}`), `f:4: outputs[0].files[0].path: "/p/a\nb" is not a path`},
		{"path of the config", files("{template: t, path: f}"), "/f is this config; it must not be written"},
		{"path of the template", files("{template: t.tmpl, path: t.tmpl}"), "/t.tmpl is the template itself; it must not be written"},
		{"path of the template in templateDir", files("{template: t.tmpl, path: x/t.tmpl}") + "templateDir: x\n", "/x/t.tmpl is the template itself; it must not be written"},
		{"two files of one name", files("{template: t, path: /p/a}, {template: t, path: /q/a}"), `f:4: outputs[0].files[1].name: "a" is the name of /p/a too`},
		{"two files of one name in the environment", files("{template: t, path: /p/a}, {template: t, path: /p/A}"), `f:4: outputs[0].files[1].name: "a" and "A" are both LB_RENDER_FILES_A_STAGED`},
		{"a file that is text", files("x"), `f:4: outputs[0].files[0]: is the text "x"; a file is a map with template and path`},
		{"name twice", least + "  - {name: a, files: [{template: t, path: /p/b}]}", `f:4: outputs[1].name: "a" is the name of outputs[0] too`},
		{"path twice", least + "  - {name: b, files: [{template: t, path: /p/a.cfg}]}", "f:4: outputs[1].files[0].path: /p/a.cfg is written by outputs[0].files[0] too"},
		{"no files", "cluster: {inCluster: true}\noutputs: [{name: a}]", "f:2: outputs[0].files: is missing"},
		{"no files to check", "cluster: {inCluster: true}\noutputs: [{name: a, check: {command: 'x {{ .Staged }}'}}]", "f:2: outputs[0].files: is missing"},
		{"no path", "cluster: {inCluster: true}\noutputs: [{name: a, files: [{template: t}]}]", "f:2: outputs[0].files[0].path: is missing"},
		{"no template", "cluster: {inCluster: true}\noutputs: [{name: a, files: [{path: /p}]}]", "f:2: outputs[0].files[0].template: is missing"},
		{"file name", file("name: a-b"), "f:4: outputs[0].files[0].name: \"a-b\" is not a name; use letters, digits and underscore, so that commands can say .Files.a_b.Staged"},
		{"mode as number", file("mode: 0640"), `f:4: outputs[0].files[0].mode: is the number 0640; write the mode in quotes, such as "0640"`},
		{"mode as other number", file("mode: 640"), `is the number 640; write the mode in quotes, such as "0640"`},
		{"mode not octal", file("mode: '0980'"), `f:4: outputs[0].files[0].mode: is the text "0980"; it must be a mode in octal`},
		{"mode with more than permissions", file("mode: '4755'"), `f:4: outputs[0].files[0].mode: is the text "4755"; it must be a mode in octal`},
		{"group", file("group: 'a:b'"), `f:4: outputs[0].files[0].group: "a:b" is neither a group name nor a number`},
		{"owner", file("owner: 'a b'"), "f:4: outputs[0].files[0].owner:"},
		{"command empty", out("reload: {command: []}"), "f:5: outputs[0].reload.command: is an empty list"},
		{"command missing", out("reload: {timeout: 5s}"), "f:5: outputs[0].reload.command: is missing"},
		{"no command at all", out("check:"), "f:5: outputs[0].check: is empty; give it a command, or remove the key"},
		{"command of white space", out("reload: {command: ' '}"), "f:5: outputs[0].reload.command: is empty"},
		{"command without a program", out("reload: {command: ['', x]}"), "f:5: outputs[0].reload.command[0]: is empty; it must be the program to run"},
		{"command of another type", out("reload: {command: true}"), "f:5: outputs[0].reload.command: is true; it must be a list of arguments, or a line for sh"},
		{"command that is text itself", out("reload: systemctl reload haproxy"), `f:5: outputs[0].reload: is the text "systemctl reload haproxy"; it must be a map with the keys command, minInterval, splay, timeout`},
		{"null argument", out("reload: {command: [x, ~]}"), "f:5: outputs[0].reload.command[1]: is empty; an argument is text"},
		{"timeout of nothing", out("reload: {command: x, timeout: 0s}"), "f:5: outputs[0].reload.timeout: 0s is too short; the least is 1ms"},
		{"negative minInterval", out("reload: {command: x, minInterval: -1s}"), "f:5: outputs[0].reload.minInterval: -1s is too short; the least is 0s"},
		{"negative splay", out("reload: {command: x, splay: -1s}"), "f:5: outputs[0].reload.splay: -1s is too short; the least is 0s"},
		{"rollback", out("rollback: no way"), `f:5: outputs[0].rollback: is the text "no way"; it must be true or false`},
		{"command unquoted braces", out("check: {command: [haproxy, {{ .Staged }}]}"), "f:5: outputs[0].check.command[1]: is a map; an argument is text; put {{ … }} in quotes"},
		{"minInterval of a check", out("check: {command: 'x {{ .Staged }}', minInterval: 5s}"), "f:5: outputs[0].check.minInterval: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(c.config), Overrides{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if err != nil && !everyFault.MatchString(err.Error()) {
				t.Errorf("without its line: %v", err)
			}
			if err != nil && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("one fault, several errors:\n%v", err)
			}
		})
	}
}

// everyFault is how the fault of a file called f begins.
var everyFault = regexp.MustCompile(`^f:[1-9][0-9]*: `)

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
	f.Add(least + "params: {a: {<<: {b: 2026-01-01}}}\n\"x\\ny\": 1\n---\n")
	f.Add(strings.TrimSuffix(least, "}\n") + ", check: {command: 'x {{ range .Files }}{{ .Staged }}{{ end }} $LB_RENDER_FILES_A_CFG_PATH'}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f", []byte(text), Overrides{})
		if err == nil {
			if len(c.Outputs) == 0 || !filepath.IsAbs(c.Outputs[0].Files[0].Path) {
				t.Errorf("accepted without what is required: %+v", c)
			}
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !everyFault.MatchString(line) {
				t.Errorf("an error without its place: %q", line)
			}
		}
	})
}
