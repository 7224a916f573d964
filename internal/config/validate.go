package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"text", "json"}
)

// override applies what flags and the environment say.
func (d *decoder) override(c *Config, o Overrides) {
	switch {
	case o.Kubeconfig != "" && o.Manifests != "":
		d.failFlag("--kubeconfig", "does not go with --manifests; give one of them")
	case o.Kubeconfig != "":
		c.Cluster = Cluster{Kubeconfig: fromHere(o.Kubeconfig)}
	case o.Manifests != "":
		c.Cluster = Cluster{Manifests: fromHere(o.Manifests)}
	}
	for _, f := range []struct {
		flag, value string
		allowed     []string
		to          *string
	}{{"--log-level", o.LogLevel, logLevels, &c.Log.Level}, {"--log-format", o.LogFormat, logFormats, &c.Log.Format}} {
		switch {
		case f.value == "":
		case !slices.Contains(f.allowed, f.value):
			d.failFlag(f.flag, "is %q; it must be one of %s", f.value, strings.Join(f.allowed, ", "))
		default:
			*f.to = f.value
		}
	}
	switch {
	case o.NodeName == "":
	case !isSubdomain(o.NodeName):
		d.failFlag("--node-name", "%q is not a node name that Kubernetes allows; kubectl get nodes shows them", o.NodeName)
	default:
		c.Node.Name = o.NodeName
	}
	if o.StateDir != "" {
		c.StateDir = fromHere(o.StateDir)
	}
	if o.RuntimeDir != "" {
		c.RuntimeDir = fromHere(o.RuntimeDir)
	}
	if c.Node.Scope == "" {
		c.Node.Scope = "cluster"
		if c.Node.Name != "" {
			c.Node.Scope = "node" // whoever names the node wants what runs on it
		}
	}
}

// fromHere makes a path of the command line absolute.
func fromHere(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path // there is no working directory; opening it will say so
}

// What Kubernetes allows.
var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	dataKey   = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)
)

func isSubdomain(s string) bool { return len(s) <= 253 && subdomain.MatchString(s) }

func isDataKey(s string) bool {
	return dataKey.MatchString(s) && s != "." && !strings.HasPrefix(s, "..")
}

// isServicePort reports whether s is namespace/service:port, the port by name or number.
func isServicePort(s string) bool {
	namespace, rest, _ := strings.Cut(s, "/")
	service, port, _ := strings.Cut(rest, ":")
	if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > 65535) {
		return false
	}
	return label.MatchString(namespace) && label.MatchString(service) && label.MatchString(port)
}

// What we allow.
var (
	outputName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) // a part of file names and metrics
	fileName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)     // a field in templates
	userName   = regexp.MustCompile(`^([a-zA-Z_][-a-zA-Z0-9_.]*\$?|[0-9]+)$`)
	hostName   = regexp.MustCompile(`^[-A-Za-z0-9_.:%]*$`)
)

func (d *decoder) validate(c *Config) {
	sources := 0
	for _, set := range []bool{c.Cluster.Kubeconfig != "", c.Cluster.InCluster, c.Cluster.Manifests != ""} {
		if set {
			sources++
		}
	}
	d.rule(sources > 0, "cluster", "names no source; give one of kubeconfig, inCluster: true, or manifests")
	d.rule(sources < 2, "cluster", "names several sources; leave one of kubeconfig, inCluster and manifests")
	d.rule(label.MatchString(c.ConfigMap.Namespace), "configMap.namespace", "%q is not a namespace that Kubernetes allows; use lower-case letters, digits and dashes", c.ConfigMap.Namespace)
	d.rule(isSubdomain(c.ConfigMap.Name), "configMap.name", "%q is not a name that Kubernetes allows; use lower-case letters, digits, dashes and dots", c.ConfigMap.Name)
	d.rule(isDataKey(c.ConfigMap.Key), "configMap.key", "%q is not a key that a ConfigMap allows; use letters, digits, dashes, underscores and dots", c.ConfigMap.Key)
	d.rule(c.Node.Name == "" || isSubdomain(c.Node.Name), "node.name", "%q is not a node name that Kubernetes allows; kubectl get nodes shows them", c.Node.Name)
	d.rule(c.Node.Scope != "node" || c.Node.Name != "", "node.scope", "is node, but node.name is not given; it says which")
	d.rule(c.Pods != "node" || c.Node.Name != "", "pods", "is node, but node.name is not given; it says which")
	d.rule(c.Auto.Service == "" || isServicePort(c.Auto.Service), "auto.service", "%q is not of the form namespace/service:port", c.Auto.Service)
	d.rule(c.Auto.Service == "" || c.Auto.Port != 0, "auto.port", "is missing; on which port of each VIP is the auto service?")
	d.rule(c.Auto.Port >= 0 && c.Auto.Port <= 65535, "auto.port", "%d is out of range; a port is 1 to 65535", c.Auto.Port)
	d.rule(c.Auto.Service != "" || c.Auto.Port == 0, "auto.service", "is missing; which service is on auto.port?")
	d.rule(c.Timing.Quiet <= c.Timing.MaxWait, "timing.quiet", "%s is longer than timing.maxWait, %s; make it shorter", c.Timing.Quiet, c.Timing.MaxWait)
	d.rule(c.StateDir != "", "stateDir", "is empty; give a directory that outlives a boot")
	d.rule(c.RuntimeDir != "", "runtimeDir", "is empty; give a directory that is empty after a boot")
	d.rule(c.RuntimeDir != c.StateDir || c.StateDir == "", "runtimeDir", "is stateDir too; the one must be empty after a boot, and the other must not")
	if c.HTTP.Listen != "" {
		host, port, err := net.SplitHostPort(c.HTTP.Listen)
		n, convErr := strconv.Atoi(port)
		d.rule(err == nil && convErr == nil && n >= 0 && n <= 65535 && hostName.MatchString(host), "http.listen",
			`%q is not an address; write host:port, such as 127.0.0.1:9180, or "" for no server`, c.HTTP.Listen)
	}
	d.rule(len(c.Outputs) > 0, "outputs", "is missing; give at least one, with its files")
	names, paths := map[string]string{}, map[string]string{}
	for i := range c.Outputs {
		d.validateOutput(c, &c.Outputs[i], fmt.Sprintf("outputs[%d]", i), names, paths)
	}
}

// validateOutput knows the names and the paths of the outputs before it.
func (d *decoder) validateOutput(c *Config, o *Output, key string, names, paths map[string]string) {
	if d.faulty[key] {
		return // not even a map
	}
	d.rule(o.Name != "", key+".name", "is missing; metrics, status and the marker call the output by it")
	d.rule(o.Name == "" || outputName.MatchString(o.Name), key+".name", "%q is not a name; use letters, digits, dot, dash and underscore", o.Name)
	d.rule(o.Name == "" || names[o.Name] == "", key+".name", "%q is the name of %s too; names are unique", o.Name, names[o.Name])
	names[o.Name] = key
	d.rule(len(o.Files) > 0, key+".files", "is missing; an output is at least one file")
	files := map[string]*File{} // by their name in the environment
	for i := range o.Files {
		f := &o.Files[i]
		k := fmt.Sprintf("%s.files[%d]", key, i)
		if d.faulty[k] {
			continue
		}
		if f.Template != "" && !filepath.IsAbs(f.Template) && c.TemplateDir == "" {
			f.Template = filepath.Join(d.dir, f.Template) // like every other path, and not to wherever the agent was started
		}
		d.rule(f.Path != "", k+".path", "is missing; where does the file go?")
		d.rule(f.Template != "", k+".template", "is missing; what is the file made of?")
		if f.Path != "" {
			d.rule(f.Path != d.self, k+".path", "%s is this config; it must not be written", f.Path)
			d.rule(f.Template == "" || f.Path != templatePath(c, f), k+".path", "%s is the template itself; it must not be written", f.Path)
			d.rule(paths[f.Path] == "", k+".path", "%s is written by %s too; two files in one place would undo each other", f.Path, paths[f.Path])
			paths[f.Path] = k
		}
		d.validateFileName(f, k, files)
		d.rule(f.Owner == "" || userName.MatchString(f.Owner), k+".owner", "%q is neither a user name nor a number", f.Owner)
		d.rule(f.Group == "" || userName.MatchString(f.Group), k+".group", "%q is neither a group name nor a number", f.Group)
	}
	if o.Check != nil && len(o.Check.Args) > 0 && len(o.Files) > 0 {
		d.validateCheck(o, key)
	}
}

func templatePath(c *Config, f *File) string {
	if filepath.IsAbs(f.Template) {
		return filepath.Clean(f.Template)
	}
	return filepath.Join(c.TemplateDir, f.Template)
}

func (d *decoder) validateFileName(f *File, key string, others map[string]*File) {
	if f.Name == "" || d.at[key+".name"] == 0 && d.faulty[key+".path"] {
		return // the name is made of the path, which has a fault already
	}
	d.rule(fileName.MatchString(f.Name), key+".name", "%q is not a name; use letters, digits and underscore, so that commands can say .Files.%s.Staged", f.Name, identifier(f.Name))
	other := others[envName(f.Name)]
	switch {
	case other == nil:
		others[envName(f.Name)] = f
	case other.Name == f.Name:
		d.rule(false, key+".name", "%q is the name of %s too; give each file of an output its own name", f.Name, other.Path)
	default:
		d.rule(false, key+".name", "%q and %q are both LB_RENDER_FILES_%s_STAGED in the environment of commands; rename one", other.Name, f.Name, envName(f.Name))
	}
}

// envName is a file's name as it is in the environment of commands.
func envName(name string) string { return strings.ToUpper(name) }
