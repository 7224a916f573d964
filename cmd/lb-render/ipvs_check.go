package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/ipvs"
)

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
			scope, err := flags.scope(cmd.Context())
			if err != nil {
				return p.faults(1, err)
			}
			parsed, err := (&textFile{path: args[0], stdin: p.stdin}).rules(cmd.Context(), &scope)
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

func counted(r *ipvs.Rules) string {
	plural := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return strconv.Itoa(n) + " " + what + "s"
	}
	return plural(len(r.Services), "service") + ", " + plural(r.Len()-len(r.Services), "real server")
}
