// Command lb-render renders the configuration of a load balancer from the
// state of a Kubernetes cluster, puts it in place and reloads the daemon.
//
// This package has flags, wiring and exit codes, one file per subcommand. It
// alone reads the environment and handles signals.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// gcPercent is how far the heap may grow beyond what is in use, in percent,
// where GOGC does not say. Nearly all of it is the cluster's objects, which
// stay; Go's default of 100 would keep as much again free for garbage that we
// do not make. In a cluster of 150,000 pods that is some 200 MB.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}))
}

// program is what a run of lb-render has from the outside.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// hook is called between the steps of a transaction; only tests set it.
	hook func(step string)
	// dryRun writes nothing, not even to the state directory.
	dryRun bool
	// flags that work everywhere
	flags flags
}

// exitError ends the program with a code. Without err nothing more is to be said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, p program) int {
	root := p.command()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	code := 1
	if cmd != nil && (cmd.Name() == "diff" || cmd == root && slices.Contains(args, "diff")) {
		code = 2 // 1 says that something differs
	}
	var e *exitError
	if errors.As(err, &e) {
		code = e.code
		if e.err == nil {
			return code
		}
	}
	fmt.Fprintf(p.stderr, "lb-render: %s\n", oneError(err))
	return code
}

// command builds the command line.
func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "lb-render",
		Short: "render load-balancer configuration from the state of a Kubernetes cluster",
		Long: `lb-render watches a cluster, works out what this host should serve, renders it
through your own templates, puts the files in place atomically and runs a
reload command when their content has changed.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	p.flags.add(root.PersistentFlags(), p.getenv)
	root.AddCommand(p.runCommand(), p.renderCommand(), p.diffCommand(), p.applyCommand(), p.checkCommand(),
		p.clusterConfigCommand(), p.snapshotCommand(), p.statusCommand(), p.ipvsCommand(), p.versionCommand())
	return root
}
