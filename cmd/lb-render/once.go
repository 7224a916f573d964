package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/lb-render/lb-render/internal/agent"
	"github.com/lb-render/lb-render/internal/manifest"
	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

// onceFlags are those of the commands that read the cluster once.
type onceFlags struct {
	timeout   time.Duration
	configMap string
}

func (f *onceFlags) addTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.timeout, "timeout", 60*time.Second, "how long reading the cluster may take; a refusal is not waited out")
}

func (f *onceFlags) add(cmd *cobra.Command) {
	f.addTimeout(cmd)
	cmd.Flags().StringVar(&f.configMap, "config-map", "", "`file` with the ConfigMap to use in the place of the cluster's, such as one that is about to be applied")
}

// once is the state of the cluster at one moment, and what the config makes of it.
type once struct {
	ctx    context.Context // ends with the timeout
	loaded *loaded
	setup  *agent.Setup
	config *types.ClusterConfig
	// configErr is why the ConfigMap is not in force, though an earlier version of it is.
	configErr error
	watcher   *watcher.Watcher
	close     func()
}

// once reads config, templates and cluster, and changes nothing. Entries that
// are not served as they are written are warned of.
func (p *program) once(ctx context.Context, f *onceFlags) (*once, error) {
	return p.settled(ctx, f, true)
}

func (p *program) settled(ctx context.Context, f *onceFlags, readOnly bool) (*once, error) {
	o, err := p.open(ctx, f, readOnly)
	if err == nil {
		err = o.settle(p)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// open begins to read the cluster. Unless readOnly, the last valid entries are kept for the next time.
func (p *program) open(ctx context.Context, f *onceFlags, readOnly bool) (*once, error) {
	l, err := p.load()
	if err != nil {
		return nil, err
	}
	setup, err := agent.Build(l.settings, l.logger, nil, agent.Hooks{})
	if err != nil {
		return nil, err
	}
	opts := []watcher.Option{watcher.WithAllServices(setup.UsesEndpoints()), watcher.WithoutStatusLog()}
	if f.configMap != "" {
		cm, err := readConfigMap(f.configMap)
		if err != nil {
			return nil, err
		}
		opts = append(opts, watcher.WithConfigMap(cm))
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	w, err := l.watch(ctx, prometheus.NewRegistry(), readOnly || l.foreign || f.configMap != "", opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &once{ctx: ctx, loaded: l, setup: setup, watcher: w, close: func() {
		cancel()
		w.Wait()
	}}, nil
}

// sync waits until the cluster was read. Where that takes long it says what
// for. A refusal that is there at two looks, three seconds apart, ends the wait: an API
// server that has just started refuses at first what it allows later, but not for long.
func (o *once) sync(p *program) error {
	for told, refusals := false, 0; ; told = true {
		soon, cancel := context.WithTimeout(o.ctx, 3*time.Second)
		err := o.watcher.Sync(soon)
		cancel()
		if err == nil || o.ctx.Err() != nil {
			return err
		}
		status := o.watcher.Status()
		if !status.Refused() {
			refusals = 0
		} else if refusals++; refusals == 2 {
			return fmt.Errorf("reading the cluster: %s", status.Waiting())
		}
		if !told {
			fmt.Fprintf(p.stderr, "lb-render: waiting for the cluster: %s\n", status.Waiting())
		}
	}
}

// settle waits for the config.
func (o *once) settle(p *program) (err error) {
	w := o.watcher
	if err := o.sync(p); err != nil {
		o.close()
		return err
	}
	if o.config, err = w.Config(o.ctx); err != nil {
		o.close()
		return err
	}
	if o.configErr = w.Status().ConfigError; o.configErr != nil {
		fmt.Fprintln(p.stderr, "warning:", o.configErr)
	}
	for _, problem := range o.config.Problems {
		fmt.Fprintln(p.stderr, "warning:", describe(problem))
	}
	return nil
}

func readConfigMap(file string) (*v1.ConfigMap, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	objects, err := manifest.Decode(file, data)
	if err != nil {
		return nil, err
	}
	var found *v1.ConfigMap
	for _, o := range objects {
		cm, ok := o.(*v1.ConfigMap)
		if !ok {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s: more than one ConfigMap; leave the one that is meant", file)
		}
		found = cm
	}
	if found == nil {
		return nil, fmt.Errorf("%s: no ConfigMap in it", file)
	}
	return found, nil
}

// describe says a problem in one line.
func describe(p types.Problem) string {
	var b strings.Builder
	if p.Place != "" {
		fmt.Fprintf(&b, "line %d: %s: ", p.Line, p.Place)
	} else {
		fmt.Fprintf(&b, "%s port %s: ", p.VIP, p.Port)
	}
	fmt.Fprintf(&b, "%s (%s; served: %s)", p.Message, p.Reason, p.Served)
	return b.String()
}

// picked is what an argument OUTPUT[/FILE] selects.
type picked struct {
	units []*agent.Unit
	file  string // "" for all of them
}

func (o *once) pick(args []string) (picked, error) {
	if len(args) == 0 {
		return picked{units: o.setup.Units}, nil
	}
	name, file, hasFile := strings.Cut(args[0], "/")
	var known []string
	for _, u := range o.setup.Units {
		known = append(known, u.Output.Name())
		if u.Output.Name() != name {
			continue
		}
		if !hasFile {
			return picked{units: []*agent.Unit{u}}, nil
		}
		var files []string
		for _, f := range u.Files {
			if f.Name == file {
				return picked{[]*agent.Unit{u}, file}, nil
			}
			files = append(files, f.Name)
		}
		return picked{}, fmt.Errorf("output %s has no file %q; it has %s", name, file, strings.Join(files, ", "))
	}
	return picked{}, fmt.Errorf("there is no output %q; there are %s", name, strings.Join(known, ", "))
}

// oneError puts a list of errors into lines, the first of which follows the program's name.
func oneError(err error) string {
	list := flatten(err)
	if len(list) == 1 {
		return list[0].Error()
	}
	lines := []string{fmt.Sprintf("%d errors:", len(list))}
	for _, e := range list {
		lines = append(lines, "  "+strings.ReplaceAll(e.Error(), "\n", "\n    "))
	}
	return strings.Join(lines, "\n")
}

// flatten finds the list in an error that holds several.
func flatten(err error) []error {
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) {
		if list := many.WrappedErrors(); len(list) > 0 {
			return list
		}
	}
	return []error{err}
}
