package main

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/output"
)

func (p *program) renderCommand() *cobra.Command {
	var once onceFlags
	cmd := &cobra.Command{
		Use:   "render [OUTPUT[/FILE]]",
		Short: "print what would be written",
		Long: `Prints what would be written: the bytes of the file if there is just one, or
each file under a line with its path.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := p.once(cmd.Context(), &once)
			if err != nil {
				return err
			}
			defer o.close()
			picked, err := o.pick(args)
			if err != nil {
				return err
			}
			var files [][2]string      // path and content
			var errs *multierror.Error // of one output; the others are printed all the same
			for _, u := range picked.units {
				content, err := u.Render(o.config)
				if err != nil {
					errs = multierror.Append(errs, fmt.Errorf("output %s: %w", u.Output.Name(), err))
					continue
				}
				for _, f := range u.Files {
					if picked.file == "" || picked.file == f.Name {
						files = append(files, [2]string{f.Path, string(output.Normalise(content[f.Name]))})
					}
				}
			}
			var b bytes.Buffer
			for i, f := range files {
				if len(files) > 1 {
					if i > 0 {
						b.WriteByte('\n')
					}
					fmt.Fprintf(&b, "==> %s <==\n", f[0])
				}
				b.WriteString(f[1])
			}
			if _, err = p.stdout.Write(b.Bytes()); err != nil {
				return err
			}
			return errs.ErrorOrNil()
		},
	}
	once.add(cmd)
	return cmd
}
