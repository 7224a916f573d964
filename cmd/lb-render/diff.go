package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/go-multierror"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/output"
)

func (p *program) diffCommand() *cobra.Command {
	color := "auto"
	var once onceFlags
	cmd := &cobra.Command{
		Use:   "diff [OUTPUT[/FILE]]",
		Short: "compare what would be written with what is there",
		Long: `Prints a unified diff from what is on disk to what would be written.

Exit code: 0 nothing differs, 1 something differs, 2 or more an error.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			painted, err := wantsColor(color, p.stdout, p.getenv)
			if err != nil {
				return &exitError{2, err}
			}
			differs, err := p.diff(cmd, &once, args, painted)
			if err != nil {
				return &exitError{2, err}
			}
			if differs {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&color, "color", color, "auto, always or never; auto is on a terminal and without NO_COLOR")
	once.add(cmd)
	return cmd
}

func (p *program) diff(cmd *cobra.Command, once *onceFlags, args []string, painted bool) (bool, error) {
	o, err := p.once(cmd.Context(), once)
	if err != nil {
		return false, err
	}
	defer o.close()
	picked, err := o.pick(args)
	if err != nil {
		return false, err
	}
	differs := false
	var errs *multierror.Error // of one output; the others are shown all the same
	for _, u := range picked.units {
		content, err := u.Render(o.config)
		var c output.Comparison
		if err == nil {
			c, err = u.Output.Compare(content)
		}
		if err != nil {
			errs = multierror.Append(errs, fmt.Errorf("output %s: %w", u.Output.Name(), err))
			continue
		}
		if picked.file != "" {
			c.Files = only(c.Files, picked.file)
		}
		if len(c.Changed()) > 0 {
			differs = true
		} else if !c.Marker {
			fmt.Fprintf(p.stderr, "output %s: the files are in place, but the reload is not known to have happened\n", u.Output.Name())
		}
		if err := writeDiff(p.stdout, c, painted); err != nil {
			return false, err
		}
	}
	return differs, errs.ErrorOrNil()
}

func only(files []output.FileComparison, name string) []output.FileComparison {
	var out []output.FileComparison
	for _, f := range files {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// writeDiff writes what differs as a unified diff that patch(1) can read; a
// difference of mode or owner is a line before it.
func writeDiff(w io.Writer, c output.Comparison, painted bool) error {
	var b bytes.Buffer
	for _, f := range c.Files {
		if !f.Differs() {
			continue
		}
		if f.Err != nil {
			fmt.Fprintf(&b, "# %s: %v\n", f.Path, f.Err)
		}
		if f.Mode && !f.Missing {
			fmt.Fprintf(&b, "# %s: the mode differs\n", f.Path)
		}
		if f.Owner && !f.Missing {
			fmt.Fprintf(&b, "# %s: the owner differs\n", f.Path)
		}
		from := f.Path
		if f.Missing {
			from = "/dev/null"
		}
		text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
			A: splitLines(f.Current), B: splitLines(f.Rendered), FromFile: from, ToFile: f.Path, Context: 3,
		})
		if err != nil {
			return err
		}
		b.WriteString(text)
	}
	text := b.String()
	if painted {
		text = paint(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// splitLines keeps the line ends, and says where the last one is missing as diff does.
func splitLines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	lines := strings.SplitAfter(string(b), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n\\ No newline at end of file\n"
	}
	return lines
}

// paint colours a diff as git does.
func paint(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.TrimSuffix(line, "\n"), "\n"
		color := ""
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "# "):
			color = "1"
		case strings.HasPrefix(line, "@@"):
			color = "36"
		case strings.HasPrefix(line, "+"):
			color = "32"
		case strings.HasPrefix(line, "-"):
			color = "31"
		}
		if color != "" {
			line = "\x1b[" + color + "m" + line + "\x1b[m"
		}
		b.WriteString(line + end)
	}
	return b.String()
}

func wantsColor(mode string, w io.Writer, getenv func(string) string) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return isTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb", nil
	}
	return false, fmt.Errorf("--color %q: must be auto, always or never", mode)
}
