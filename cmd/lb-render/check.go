package main

import (
	"errors"
	"fmt"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/types"
)

func (p *program) checkCommand() *cobra.Command {
	var once onceFlags
	commands := true
	cmd := &cobra.Command{
		Use:   "check",
		Short: "find what is wrong, and change nothing",
		Long: `Checks the agent's config, the templates, every entry of the ConfigMap, renders
each output and runs its check command on the result, staged beside the live
file for that time. With --config-map it answers what would become of a
ConfigMap before it is applied.

Entries that are invalid or in conflict are errors. What only waits for the
cluster (no such service, no endpoint) is a warning.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := p.once(cmd.Context(), &once)
			if err != nil {
				return err
			}
			defer o.close()
			var errs *multierror.Error
			if o.configErr != nil {
				errs = multierror.Append(errs, o.configErr)
			}
			for _, problem := range o.config.Problems {
				if problem.Reason == types.Invalid || problem.Reason == types.Conflict {
					errs = multierror.Append(errs, errors.New(describe(problem)))
				}
			}
			for _, u := range o.setup.Units {
				content, err := u.Render(o.config)
				if err == nil && commands {
					err = u.Output.Check(cmd.Context(), content)
				}
				if err != nil {
					errs = multierror.Append(errs, fmt.Errorf("output %s: %w", u.Output.Name(), err))
					continue
				}
				fmt.Fprintf(p.stdout, "output %s: ok\n", u.Output.Name())
			}
			return errs.ErrorOrNil()
		},
	}
	once.add(cmd)
	cmd.Flags().BoolVar(&commands, "commands", commands, "run the check commands; --commands=false where the daemons are not installed")
	return cmd
}
