package config

import (
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
				"level":  d.oneOf(&c.Log.Level, logLevels...),
				"format": d.oneOf(&c.Log.Format, logFormats...),
			})
		},
	})
	c.Node.Scope = scope // "" until the overrides are known
}

func (d *decoder) output(n node, o *Output) {
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, n.key, "is %s; an output is a map with name, files and reload", describe(n.Node))
		return
	}
	command := func(to **Command, timeout time.Duration, more fields) func(node) {
		return func(n node) {
			if isNull(n.Node) { // not "none": its lines may have lost their indentation
				d.fail(n.Line, n.key, "is empty; give it a command, or remove the key")
				return
			}
			c := &Command{Timeout: timeout}
			f := fields{"command": d.command(c), "timeout": d.duration(&c.Timeout, time.Millisecond)}
			for k, v := range more {
				f[k] = v
			}
			d.read(n, f)
			if len(c.Args) == 0 && !d.faultyWithin(n.child("command")) && !d.faulty[n.key] {
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
		"name": d.text(&f.Name), "template": d.text(&f.Template), "path": d.filePath(&f.Path), "mode": d.mode(&f.Mode),
		"owner": d.text(&f.Owner), "group": d.text(&f.Group), "inPlace": d.boolean(&f.InPlace),
		"allowEmpty": d.boolean(&f.AllowEmpty),
	})
	if f.Name == "" && f.Path != "" && !d.faulty[n.child("name")] {
		f.Name = identifier(filepath.Base(f.Path))
	}
}

// identifier makes a name that commands can use in .Files.<name>.
func identifier(s string) string {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, s)
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
		switch {
		case len(n.Content) == 0:
			d.fail(n.Line, n.key, "is an empty list; it must be a program and its arguments")
		case len(c.Args) == len(n.Content) && strings.TrimSpace(c.Args[0]) == "":
			d.fail(n.Line, n.key+"[0]", "is empty; it must be the program to run")
		}
	}
}
