package template

import (
	"bytes"
	"fmt"
	"text/template"
)

// Args are the arguments of a command, each a template of its own.
type Args struct {
	what string
	set  []*template.Template
}

// ParseArgs parses the arguments of a command; what names the command in
// errors ("reload of output haproxy"). The functions are those of a template,
// the same ones are refused, and include and endpoints, which need a cluster,
// are not there. Every error is returned, each with the number of its argument.
func ParseArgs(what string, args []string) (*Args, error) {
	funcs, refused, err := functions(nil)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"include", "endpoints"} {
		delete(funcs, name)
		refused[name] = refusal{"a command has no partials and no cluster", "write a file with a template instead"}
	}
	a := &Args{what: what}
	var errs []error
	for i, text := range args {
		name := fmt.Sprintf("%s, argument %d", what, i+1)
		trees, err := parseTrees(name, text, "", "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t := template.New(name).Option("missingkey=error").Funcs(funcs)
		for define, tree := range trees {
			u, faults := inspect(tree, funcs, refused)
			errs = append(errs, faults...)
			for _, c := range u.templates {
				if trees[c.name] == nil {
					errs = append(errs, c.at.errorf("there is no template %q", c.name))
				}
			}
			if _, err := t.AddParseTree(define, tree); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
		a.set = append(a.set, t)
	}
	if err := joinErrors(errs); err != nil {
		return nil, err
	}
	return a, nil
}

// Expand executes every argument on vars. A field or key that is not there is
// an error. It is safe for concurrent use.
func (a *Args) Expand(vars any) ([]string, error) {
	out := make([]string, 0, len(a.set))
	for _, t := range a.set {
		var b bytes.Buffer
		if err := t.Execute(&b, vars); err != nil {
			return nil, explain(err, vars)
		}
		if bytes.Contains(b.Bytes(), []byte(noValue)) {
			return nil, fmt.Errorf("%s: it uses a value that is not there", t.Name())
		}
		out = append(out, b.String())
	}
	return out, nil
}
