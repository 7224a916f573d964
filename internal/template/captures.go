package template

import "text/template/parse"

// captures reports whether the text of a range's body depends on its element
// and on variables from outside only, which it returns.
func (w *writer) captures(n *parse.RangeNode) ([]capture, bool) {
	if n.Pipe.IsAssign || endsLoop(n.List) || !w.purity.list(n.List) {
		return nil, false
	}
	inside := w.scopes.declared(n.List)
	var vars []capture
	ok := true
	use := func(v *variable, fields []string) {
		switch {
		case v == nil, v.owner == n && v.role == indexVariable:
			ok = false
		case inside[v] || v.owner == n:
		default:
			partly := len(fields) > 0 && (fields[0] == "Params" || fields[0] == "Node")
			for i := range vars {
				if vars[i].of == v {
					vars[i].partly = vars[i].partly && partly
					return
				}
			}
			vars = append(vars, capture{of: v, partly: partly})
		}
	}
	walk(n.List, func(node parse.Node) {
		switch node := node.(type) {
		case *parse.VariableNode:
			if v, is := w.scopes.uses[node]; is { // the others are declarations
				use(v, node.Ident[1:])
			}
		case *parse.PipeNode:
			for _, v := range w.scopes.assigned[node] {
				ok = ok && v != nil && inside[v]
			}
		}
	})
	return vars, ok
}

// endsLoop reports whether a body has a break or continue that means its own loop.
func endsLoop(l *parse.ListNode) bool {
	if l == nil {
		return false
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.BreakNode, *parse.ContinueNode:
			return true
		case *parse.IfNode:
			if endsLoop(n.List) || endsLoop(n.ElseList) {
				return true
			}
		case *parse.WithNode:
			if endsLoop(n.List) || endsLoop(n.ElseList) {
				return true
			}
		case *parse.RangeNode: // those in its body mean itself
			if endsLoop(n.ElseList) {
				return true
			}
		}
	}
	return false
}

// declares reports whether a pipeline declares or assigns a variable, if only in
// parentheses. Inside of an {{if}} it would not live as long as it did.
func (w *writer) declares(p *parse.PipeNode) bool {
	found := false
	walk(p, func(n parse.Node) {
		if p, ok := n.(*parse.PipeNode); ok && len(p.Decl) > 0 {
			found = true
		}
	})
	return found
}
