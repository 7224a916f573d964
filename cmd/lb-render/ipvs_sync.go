package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/ipvs"
)

// ipvsLock keeps two syncs apart. It does not follow the agent's runtimeDir: a
// sync by hand must meet that of the agent. It must not end in .lock: the agent has
// OUTPUT.lock there locked while the reload command runs, which is we.
const ipvsLock = "/run/lb-render/ipvs-sync"

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
			file := &textFile{path: args[0], stdin: p.stdin}
			load := func() (*ipvs.Rules, *ipvs.Scope, error) {
				scope, err := flags.scope(cmd.Context())
				if err != nil {
					return nil, nil, err
				}
				parsed, err := file.rules(cmd.Context(), &scope)
				if err != nil {
					return nil, nil, err
				}
				return &parsed.Rules, &scope, nil
			}
			if _, _, err := load(); err != nil { // before anybody waits for it
				return p.faults(1, err)
			}
			for _, f := range []*textFile{file, &flags.from} {
				if drain > 0 && f.text != nil && !dryRun {
					return fmt.Errorf("--drain needs a file, which is read anew after each wait; %s can be read once, and an older text would undo a newer one", f.name())
				}
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
