package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lb-render/lb-render/internal/agent"
	"github.com/lb-render/lb-render/internal/config"
)

func (p *program) statusCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "status",
		Short: "ask the running agent how it is doing",
		Long: `Asks the agent that runs on this host, at its http.listen.

Exit code: 0 everything is in sync, 1 something is not, or the agent does not answer.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--output %q: must be text or json", format)
			}
			// The config may be what is wrong; the agent that goes on with the one before still answers.
			l, configErr := p.load()
			listen := config.Listen(p.flags.config)
			if configErr == nil {
				listen = l.settings.Listen
			} else {
				fmt.Fprintf(p.stderr, "lb-render: %s\n", oneError(configErr))
			}
			s, raw, err := ask(listen)
			if err != nil {
				return err
			}
			if format == "json" {
				_, err = p.stdout.Write(raw)
			} else {
				err = writeStatus(p.stdout, s)
			}
			if err != nil {
				return err
			}
			if !s.InSync || configErr != nil {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "text or json")
	return cmd
}

// ask gets the status of the agent that listens on address.
func ask(address string) (*agent.Status, []byte, error) {
	if address == "" {
		return nil, nil, errors.New("http.listen is empty, so the agent cannot be asked; give it an address, such as 127.0.0.1:9180")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, fmt.Errorf("http.listen: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}} // this host needs no proxy
	resp, err := client.Get("http://" + net.JoinHostPort(host, port) + "/status")
	if err != nil {
		return nil, nil, fmt.Errorf("the agent does not answer; is it running? %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the agent's answer: %w", err)
	}
	s := &agent.Status{}
	if err := json.Unmarshal(raw, s); err != nil || resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answers, but not as lb-render does (HTTP status %s)", address, resp.Status)
	}
	return s, raw, nil
}

func writeStatus(w io.Writer, s *agent.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "OUTPUT\tSTATE\tSINCE\tRELOADS\tLAST RELOAD")
	for _, o := range s.Outputs {
		state, since := "in sync", o.LastSuccess
		switch {
		case o.Error != "":
			state, since = fmt.Sprintf("failing (%s)", o.Phase), o.Since
		case !o.InSync:
			state = "waiting"
		case o.Pending:
			state = "in sync, newer input waits"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", o.Name, state, when(since), o.Reloads, when(o.LastReload))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d listeners, %d endpoints, %d problems; version %s, up since %s\n",
		s.Listeners, s.Endpoints, len(s.Problems), s.Version, when(s.Started))
	for _, r := range s.Reasons {
		fmt.Fprintln(w, "not in sync:", r)
	}
	for _, p := range s.Problems {
		fmt.Fprintln(w, "problem:", describe(p))
	}
	return nil
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
