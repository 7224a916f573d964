package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// node is a place in the file: a YAML node and the keys that lead to it.
type node struct {
	*yaml.Node
	key string
}

// decoder collects faults while it reads.
type decoder struct {
	file      string // as it is called in messages
	dir, self string // the file's directory, and the file, both absolute
	faults    []*fault
	faulty    map[string]bool   // keys that have a fault already: one fault, one error
	at        map[string]int    // lines of the keys that are there; "" is the whole map
	written   map[string]string // paths as they are in the file
}

func newDecoder(name string) *decoder {
	d := &decoder{file: name, self: name, faulty: map[string]bool{}, at: map[string]int{}, written: map[string]string{}}
	if abs, err := filepath.Abs(name); err == nil {
		d.self = abs
	}
	d.dir = filepath.Dir(d.self)
	return d
}

// document returns the one map that the file must be, or nil after a fault.
func (d *decoder) document(data []byte) *node {
	if line, what := unreadable(data); what != "" {
		d.fail(line, "", "%s", what)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	empty := errors.Is(err, io.EOF)
	if err != nil && !empty {
		d.syntax(err, data)
		return nil
	}
	if !empty {
		if err := dec.Decode(&more); err == nil {
			d.fail(more.Line, "", "a second document begins here; the config is one document")
		} else if !errors.Is(err, io.EOF) {
			d.syntax(err, data)
		}
		empty = isNull(doc.Content[0])
	}
	if empty {
		if len(d.faults) == 0 {
			d.fail(1, "", "the file is empty; it needs at least cluster and outputs")
		}
		return nil
	}
	root := follow(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		d.fail(root.Line, "", "is %s; the config is a map with keys like cluster and outputs", describe(root))
		return nil
	}
	d.at[""] = root.Line
	return &node{root, ""}
}

// unreadable finds bytes that no YAML has. The YAML reader refuses them too,
// but does not say where.
func unreadable(data []byte) (line int, what string) {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			what = "is not UTF-8; save it as UTF-8"
		case unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r):
			what = fmt.Sprintf("has the control character %U; remove it", r)
		}
		if what != "" {
			return 1 + bytes.Count(data[:i], []byte("\n")), what
		}
		i += size
	}
	return 0, ""
}

var (
	yamlError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)
	// Errors of the YAML parser, unlike those of its scanner, count lines from
	// zero. A test watches whether that is still so.
	fromZero      = regexp.MustCompile(`^did not find expected (<|node content|'-'|key$|',')|^found (undefined|duplicate|incompatible)`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntax reports an error of the YAML reader. It says no line if that is the first one.
func (d *decoder) syntax(err error, data []byte) {
	line, what := 0, err.Error()
	if m := yamlError.FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1]) // "" is 0, which is none
		what = m[2]
	}
	if line == 0 || fromZero.MatchString(what) {
		line++
	}
	if m := unknownAnchor.FindStringSubmatch(what); m != nil {
		if i := bytes.Index(data, []byte("*"+m[1])); i >= 0 {
			line = 1 + bytes.Count(data[:i], []byte("\n"))
		}
	}
	if what == "found character that cannot start any token" {
		what += "; indent with spaces, and put what begins with a special character in quotes"
	}
	d.fail(line, "", "not YAML: %s", what)
}

func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	case n.Tag == "!!str":
		return "the text " + strconv.Quote(n.Value)
	}
	return n.Value
}

func (n node) child(key string) string {
	if n.key == "" {
		return key
	}
	return n.key + "." + key
}

// fields are what a map may hold, by key.
type fields map[string]func(node)

// read calls the function of each key that is there. A map that is empty, or
// null, has none.
func (d *decoder) read(n node, f fields) {
	if isNull(n.Node) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, n.key, "is %s; it must be a map with the keys %s", describe(n.Node), known(f))
		return
	}
	seen, meant := map[string]bool{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := follow(n.Content[i]), follow(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			d.fail(k.Line, n.key, "has %s as a key; the keys are %s", describe(k), known(f))
			continue
		}
		key := n.child(k.Value)
		read, ok := f[k.Value]
		switch {
		case seen[k.Value]:
			d.fail(k.Line, key, "the key is given twice; remove one")
		case !ok:
			near, says := suggestion(k.Value, f)
			d.fail(k.Line, key, "unknown key; %s", says)
			meant[near] = true
		default:
			d.at[key] = k.Line
			read(node{v, key})
		}
		seen[k.Value] = true
	}
	for key := range meant {
		if key != "" && !seen[key] {
			d.faulty[n.child(key)] = true // it is not missing, it is misspelled
		}
	}
}

func known(f fields) string {
	var keys []string
	for k := range f {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return strings.Join(keys, ", ")
}

func suggestion(key string, f fields) (meant, says string) {
	best, least := "", 3
	for k := range f {
		if n := distance(strings.ToLower(key), strings.ToLower(k)); n < least || n == least && k < best {
			best, least = k, n
		}
	}
	if best != "" {
		return best, fmt.Sprintf("did you mean %s?", best)
	}
	return "", "known are " + known(f)
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
