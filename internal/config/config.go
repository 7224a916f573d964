// Package config reads the agent's own config file. Load and Parse report every
// fault at once, each as FILE:LINE: key: what is wrong; the way out. A key
// that is not known is an error, since it is one that does not do what was meant.
//
// node.go walks the YAML with positions, decode.go knows the keys, values.go what
// a value looks like, validate.go the rules between keys and check.go those of the
// check command; fault.go is how all of them complain. Nothing is shared between
// calls. The package reads the config file and nothing else; what flags and the
// environment say comes in as Overrides, before anything is validated.
package config

import (
	"fmt"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
)

// Config is the agent's config with all defaults filled in and all paths absolute.
type Config struct {
	Cluster     Cluster
	ConfigMap   ConfigMap
	Node        Node
	Auto        Auto
	Pods        string // all, node or none
	Timing      Timing
	Guard       Guard
	TemplateDir string
	Delims      [2]string // "" and "" for the usual ones
	// AllowFunctions brings back template functions that are refused otherwise.
	AllowFunctions []string
	Params         map[string]any
	Outputs        []Output
	HTTP           HTTP
	StateDir       string
	RuntimeDir     string
	Log            Log
}

// Cluster is where the state comes from; exactly one field is set.
type Cluster struct {
	Kubeconfig string
	InCluster  bool
	Manifests  string // a directory
}

// ConfigMap is the operator's document.
type ConfigMap struct{ Namespace, Name, Key string }

// Node says which node this host is, if it is one.
type Node struct {
	Name            string
	Scope           string // cluster or node
	ExcludeCordoned bool
}

// Auto is the service for every VIP of the pool; none if Service is "".
type Auto struct {
	Service string // namespace/service:port
	Port    int
}

// Timing are the agent's intervals.
type Timing struct {
	// Quiet and MaxWait gather changes: until there was none for Quiet, but no longer than MaxWait.
	Quiet, MaxWait time.Duration
	// Resync is how often the disk is read again and the verify commands run.
	Resync time.Duration
	// StartTimeout is how long a start waits for the cluster before it counts as done.
	StartTimeout time.Duration
}

// Guard holds back a config that loses more than MaxLoss of all endpoints.
type Guard struct {
	MaxLoss float64 // 0 to 1; 0 turns it off
	Hold    time.Duration
}

// Output is a group of files with one check and one reload.
type Output struct {
	Name     string
	Files    []File
	Check    *Command // nil for none
	Reload   *Command
	Verify   *Command
	Rollback bool
	// MinInterval and Splay are those of the reload; 0 is none.
	MinInterval, Splay time.Duration
}

// File is one file of an output.
type File struct {
	Name     string
	Template string // relative to TemplateDir, unless absolute; absolute if there is no TemplateDir
	Path     string
	Mode     *os.FileMode // nil keeps the one it has
	Owner    string       // "" keeps the one it has
	Group    string
	InPlace  bool
	// AllowEmpty lets the file be nothing but white space.
	AllowEmpty bool
}

// Command is a list of arguments, or one line for sh -c.
type Command struct {
	Args    []string
	Shell   bool
	Timeout time.Duration
}

// HTTP is the agent's server.
type HTTP struct{ Listen string } // "" for none

// Log says what is logged, and how.
type Log struct{ Level, Format string }

// Overrides are what flags and the environment say; they win over the file. A
// relative path is relative to the working directory, as on any command line.
// The zero value says nothing.
type Overrides struct {
	Kubeconfig, Manifests, NodeName, LogLevel, LogFormat string
	StateDir, RuntimeDir                                 string
}

// Defaults returns the config that an empty file would mean, each value with its reason.
func Defaults() *Config {
	return &Config{
		ConfigMap: ConfigMap{Namespace: "platform-load-balancer", Name: "lb-config", Key: "green"},
		Pods:      "all",
		Timing: Timing{
			Quiet:        200 * time.Millisecond, // the slices of a rolling update come in bursts of less
			MaxWait:      2 * time.Second,        // and a busy cluster is never quiet
			Resync:       10 * time.Minute,       // what is changed by hand is rarely urgent
			StartTimeout: 30 * time.Second,       // a boot must not hang on an API server that is away
		},
		Guard:      Guard{MaxLoss: 1, Hold: time.Minute}, // all endpoints at once is an outage of the control plane, mostly
		HTTP:       HTTP{Listen: "127.0.0.1:9180"},       // metrics for a local scraper, and the status command
		StateDir:   "/var/lib/lb-render",
		RuntimeDir: "/run/lb-render",
		Log:        Log{Level: "info", Format: "text"},
	}
}

// Default timeouts of commands: a check reads files, a reload may wait for connections.
const (
	checkTimeout  = 30 * time.Second
	reloadTimeout = 60 * time.Second
)

// Load reads the file. A relative path in it is relative to the file's directory.
func Load(path string, o Overrides) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the config: %w; name another with --config", err)
	}
	return Parse(path, data, o)
}

// Parse is Load on the content of a file; name is its path.
func Parse(name string, data []byte, o Overrides) (*Config, error) {
	d := newDecoder(name)
	c := Defaults()
	root := d.document(data)
	if root != nil {
		d.config(root, c)
	}
	d.override(c, o)
	if root != nil {
		d.validate(c)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Listen returns http.listen of a file whatever else is wrong with it, so that
// the agent that runs on can be asked. What cannot be read is the default.
func Listen(path string) string {
	c := struct {
		HTTP struct {
			Listen *string `yaml:"listen"`
		} `yaml:"http"`
	}{}
	if data, err := os.ReadFile(path); err == nil {
		_ = yaml.Unmarshal(data, &c) // it says nothing then
	}
	if c.HTTP.Listen == nil {
		return Defaults().HTTP.Listen
	}
	return *c.HTTP.Listen
}
