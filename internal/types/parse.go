package types

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Document is what one key of the ConfigMap says: its valid entries, and every
// fault of the others.
type Document struct {
	// Config has only the authored part filled, canonical.
	Config *ClusterConfig
	// Problems are in the order of the document.
	Problems []Problem

	bad []badEntry
}

// badEntry is an entry that is not in Config; which of the last valid entries it was, KeepLastValid finds out.
type badEntry struct {
	section string // vipPool, config, …
	whole   bool   // the section as a whole is not what it must be
	key     string // VIP, label key, … as it is spelled
	port    string
	def     ServiceDef // what could be read of it
	problem int        // the first of its problems
	count   int        // how many it has
}

// Invalid reports whether anything in the document is wrong, unknown keys aside.
func (d *Document) Invalid() bool {
	for _, p := range d.Problems {
		if p.Reason != UnknownKey {
			return true
		}
	}
	return false
}

// Parse reads the document of a ConfigMap key: JSON, or YAML, of which JSON is
// a part. Its error means that the document as a whole says nothing; faults of
// single entries are in the Document's Problems.
func Parse(data []byte) (*Document, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, as some editors write it
	if json.Valid(data) {
		data = jsonAsYAML(data)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := dec.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the document is empty; write at least {}")
		}
		return nil, fmt.Errorf("the document is neither JSON nor YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the document goes on after its end; it must be one JSON or YAML document")
	}
	top := resolve(root.Content[0])
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: the document is %s; it must be a map with keys like vipPool and config", top.Line, kindOf(top))
	}
	p := &parser{doc: &Document{Config: &ClusterConfig{
		MTUConfig: map[string]string{}, MTUConfig6: map[string]string{}, NodeLabels: map[string]string{},
		IPV6: map[string]string{}, Config: map[string]PortMap{}, Config6: map[string]PortMap{},
	}}}
	p.top(top)
	return p.doc, nil
}

// jsonAsYAML rewrites what JSON allows in a string and YAML does not: characters
// escaped as two halves ("\ud83d\ude00"), an escaped slash, which the YAML of our
// library has not, and control characters and line separators as they are.
func jsonAsYAML(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		switch {
		case data[i] == '\\' && data[i+1] == '/':
			out = append(out, '/')
			i += 2
		case data[i] == '\\':
			r := unicodeEscape(data[i:])
			if !utf16.IsSurrogate(r) { // another escape; its second byte may be a backslash
				out = append(out, data[i], data[i+1])
				i += 2
				continue
			}
			joined := utf16.DecodeRune(r, unicodeEscape(data[i+6:]))
			out = utf8.AppendRune(out, joined) // of a half alone, U+FFFD
			i += 6
			if joined != utf8.RuneError {
				i += 6
			}
		default:
			r, size := utf8.DecodeRune(data[i:])
			if r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r >= 0xfffe && r <= 0xffff {
				out = fmt.Appendf(out, `\u%04x`, r)
			} else {
				out = utf8.AppendRune(out, r)
			}
			i += size
		}
	}
	return out
}

// unicodeEscape is the value of the \uXXXX that b begins with, or -1.
func unicodeEscape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

type parser struct{ doc *Document }

// place is a path into the document and the node that is there.
type place struct {
	path string
	node *yaml.Node
}

func (at place) in(key string, n *yaml.Node) place {
	switch {
	case at.path == "":
		return place{key, n}
	case key != "" && strings.IndexFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0 && (key[0] < '0' || key[0] > '9'):
		return place{at.path + "." + key, n}
	}
	return place{at.path + "[" + strconv.Quote(key) + "]", n}
}

func (p *parser) add(at place, about Problem, reason Reason, format string, args ...any) {
	about.Reason = reason
	about.Message = fmt.Sprintf(format, args...)
	about.Place, about.Line = at.path, at.node.Line
	about.Served = ServedNothing
	if reason == UnknownKey {
		about.Served = ServedRest
	}
	p.doc.Problems = append(p.doc.Problems, about)
}

// fail notes the problems added since first as those of one entry.
func (p *parser) fail(first int, b badEntry) {
	b.problem, b.count = first, len(p.doc.Problems)-first
	p.doc.bad = append(p.doc.bad, b)
}

// resolve follows an alias; the anchor is part of the same document, and every
// caller goes one level down, so a loop of aliases ends with the schema.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "null"
	}
	return strconv.Quote(n.Value)
}

type pair struct {
	key   string
	keyAt *yaml.Node
	value *yaml.Node
	again bool // the key was given before
}

// pairs lists a map's keys in the document's order. A key given again is there
// twice: JSON decoders silently take the last one, and nobody knows which was meant.
func pairs(n *yaml.Node, fold bool) []pair {
	seen := map[string]bool{}
	var out []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := resolve(n.Content[i])
		id := k.Value
		if fold {
			id = strings.ToLower(id)
		}
		out = append(out, pair{key: k.Value, keyAt: k, value: resolve(n.Content[i+1]), again: seen[id]})
		seen[id] = true
	}
	return out
}

func (p *parser) top(n *yaml.Node) {
	root := place{"", n}
	c := p.doc.Config
	for _, e := range pairs(n, true) {
		at := root.in(e.key, e.value)
		key := strings.ToLower(e.key)
		if e.again {
			p.add(place{at.path, e.keyAt}, Problem{}, Invalid, "the key is given twice; what both say is taken together")
			p.doc.Problems[len(p.doc.Problems)-1].Served = ServedRest
		}
		switch key {
		case "vippool":
			p.pool(at)
		case "config":
			p.vips(at, "config", c.Config, IPv4)
		case "config6":
			p.vips(at, "config6", c.Config6, IPv6)
		case "mtuconfig":
			p.table(at, "mtuConfig", c.MTUConfig, mtuEntry(IPv4))
		case "mtuconfig6":
			p.table(at, "mtuConfig6", c.MTUConfig6, mtuEntry(IPv6))
		case "labels":
			p.table(at, "labels", c.NodeLabels, func(k, v string) (string, string, error) { return k, v, checkLabel(k, v) })
		case "ipv6":
			p.table(at, "ipv6", c.IPV6, func(k, v string) (string, string, error) {
				vip, err := ParseVIP(k, IPv4)
				if err != nil {
					return "", "", err
				}
				six, err := ParseVIP(v, IPv6)
				return vip, six, err
			})
		default:
			p.add(place{at.path, e.keyAt}, Problem{}, UnknownKey, "unknown key %q; known are vipPool, config, config6, mtuConfig, mtuConfig6, labels and ipv6", e.key)
		}
	}
}

func mtuEntry(family string) func(k, v string) (string, string, error) {
	return func(k, v string) (string, string, error) {
		vip, err := ParseVIP(k, family)
		if err == nil {
			err = checkMTU(v, family)
		}
		return vip, v, err
	}
}

func (p *parser) pool(at place) {
	first := len(p.doc.Problems)
	if isNull(at.node) {
		return
	}
	if at.node.Kind != yaml.SequenceNode {
		p.add(at, Problem{}, Invalid, "is %s; it must be a list of addresses", kindOf(at.node))
		p.fail(first, badEntry{section: "vipPool", whole: true})
		return
	}
	set := map[string]bool{}
	for i, n := range at.node.Content {
		n = resolve(n)
		item := place{at.path + "[" + strconv.Itoa(i) + "]", n}
		first := len(p.doc.Problems)
		if n.Kind != yaml.ScalarNode || isNull(n) {
			p.add(item, Problem{}, Invalid, "is %s; it must be an address", kindOf(n))
			p.fail(first, badEntry{section: "vipPool", key: n.Value})
			continue
		}
		vip, err := ParseVIP(n.Value, "")
		if err != nil {
			p.add(item, Problem{VIP: n.Value}, Invalid, "%v", err)
			p.fail(first, badEntry{section: "vipPool", key: n.Value})
			continue
		}
		set[vip] = true // twice in a list is a set all the same
	}
	p.doc.Config.VIPPool = sortedVIPs(set, p.doc.Config.VIPPool...)
}

// table reads a map of text to text, each entry for itself.
func (p *parser) table(at place, section string, into map[string]string, check func(k, v string) (string, string, error)) {
	if isNull(at.node) {
		return
	}
	if at.node.Kind != yaml.MappingNode {
		first := len(p.doc.Problems)
		p.add(at, Problem{}, Invalid, "is %s; it must be a map", kindOf(at.node))
		p.fail(first, badEntry{section: section, whole: true})
		return
	}
	spelled := map[string]string{}
	for _, e := range pairs(at.node, false) {
		item := at.in(e.key, e.value)
		about := Problem{}
		if section != "labels" {
			about.VIP = e.key
		}
		first := len(p.doc.Problems)
		var value string
		key := e.key
		if e.value.Kind != yaml.ScalarNode || isNull(e.value) {
			p.add(item, about, Invalid, "is %s; it must be text", kindOf(e.value))
		} else {
			k, v, err := check(e.key, e.value.Value)
			if err != nil {
				p.add(item, about, Invalid, "%v", err)
			}
			if k != "" {
				key = k
			}
			value = v
		}
		if was, taken := spelled[key]; taken {
			if was == e.key {
				p.add(place{item.path, e.keyAt}, about, Invalid, "the key is given twice; remove one")
			} else {
				p.add(place{item.path, e.keyAt}, about, Conflict, "%q and %q are the same address; remove one", was, e.key)
			}
			delete(into, key)
		} else {
			spelled[key] = e.key
		}
		if len(p.doc.Problems) > first {
			p.fail(first, badEntry{section: section, key: e.key})
			continue
		}
		into[key] = value
	}
}
