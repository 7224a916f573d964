package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lb-render/lb-render/internal/ipvs"
)

// ipvsLock keeps two syncs apart. It does not follow the agent's runtimeDir: a
// sync by hand must meet that of the agent. It must not end in .lock: the agent has
// OUTPUT.lock there locked while the reload command runs, which is we.
const ipvsLock = "/run/lb-render/ipvs-sync"

func (p *program) ipvsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ipvs",
		Short: "check a file of IPVS rules, compare it with the kernel, and bring the kernel in line",
		Long: `Works with files in the syntax of ipvsadm-save(8), -A and -a lines. FILE may be -
for the standard input.

sync changes what differs between the file and the kernel's table, one edit at a
time over netlink. No connection is lost to it, as many are to "ipvsadm -C; ipvsadm -R".`,
		Args: cobra.NoArgs, // or else a misspelled subcommand is help, and exit 0
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.ipvsCheckCommand(), p.ipvsDiffCommand(), p.ipvsSyncCommand(), p.ipvsSaveCommand())
	return cmd
}

// ipvsFlags are those that say which part of the table a file speaks for.
type ipvsFlags struct {
	ownedVIPs, ownedFrom string
	set                  *pflag.FlagSet
}

func (f *ipvsFlags) add(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.StringVar(&f.ownedVIPs, "owned-vips", "", "what of the table is this file's: addresses, prefixes and fwmark:N, with commas between; all else is left alone. "+
		"Without it the file is the whole table")
	f.set.StringVar(&f.ownedFrom, "owned-from", "", "the same from a file, with commas, blanks or lines between; # begins a comment")
	cmd.MarkFlagsMutuallyExclusive("owned-vips", "owned-from")
}

func (f *ipvsFlags) scope() (ipvs.Scope, error) {
	switch {
	case f.set.Changed("owned-from"):
		text, err := os.ReadFile(f.ownedFrom)
		if err != nil {
			return ipvs.Scope{}, fmt.Errorf("--owned-from: %w", err)
		}
		return ipvs.ParseScope(f.ownedFrom, string(text))
	case f.set.Changed("owned-vips"):
		s, err := ipvs.ParseScope("--owned-vips", f.ownedVIPs)
		if err == nil && s.Empty() {
			err = errors.New("--owned-vips is empty, so nothing would be ours; leave it out if all of the table is")
		}
		return s, err
	}
	return ipvs.Scope{}, nil
}

// rulesFile reads rules, as often as they are asked for.
type rulesFile struct {
	path  string // - is the standard input
	stdin io.Reader
	// text is what was read of something that can be read just once: the standard
	// input or a pipe, which the second time would be an empty file, that is an empty table.
	text *string
}

// name is the file's for messages.
func (f *rulesFile) name() string {
	if f.path == "-" {
		return "stdin"
	}
	return f.path
}

func (f *rulesFile) read(ctx context.Context, scope *ipvs.Scope) (*ipvs.Parsed, error) {
	if f.text == nil {
		text, once, err := f.content(ctx)
		if err != nil {
			return nil, err
		}
		if once {
			f.text = &text
		}
		return f.parse(text, scope)
	}
	return f.parse(*f.text, scope)
}

func (f *rulesFile) parse(text string, scope *ipvs.Scope) (*ipvs.Parsed, error) {
	parsed, err := ipvs.Parse(f.name(), text)
	if err != nil {
		return nil, err
	}
	return parsed, scope.Check(f.name(), &parsed.Rules)
}

// content reads the file, and says whether that can be done just once. It waits for
// the other end of a pipe no longer than ctx.
func (f *rulesFile) content(ctx context.Context) (text string, once bool, err error) {
	type result struct {
		text []byte
		once bool
		err  error
	}
	read := make(chan result, 1)
	go func() { // ends with the file, or with the program
		var r result
		defer func() { read <- r }()
		in := f.stdin
		r.once = true
		if f.path != "-" {
			file, err := os.Open(f.path)
			if err != nil {
				r.err = err
				return
			}
			defer file.Close()
			info, err := file.Stat()
			if err != nil {
				r.err = err
				return
			}
			in, r.once = file, !info.Mode().IsRegular()
		}
		if r.text, r.err = io.ReadAll(in); r.err != nil && f.path == "-" {
			r.err = fmt.Errorf("reading the standard input: %w", r.err)
		}
	}()
	select {
	case r := <-read:
		return string(r.text), r.once, r.err
	case <-ctx.Done():
		return "", false, fmt.Errorf("reading %s: %w", f.name(), context.Cause(ctx))
	}
}

func (p *program) ipvsCheckCommand() *cobra.Command {
	var flags ipvsFlags
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "find every mistake in a file of rules",
		Long: `Reads a file of rules and names every mistake with its line and column. It needs
neither IPVS nor rights.

Exit code: 0 the file is good, 1 it is not.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := flags.scope()
			if err != nil {
				return p.faults(1, err)
			}
			parsed, err := (&rulesFile{path: args[0], stdin: p.stdin}).read(cmd.Context(), &scope)
			if err != nil {
				return p.faults(1, err)
			}
			p.warnings(parsed)
			fmt.Fprintf(p.stdout, "%s: ok, %s\n", args[0], counted(&parsed.Rules))
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}

func (p *program) ipvsDiffCommand() *cobra.Command {
	var flags ipvsFlags
	against := ""
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "show what sync would do",
		Long: `Compares a file of rules with the kernel's table, or with another file, and prints
what sync would do, as lines for ipvsadm(8): -A, -a, -E, -e, -d and -D.

Exit code: 0 nothing differs, 1 something does, 2 an error, or no IPVS, or no right to it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := flags.scope()
			if err != nil {
				return p.faults(2, err)
			}
			want, err := (&rulesFile{path: args[0], stdin: p.stdin}).read(cmd.Context(), &scope)
			if err != nil {
				return p.faults(2, err)
			}
			p.warnings(want)
			var have *ipvs.Rules
			if cmd.Flags().Changed("against") {
				if against == "-" && args[0] == "-" {
					return &exitError{2, errors.New("--against: the standard input is FILE already")}
				}
				all := ipvs.Scope{} // what is not ours may be there
				parsed, err := (&rulesFile{path: against, stdin: p.stdin}).read(cmd.Context(), &all)
				if err != nil {
					return p.faults(2, err)
				}
				have = scope.Within(&parsed.Rules)
			} else if have, err = readKernel(&scope); err != nil {
				return &exitError{2, err}
			}
			ops := ipvs.Diff(have, &want.Rules)
			if _, err := io.WriteString(p.stdout, ipvs.Print(ops)); err != nil {
				return &exitError{2, err}
			}
			if len(ops) > 0 {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "compare with this file of rules instead of the kernel")
	flags.add(cmd)
	return cmd
}

func (p *program) ipvsSaveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "save",
		Short: "print the kernel's table",
		Long: `Prints the kernel's table as rules, sorted, in the syntax of ipvsadm-save(8) -n and
with the thresholds (-x, -y), which that leaves out. sync takes it, unless others made
a service with a persistence engine (--pe).

Exit code: 0, or 2 without IPVS or the right to it.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			rules, err := readKernel(&ipvs.Scope{})
			if err != nil {
				return &exitError{2, err}
			}
			if _, err := io.WriteString(p.stdout, rules.String()); err != nil {
				return &exitError{2, err}
			}
			return nil
		},
	}
}

func readKernel(scope *ipvs.Scope) (*ipvs.Rules, error) {
	kernel, err := ipvs.OpenKernel()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	return kernel.Read(scope)
}

// seconds is a flag in seconds, or in Go's notation such as 2m.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }
func (*seconds) Type() string     { return "seconds" }
func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, numberErr := strconv.ParseUint(text, 10, 31); numberErr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return errors.New("must be a number of seconds, or a time such as 2m")
	}
	*s = seconds(d)
	return nil
}

// syncReport is what sync --json prints.
type syncReport struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Deleted   int `json:"deleted"`
	Drained   int `json:"drained"`
	Unchanged int `json:"unchanged"`
	Passes    int `json:"passes"`
	// Duration in seconds.
	Duration float64 `json:"duration"`
	// With --dry-run: what would be done, if there is nothing an empty list.
	DryRun     bool      `json:"dryRun,omitempty"`
	Operations *[]string `json:"operations,omitempty"`
}

func (p *program) ipvsSyncCommand() *cobra.Command {
	var (
		flags          ipvsFlags
		dryRun, asJSON bool
		drain          seconds
	)
	cmd := &cobra.Command{
		Use:   "sync FILE",
		Short: "bring the kernel's table in line with a file of rules",
		Long: `Changes what differs between the file and the kernel's table: what is new first,
then edits, deletions last. Then the table is read again, until nothing is left.
A file with mistakes changes nothing.

Syncs wait for each other (` + ipvsLock + `), and each reads its file when it is its turn.

Exit code: 0 the table is as the file says, 1 it is not, or the file has mistakes,
2 without IPVS or the right to it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := &rulesFile{path: args[0], stdin: p.stdin}
			load := func() (*ipvs.Rules, *ipvs.Scope, error) {
				scope, err := flags.scope()
				if err != nil {
					return nil, nil, err
				}
				parsed, err := file.read(cmd.Context(), &scope)
				if err != nil {
					return nil, nil, err
				}
				return &parsed.Rules, &scope, nil
			}
			if _, _, err := load(); err != nil { // before anybody waits for it
				return p.faults(1, err)
			}
			if drain > 0 && file.text != nil && !dryRun {
				return fmt.Errorf("--drain needs a file, which is read anew after each wait; %s can be read once, and an older text would undo a newer one", file.name())
			}
			kernel, err := ipvs.OpenKernel()
			if err != nil {
				return p.syncError(err)
			}
			defer kernel.Close()
			if dryRun {
				return p.ipvsDryRun(kernel, load, drain > 0, asJSON)
			}
			summary, err := ipvs.Sync(cmd.Context(), ipvs.Request{
				Table: kernel, File: file.name(), Load: load, Drain: time.Duration(drain),
				Lock: func(ctx context.Context) (func(), error) {
					return ipvs.Lock(ctx, ipvsLock, func() { fmt.Fprintln(p.stderr, "lb-render: waiting for another sync") })
				},
			})
			if summary.Passes > 0 {
				report := syncReport{
					Created: summary.Created, Updated: summary.Updated, Deleted: summary.Deleted, Drained: summary.Drained,
					Unchanged: summary.Unchanged, Passes: summary.Passes, Duration: summary.Duration.Seconds(),
				}
				if writeErr := p.writeReport(report, asJSON); err == nil {
					err = writeErr
				}
			}
			return p.syncError(err)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, as lines for ipvsadm, and do nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON; duration is in seconds")
	cmd.Flags().Var(&drain, "drain", "a real server that is to be deleted first has weight 0 for so many seconds, or until it has no connection; sync waits for that")
	flags.add(cmd)
	return cmd
}

// syncError gives an error its exit code.
func (p *program) syncError(err error) error {
	var unavailable *ipvs.UnavailableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unavailable):
		return &exitError{2, err}
	}
	return p.faults(1, err)
}

func (p *program) ipvsDryRun(kernel *ipvs.Kernel, load func() (*ipvs.Rules, *ipvs.Scope, error), drain, asJSON bool) error {
	begin := time.Now()
	want, scope, err := load()
	if err != nil {
		return p.faults(1, err)
	}
	have, err := kernel.Read(scope)
	if err != nil {
		return p.syncError(err)
	}
	ops := ipvs.Diff(have, want)
	if drain {
		ops = ipvs.WithDrain(ops)
	}
	if !asJSON {
		_, err := io.WriteString(p.stdout, ipvs.Print(ops))
		return err
	}
	plan := ipvs.Plan(ops, want)
	report := syncReport{
		DryRun: true, Created: plan.Created, Updated: plan.Updated, Deleted: plan.Deleted,
		Drained: plan.Drained, Unchanged: plan.Unchanged, Passes: 1, Duration: time.Since(begin).Seconds(),
	}
	lines := make([]string, len(ops))
	for i := range ops {
		lines[i] = ops[i].String()
	}
	report.Operations = &lines
	return p.writeReport(report, true)
}

func (p *program) writeReport(r syncReport, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	drained := ""
	if r.Drained > 0 {
		drained = fmt.Sprintf("drained %d, ", r.Drained)
	}
	_, err := fmt.Fprintf(p.stdout, "created %d, updated %d, %sdeleted %d, unchanged %d; passes %d, %s\n", r.Created, r.Updated, drained, r.Deleted,
		r.Unchanged, r.Passes, time.Duration(r.Duration*float64(time.Second)).Round(time.Microsecond))
	return err
}

// faults prints what is wrong with files, a line each that begins with the
// place, as editors and other tools read it.
func (p *program) faults(code int, err error) error {
	var fault *ipvs.Fault
	if !errors.As(err, &fault) {
		return &exitError{code, err}
	}
	for _, e := range flatten(err) {
		fmt.Fprintln(p.stderr, e)
	}
	return &exitError{code: code}
}

func (p *program) warnings(parsed *ipvs.Parsed) {
	for _, w := range parsed.Warnings {
		fmt.Fprintf(p.stderr, "%s:%d:%d: warning: %s\n", w.File, w.Line, w.Column, w.Message)
	}
}

func counted(r *ipvs.Rules) string {
	plural := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return strconv.Itoa(n) + " " + what + "s"
	}
	return plural(len(r.Services), "service") + ", " + plural(r.Len()-len(r.Services), "real server")
}
