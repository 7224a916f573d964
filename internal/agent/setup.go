package agent

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/template"
	"github.com/lb-render/lb-render/internal/types"
)

// Setup is Settings with every template parsed and every output checked.
type Setup struct {
	Units []*Unit
}

// Unit is one output and how to render it.
type Unit struct {
	Output   *output.Output
	Files    []output.File
	settings OutputSettings
	renderer renderer
}

// renderer makes an output's content; it is replaced as a whole when templates or params change.
type renderer struct {
	templates map[string]*template.Template // by file name
	params    map[string]any
}

// Hooks are what outputs call, with the output's name; each may be nil.
type Hooks struct {
	// State is output.Options.OnState: it is called after each pass of an output.
	State func(output string, s output.State)
	// Release is output.Options.Release: nobody looks at b any more.
	Release func(output, file string, b []byte)
}

// Build parses and checks all that s names. Its error has every fault. m may be nil.
func Build(s *Settings, log *slog.Logger, m *output.Metrics, on Hooks) (*Setup, error) {
	var errs *multierror.Error
	setup := &Setup{}
	said := map[string]bool{} // partials are shared: a fault in one is said once
	fail := func(err error) {
		for _, e := range flatten(err) {
			if !said[e.Error()] {
				said[e.Error()] = true
				errs = multierror.Append(errs, e)
			}
		}
	}
	for _, os := range s.Outputs {
		u := &Unit{Files: os.Options.Files, settings: os, renderer: renderer{templates: map[string]*template.Template{}, params: s.Params}}
		for _, name := range slices.Sorted(maps.Keys(os.Templates)) {
			t, err := template.Load(os.Templates[name], s.Templates)
			if err != nil {
				fail(err)
				continue
			}
			u.renderer.templates[name] = t
		}
		o := os.Options
		o.Logger, o.Metrics = log, m
		if on.State != nil {
			o.OnState = func(s output.State) { on.State(o.Name, s) }
		}
		if on.Release != nil {
			o.Release = func(file string, b []byte) { on.Release(o.Name, file, b) }
		}
		for _, c := range []struct {
			what string
			from *Command
			to   **output.Command
		}{{"check", os.Check, &o.Check}, {"reload", os.Reload, &o.Reload}, {"verify", os.Verify, &o.Verify}} {
			if c.from == nil {
				continue
			}
			args, err := template.ParseArgs(fmt.Sprintf("the %s command of output %s", c.what, o.Name), c.from.Args)
			if err != nil {
				fail(err)
				continue
			}
			*c.to = &output.Command{Expand: args.Expand, Shell: c.from.Shell, Timeout: c.from.Timeout}
		}
		out, err := output.New(o)
		if err != nil {
			fail(err)
			continue
		}
		u.Output = out
		setup.Units = append(setup.Units, u)
	}
	if errs != nil {
		errs.ErrorFormat = lines
		return nil, errs
	}
	return setup, nil
}

// lines is a multierror's format: one error a line.
func lines(errs []error) string {
	out := make([]string, len(errs))
	for i, e := range errs {
		out[i] = e.Error()
	}
	return strings.Join(out, "\n")
}

// loadResult is one attempt to load the config and all it names.
type loadResult struct {
	settings *Settings // nil if not even the config could be read
	setup    *Setup
	prints   string // fingerprint of the files, as they were when they were read
	err      error
}

// load loads the config and everything it names. watched are the files whose
// content may change meanwhile, as far as they are known: the fingerprint is taken
// before they are read, so that an edit in that moment is seen afterwards. If
// the config names others, it is loaded once more.
func (a *Agent) load(watched []string) (l loadResult) {
	for range 3 {
		l = loadResult{prints: fingerprint(watched)}
		if l.settings, l.err = a.opts.Load(); l.err != nil {
			return l
		}
		if l.setup, l.err = Build(l.settings, a.log, a.outputs, Hooks{State: a.onState, Release: a.onRelease}); l.err != nil {
			return l
		}
		now := watchedFiles(l.settings, l.setup)
		if slices.Equal(now, watched) {
			return l
		}
		watched = now
	}
	l.prints = "" // matches nothing: they are looked at again
	return l
}

func flatten(err error) []error {
	if m, ok := err.(*multierror.Error); ok {
		return m.Errors
	}
	return []error{err}
}

// Render renders all files of the output in memory; with an error there is none.
func (u *Unit) Render(cc *types.ClusterConfig) (output.Content, error) { return u.renderer.render(cc) }

func (r *renderer) render(cc *types.ClusterConfig) (output.Content, error) {
	content := output.Content{}
	for _, name := range slices.Sorted(maps.Keys(r.templates)) {
		b, err := r.templates[name].Render(cc, r.params)
		if err != nil {
			return nil, err
		}
		content[name] = b
	}
	return content, nil
}

// UsesEndpoints reports whether any template needs ClusterConfig.Services.
func (s *Setup) UsesEndpoints() bool {
	return slices.ContainsFunc(s.Units, func(u *Unit) bool { return u.renderer.usesEndpoints() })
}

func (r *renderer) usesEndpoints() bool {
	for _, t := range r.templates {
		if t.UsesEndpoints() {
			return true
		}
	}
	return false
}

// overlaps reports whether two outputs have the name or a file in common.
func (u *Unit) overlaps(v *Unit) bool {
	if u.Output.Name() == v.Output.Name() {
		return true
	}
	return slices.ContainsFunc(u.Files, func(f output.File) bool {
		return slices.ContainsFunc(v.Files, func(g output.File) bool { return resolved(f.Path) == resolved(g.Path) })
	})
}

// templateFiles are all files that were read for the templates.
func (s *Setup) templateFiles() []string {
	var out []string
	for _, u := range s.Units {
		for _, t := range u.renderer.templates {
			out = append(out, t.Files()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sameOutput reports whether a worker can go on with other templates: all but them is the same.
func sameOutput(a, b OutputSettings) bool {
	a.Templates, b.Templates = nil, nil
	return reflect.DeepEqual(a, b)
}
