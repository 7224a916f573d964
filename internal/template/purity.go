package template

import "text/template/parse"

// impure are the functions whose result depends on more than their arguments.
// What refusals lists comes to it where allowFunctions brings it back.
var impure = []string{
	"endpoints", // reads the cluster
	"call",      // calls whatever a value holds
}

// purity knows what depends on its arguments only.
type purity struct {
	impure    map[string]bool // functions
	templates map[string]bool // those that depend on their dot only
}

// newPurity looks at all templates of a set. A template is pure if what it
// calls is; those that call each other in a ring are pure if no other reason is against it.
func newPurity(trees map[string]*parse.Tree) *purity {
	p := &purity{impure: map[string]bool{}, templates: map[string]bool{}}
	for _, name := range impure {
		p.impure[name] = true
	}
	for name := range refusals() {
		p.impure[name] = true
	}
	for name := range trees {
		p.templates[name] = true
	}
	for again := true; again; {
		again = false
		for name, tree := range trees {
			if p.templates[name] && !p.list(tree.Root) {
				p.templates[name], again = false, true
			}
		}
	}
	return p
}

// list reports whether everything in a list is pure, variables aside.
func (p *purity) list(l *parse.ListNode) bool {
	pure := true
	walk(l, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.IdentifierNode:
			pure = pure && !p.impure[n.Ident]
		case *parse.TemplateNode:
			pure = pure && p.templates[n.Name]
		case *parse.CommandNode:
			if name, ok := included(n); ok {
				pure = pure && p.templates[name]
			}
		}
	})
	return pure
}

// included returns the name of the template that a command includes, "" if it
// is computed (which is not the name of a pure one); ok is false for other commands.
func included(cmd *parse.CommandNode) (name string, ok bool) {
	if id, is := cmd.Args[0].(*parse.IdentifierNode); !is || id.Ident != "include" {
		return "", false
	}
	if len(cmd.Args) > 1 {
		if s, is := cmd.Args[1].(*parse.StringNode); is {
			return s.Text, true
		}
	}
	return "", true
}

// mutators are those of refusals that change their input: with one of them
// allowed, nothing can be said of what any value was before.
var mutators = []string{"set", "unset", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"}
