// Package template turns a ClusterConfig into the bytes of a file, through the
// operator's own text/template.
//
// Load reads a template and the partials beside it, refuses what would make
// the output depend on anything but the cluster, the params and the template
// (the clock, the host, a random source), and reports every fault of every
// file at once, each as file:line:column. Render executes it into memory;
// nothing is written anywhere. ParseArgs and Expand do the same for the
// arguments of commands.
//
// Rendering costs what has changed. What a range, a template call or an include
// gives on an element of the ClusterConfig is remembered by the element's
// pointer. purity.go, scope.go and captures.go decide at load what depends on the
// element only; sites.go rewrites the templates so that these places ask the
// memory (memory.go); incremental.go is the render, asking.go what is asked in it,
// writing.go where its text goes. The bytes are always those of text/template.
//
// Render may be called from many goroutines; one at a time has the memory, and the others
// render without. It never changes the ClusterConfig or the params, and no
// function that a template may call does either.
package template

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"text/template"

	"github.com/hashicorp/go-multierror"

	"github.com/lb-render/lb-render/internal/types"
)

// Options say where partials are and how templates are read. The zero value
// reads one file, with {{ and }}, and no partials.
type Options struct {
	// Dir is the directory of partials: every *.tmpl and *.tpl in it (not in
	// folders below it, and no hidden files) is parsed, and found by the names
	// it defines and by its own base name. Empty means no partials.
	Dir string
	// LeftDelim and RightDelim replace {{ and }}; empty means the usual one.
	LeftDelim, RightDelim string
	// AllowFunctions brings back functions that are refused otherwise, by name.
	AllowFunctions []string
}

// Template is one parsed template with everything it can call.
type Template struct {
	name          string
	files         []string
	main          string // the template's name in set
	set           *template.Template
	funcs         template.FuncMap
	ambiguous     map[string][]string // names that several partials define: where
	usesEndpoints bool
	reached       []string     // the templates that main can execute
	memory        *incremental // nil: every render is a plain one
}

// root is the dot of every template: the fields of the ClusterConfig, and Params.
type root struct {
	*types.ClusterConfig
	Params map[string]any
}

// Load reads file, relative to o.Dir unless it is absolute, and the partials
// of o.Dir. It returns every error of every file, each with its place; several
// are a *multierror.Error.
func Load(file string, o Options) (*Template, error) {
	funcs, refused, err := functions(o.AllowFunctions)
	if err != nil {
		return nil, err
	}
	path := file
	if !filepath.IsAbs(file) {
		path = filepath.Join(o.Dir, file)
	}
	l := &loader{options: o, funcs: funcs, refused: refused, defined: map[string][]definition{}}
	if err := l.read(path); err != nil {
		return nil, err
	}
	set, err := l.link()
	if err != nil {
		return nil, err
	}
	t := &Template{
		name:      file,
		files:     l.files,
		main:      l.main,
		set:       set,
		funcs:     funcs,
		ambiguous: l.ambiguous(),
	}
	t.usesEndpoints, t.reached = l.calls("endpoints"), l.reachable()
	if !l.changesData() {
		if t.memory, err = newIncremental(t); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", file, err)
		}
	}
	return t, nil
}

// Name returns the name the template was loaded by.
func (t *Template) Name() string { return t.name }

// Files returns the paths of all files that were read, sorted, the partials
// included: a change of any of them is a change of the template.
func (t *Template) Files() []string { return append([]string(nil), t.files...) }

// UsesEndpoints reports whether the template can call the function endpoints,
// which needs ClusterConfig.Services.
func (t *Template) UsesEndpoints() bool { return t.usesEndpoints }

// Render executes the template. It takes values of package types for what they
// were as long as their pointers are the same: published values are immutable.
// Nor may params be changed once they were given to it; other ones may.
// The bytes that it returns must not be changed, since the next render copies from
// them; they stay what they are until they are given to Recycle. The dot is cc with params beside it as
// .Params; whole numbers in params are ints whatever YAML made of them. An
// error names file, line and the expression, and no bytes are returned with it.
func (t *Template) Render(cc *types.ClusterConfig, params map[string]any) ([]byte, error) {
	if cc == nil {
		return nil, fmt.Errorf("rendering %s: there is no cluster config yet", t.name)
	}
	dot := root{ClusterConfig: cc, Params: plainParams(params)}
	out, err := t.render(dot)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", t.name, explain(err, dot))
	}
	return out, nil
}

// RenderPlain gives the same bytes as Render, and remembers nothing: what
// text/template does, and others do on each event. Tests and benchmarks hold Render against it.
func (t *Template) RenderPlain(cc *types.ClusterConfig, params map[string]any) ([]byte, error) {
	plain := *t
	plain.memory = nil
	return plain.Render(cc, params)
}

// Recycle takes back bytes that Render has returned, once nobody else will look
// at them any more: a later render writes into them. Not calling it costs their
// garbage; for an output of megabytes that is most of what a small change costs.
func (t *Template) Recycle(b []byte) {
	if t.memory != nil {
		t.memory.recycle(b)
	}
}

// render renders from memory. Where that fails it renders as text/template
// does, whose word on what is wrong is the last.
func (t *Template) render(dot root) ([]byte, error) {
	var out []byte
	var doubtful bool
	err := errBusy
	if t.memory != nil {
		out, doubtful, err = t.memory.render(dot)
	}
	if err != nil {
		if out, err = t.execute(t.set, dot); err != nil {
			return nil, err
		}
		doubtful = suspicious(out)
	}
	if doubtful {
		if err := t.diagnose(dot); err != nil {
			if t.memory != nil {
				t.memory.forget() // nobody vouches for it
			}
			return nil, err
		}
	}
	return out, nil
}

// execute runs the set on dot, with the functions that need this very render.
func (t *Template) execute(set *template.Template, dot root) ([]byte, error) {
	clone, err := set.Clone()
	if err != nil {
		return nil, err
	}
	r := &run{set: clone, ambiguous: t.ambiguous, cc: dot.ClusterConfig}
	clone.Funcs(template.FuncMap{"include": r.include, "endpoints": r.endpoints})
	var b bytes.Buffer
	if err := clone.ExecuteTemplate(&b, t.main, dot); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// joinErrors returns nil, the only error, or all of them sorted by their text,
// which begins with the place.
func joinErrors(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	sort.SliceStable(errs, func(i, j int) bool {
		var a, b *placeError
		if errors.As(errs[i], &a) && errors.As(errs[j], &b) {
			return a.before(b)
		}
		return false
	})
	return multierror.Append(nil, errs...)
}
