package template

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// place is where something is: a file, and line and column from 1; column 0 is
// not known.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.column == 0 {
		return fmt.Sprintf("%s:%d", p.file, p.line)
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

func (p place) errorf(format string, args ...any) error {
	return &placeError{place: p, message: fmt.Sprintf(format, args...)}
}

// placeError is a fault at a place of a template.
type placeError struct {
	place
	message string
}

func (e *placeError) Error() string { return e.place.String() + ": " + e.message }

func (e *placeError) before(o *placeError) bool {
	if e.file != o.file {
		return e.file < o.file
	}
	if e.line != o.line {
		return e.line < o.line
	}
	return e.column < o.column
}

var errorContext = regexp.MustCompile(`(?s)^(.*):(\d+):(\d+)$`)

// placeOf returns where a node is. The parser counts columns from 0, editors from 1.
func placeOf(tree *parse.Tree, n parse.Node) place {
	location, _ := tree.ErrorContext(n)
	m := errorContext.FindStringSubmatch(location)
	if m == nil {
		return place{file: tree.ParseName}
	}
	line, _ := strconv.Atoi(m[2])
	column, _ := strconv.Atoi(m[3])
	return place{file: m[1], line: line, column: column + 1}
}

// ways out of the parser's complaints, by a part of what it says.
var syntaxHints = []struct{ says, hint string }{
	{"unexpected EOF", "an {{if}}, {{range}}, {{with}}, {{block}} or {{define}} above has no {{end}}"},
	{"unexpected {{end}}", "there is one {{end}} more than there are {{if}}, {{range}}, {{with}}, {{block}} and {{define}}"},
	{"unexpected {{else}}", "an {{else}} belongs between an {{if}}, {{range}} or {{with}} and its {{end}}"},
	{"unclosed action", "an action that is opened has to be closed; a line break in a quoted string needs back quotes"},
	{"undefined variable", "a variable has to be declared with := in the same block or around it"},
	{"unterminated quoted string", "close the quote, or use back quotes for text with line breaks"},
	{"unterminated raw quoted string", "close the back quote"},
	{"unterminated character constant", `text is written with double quotes or back quotes, not with '`},
	{"malformed character constant", `text is written with double quotes or back quotes, not with '`},
	{"bad character", "a name with other characters than letters, digits and _ is read with index: index .Params \"some-name\""},
	{"multiple definition of template", "rename one of them"},
	{"unclosed comment", "a comment ends in */ directly before the closing delimiter"},
	{"comment ends before closing delimiter", "a comment ends in */ directly before the closing delimiter"},
	{"missing value for", "there has to be something between the keyword and the closing delimiter"},
}

var syntaxMessage = regexp.MustCompile(`(?s)^template: (.*?):(\d+): (.*)$`)

var defineTwice = regexp.MustCompile(`^multiple definition of template "(.*)"`)

// syntaxError puts the parser's message in our form and adds the way out.
func syntaxError(file, text string, err error) error {
	p, message := place{file: file, line: 1}, strings.TrimPrefix(err.Error(), "template: ")
	// The name in front is the file's, which may hold a colon itself.
	rest, ok := strings.CutPrefix(err.Error(), "template: "+file+":")
	if ok {
		if m := syntaxMessage.FindStringSubmatch("template: :" + rest); m != nil {
			p.line, _ = strconv.Atoi(m[2])
			message = m[3]
		}
	}
	message = strings.TrimPrefix(message, "template: ")
	if m := defineTwice.FindStringSubmatch(message); m != nil { // the parser does not say where
		define := regexp.MustCompile(`(define|block)\s+"` + regexp.QuoteMeta(m[1]) + `"`)
		if at := define.FindAllStringIndex(text, 2); len(at) == 2 {
			p.line = 1 + strings.Count(text[:at[1][0]], "\n")
		}
	}
	for _, h := range syntaxHints {
		if strings.Contains(message, h.says) {
			return p.errorf("%s; %s", message, h.hint)
		}
	}
	return p.errorf("%s", message)
}

// nearest returns "; did you mean X?" for the known name closest to name, else
// the list of all, led in by otherwise, else "".
func nearest(name string, known []string, otherwise string) string {
	best, distance := "", 1+len(name)/3
	sorted := slices.Sorted(slices.Values(known))
	for _, k := range sorted {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < distance || d == distance && best == "" {
			best, distance = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("; did you mean %q?", best)
	case otherwise != "" && len(sorted) > 0:
		return fmt.Sprintf("; %s %s", otherwise, strings.Join(slices.Compact(sorted), ", "))
	}
	return ""
}

// editDistance counts the letters to insert, remove, replace or swap with the
// next one to get from a to b.
func editDistance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, above, row := rows[0], rows[1], rows[2]
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
