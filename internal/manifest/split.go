package manifest

import (
	"bytes"
)

// chunk is a piece of a file: the text between two separators.
type chunk struct {
	data []byte
	line int // of its first byte in the file, from 1
}

// split cuts a file at its document separators. A line that begins with `---`
// can be nothing else in YAML: block scalars are indented, and quoted ones may
// not have it at the start of a line. `...` ends a document too.
func split(data []byte, yield func(chunk)) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	start, startLine, line := 0, 1, 0
	for at := 0; at < len(data); {
		line++
		end := lineEnd(data, at)
		text := data[at:end]
		if marker(text, "---") || marker(text, "...") {
			if at > start {
				yield(chunk{data: data[start:at], line: startLine})
			}
			start, startLine = end, line+1
			if text[0] == '-' && !blank(text[3:]) {
				start, startLine = at+3, line // `--- {…}`: the document begins on this line
			}
		}
		at = end
	}
	if start < len(data) {
		yield(chunk{data: data[start:], line: startLine})
	}
}

// lineEnd is the offset just behind the line that begins at at.
func lineEnd(data []byte, at int) int {
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(data)
}

func marker(line []byte, mark string) bool {
	if !bytes.HasPrefix(line, []byte(mark)) {
		return false
	}
	return len(line) == len(mark) || bytes.IndexByte([]byte(" \t\r\n"), line[len(mark)]) >= 0
}

// blank tells whether a line has nothing but space and perhaps a comment.
func blank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// trimmed drops the blank, comment and directive lines at the start of a chunk,
// so that its line is that of its first content. Empty: there is none.
func (c chunk) trimmed() chunk {
	for len(c.data) > 0 {
		end := lineEnd(c.data, 0)
		if !blank(c.data[:end]) && c.data[0] != '%' {
			break
		}
		c.data, c.line = c.data[end:], c.line+1
	}
	return c
}

// listItems cuts a YAML list as kubectl prints it (`items:` at the start of a
// line, each item with its dash) into the items and the rest, with the lines
// kept. So a list of any length costs no more memory than its largest item,
// and each item knows its line. ok is false for any other layout.
//
// The pieces mean the same as the whole whenever every piece is valid YAML: an
// item that ended inside a quote or bracket is not.
func listItems(c chunk) (rest []byte, items []chunk, ok bool) {
	at, line := 0, c.line
	for {
		if at >= len(c.data) {
			return nil, nil, false
		}
		end := lineEnd(c.data, at)
		text := c.data[at:end]
		at, line = end, line+1
		if bytes.HasPrefix(text, []byte("items:")) {
			if !blank(text[len("items:"):]) {
				return nil, nil, false
			}
			break
		}
	}
	head, indent, itemStart, itemLine := at, -1, -1, 0
	finish := func(end int) {
		if itemStart >= 0 {
			items = append(items, item(c.data[itemStart:end], indent, itemLine))
		}
	}
	for at < len(c.data) {
		end := lineEnd(c.data, at)
		text := c.data[at:end]
		n := len(text) - len(bytes.TrimLeft(text, " "))
		switch {
		case blank(text):
		case indent < 0 && !dash(text[n:]):
			return nil, nil, false
		case indent < 0, n == indent && dash(text[n:]):
			finish(at)
			indent, itemStart, itemLine = n, at, line
		case n == 0:
			finish(at)
			return append(bytes.Clone(c.data[:head]), c.data[at:]...), items, true
		case n <= indent:
			return nil, nil, false
		}
		at, line = end, line+1
	}
	if indent < 0 {
		return nil, nil, false
	}
	finish(len(c.data))
	return c.data[:head], items, true
}

func dash(text []byte) bool {
	return len(text) > 1 && text[0] == '-' && (text[1] == ' ' || text[1] == '\n' || text[1] == '\r')
}

// item is a list item's text with its dash made a space: a document.
func item(text []byte, indent, line int) chunk {
	text = bytes.Clone(text)
	text[indent] = ' '
	return chunk{data: text, line: line}
}
