package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/output"
)

func (p *program) applyCommand() *cobra.Command {
	var once onceFlags
	cmd := &cobra.Command{
		Use:   "apply [OUTPUT]",
		Short: "one pass: render, check, put in place, reload",
		Long: `Does once what the agent does all the time: renders each output, runs its check
command, puts the files in place and runs its reload command, unless all is in
force already. An output that fails does not keep the others from being applied.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := p.settled(cmd.Context(), &once, false)
			if err != nil {
				return err
			}
			defer o.close()
			picked, err := o.pick(args)
			if err != nil {
				return err
			}
			if picked.file != "" {
				return fmt.Errorf("%s: an output is applied as a whole; leave out the file", args[0])
			}
			var (
				group sync.WaitGroup
				mu    sync.Mutex
				errs  *multierror.Error
			)
			for _, u := range picked.units {
				group.Go(func() {
					result, err := applyOne(cmd.Context(), u.Output, func() (output.Content, error) { return u.Render(o.config) })
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err != nil:
						errs = multierror.Append(errs, err)
					case result.Noop:
						fmt.Fprintf(p.stdout, "%s: in sync\n", u.Output.Name())
					default:
						fmt.Fprintf(p.stdout, "%s: applied in %s, %d files changed\n", u.Output.Name(), result.Duration.Round(time.Millisecond), len(result.Changed))
					}
				})
			}
			group.Wait()
			return errs.ErrorOrNil()
		},
	}
	once.add(cmd)
	return cmd
}

func applyOne(ctx context.Context, o *output.Output, render func() (output.Content, error)) (output.Result, error) {
	if err := o.Sweep(); err != nil {
		return output.Result{}, err
	}
	content, err := render()
	if err != nil {
		return output.Result{}, fmt.Errorf("output %s: %w", o.Name(), err)
	}
	return o.Apply(ctx, content)
}
