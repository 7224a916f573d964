package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lb-render/lb-render/internal/agent"
	"github.com/lb-render/lb-render/internal/config"
	"github.com/lb-render/lb-render/internal/manifest"
	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/template"
	"github.com/lb-render/lb-render/internal/watcher"
)

const defaultConfig = "/etc/lb-render/lb-render.yaml"

// flags work with every command.
type flags struct {
	config    string
	overrides config.Overrides
}

func (f *flags) add(set *pflag.FlagSet, getenv func(string) string) {
	config := getenv("LB_RENDER_CONFIG")
	if config == "" {
		config = defaultConfig
	}
	set.StringVarP(&f.config, "config", "c", config, "the agent's config `file`; LB_RENDER_CONFIG sets another default")
	set.StringVar(&f.overrides.Kubeconfig, "kubeconfig", "", "read the cluster that this `file` names")
	set.StringVar(&f.overrides.Manifests, "manifests", "", "read the manifests in `DIR` in the place of a cluster")
	set.StringVar(&f.overrides.NodeName, "node-name", "", "the Kubernetes node that this host is")
	set.StringVar(&f.overrides.LogLevel, "log-level", "", "debug, info, warn or error")
	set.StringVar(&f.overrides.LogFormat, "log-format", "", "text or json")
	f.overrides.StateDir = firstOf(getenv("STATE_DIRECTORY"))
	f.overrides.RuntimeDir = firstOf(getenv("RUNTIME_DIRECTORY"))
}

// firstOf takes the first of several directories, which systemd separates by colons.
func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ":")
	return first
}

// loaded is the config, ready to be put to use.
type loaded struct {
	config   *config.Config
	settings *agent.Settings
	logger   *slog.Logger
	// foreign: --manifests may be of any cluster, so what this host kept of its own is none of theirs.
	foreign bool
}

// load reads the config file, with what flags and environment say.
func (p *program) load() (*loaded, error) {
	c, err := config.Load(p.flags.config, p.flags.overrides)
	if err != nil {
		return nil, err
	}
	l := &loaded{config: c, logger: newLogger(p.stderr, c.Log), foreign: p.flags.overrides.Manifests != ""}
	l.settings, err = p.settings(c, l)
	return l, err
}

func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // config.Parse lets no other through
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// settings says the config in the agent's terms.
func (p *program) settings(c *config.Config, l *loaded) (*agent.Settings, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding this host's name, which splay depends on: %w", err)
	}
	s := &agent.Settings{
		Files:      []string{p.flags.config},
		ClusterKey: clusterKey(c),
		Templates:  template.Options{Dir: c.TemplateDir, LeftDelim: c.Delims[0], RightDelim: c.Delims[1], AllowFunctions: c.AllowFunctions},
		Params:     c.Params, StartTimeout: c.Timing.StartTimeout, RuntimeDir: c.RuntimeDir, Listen: c.HTTP.Listen,
		Guard: agent.Guard{MaxLoss: c.Guard.MaxLoss, Hold: c.Guard.Hold},
	}
	if c.Cluster.Kubeconfig != "" {
		s.Files = append(s.Files, c.Cluster.Kubeconfig)
	}
	s.Files = append(s.Files, credentials(c)...)
	if p.dryRun {
		s.Listen = "" // beside an agent that runs, which has the address
	}
	s.Cluster = func(ctx context.Context, reg prometheus.Registerer) (agent.Cluster, error) {
		return l.watch(ctx, reg, p.dryRun)
	}
	for _, o := range c.Outputs {
		out := agent.OutputSettings{
			Options: output.Options{Name: o.Name, NoRollback: !o.Rollback, MinInterval: o.MinInterval, Splay: o.Splay, HostName: host,
				Resync: c.Timing.Resync, RuntimeDir: c.RuntimeDir, Hook: p.hook},
			Templates: map[string]string{}, Check: command(o.Check), Reload: command(o.Reload), Verify: command(o.Verify),
		}
		for _, f := range o.Files {
			out.Options.Files = append(out.Options.Files, output.File{Name: f.Name, Path: f.Path, Mode: f.Mode, Owner: f.Owner, Group: f.Group, InPlace: f.InPlace, AllowEmpty: f.AllowEmpty})
			out.Templates[f.Name] = f.Template
		}
		s.Outputs = append(s.Outputs, out)
	}
	return s, nil
}

func command(c *config.Command) *agent.Command {
	if c == nil {
		return nil
	}
	return &agent.Command{Args: c.Args, Shell: c.Shell, Timeout: c.Timeout}
}

// credentials are the files that a change of makes a new watcher necessary, beside the kubeconfig.
func credentials(c *config.Config) []string {
	if c.Cluster.Kubeconfig == "" && !c.Cluster.InCluster {
		return nil
	}
	return watcher.CredentialFiles(c.Cluster.Kubeconfig)
}

// clusterKey is the same as long as a running watcher can go on. A kubeconfig
// and the certificates it names count with their content; a tokenFile is read for each request.
func clusterKey(c *config.Config) string {
	key := fmt.Sprintf("%+v %+v %+v %+v %s %v %v %s", c.Cluster, c.ConfigMap, c.Node, c.Auto, c.Pods, c.Timing.Quiet, c.Timing.MaxWait, c.StateDir)
	for _, f := range append([]string{c.Cluster.Kubeconfig}, credentials(c)...) {
		if f != "" {
			data, _ := os.ReadFile(f) // the watcher says what is wrong
			key += fmt.Sprintf(" %q", data)
		}
	}
	return key
}

// watch follows the cluster until ctx is done. readOnly leaves the state directory as it is.
func (l *loaded) watch(ctx context.Context, reg prometheus.Registerer, readOnly bool, more ...watcher.Option) (*watcher.Watcher, error) {
	c := l.config
	opts := []watcher.Option{
		watcher.WithNode(c.Node.Name), watcher.WithNodeScope(c.Node.Scope == "node"), watcher.WithExcludeCordoned(c.Node.ExcludeCordoned),
		watcher.WithPods(watcher.PodsMode(c.Pods)), watcher.WithTiming(c.Timing.Quiet, c.Timing.MaxWait), watcher.WithRegisterer(reg),
	}
	if !l.foreign || !readOnly {
		opts = append(opts, watcher.WithLastValid(filepath.Join(c.StateDir, "last-valid.json"), readOnly))
	}
	if c.Cluster.Manifests != "" {
		source, err := manifest.New(c.Cluster.Manifests, l.logger, manifest.Options{})
		if err != nil {
			return nil, err
		}
		go source.Run(ctx) // ends with ctx
		opts = append(opts, watcher.WithSource(source))
	}
	return watcher.NewWatcher(ctx, c.Cluster.Kubeconfig, c.ConfigMap.Namespace, c.ConfigMap.Name, c.ConfigMap.Key, "lb-render",
		c.Auto.Service, c.Auto.Port, l.logger, append(opts, more...)...)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
