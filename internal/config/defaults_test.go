package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDefaults says every default once more, so that none changes by accident.
func TestDefaults(t *testing.T) {
	got, err := Parse("/etc/lb-render/lb-render.yaml", []byte("cluster: {inCluster: true}\noutputs:\n  - name: a\n    files: [{template: a.tmpl, path: /p/a.cfg}]\n"+
		"    check: {command: 'x {{ .Staged }}'}\n    reload: {command: [x]}\n    verify: {command: [x]}\n"), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Cluster:   Cluster{InCluster: true},
		ConfigMap: ConfigMap{Namespace: "platform-load-balancer", Name: "lb-config", Key: "green"},
		Node:      Node{Scope: "cluster"},
		Pods:      "all",
		Timing:    Timing{Quiet: 200 * time.Millisecond, MaxWait: 2 * time.Second, Resync: 10 * time.Minute, StartTimeout: 30 * time.Second},
		Guard:     Guard{MaxLoss: 1, Hold: 60 * time.Second},
		Outputs: []Output{{
			Name:     "a",
			Files:    []File{{Name: "a_cfg", Template: "/etc/lb-render/a.tmpl", Path: "/p/a.cfg"}},
			Check:    &Command{Args: []string{"x {{ .Staged }}"}, Shell: true, Timeout: 30 * time.Second},
			Reload:   &Command{Args: []string{"x"}, Timeout: 60 * time.Second},
			Verify:   &Command{Args: []string{"x"}, Timeout: 30 * time.Second},
			Rollback: true,
		}},
		HTTP:       HTTP{Listen: "127.0.0.1:9180"},
		StateDir:   "/var/lib/lb-render",
		RuntimeDir: "/run/lb-render",
		Log:        Log{Level: "info", Format: "text"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestEmptySections: a section whose lines are all comments means its defaults.
func TestEmptySections(t *testing.T) {
	got, err := Parse("f", []byte(least+"configMap:\nnode:\nauto:\ntiming:\nguard:\nparams:\nhttp:\nlog:\nallowFunctions:\ndelims:\n"), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse("f", []byte(least), Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestOverrides(t *testing.T) {
	t.Chdir(t.TempDir())
	here := fromHere("")
	two := strings.Replace(least, "inCluster: true", "inCluster: true, kubeconfig: /k", 1)
	for _, c := range []struct {
		name, config string
		o            Overrides
		got          func(*Config) any
		want         any
	}{
		{"kubeconfig", least, Overrides{Kubeconfig: "k"}, func(c *Config) any { return c.Cluster }, Cluster{Kubeconfig: here + "/k"}},
		{"manifests", least, Overrides{Manifests: "m"}, func(c *Config) any { return c.Cluster }, Cluster{Manifests: here + "/m"}},
		{"of two sources", two, Overrides{Manifests: "/m"}, func(c *Config) any { return c.Cluster }, Cluster{Manifests: "/m"}},
		{"of no source", least[strings.Index(least, "outputs"):], Overrides{Manifests: "/m"}, func(c *Config) any { return c.Cluster }, Cluster{Manifests: "/m"}},
		{"node", least + "node: {scope: node}\npods: node\n", Overrides{NodeName: "n"}, func(c *Config) any { return c.Node }, Node{Name: "n", Scope: "node"}},
		{"node, with another scope", least + "node: {name: A_B, scope: cluster}\n", Overrides{NodeName: "n"}, func(c *Config) any { return c.Node }, Node{Name: "n", Scope: "cluster"}},
		{"node of the file", least + "node: {name: n1}\n", Overrides{}, func(c *Config) any { return c.Node }, Node{Name: "n1", Scope: "node"}},
		{"log", least + "log: {level: warn}\n", Overrides{LogLevel: "debug", LogFormat: "json"}, func(c *Config) any { return c.Log }, Log{"debug", "json"}},
		{"directories", least + "stateDir: s\nruntimeDir: r\n", Overrides{StateDir: "/s", RuntimeDir: "/r"}, func(c *Config) any { return c.StateDir + " " + c.RuntimeDir }, "/s /r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := Parse("/etc/f", []byte(c.config), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.got(config); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestWrongFlags: faults of flags are said to be of flags, and beside those of the file.
func TestWrongFlags(t *testing.T) {
	_, err := Parse("f", []byte(least+"pods: some\n"), Overrides{Kubeconfig: "k", Manifests: "m", NodeName: "A_B", LogLevel: "loud", LogFormat: "xml"})
	want := `--kubeconfig: does not go with --manifests; give one of them
--log-level: is "loud"; it must be one of debug, info, warn, error
--log-format: is "xml"; it must be one of text, json
--node-name: "A_B" is not a node name that Kubernetes allows; kubectl get nodes shows them
f:4: pods: is the text "some"; it must be one of all, node, none`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestLoadWithoutFile(t *testing.T) {
	_, err := Load(t.TempDir()+"/nowhere.yaml", Overrides{})
	if err == nil || !strings.Contains(err.Error(), "nowhere.yaml") || !strings.Contains(err.Error(), "--config") {
		t.Errorf("got %v", err)
	}
}
