package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/lb-render/lb-render/internal/output"
	"github.com/lb-render/lb-render/internal/types"
	"github.com/lb-render/lb-render/internal/watcher"
)

// Status is what /status says: everything an operator asks first.
type Status struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// InSync: the cluster was read, the newest config is in force, and so is every output.
	InSync bool `json:"inSync"`
	// Reasons says what is not, a line each; empty when InSync.
	Reasons []string       `json:"reasons,omitempty"`
	Config  ConfigStatus   `json:"config"`
	Cluster ClusterStatus  `json:"cluster"`
	Guard   *GuardStatus   `json:"guard,omitempty"`
	Outputs []output.State `json:"outputs"`
	// Problems are entries that are not served as they are written. They do
	// not make the host out of sync: they are somebody else's to mend.
	Problems  []types.Problem `json:"problems,omitempty"`
	Listeners int             `json:"listeners"`
	Endpoints int             `json:"endpoints"`
}

// ConfigStatus is about the agent's own config and templates.
type ConfigStatus struct {
	Loaded time.Time `json:"loaded"`
	Error  string    `json:"error,omitempty"` // why a newer one is not in force
}

// ClusterStatus is about the source.
type ClusterStatus struct {
	Synced         bool      `json:"synced"`
	LastEvent      time.Time `json:"lastEvent,omitzero"`
	Waiting        string    `json:"waiting,omitempty"`        // resources that cannot be read
	ConfigMapError string    `json:"configMapError,omitempty"` // why its newest version is not in force
}

// GuardStatus is there while a config is held back.
type GuardStatus struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

func (a *Agent) clusterStatus() watcher.Status {
	a.mu.Lock()
	c := a.cluster
	a.mu.Unlock()
	if c == nil {
		return watcher.Status{}
	}
	return c.Status()
}

func (a *Agent) currentProblems() []types.Problem {
	if r := a.released.Load(); r != nil {
		return r.config.Problems
	}
	return nil
}

// Status returns a snapshot.
func (a *Agent) Status() Status {
	cs := a.clusterStatus()
	s := Status{
		Version: a.opts.Version, Started: a.started, Outputs: a.states(), Problems: a.currentProblems(),
		Cluster: ClusterStatus{Synced: cs.Synced, LastEvent: cs.LastEvent, Waiting: cs.Waiting()},
	}
	if cs.ConfigError != nil {
		s.Cluster.ConfigMapError = cs.ConfigError.Error()
	}
	if r := a.released.Load(); r != nil {
		s.Listeners, s.Endpoints = len(r.config.Listeners), r.config.EndpointCount()
	}
	a.mu.Lock()
	s.Config.Loaded = a.loadedAt
	if a.loadErr != nil {
		s.Config.Error = a.loadErr.Error()
	}
	if !a.held.Until.IsZero() {
		s.Guard = &GuardStatus{a.held.Until, a.held.Reason}
	}
	a.mu.Unlock()
	s.Reasons = s.reasons()
	s.InSync = len(s.Reasons) == 0
	return s
}

func (s *Status) reasons() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.Config.Error != "" {
		add("config: the newest is not in force: %s", strings.TrimSpace(s.Config.Error))
	}
	if s.Cluster.Waiting != "" {
		add("cluster: %s", s.Cluster.Waiting)
	} else if !s.Cluster.Synced {
		add("cluster: not read yet")
	}
	if s.Cluster.ConfigMapError != "" {
		add("%s", s.Cluster.ConfigMapError)
	}
	if s.Guard != nil {
		add("guard: %s; held until %s", s.Guard.Reason, s.Guard.Until.Format(time.RFC3339))
	}
	for _, o := range s.Outputs {
		switch {
		case o.Error != "":
			add("output %s: failing in %s since %s: %s", o.Name, o.Phase, o.Since.Format(time.RFC3339), o.Error)
		case !o.InSync:
			add("output %s: not rendered yet", o.Name)
		}
	}
	return out
}
