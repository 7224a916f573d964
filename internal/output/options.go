package output

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
)

// Options says what an output is. Name, RuntimeDir and at least one file are required.
type Options struct {
	// Name is the output's name: letters, digits, dot, dash and underscore.
	Name string
	// Files are written together, checked once and reloaded once.
	Files []File
	// Check runs on the staged files before anything is replaced. nil: no check.
	Check *Command
	// Reload tells the daemon. nil: no daemon needs to be told.
	Reload *Command
	// Verify runs after Reload and on every resync. nil: a reload that succeeds is believed.
	Verify *Command
	// NoRollback leaves the new files in place when the reload or verify command fails.
	NoRollback bool
	// MinInterval is the least time between the starts of two reload commands, failed
	// ones included. It delays Run, not Apply. The first reload after a start does not
	// wait. 0: none.
	MinInterval time.Duration
	// Splay is the most by which a transaction that an event caused is delayed; which
	// share of it this host waits depends on HostName alone. The first transaction after
	// a start, retries and resyncs are not delayed. 0: none.
	Splay    time.Duration
	HostName string
	// Resync is how often the disk is read again and Verify run, without any event. 0: never.
	Resync time.Duration
	// RuntimeDir holds the marker and the lock. It should not survive a boot, since the
	// daemon's state does not. It is made when it is missing.
	RuntimeDir string
	// Backoff is the wait between a failed transaction and the next try.
	Backoff Backoff
	// Logger is for what has no caller to return it to; nil discards it.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
	// OnState, if set, is called by Run, in its goroutine, after each pass and when
	// newer input begins to wait. It must not block.
	OnState func(State)
	// Release, if set, is called with bytes of a Content, or of what was read from the
	// disk, that this output will not look at any more: they may be used for something
	// else. It is called at the end of a transaction, and must not block. nil: they are garbage.
	Release func(file string, b []byte)
	// Hook is for tests: it is called with a step's name before and between the steps of
	// a transaction. See the package comment for the names.
	Hook func(step string)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// File is one file of an output.
type File struct {
	// Name is how commands and templates call the file; the same alphabet as Options.Name.
	Name string
	// Path is where it goes. A symlink is followed and the file behind it replaced.
	// Directories are not created.
	Path string
	// Mode is the file's mode; nil keeps the one it has, and gives a new file 0644.
	Mode *fs.FileMode
	// Owner and Group are names or numbers; "" keeps what the file has, and gives a new
	// file the agent's own.
	Owner, Group string
	// InPlace overwrites the file instead of replacing it: for a file that is itself a
	// mount point. The file is then not whole while it is written, nor after a kill in the
	// middle of it, until the next start. A file that does not exist is still renamed into place.
	InPlace bool
	// AllowEmpty lets the file be nothing but white space. Without it that is an error,
	// since it is nearly always a template that went wrong.
	AllowEmpty bool
}

// Command is a command with templates in it.
type Command struct {
	// Expand fills in the templates; vars is a Vars. With Shell it returns exactly one
	// argument, which runs in sh -c. It must be safe for concurrent use.
	Expand func(vars any) ([]string, error)
	Shell  bool
	// Timeout of the command; 0 means command.DefaultTimeout.
	Timeout time.Duration
}

// Backoff is an exponential wait: Min after the first failure, twice as long
// after each further one, Max at most. Up to a quarter is added at random, so that
// hosts which failed together do not try together.
type Backoff struct {
	Min time.Duration // 0: one second
	Max time.Duration // 0: one minute
}

const (
	defaultBackoffMin = time.Second // long enough not to spin, short enough for a daemon that is just restarting
	defaultBackoffMax = time.Minute // a human who mends the daemon should not have to wait for us
	defaultMode       = fs.FileMode(0o644)
	modeBits          = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
)

// A name becomes a part of file names and of environment variables.
var nameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// complete validates o and fills in the defaults. Every error is reported at once.
func (o Options) complete() (Options, error) {
	var errs *multierror.Error
	bad := func(format string, args ...any) {
		errs = multierror.Append(errs, fmt.Errorf("output %s: %w", o.Name, fmt.Errorf(format, args...)))
	}
	if !nameRE.MatchString(o.Name) {
		errs = multierror.Append(errs, fmt.Errorf("output name %q: use letters, digits, dot, dash and underscore, at most 100 of them", o.Name))
	}
	if o.RuntimeDir == "" {
		bad("no runtime directory")
	} else if abs, err := filepath.Abs(o.RuntimeDir); err != nil {
		bad("runtime directory: %w", err)
	} else {
		o.RuntimeDir = abs
	}
	if len(o.Files) == 0 {
		bad("no files")
	}
	files := make([]File, len(o.Files))
	byName, byEnv, byPath := map[string]bool{}, map[string]string{}, map[string]string{}
	for i, f := range o.Files {
		if !nameRE.MatchString(f.Name) {
			bad("file name %q: use letters, digits, dot, dash and underscore, at most 100 of them", f.Name)
		}
		if byName[f.Name] {
			bad("two files have the name %q", f.Name)
		} else if other, ok := byEnv[envName(f.Name)]; ok {
			bad("files %q and %q have one name in the environment (LB_RENDER_FILES_%s_STAGED)", other, f.Name, envName(f.Name))
		}
		byName[f.Name], byEnv[envName(f.Name)] = true, f.Name
		if f.Path == "" {
			bad("file %s: no path", f.Name)
		} else if abs, err := filepath.Abs(f.Path); err != nil {
			bad("file %s: %w", f.Name, err)
		} else {
			f.Path = abs
			if other, ok := byPath[abs]; ok {
				bad("files %q and %q have the same path %s", other, f.Name, abs)
			}
			byPath[abs] = f.Name
		}
		if f.Mode != nil && *f.Mode&^modeBits != 0 {
			bad("file %s: mode %v has bits that are not permissions", f.Name, *f.Mode)
		}
		files[i] = f
	}
	o.Files = files
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"minInterval", o.MinInterval}, {"splay", o.Splay}, {"resync", o.Resync}, {"backoff", o.Backoff.Min}, {"backoff", o.Backoff.Max}} {
		if d.v < 0 {
			bad("%s: %s is negative", d.name, d.v)
		}
	}
	if o.Backoff.Min == 0 {
		o.Backoff.Min = defaultBackoffMin
	}
	if o.Backoff.Max == 0 {
		o.Backoff.Max = max(defaultBackoffMax, o.Backoff.Min)
	}
	if o.Backoff.Max < o.Backoff.Min {
		bad("backoff: at most %s is less than at least %s", o.Backoff.Max, o.Backoff.Min)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if errs == nil {
		for _, err := range probe(o) {
			bad("%w", err)
		}
	}
	return o, errs.ErrorOrNil()
}

// probe expands each command once, so that a misspelt variable is an error at
// start and not at the first reload; and it finds check commands that look at
// the live file, which would accept anything.
func probe(o Options) []error {
	vars := Vars{Output: o.Name, Hash: strings.Repeat("0", hashLen), Files: map[string]FileVars{}}
	for _, f := range o.Files {
		fv := FileVars{Staged: filepath.Join(filepath.Dir(f.Path), stagedPrefix(o.Name, f)+"0.tmp"), Path: f.Path}
		vars.Files[f.Name] = fv
		vars.Changed = append(vars.Changed, f.Name)
	}
	vars.Staged, vars.Path = vars.Files[o.Files[0].Name].Staged, o.Files[0].Path
	var errs []error
	for _, c := range []struct {
		phase Phase
		cmd   *Command
	}{{PhaseCheck, o.Check}, {PhaseReload, o.Reload}, {PhaseVerify, o.Verify}} {
		if c.cmd == nil {
			continue
		}
		args, err := c.cmd.expand(vars)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s command: %w", c.phase, err))
			continue
		}
		if c.phase != PhaseCheck {
			continue
		}
		all := strings.Join(args, "\n")
		for _, f := range o.Files {
			if namesPath(all, f.Path) && !strings.Contains(all, vars.Files[f.Name].Staged) && !strings.Contains(all, "LB_RENDER_") {
				errs = append(errs, fmt.Errorf("check command names %s, the live file, which it would accept or refuse whatever is rendered: name the staged one, {{ .Files.%s.Staged }}", f.Path, f.Name))
			}
		}
	}
	return errs
}

// namesPath tells whether s has path in it as a whole word.
func namesPath(s, path string) bool {
	isPart := func(b byte) bool {
		return b == '/' || b == '.' || b == '-' || b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
	}
	for from := 0; ; {
		i := strings.Index(s[from:], path)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(path)
		if (begin == 0 || !isPart(s[begin-1])) && (end == len(s) || !isPart(s[end])) {
			return true
		}
		from = begin + 1
	}
}

func (c *Command) expand(vars Vars) ([]string, error) {
	if c.Expand == nil {
		return nil, errors.New("nothing to run")
	}
	args, err := c.Expand(vars)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 || strings.TrimSpace(args[0]) == "" {
		return nil, errors.New("nothing to run: the command is empty")
	}
	if c.Shell && len(args) != 1 {
		return nil, fmt.Errorf("a shell command is one string, not %d", len(args))
	}
	return args, nil
}
