package template

import (
	"strconv"
	"text/template"
	"text/template/parse"
)

// A site is a place of a template whose text can be remembered: the body of a
// range, a template call, an include. Compiling a set makes each template
// twice. In the one that has its name, every site asks the memory first:
//
//	{{ range PIPE }}BODY{{ else }}ELSE{{ end }}
//	  -> {{ if PIPE | _range 1 VARS }}{{ range _rest }}BODY{{ else }}ELSE{{ end }}{{ end }}
//	{{ template "x" PIPE }}
//	  -> {{ if PIPE | _call 2 }}{{ template "x" _rest }}{{ end }}
//	{{ include "x" DOT }}
//	  -> {{ _include 3 "x" DOT }}
//
// _range and _call write what is remembered straight to the output and return
// false, or true where they cannot, and _rest is then the value of PIPE: the
// template goes on as it was written. The other one, whose name ends in withoutSites,
// has none. It is what is executed inside of what is remembered.
//
// BODY is beside it a template of its own, twice as well. There the element is
// $, and the variables VARS, which are from outside, are (_var 0), (_var 1), …
type site struct {
	name string // of the body, or of the called template
	vars []capture
	// with and without are the template of that name, and its plain one.
	with, without *template.Template
}

// capture is a variable from outside of a body.
type capture struct {
	of *variable
	// partly: where it holds the root, only its .Params and .Node are used.
	partly bool
}

// withoutSites is the suffix of templates without sites. No template can be called like that by accident.
const withoutSites = "\x00plain"

// maxDepth bounds how deep bodies in bodies have sites: each level makes the code three times as long.
const maxDepth = 4

// compiler makes the set with sites.
type compiler struct {
	purity *purity
	set    *template.Template
	sites  []site
	err    error
}

// compile returns a set with sites, made of the named templates of set, and the sites.
func compile(set *template.Template, names []string) (*template.Template, []site, *purity, error) {
	trees := map[string]*parse.Tree{}
	for _, name := range names {
		if t := set.Lookup(name); t != nil && t.Tree != nil {
			trees[name] = t.Tree
		}
	}
	c := &compiler{purity: newPurity(trees)}
	clone, err := set.Clone()
	if err != nil {
		return nil, nil, nil, err
	}
	c.set = clone
	for _, name := range sortedKeys(trees) {
		tree := trees[name]
		s := resolveScopes(tree.Root)
		w := writer{compiler: c, tree: tree, scopes: s}
		without := w
		without.without = true
		c.add(name+withoutSites, tree, without.list(tree.Root))
		if s.unclear {
			continue // it stays as it is
		}
		c.add(name, tree, w.list(tree.Root))
	}
	for i := range c.sites {
		s := &c.sites[i]
		s.with, s.without = c.set.Lookup(s.name), c.set.Lookup(s.name+withoutSites)
	}
	return c.set, c.sites, c.purity, c.err
}

// add registers a list as a template, with the positions and the text of tree.
func (c *compiler) add(name string, tree *parse.Tree, root *parse.ListNode) {
	t := tree.Copy()
	t.Name, t.Root = name, root
	if _, err := c.set.AddParseTree(name, t); err != nil && c.err == nil {
		c.err = err
	}
}

// writer copies lists of one template, with sites or without them. Nodes that
// stay the same are shared with the template as it was read.
type writer struct {
	*compiler
	tree    *parse.Tree
	scopes  *scopes
	without bool             // no sites
	body    *parse.RangeNode // whose body becomes a template; nil: the template itself
	vars    []capture        // of the body
	inside  map[*variable]bool
	depth   int
}

func (w *writer) list(l *parse.ListNode) *parse.ListNode {
	if l == nil {
		return nil
	}
	out := &parse.ListNode{NodeType: parse.NodeList, Pos: l.Pos}
	for _, n := range l.Nodes {
		out.Nodes = append(out.Nodes, w.node(n))
	}
	return out
}

func (w *writer) node(n parse.Node) parse.Node {
	switch n := n.(type) {
	case *parse.ActionNode:
		out := *n
		out.Pipe = w.pipe(n.Pipe)
		return &out
	case *parse.TemplateNode:
		return w.templateNode(n)
	case *parse.IfNode:
		out := *n
		w.branch(&out.BranchNode)
		return &out
	case *parse.WithNode:
		out := *n
		w.branch(&out.BranchNode)
		return &out
	case *parse.RangeNode:
		return w.rangeNode(n)
	}
	return n // text, break, continue, comments
}

func (w *writer) branch(b *parse.BranchNode) {
	b.Pipe, b.List, b.ElseList = w.pipe(b.Pipe), w.list(b.List), w.list(b.ElseList)
}

func (w *writer) pipe(p *parse.PipeNode) *parse.PipeNode {
	if p == nil {
		return nil
	}
	out := *p
	out.Cmds = make([]*parse.CommandNode, len(p.Cmds))
	for i, cmd := range p.Cmds {
		c := *cmd
		c.Args = make([]parse.Node, len(cmd.Args))
		for j, a := range cmd.Args {
			c.Args[j] = w.arg(a)
		}
		if _, is := included(cmd); is {
			w.include(&c)
		}
		out.Cmds[i] = &c
	}
	return &out
}

func (w *writer) arg(n parse.Node) parse.Node {
	switch n := n.(type) {
	case *parse.VariableNode:
		return w.variable(w.scopes.uses[n], n)
	case *parse.PipeNode:
		return w.pipe(n)
	case *parse.ChainNode:
		out := *n
		out.Node = w.arg(n.Node)
		return &out
	}
	return n
}

// variable writes the use of a variable where the list is written to: in a
// body the element is $, and what is from outside is given by number.
func (w *writer) variable(v *variable, n *parse.VariableNode) parse.Node {
	if w.body == nil || v == nil || w.inside[v] {
		return n
	}
	if v.owner == w.body && v.role == elementVariable {
		out := *n
		out.Ident = append([]string{"$"}, n.Ident[1:]...)
		return &out
	}
	for i, c := range w.vars {
		if c.of != v {
			continue
		}
		call := pipeOf(n.Pos, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{identifierNode("_var", n.Pos), numberNode(i, n.Pos)}})
		if len(n.Ident) == 1 {
			return call
		}
		return &parse.ChainNode{NodeType: parse.NodeChain, Pos: n.Pos, Node: call, Field: n.Ident[1:]}
	}
	return n
}

// include gives an include the number of its site, or calls the plain template.
func (w *writer) include(cmd *parse.CommandNode) {
	if w.without {
		return // the function itself looks up the plain one
	}
	id := w.site(site{})
	cmd.Args = append([]parse.Node{identifierNode("_include", cmd.Pos), numberNode(id, cmd.Pos)}, cmd.Args[1:]...)
}

func (w *writer) site(s site) int {
	w.sites = append(w.sites, s)
	return len(w.sites) - 1
}

func (w *writer) templateNode(n *parse.TemplateNode) parse.Node {
	out := *n
	out.Pipe = w.pipe(n.Pipe)
	switch {
	case w.without:
		out.Name += withoutSites
		return &out
	case n.Pipe == nil || w.declares(n.Pipe) || !w.purity.templates[n.Name]:
		return &out
	}
	id := w.site(site{name: n.Name})
	out.Pipe = pipeOf(n.Pos, restNode(n.Pos))
	return &parse.IfNode{BranchNode: parse.BranchNode{
		NodeType: parse.NodeIf, Pos: n.Pos, Line: n.Line,
		Pipe: askNode(w.pipe(n.Pipe), "_call", id),
		List: &parse.ListNode{NodeType: parse.NodeList, Pos: n.Pos, Nodes: []parse.Node{&out}},
	}}
}

func (w *writer) rangeNode(n *parse.RangeNode) parse.Node {
	out := *n
	vars, ok := []capture(nil), false
	if !w.without && w.depth < maxDepth {
		vars, ok = w.captures(n)
	}
	if !ok {
		w.branch(&out.BranchNode)
		return &out
	}
	id := w.site(site{vars: vars})
	w.sites[id].name = w.tree.Name + "\x00" + strconv.Itoa(id)
	for _, without := range []bool{false, true} {
		body := writer{compiler: w.compiler, tree: w.tree, scopes: w.scopes, without: without, body: n, vars: vars, inside: w.scopes.declared(n.List), depth: w.depth + 1}
		name := w.sites[id].name
		if without {
			name += withoutSites
		}
		w.add(name, w.tree, body.list(n.List))
	}
	ask := w.pipe(n.Pipe)
	ask.Decl = nil
	var given []parse.Node
	for _, c := range vars {
		given = append(given, w.variable(c.of, &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: []string{c.of.name}}))
	}
	deeper := *w
	deeper.depth++
	out.List, out.ElseList = deeper.list(n.List), deeper.list(n.ElseList)
	out.Pipe = pipeOf(n.Pos, restNode(n.Pos))
	out.Pipe.Decl = n.Pipe.Decl
	return &parse.IfNode{BranchNode: parse.BranchNode{
		NodeType: parse.NodeIf, Pos: n.Pos, Line: n.Line,
		Pipe: askNode(ask, "_range", id, given...),
		List: &parse.ListNode{NodeType: parse.NodeList, Pos: n.Pos, Nodes: []parse.Node{&out}},
	}}
}
