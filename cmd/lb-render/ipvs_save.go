package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/ipvs"
)

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
