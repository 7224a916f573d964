package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/ipvs"
)

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
			scope, err := flags.scope(cmd.Context())
			if err != nil {
				return p.faults(2, err)
			}
			want, err := (&textFile{path: args[0], stdin: p.stdin}).rules(cmd.Context(), &scope)
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
				parsed, err := (&textFile{path: against, stdin: p.stdin}).rules(cmd.Context(), &all)
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
