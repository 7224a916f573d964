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

func (d *decoder) config(root *node, c *Config) {
	scope := ""
	d.read(*root, fields{
		"cluster": func(n node) {
			d.read(n, fields{
				"kubeconfig": d.path(&c.Cluster.Kubeconfig),
				"inCluster":  d.boolean(&c.Cluster.InCluster),
				"manifests":  d.path(&c.Cluster.Manifests),
			})
		},
		"configMap": func(n node) {
			d.read(n, fields{"namespace": d.text(&c.ConfigMap.Namespace), "name": d.text(&c.ConfigMap.Name), "key": d.text(&c.ConfigMap.Key)})
		},
		"node": func(n node) {
			d.read(n, fields{
				"name":            d.text(&c.Node.Name),
				"scope":           d.oneOf(&scope, "cluster", "node"),
				"excludeCordoned": d.boolean(&c.Node.ExcludeCordoned),
			})
		},
		"auto": func(n node) {
			d.read(n, fields{"service": d.text(&c.Auto.Service), "port": d.number(&c.Auto.Port)})
		},
		"pods": d.oneOf(&c.Pods, "all", "node", "none"),
		"timing": func(n node) {
			d.read(n, fields{
				"quiet":        d.duration(&c.Timing.Quiet, time.Millisecond),
				"maxWait":      d.duration(&c.Timing.MaxWait, time.Millisecond),
				"resync":       d.duration(&c.Timing.Resync, time.Second),
				"startTimeout": d.duration(&c.Timing.StartTimeout, 0),
			})
		},
		"guard": func(n node) {
			d.read(n, fields{"maxLoss": d.percent(&c.Guard.MaxLoss), "hold": d.duration(&c.Guard.Hold, 0)})
		},
		"templateDir":    d.path(&c.TemplateDir),
		"delims":         d.delims(&c.Delims),
		"allowFunctions": d.list(func(n node) { d.appendText(n, &c.AllowFunctions) }),
		"params":         d.params(&c.Params),
		"outputs": d.list(func(n node) {
			o := Output{Rollback: true}
			d.output(n, &o)
			c.Outputs = append(c.Outputs, o)
		}),
		"http":       func(n node) { d.read(n, fields{"listen": d.text(&c.HTTP.Listen)}) },
		"stateDir":   d.path(&c.StateDir),
		"runtimeDir": d.path(&c.RuntimeDir),
		"log": func(n node) {
			d.read(n, fields{
				"level":  d.oneOf(&c.Log.Level, "debug", "info", "warn", "error"),
				"format": d.oneOf(&c.Log.Format, "text", "json"),
			})
		},
	})
	c.Node.Scope = scope // "" until the overrides are known
}

func (d *decoder) appendText(n node, to *[]string) {
	var s string
	d.text(&s)(n)
	*to = append(*to, s)
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

func (d *decoder) delims(to *[2]string) func(node) {
	return func(n node) {
		var list []string
		d.list(func(e node) { d.appendText(e, &list) })(n)
		if d.faulty[n.key] || isNull(n.Node) {
			return
		}
		if len(list) != 2 || list[0] == "" || list[1] == "" || list[0] == list[1] {
			d.fail(n.Line, n.key, `must be a list of two different texts, such as ["<%%", "%%>"]`)
			return
		}
		*to = [2]string{list[0], list[1]}
	}
}

func (d *decoder) params(to *map[string]any) func(node) {
	return func(n node) {
		if isNull(n.Node) {
			return
		}
		if n.Kind != yaml.MappingNode {
			d.fail(n.Line, n.key, "is %s; it must be a map", describe(n.Node))
			return
		}
		var m map[string]any
		if err := n.Decode(&m); err != nil {
			d.fail(n.Line, n.key, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			return
		}
		*to = m
	}
}

func (d *decoder) output(n node, o *Output) {
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, n.key, "is %s; an output is a map with name, files and reload", describe(n.Node))
		return
	}
	command := func(to **Command, timeout time.Duration, more fields) func(node) {
		return func(n node) {
			if isNull(n.Node) {
				return
			}
			c := &Command{Timeout: timeout}
			f := fields{"command": d.command(c), "timeout": d.duration(&c.Timeout, time.Millisecond)}
			for k, v := range more {
				f[k] = v
			}
			d.read(n, f)
			if len(c.Args) == 0 && !d.faulty[n.child("command")] && !d.faulty[n.key] {
				d.fail(n.Line, n.child("command"), "is missing; it is a list of arguments, or a line for sh")
			}
			*to = c
		}
	}
	d.read(n, fields{
		"name": d.text(&o.Name),
		"files": d.list(func(n node) {
			var f File
			d.outputFile(n, &f)
			o.Files = append(o.Files, f)
		}),
		"check": command(&o.Check, checkTimeout, nil),
		"reload": command(&o.Reload, reloadTimeout, fields{
			"minInterval": d.duration(&o.MinInterval, 0), "splay": d.duration(&o.Splay, 0),
		}),
		"verify":   command(&o.Verify, checkTimeout, nil),
		"rollback": d.boolean(&o.Rollback),
	})
}

func (d *decoder) outputFile(n node, f *File) {
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, n.key, "is %s; a file is a map with template and path", describe(n.Node))
		return
	}
	d.read(n, fields{
		"name": d.text(&f.Name), "template": d.text(&f.Template), "path": d.path(&f.Path), "mode": d.mode(&f.Mode),
		"owner": d.text(&f.Owner), "group": d.text(&f.Group), "inPlace": d.boolean(&f.InPlace),
		"allowEmpty": d.boolean(&f.AllowEmpty),
	})
	if f.Name == "" && f.Path != "" && !d.faulty[n.child("name")] {
		f.Name = identifier(filepath.Base(f.Path))
	}
}

// identifier makes a name that commands can use in .Files.<name>.
func identifier(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, s)
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
		case n.Tag != "!!str":
			d.fail(n.Line, n.key, "is the number %s; write the mode in quotes, such as %q", n.Value, fmt.Sprintf("%04s", strings.TrimPrefix(v, "0o")))
		case err != nil || m > 0o777 || len(v) < 3:
			d.fail(n.Line, n.key, `is %s; it must be a mode in octal, from "0000" to "0777"`, describe(n.Node))
		default:
			mode := fs.FileMode(m)
			*to = &mode
		}
	}
}

// command reads a list of arguments, or one line for sh.
func (d *decoder) command(c *Command) func(node) {
	return func(n node) {
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			c.Args, c.Shell = []string{n.Value}, true
			if strings.TrimSpace(n.Value) == "" {
				d.fail(n.Line, n.key, "is empty; it must be a line for sh, or a list of arguments")
			}
			return
		}
		if n.Kind != yaml.SequenceNode {
			d.fail(n.Line, n.key, "is %s; it must be a list of arguments, or a line for sh", describe(n.Node))
			return
		}
		for i, e := range n.Content {
			e = follow(e)
			if e.Kind != yaml.ScalarNode || isNull(e) {
				d.fail(e.Line, n.key+"["+strconv.Itoa(i)+"]", "is %s; an argument is text; put {{ … }} in quotes", describe(e))
				continue
			}
			c.Args = append(c.Args, e.Value)
		}
		if len(n.Content) == 0 {
			d.fail(n.Line, n.key, "is an empty list; it must be a program and its arguments")
		}
	}
}
