package main

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/agent"
	"github.com/lb-render/lb-render/internal/output"
)

func (p *program) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "the agent: watch, render, check, put in place, reload",
		Long: `Runs until TERM or INT; a transaction that runs then is finished. HUP, and any
change of the config or a template, loads both anew; if anything is wrong with
the new ones, the old ones stay.

Exit code: 0 after TERM or INT, 1 if it could not start.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runAgent(cmd) },
	}
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "print what would change, again and again; write nothing and run nothing")
	return cmd
}

func (p *program) runAgent(cmd *cobra.Command) error {
	// The logger of the first config stays: what it says where is not to change under an operator's eyes.
	first, err := p.load()
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o := agent.Options{
		Load: func() (*agent.Settings, error) {
			l, err := p.load()
			if err != nil {
				return nil, err
			}
			return l.settings, nil
		},
		Logger: first.logger, Registry: reg, Version: version(), Watchdog: watchdog(p.getenv),
	}
	if p.getenv("NOTIFY_SOCKET") != "" {
		o.Notify = func(state string) {
			if _, err := daemon.SdNotify(false, state); err != nil {
				first.logger.Debug("the service manager cannot be told", "state", state, "err", err)
			}
		}
	}
	if p.dryRun {
		painted := isTerminal(p.stdout) && p.getenv("NO_COLOR") == ""
		o.DryRun = func(_ string, c output.Comparison) {
			if err := writeDiff(p.stdout, c, painted); err != nil {
				first.logger.Error("the diff cannot be printed", "err", err)
			}
		}
	}
	a, err := agent.New(o)
	if err != nil {
		return err
	}
	reload := make(chan struct{}, 1)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() { // ends with the command
		for {
			select {
			case <-cmd.Context().Done():
				return
			case <-signals:
				select {
				case reload <- struct{}{}:
				default: // one is due already
				}
			}
		}
	}()
	first.logger.Info("starting", "version", version(), "config", p.flags.config, "pid", os.Getpid())
	if err := a.Run(cmd.Context(), reload); err != nil {
		return err
	}
	first.logger.Info("stopped")
	return nil
}

// watchdog is the time in which systemd wants to hear from us; 0 if it does not (sd_watchdog_enabled(3)).
func watchdog(getenv func(string) string) time.Duration {
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 {
		return 0
	}
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}
