package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lb-render/lb-render/internal/ipvs"
)

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
	ownedVIPs string
	from      textFile // --owned-from
	set       *pflag.FlagSet
}

func (f *ipvsFlags) add(cmd *cobra.Command) {
	f.set = cmd.Flags()
	f.set.StringVar(&f.ownedVIPs, "owned-vips", "", "what of the table is this file's: addresses, prefixes and fwmark:N, with commas between; all else is left alone. "+
		"Without it the file is the whole table")
	f.set.StringVar(&f.from.path, "owned-from", "", "the same from a file, with commas, blanks or lines between; # begins a comment")
	cmd.MarkFlagsMutuallyExclusive("owned-vips", "owned-from")
}

func (f *ipvsFlags) scope(ctx context.Context) (ipvs.Scope, error) {
	switch {
	case f.set.Changed("owned-from"):
		text, err := f.from.read(ctx)
		if err != nil {
			return ipvs.Scope{}, fmt.Errorf("--owned-from: %w", err)
		}
		return ipvs.ParseScope(f.from.name(), text)
	case f.set.Changed("owned-vips"):
		s, err := ipvs.ParseScope("--owned-vips", f.ownedVIPs)
		if err == nil && s.Empty() {
			err = errors.New("--owned-vips is empty, so nothing would be ours; leave it out if all of the table is")
		}
		return s, err
	}
	return ipvs.Scope{}, nil
}

func readKernel(scope *ipvs.Scope) (*ipvs.Rules, error) {
	kernel, err := ipvs.OpenKernel()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	return kernel.Read(scope)
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
