package template

import (
	"strconv"
	"text/template/parse"
)

// askNode appends a call of a private function to a pipeline.
func askNode(p *parse.PipeNode, function string, id int, args ...parse.Node) *parse.PipeNode {
	args = append([]parse.Node{identifierNode(function, p.Pos), numberNode(id, p.Pos)}, args...)
	p.Cmds = append(p.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: p.Pos, Args: args})
	return p
}

func restNode(pos parse.Pos) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{identifierNode("_rest", pos)}}
}

func pipeOf(pos parse.Pos, cmd *parse.CommandNode) *parse.PipeNode {
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{cmd}}
}

func identifierNode(name string, pos parse.Pos) parse.Node {
	return parse.NewIdentifier(name).SetPos(pos)
}

func numberNode(n int, pos parse.Pos) parse.Node {
	return &parse.NumberNode{NodeType: parse.NodeNumber, Pos: pos, IsInt: true, Int64: int64(n), IsFloat: true, Float64: float64(n), Text: strconv.Itoa(n)}
}
