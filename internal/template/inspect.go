package template

import (
	"text/template"
	"text/template/parse"
)

// uses is what one template calls.
type uses struct {
	functions   map[string]bool
	templates   []call
	anyTemplate bool // an include whose name is computed
}

// call is one {{template}} or include with a literal name.
type call struct {
	name string
	at   place
}

// builtins are the functions of text/template itself. The parser is told not
// to look at names, so the walk has to know them.
var builtins = []string{
	"and", "call", "html", "index", "slice", "js", "len", "not", "or", "print", "printf", "println", "urlquery",
	"eq", "ge", "gt", "le", "lt", "ne",
}

// inspect walks a tree, wherever a function can be: pipelines, parentheses,
// arguments, declarations, conditions and else branches.
func inspect(tree *parse.Tree, funcs template.FuncMap, refused map[string]refusal) (uses, []error) {
	u := uses{functions: map[string]bool{}}
	var errs []error
	known := make([]string, 0, len(funcs)+len(builtins))
	known = append(known, builtins...)
	for name := range funcs {
		known = append(known, name)
	}
	isKnown := make(map[string]bool, len(known))
	for _, name := range known {
		isKnown[name] = true
	}
	walk(tree.Root, func(n parse.Node) {
		switch n := n.(type) {
		case *parse.IdentifierNode:
			at := placeOf(tree, n)
			u.functions[n.Ident] = true
			if why, ok := refused[n.Ident]; ok {
				errs = append(errs, at.errorf("function %q is refused: %s; %s, or list it under allowFunctions", n.Ident, why.reason, why.instead))
			} else if !isKnown[n.Ident] {
				errs = append(errs, at.errorf("there is no function %q%s", n.Ident, nearest(n.Ident, known, "")))
			}
		case *parse.TemplateNode:
			u.templates = append(u.templates, call{name: n.Name, at: placeOf(tree, n)})
		case *parse.CommandNode:
			id, ok := n.Args[0].(*parse.IdentifierNode)
			if !ok || id.Ident != "include" {
				return
			}
			if len(n.Args) > 1 {
				if s, ok := n.Args[1].(*parse.StringNode); ok {
					u.templates = append(u.templates, call{name: s.Text, at: placeOf(tree, n)})
					return
				}
			}
			u.anyTemplate = true
		}
	})
	return u, errs
}

// walk calls f on node and on everything below it.
func walk(node parse.Node, f func(parse.Node)) {
	switch n := node.(type) {
	case nil:
		return
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			walk(c, f)
		}
		return
	case *parse.PipeNode:
		if n == nil {
			return
		}
		f(n)
		for _, c := range n.Cmds {
			walk(c, f)
		}
		return
	}
	f(node)
	switch n := node.(type) {
	case *parse.ActionNode:
		walk(n.Pipe, f)
	case *parse.CommandNode:
		for _, a := range n.Args {
			walk(a, f)
		}
	case *parse.ChainNode:
		walk(n.Node, f)
	case *parse.TemplateNode:
		walk(n.Pipe, f)
	case *parse.IfNode:
		walkBranch(&n.BranchNode, f)
	case *parse.RangeNode:
		walkBranch(&n.BranchNode, f)
	case *parse.WithNode:
		walkBranch(&n.BranchNode, f)
	}
}

func walkBranch(n *parse.BranchNode, f func(parse.Node)) {
	walk(n.Pipe, f)
	walk(n.List, f)
	walk(n.ElseList, f)
}
