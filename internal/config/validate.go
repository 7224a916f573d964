package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// override applies what flags and the environment say.
func (d *decoder) override(c *Config, o Overrides) {
	switch {
	case o.Kubeconfig != "" && o.Manifests != "":
		d.fail(0, "", "--kubeconfig and --manifests exclude each other")
	case o.Kubeconfig != "":
		c.Cluster = Cluster{Kubeconfig: o.Kubeconfig}
	case o.Manifests != "":
		c.Cluster = Cluster{Manifests: o.Manifests}
	}
	set := func(to *string, v string) {
		if v != "" {
			*to = v
		}
	}
	set(&c.Node.Name, o.NodeName)
	set(&c.Log.Level, o.LogLevel)
	set(&c.Log.Format, o.LogFormat)
	set(&c.StateDir, o.StateDir)
	set(&c.RuntimeDir, o.RuntimeDir)
	if c.Node.Scope == "" {
		c.Node.Scope = "cluster"
		if c.Node.Name != "" {
			c.Node.Scope = "node" // whoever names the node wants what runs on it
		}
	}
}

var (
	dnsName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	dataKey    = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)
	outputName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	fileName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	autoName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?:[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	userName   = regexp.MustCompile(`^([a-zA-Z_][-a-zA-Z0-9_.]*\$?|[0-9]+)$`)
)

// rule reports a fault of a key unless it holds, or the key has one already.
func (d *decoder) rule(holds bool, key, format string, args ...any) {
	if holds || d.faultyWithin(key) {
		return
	}
	line := d.at[key]
	for at := key; line == 0 && at != ""; line = d.at[at] { // a missing key is a fault of what it is missing in
		at = parent(at)
	}
	d.fail(line, key, format, args...)
}

// faultyWithin reports whether a key, or one below it, has a fault already.
func (d *decoder) faultyWithin(key string) bool {
	for k := range d.faulty {
		if rest, ok := strings.CutPrefix(k, key); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

func parent(key string) string {
	if i := strings.LastIndexAny(key, ".["); i >= 0 {
		return key[:i]
	}
	return ""
}

func (d *decoder) validate(c *Config) {
	sources := 0
	for _, set := range []bool{c.Cluster.Kubeconfig != "", c.Cluster.InCluster, c.Cluster.Manifests != ""} {
		if set {
			sources++
		}
	}
	d.rule(sources > 0, "cluster", "names no source; give one of kubeconfig, inCluster: true, or manifests")
	d.rule(sources < 2, "cluster", "names several sources; leave one of kubeconfig, inCluster and manifests")
	d.rule(dnsName.MatchString(c.ConfigMap.Namespace), "configMap.namespace", "%q is not a namespace that Kubernetes allows", c.ConfigMap.Namespace)
	d.rule(dnsName.MatchString(c.ConfigMap.Name), "configMap.name", "%q is not a name that Kubernetes allows", c.ConfigMap.Name)
	d.rule(dataKey.MatchString(c.ConfigMap.Key), "configMap.key", "%q is not a key that a ConfigMap allows", c.ConfigMap.Key)
	d.rule(c.Node.Name == "" || dnsName.MatchString(c.Node.Name), "node.name", "%q is not a node name that Kubernetes allows", c.Node.Name)
	d.rule(c.Node.Scope != "node" || c.Node.Name != "", "node.scope", "is node, but node.name is not given; it says which")
	d.rule(c.Pods != "node" || c.Node.Name != "", "pods", "is node, but node.name is not given; it says which")
	d.rule(c.Auto.Service == "" || autoName.MatchString(c.Auto.Service), "auto.service", "%q is not of the form namespace/service:port", c.Auto.Service)
	d.rule(c.Auto.Service == "" || c.Auto.Port != 0, "auto.port", "is missing; on which port of each VIP is the auto service?")
	d.rule(c.Auto.Port >= 0 && c.Auto.Port <= 65535, "auto.port", "%d is out of range; a port is 1 to 65535", c.Auto.Port)
	d.rule(c.Auto.Service != "" || c.Auto.Port == 0, "auto.service", "is missing; which service is on auto.port?")
	d.rule(c.Timing.Quiet <= c.Timing.MaxWait, "timing.quiet", "%s is longer than timing.maxWait, %s", c.Timing.Quiet, c.Timing.MaxWait)
	d.rule(c.StateDir != "", "stateDir", "is empty; give a directory that outlives a boot")
	d.rule(c.RuntimeDir != "", "runtimeDir", "is empty; give a directory that is empty after a boot")
	if c.HTTP.Listen != "" {
		_, port, err := net.SplitHostPort(c.HTTP.Listen)
		n, convErr := strconv.Atoi(port)
		d.rule(err == nil && convErr == nil && n >= 0 && n <= 65535, "http.listen", `%q is not an address; write host:port, such as 127.0.0.1:9180, or "" for no server`, c.HTTP.Listen)
	}
	d.rule(len(c.Outputs) > 0, "outputs", "is missing; give at least one, with its files")
	names, paths := map[string]string{}, map[string]string{}
	for i := range c.Outputs {
		d.validateOutput(&c.Outputs[i], fmt.Sprintf("outputs[%d]", i), names, paths)
	}
}

func (d *decoder) validateOutput(o *Output, key string, names, paths map[string]string) {
	if d.faulty[key] {
		return // not even a map
	}
	d.rule(outputName.MatchString(o.Name), key+".name", "%q is not a name; use letters, digits, dot, dash and underscore", o.Name)
	d.rule(o.Name == "" || names[o.Name] == "", key+".name", "%q is the name of %s too; names are unique", o.Name, names[o.Name])
	names[o.Name] = key
	d.rule(len(o.Files) > 0, key+".files", "is missing; an output is at least one file")
	files := map[string]string{}
	for i := range o.Files {
		f := &o.Files[i]
		k := fmt.Sprintf("%s.files[%d]", key, i)
		if d.faulty[k] {
			continue
		}
		d.rule(f.Path != "", k+".path", "is missing; where does the file go?")
		d.rule(f.Template != "", k+".template", "is missing; what is the file made of?")
		d.rule(f.Name == "" || fileName.MatchString(f.Name), k+".name", "%q is not a name; use letters, digits and underscore, so that commands can say .Files.%s.Staged", f.Name, identifier(f.Name))
		d.rule(f.Name == "" || files[f.Name] == "", k+".name", "%q is the name of %s too; give each file of an output its own name", f.Name, files[f.Name])
		d.rule(f.Path == "" || paths[f.Path] == "", k+".path", "%s is written by %s too; two files in one place would undo each other", f.Path, paths[f.Path])
		d.rule(f.Owner == "" || userName.MatchString(f.Owner), k+".owner", "%q is neither a user name nor a number", f.Owner)
		d.rule(f.Group == "" || userName.MatchString(f.Group), k+".group", "%q is neither a group name nor a number", f.Group)
		files[f.Name], paths[f.Path] = k, k
	}
	if o.Check != nil && len(o.Check.Args) > 0 {
		d.validateCheck(o, key+".check.command")
	}
}

var (
	livePath = regexp.MustCompile(`\.Path\b|\bLB_RENDER_(\w+_)?PATH\b`)
	staged   = regexp.MustCompile(`\.Staged\b|\bLB_RENDER_(\w+_)?STAGED\b`)
)

// validateCheck: a check of the live file always passes and says nothing of the new one.
func (d *decoder) validateCheck(o *Output, key string) {
	line := strings.Join(o.Check.Args, "\n")
	for _, f := range o.Files {
		d.rule(f.Path == "" || !mentions(line, f.Path), key, "checks the live file %s, which says nothing of the new one; write {{ .Staged }} in its place", f.Path)
	}
	d.rule(!livePath.MatchString(line), key, "checks the live file, which says nothing of the new one; use .Staged in the place of .Path")
	d.rule(staged.MatchString(line), key, "does not look at the new file; give it {{ .Staged }}, or {{ .Files.NAME.Staged }} of several")
}

// mentions reports whether line has path as a whole, and not as the beginning of a longer one.
func mentions(line, path string) bool {
	for rest := line; ; {
		i := strings.Index(rest, path)
		if i < 0 {
			return false
		}
		rest = rest[i+len(path):]
		if rest == "" || !strings.ContainsAny(rest[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") {
			return true
		}
	}
}
