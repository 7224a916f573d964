package output

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lb-render/lb-render/internal/command"
)

// Vars is what a command's templates see.
type Vars struct {
	// Staged and Path are those of the first file.
	Staged, Path string
	// Files has every file of the output by its name.
	Files map[string]FileVars
	// Output is the output's name, Hash the hash of its content.
	Output, Hash string
	// Changed has the names of the files that differ from what was on disk; empty when
	// only the reload is made up for.
	Changed []string
}

// FileVars says where a file is. Staged is the staged version while there is
// one; for a file that does not change, and after the commit, it is Path.
type FileVars struct {
	Staged, Path string
}

// vars are the variables as the transaction stands.
func (t *transaction) vars() Vars {
	v := Vars{Files: map[string]FileVars{}, Output: t.o.opts.Name, Hash: t.sum.wait()}
	if t.rolledBack {
		previous := Content{}
		for _, l := range t.lives {
			// When it fails, what is remembered is the best there is; the reload must not wait for it.
			_ = t.o.ascertain(l)
			previous[l.file.Name] = l.bytes
		}
		v.Hash = t.o.hash(t.o.opts.Files, previous)
	}
	for _, l := range t.changed {
		v.Changed = append(v.Changed, l.file.Name)
	}
	for _, f := range t.o.opts.Files {
		fv := FileVars{Staged: f.Path, Path: f.Path}
		if staged, ok := t.staged[f.Name]; ok && len(t.done) == 0 {
			fv.Staged = staged
		}
		v.Files[f.Name] = fv
	}
	first := v.Files[t.o.opts.Files[0].Name]
	v.Staged, v.Path = first.Staged, first.Path
	return v
}

// environ is the same for scripts.
func (v Vars) environ(files []File) []string {
	env := []string{
		"LB_RENDER_OUTPUT=" + v.Output,
		"LB_RENDER_HASH=" + v.Hash,
		"LB_RENDER_CHANGED=" + strings.Join(v.Changed, ","),
		"LB_RENDER_STAGED=" + v.Staged,
		"LB_RENDER_PATH=" + v.Path,
	}
	for _, f := range files {
		prefix := "LB_RENDER_FILES_" + envName(f.Name)
		env = append(env, prefix+"_STAGED="+v.Files[f.Name].Staged, prefix+"_PATH="+v.Files[f.Name].Path)
	}
	return env
}

// envName makes a file's name fit for the name of an environment variable.
func envName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// exec runs one of the output's commands.
func (o *Output) exec(ctx context.Context, phase Phase, c *Command, v Vars) error {
	args, err := c.expand(v)
	if err != nil {
		return err
	}
	spec := command.Spec{Timeout: c.Timeout, Env: v.environ(o.opts.Files)}
	if c.Shell {
		spec.Shell = args[0]
	} else {
		spec.Argv = args
	}
	res, err := o.run(ctx, spec)
	o.opts.Metrics.command(o.opts.Name, phase, res, err)
	if res.PipeHeld {
		o.log.Debug("a child of the command keeps its output open; not waiting for it", "phase", phase)
	}
	if err != nil {
		return err
	}
	o.log.Debug("command succeeded", "phase", phase, "duration", res.Duration.Round(time.Millisecond), "tail", res.Tail)
	return nil
}

// reload runs the reload command, if there is one. From before its start until
// the marker is written the daemon counts as having nothing.
func (t *transaction) reload(ctx context.Context) error {
	if t.o.opts.Reload == nil {
		return nil
	}
	t.o.noteReload()
	t.res.Reloaded = true
	return t.o.exec(ctx, PhaseReload, t.o.opts.Reload, t.vars())
}

// Verify runs the verify command, if there is one, on what is in force. The error is an *Error.
func (o *Output) Verify(ctx context.Context) error {
	t := &transaction{o: o, sum: summed(o.readMarker())}
	if err := t.verify(ctx); err != nil {
		return o.fail(PhaseVerify, err)
	}
	return nil
}

func (t *transaction) verify(ctx context.Context) error {
	if t.o.opts.Verify == nil {
		return nil
	}
	return t.o.exec(ctx, PhaseVerify, t.o.opts.Verify, t.vars())
}

// phaseOf returns the phase in which err arose, or "".
func phaseOf(err error) Phase {
	var e *Error
	if errors.As(err, &e) {
		return e.Phase
	}
	return ""
}
