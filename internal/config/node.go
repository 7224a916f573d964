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
	"time"

	"github.com/hashicorp/go-multierror"
	"go.yaml.in/yaml/v3"
)

// node is a place in the file: a YAML node and the keys that lead to it.
type node struct {
	*yaml.Node
	key string
}

// decoder collects faults while it reads.
type decoder struct {
	file, dir string
	errs      *multierror.Error
	faulty    map[string]bool // keys that have a fault already: one fault, one error
	at        map[string]int  // lines of the keys that are there
}

func (d *decoder) fail(line int, key, format string, args ...any) {
	if d.faulty == nil {
		d.faulty = map[string]bool{}
	}
	d.faulty[key] = true
	where := d.file
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	if key != "" {
		where += ": " + key
	}
	d.errs = multierror.Append(d.errs, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
}

func (d *decoder) err() error {
	if d.errs == nil {
		return nil
	}
	sort.SliceStable(d.errs.Errors, func(i, j int) bool { return lineOf(d.errs.Errors[i]) < lineOf(d.errs.Errors[j]) })
	d.errs.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, e := range errs {
			lines[i] = e.Error()
		}
		return strings.Join(lines, "\n")
	}
	return d.errs
}

var placed = regexp.MustCompile(`:(\d+): `)

func lineOf(err error) int {
	if m := placed.FindStringSubmatch(err.Error()); m != nil {
		n, convErr := strconv.Atoi(m[1])
		if convErr == nil {
			return n
		}
	}
	return 1 << 30
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// document returns the one map that the file must be, or nil after a fault.
func (d *decoder) document(data []byte) *node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			d.fail(0, "", "the file is empty; it needs at least cluster and outputs")
			return nil
		}
		line := 0
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
			if n, convErr := strconv.Atoi(m[1]); convErr == nil {
				line = n
			}
		}
		d.fail(line, "", "not YAML: %s", yamlLine.ReplaceAllString(err.Error(), ""))
		return nil
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.fail(more.Line, "", "a second document begins here; the config is one document")
	}
	root := follow(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		d.fail(root.Line, "", "is %s; the config is a map with keys like cluster and outputs", describe(root))
		return nil
	}
	return &node{root, ""}
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
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := follow(n.Content[i]), follow(n.Content[i+1])
		key := n.child(k.Value)
		read, ok := f[k.Value]
		switch {
		case seen[k.Value]:
			d.fail(k.Line, key, "the key is given twice; remove one")
		case !ok:
			meant, says := suggestion(k.Value, f)
			d.fail(k.Line, key, "unknown key; %s", says)
			if meant != "" {
				d.faulty[n.child(meant)] = true // it is not missing, it is misspelled
			}
		default:
			if d.at == nil {
				d.at = map[string]int{}
			}
			d.at[key] = k.Line
			read(node{v, key})
		}
		seen[k.Value] = true
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

// Readers of single values. Each leaves its target alone when there is a fault.

func (d *decoder) scalar(n node, want string) (string, bool) {
	if n.Kind != yaml.ScalarNode || isNull(n.Node) {
		d.fail(n.Line, n.key, "is %s; it must be %s", describe(n.Node), want)
		return "", false
	}
	return n.Value, true
}

func (d *decoder) text(to *string) func(node) {
	return func(n node) {
		if v, ok := d.scalar(n, "text"); ok {
			*to = v
		}
	}
}

// path is text that is relative to the config file; "" stays "".
func (d *decoder) path(to *string) func(node) {
	return func(n node) {
		if v, ok := d.scalar(n, "a path"); ok {
			*to = d.absolute(v)
		}
	}
}

func (d *decoder) absolute(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(d.dir, p)
}

func (d *decoder) boolean(to *bool) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, "true or false")
		if ok && n.Tag != "!!bool" {
			d.fail(n.Line, n.key, "is %s; it must be true or false", describe(n.Node))
		} else if ok {
			*to = v == "true" || v == "True" || v == "TRUE"
		}
	}
}

func (d *decoder) number(to *int) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, "a whole number")
		if !ok {
			return
		}
		i, err := strconv.Atoi(v)
		if err != nil || n.Tag != "!!int" {
			d.fail(n.Line, n.key, "is %s; it must be a whole number", describe(n.Node))
			return
		}
		*to = i
	}
}

func (d *decoder) duration(to *time.Duration, least time.Duration) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, "a duration such as 30s")
		if !ok {
			return
		}
		t, err := time.ParseDuration(v)
		switch {
		case err != nil:
			d.fail(n.Line, n.key, "is %s; it must be a duration with its unit, such as 200ms, 30s or 10m", describe(n.Node))
		case t < least:
			d.fail(n.Line, n.key, "%s is too short; the least is %s", v, least)
		default:
			*to = t
		}
	}
}

func (d *decoder) oneOf(to *string, allowed ...string) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, "one of "+strings.Join(allowed, ", "))
		if !ok {
			return
		}
		for _, a := range allowed {
			if v == a {
				*to = v
				return
			}
		}
		d.fail(n.Line, n.key, "is %s; it must be one of %s", describe(n.Node), strings.Join(allowed, ", "))
	}
}

// list calls read for each element.
func (d *decoder) list(read func(node)) func(node) {
	return func(n node) {
		if isNull(n.Node) {
			return
		}
		if n.Kind != yaml.SequenceNode {
			d.fail(n.Line, n.key, "is %s; it must be a list", describe(n.Node))
			return
		}
		for i, e := range n.Content {
			read(node{follow(e), n.key + "[" + strconv.Itoa(i) + "]"})
		}
	}
}
