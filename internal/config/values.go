package config

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

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
		v, ok := d.scalar(n, "a path")
		switch {
		case !ok:
		case oneLine(v) != v:
			d.fail(n.Line, n.key, "%q is not a path; remove the control characters", v)
		default:
			d.written[n.key] = v
			*to = d.absolute(v)
		}
	}
}

// filePath is the path of a file that is to be written. One that ends in a
// slash would become the directory's own name once it is cleaned.
func (d *decoder) filePath(to *string) func(node) {
	return func(n node) {
		if base := n.Value[strings.LastIndexByte(n.Value, '/')+1:]; n.Value != "" && (base == "" || base == "." || base == "..") {
			d.fail(n.Line, n.key, "%q is a directory; give the name of the file in it too", n.Value)
			return
		}
		d.path(to)(n)
	}
}

func (d *decoder) absolute(p string) string {
	switch {
	case p == "":
		return p
	case filepath.IsAbs(p):
		return filepath.Clean(p) // so that two spellings of a path are one
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

// number reads decimals only: 010 is 8 in one YAML and 10 in the other.
func (d *decoder) number(to *int) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, "a whole number")
		if !ok {
			return
		}
		i, err := strconv.Atoi(v)
		if err != nil || n.Tag != "!!int" || strconv.Itoa(i) != v {
			d.fail(n.Line, n.key, "is %s; it must be a whole number, without quotes and leading zeros", describe(n.Node))
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

// percent reads "50%"; a bare number is refused, since 1 and 0.5 would both be guesses.
func (d *decoder) percent(to *float64) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, "a percentage such as 100%")
		if !ok {
			return
		}
		number, isPercent := strings.CutSuffix(v, "%")
		f, err := strconv.ParseFloat(number, 64)
		if !isPercent || err != nil || !(f >= 0 && f <= 100) {
			d.fail(n.Line, n.key, "is %s; it must be a percentage from 0%% to 100%%, such as 50%%", describe(n.Node))
			return
		}
		*to = f / 100
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

// mode reads "0640". Without quotes YAML makes 416 of it, and 640 would be
// -w-------: an old trap.
func (d *decoder) mode(to **fs.FileMode) func(node) {
	return func(n node) {
		v, ok := d.scalar(n, `a mode in quotes, such as "0640"`)
		if !ok {
			return
		}
		m, err := strconv.ParseUint(v, 8, 32)
		switch {
		case n.Tag == "!!int":
			d.fail(n.Line, n.key, "is the number %s; write the mode in quotes, such as %q", n.Value, fmt.Sprintf("%04s", strings.TrimPrefix(v, "0o")))
		case err != nil || m > 0o777 || len(v) < 3:
			d.fail(n.Line, n.key, `is %s; it must be a mode in octal and in quotes, from "0000" to "0777"`, describe(n.Node))
		default:
			mode := fs.FileMode(m)
			*to = &mode
		}
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
			key := n.key + "[" + strconv.Itoa(i) + "]"
			d.at[key] = e.Line
			read(node{follow(e), key})
		}
	}
}

// delims reads a list of two texts.
func (d *decoder) delims(to *[2]string) func(node) {
	return func(n node) {
		var list []string
		d.list(func(e node) { d.appendText(e, &list) })(n)
		if d.faultyWithin(n.key) || isNull(n.Node) {
			return
		}
		if len(list) != 2 || list[0] == "" || list[1] == "" || list[0] == list[1] {
			d.fail(n.Line, n.key, `must be a list of two different texts, such as ["<%%", "%%>"]`)
			return
		}
		*to = [2]string{list[0], list[1]}
	}
}

func (d *decoder) appendText(n node, to *[]string) {
	var s string
	d.text(&s)(n)
	*to = append(*to, s)
}

// params reads a map of anything. Templates look keys up by text, so all keys,
// at any depth, must be text.
func (d *decoder) params(to *map[string]any) func(node) {
	return func(n node) {
		if isNull(n.Node) {
			return
		}
		if n.Kind != yaml.MappingNode {
			d.fail(n.Line, n.key, "is %s; it must be a map", describe(n.Node))
			return
		}
		d.param(n)
		if d.faultyWithin(n.key) {
			return
		}
		var m map[string]any
		if err := n.Decode(&m); err != nil { // a wrong tag, or an alias of what it is in
			d.fail(n.Line, n.key, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			return
		}
		*to = m
	}
}

// param prepares one value. Aliases are not followed: what they stand for is
// looked at where it is, and may hold itself.
func (d *decoder) param(n node) {
	switch n.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, key := follow(n.Content[i]), n.child(n.Content[i].Value)
			switch {
			case k.Tag == "!!merge":
			case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
				d.fail(k.Line, n.key, "has %s as a key; keys are text, so put it in quotes", describe(k))
			case seen[k.Value]:
				d.fail(k.Line, key, "the key is given twice; remove one")
			}
			seen[k.Value] = true
			d.param(node{n.Content[i+1], key})
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			d.param(node{e, n.key + "[" + strconv.Itoa(i) + "]"})
		}
	case yaml.ScalarNode:
		if n.Tag == "!!timestamp" {
			n.Tag = "!!str" // a template prints what is written, not 2026-01-01 00:00:00 +0000 UTC
		}
	}
}
