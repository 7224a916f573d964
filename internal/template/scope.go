package template

import "text/template/parse"

// variable is one declaration of a variable in a template.
type variable struct {
	name string
	// owner is the range that declares it, and role what it is there; nil for a plain declaration.
	owner *parse.RangeNode
	role  variableRole
}

type variableRole int

const (
	plainVariable variableRole = iota
	elementVariable
	indexVariable
	dollar // $, what the template was executed on
)

// scopes says for every use of a variable which declaration it means, by the
// rules of the execution: a variable lives until the end of the list, or of
// the control structure, that declares it.
type scopes struct {
	uses     map[*parse.VariableNode]*variable
	assigned map[*parse.PipeNode][]*variable // by {{ $x = … }}
	declares map[*parse.PipeNode][]*variable // by {{ $x := … }}
	// unclear: some name means nothing here, or $ something else than what the
	// template was executed on. The template is then executed as it is.
	unclear bool
	stack   []*variable
}

func resolveScopes(root *parse.ListNode) *scopes {
	s := &scopes{uses: map[*parse.VariableNode]*variable{}, assigned: map[*parse.PipeNode][]*variable{}, declares: map[*parse.PipeNode][]*variable{}}
	s.stack = append(s.stack, &variable{name: "$", role: dollar})
	s.list(root)
	return s
}

func (s *scopes) lookUp(name string) *variable {
	for i := len(s.stack) - 1; i >= 0; i-- {
		if s.stack[i].name == name {
			return s.stack[i]
		}
	}
	s.unclear = true
	return nil
}

// list resolves a list, whose own declarations end with it.
func (s *scopes) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	mark := len(s.stack)
	for _, n := range l.Nodes {
		s.node(n)
	}
	s.stack = s.stack[:mark]
}

func (s *scopes) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ActionNode:
		s.pipe(n.Pipe, nil)
	case *parse.TemplateNode:
		s.pipe(n.Pipe, nil)
	case *parse.IfNode:
		s.branch(&n.BranchNode, nil)
	case *parse.WithNode:
		s.branch(&n.BranchNode, nil)
	case *parse.RangeNode:
		s.branch(&n.BranchNode, n)
	}
}

func (s *scopes) branch(b *parse.BranchNode, owner *parse.RangeNode) {
	mark := len(s.stack)
	s.pipe(b.Pipe, owner)
	s.list(b.List)
	s.list(b.ElseList)
	s.stack = s.stack[:mark]
}

// pipe resolves what is used in a pipeline, and then declares or assigns its variables.
func (s *scopes) pipe(p *parse.PipeNode, owner *parse.RangeNode) {
	if p == nil {
		return
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			s.arg(arg)
		}
	}
	for i, v := range p.Decl {
		if p.IsAssign {
			s.assigned[p] = append(s.assigned[p], s.lookUp(v.Ident[0]))
			continue
		}
		if v.Ident[0] == "$" {
			s.unclear = true // allowed, and not what the element is called in a body that is a template
		}
		d := &variable{name: v.Ident[0], owner: owner}
		if owner != nil {
			d.role = elementVariable
			if len(p.Decl) == 2 && i == 0 {
				d.role = indexVariable
			}
		}
		s.declares[p] = append(s.declares[p], d)
		s.stack = append(s.stack, d)
	}
}

// declared are the variables that are declared somewhere in a list.
func (s *scopes) declared(l *parse.ListNode) map[*variable]bool {
	out := map[*variable]bool{}
	walk(l, func(n parse.Node) {
		if p, ok := n.(*parse.PipeNode); ok {
			for _, v := range s.declares[p] {
				out[v] = true
			}
		}
	})
	return out
}

func (s *scopes) arg(n parse.Node) {
	switch n := n.(type) {
	case *parse.VariableNode:
		s.uses[n] = s.lookUp(n.Ident[0])
	case *parse.PipeNode:
		s.pipe(n, nil)
	case *parse.ChainNode:
		s.arg(n.Node)
	}
}
