package config

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// A file by its name, as in {{ .Files.cfg.Staged }}.
	byName = regexp.MustCompile(`\.Files\.(\w+)\.(Staged|Path)\b`)
	// A file by other ways, such as {{ range .Files }} or {{ (index .Files "cfg").Staged }}.
	byOther = regexp.MustCompile(`\.Files\b`)
	bare    = regexp.MustCompile(`\.(Staged|Path)\b`)
	inEnv   = regexp.MustCompile(`\bLB_RENDER_(?:FILES_(\w+)_)?(STAGED|PATH)\b`)
)

// looksAt is which versions of a file a command names.
type looksAt struct{ staged, live bool }

// validateCheck refuses a check that looks at a live file in the place of the
// staged one: it always passes, and says nothing of the new file. Naming both is
// fine, since a check may compare them.
func (d *decoder) validateCheck(o *Output, output string) {
	key := output + ".check.command"
	line := strings.Join(o.Check.Args, "\n")
	sees := make([]looksAt, len(o.Files))
	some := readsCommand(line, o.Files, sees)
	for i, f := range o.Files {
		if f.Path == "" {
			continue
		}
		written := d.written[output+".files["+strconv.Itoa(i)+"].path"]
		live := f.Path
		if !mentions(line, f.Path) && written != "" && mentions(line, written) {
			live = written
		}
		if mentions(line, live) {
			sees[i].live = true
		}
		instead := "{{ .Staged }}"
		if len(o.Files) > 1 {
			instead = "{{ .Files." + f.Name + ".Staged }}"
		}
		d.rule(!sees[i].live || sees[i].staged, key, "checks the live file %s, which says nothing of the new one; write %s in its place, the path of the new one", live, instead)
		some = some || sees[i].staged
	}
	d.rule(some, key, "does not look at the new file; give it {{ .Staged }}, or {{ .Files.NAME.Staged }} of several")
}

// readsCommand fills in what the variables in a command name. It returns whether
// the command names staged files in a way that cannot be told apart.
func readsCommand(line string, files []File, sees []looksAt) (some bool) {
	note := func(i int, what string) {
		if strings.EqualFold(what, "staged") {
			sees[i].staged = true
		} else {
			sees[i].live = true
		}
	}
	for _, a := range action.FindAllString(line, -1) {
		for _, m := range byName.FindAllStringSubmatch(a, -1) {
			for i := range files {
				if files[i].Name == m[1] {
					note(i, m[2])
				}
			}
		}
	}
	rest := byName.ReplaceAllString(strings.Join(action.FindAllString(line, -1), " "), "")
	for _, m := range bare.FindAllStringSubmatch(rest, -1) {
		switch {
		case !byOther.MatchString(rest):
			note(0, m[1])
		case m[1] == "Staged":
			some = true
			for i := range sees {
				sees[i].staged = true
			}
		}
	}
	for _, m := range inEnv.FindAllStringSubmatch(line, -1) {
		if m[1] == "" {
			note(0, m[2])
			continue
		}
		for i := range files {
			if envName(files[i].Name) == m[1] {
				note(i, m[2])
			}
		}
	}
	return some
}

// mentions reports whether line has path as a whole, and not as a part of a longer one.
func mentions(line, path string) bool {
	for from := 0; ; {
		i := strings.Index(line[from:], path)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(path)
		if (begin == 0 || !inPath(line[begin-1])) && (end == len(line) || !inPath(line[end])) {
			return true
		}
		from = begin + 1
	}
}

func inPath(b byte) bool {
	return b == '/' || b == '.' || b == '-' || b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}
