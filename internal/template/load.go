package template

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"text/template"
	"text/template/parse"
)

// definition is one named template and the file it is from.
type definition struct {
	file string
	tree *parse.Tree
	uses uses
}

// loader gathers the definitions of all files and links those that the main
// file reaches into one set.
type loader struct {
	options Options
	funcs   template.FuncMap
	refused map[string]refusal

	files   []string
	main    string // name of the main template
	path    string // of the main file
	defined map[string][]definition
	errs    []error
}

// read parses the main file and every partial.
func (l *loader) read(path string) error {
	l.path, l.main = path, filepath.Base(path)
	partials, err := partials(l.options.Dir)
	if err != nil {
		l.errs = append(l.errs, err)
	}
	l.files = []string{path}
	for _, p := range partials {
		if filepath.Clean(p) != filepath.Clean(path) {
			l.files = append(l.files, p)
		}
	}
	for _, f := range l.files {
		text, err := os.ReadFile(f)
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("reading template: %w", err))
			continue
		}
		l.parse(f, string(text))
	}
	sort.Strings(l.files)
	return nil
}

// partials lists the templates of dir, sorted. Hidden names are left out: those
// of editors, and the ..data of a mounted ConfigMap, whose files are symlinks.
func partials(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the directory of partials: %w", err)
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || filepath.Ext(name) != ".tmpl" && filepath.Ext(name) != ".tpl" {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone since, or a dangling link
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the directory of partials: %w", err)
		case info.Mode().IsRegular():
			out = append(out, path)
		}
	}
	return out, nil
}

// parse adds what one file defines. Functions are not checked by the parser,
// which stops at the first unknown one, but by the walk, which finds all.
func (l *loader) parse(file, text string) {
	trees, err := parseTrees(file, text, l.options.LeftDelim, l.options.RightDelim)
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	names := make([]string, 0, len(trees))
	for name := range trees {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		tree := trees[name]
		u, errs := inspect(tree, l.funcs, l.refused)
		l.errs = append(l.errs, errs...)
		if name == file {
			name = filepath.Base(file)
		}
		l.defined[name] = append(l.defined[name], definition{file: file, tree: tree, uses: u})
	}
}

// parseTrees parses one text; its own tree is under the name file.
func parseTrees(file, text, left, right string) (map[string]*parse.Tree, error) {
	trees := map[string]*parse.Tree{}
	t := parse.New(file)
	t.Mode = parse.SkipFuncCheck
	if _, err := t.Parse(text, left, right, trees); err != nil {
		return nil, syntaxError(file, text, err)
	}
	return trees, nil
}

// pick returns the definition that a name means: the main file's own, or the
// only one of the other files.
func (l *loader) pick(name string) (definition, bool) {
	ds := l.defined[name]
	for _, d := range ds {
		if d.file == l.path {
			return d, true
		}
	}
	if len(ds) == 1 {
		return ds[0], true
	}
	return definition{}, false
}

// ambiguous lists the names that several other files define, with the files.
func (l *loader) ambiguous() map[string][]string {
	out := map[string][]string{}
	for name, ds := range l.defined {
		if _, ok := l.pick(name); ok {
			continue
		}
		for _, d := range ds {
			out[name] = append(out[name], d.file)
		}
	}
	return out
}

// link checks every call of a template and builds the set.
func (l *loader) link() (*template.Template, error) {
	names := make([]string, 0, len(l.defined))
	for name := range l.defined {
		names = append(names, name)
	}
	sort.Strings(names)
	reached := l.reachable()
	ambiguous := l.ambiguous()
	for _, name := range names {
		for _, d := range l.defined[name] {
			for _, c := range d.uses.templates {
				if files := ambiguous[c.name]; files != nil {
					// Two partials may each have a private "server"; that
					// is a fault only where this template would have to choose.
					if picked, ok := l.pick(name); ok && picked.tree == d.tree && slices.Contains(reached, name) {
						l.errs = append(l.errs, c.at.errorf("template %q is defined in several files (%s); rename all but one",
							c.name, strings.Join(files, ", ")))
					}
					continue
				}
				if len(l.defined[c.name]) == 0 {
					l.errs = append(l.errs, c.at.errorf("there is no template %q%s", c.name, nearest(c.name, names, "defined are")))
				}
			}
		}
	}
	if err := joinErrors(l.errs); err != nil {
		return nil, err
	}
	set := template.New(l.main).Option("missingkey=error").Funcs(l.funcs)
	for _, name := range names {
		d, ok := l.pick(name)
		if !ok {
			continue
		}
		if _, err := set.AddParseTree(name, d.tree); err != nil {
			return nil, fmt.Errorf("adding template %q of %s: %w", name, d.file, err)
		}
	}
	return set, nil
}

// reachable lists the names that rendering the main template can execute. An
// include with a computed name reaches all of them.
func (l *loader) reachable() []string {
	seen := map[string]bool{}
	var out []string
	todo := []string{l.main}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		d, ok := l.pick(name)
		if !ok {
			continue
		}
		out = append(out, name)
		for _, c := range d.uses.templates {
			todo = append(todo, c.name)
		}
		if d.uses.anyTemplate {
			for other := range l.defined {
				todo = append(todo, other)
			}
		}
	}
	sort.Strings(out)
	return out
}

// calls reports whether rendering the main template can call a function.
func (l *loader) calls(function string) bool {
	for _, name := range l.reachable() {
		if d, ok := l.pick(name); ok && d.uses.functions[function] {
			return true
		}
	}
	return false
}

// changesData reports whether rendering the main template can call a function
// that was allowed and changes its input.
func (l *loader) changesData() bool {
	return slices.ContainsFunc(mutators, l.calls)
}
