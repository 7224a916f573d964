package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lb-render/lb-render/internal/types"
)

// Guard holds back a config that has lost too many endpoints at once: often
// the cluster is wrong, and not the load balancer that still serves.
type Guard struct {
	// MaxLoss is the share of all endpoints, from 0 to 1, that may be lost at
	// once; losing more is held. 1 means that losing all of them is held. 0 turns the guard off.
	MaxLoss float64
	// Hold is how long; then it is applied all the same.
	Hold time.Duration
}

// guardLeast is how many endpoints there must be for a share of them to mean anything.
const guardLeast = 10

// guardState belongs to the loop.
type guardState struct {
	endpoints int       // of what was last released
	until     time.Time // when what is held is applied; zero if nothing is held
}

// heldState is what the outside sees.
type heldState struct {
	Until  time.Time
	Reason string
}

// tooMuch says why n endpoints after before ones are held, or "".
func (g Guard) tooMuch(before, n int) string {
	if g.MaxLoss <= 0 || before < guardLeast || n >= before {
		return ""
	}
	lost := float64(before-n) / float64(before)
	if lost > g.MaxLoss || n == 0 {
		return fmt.Sprintf("%d of %d endpoints are gone at once", before-n, before)
	}
	return ""
}

// admit decides whether c may go on now. If not, it returns when it may.
func (a *Agent) admit(c *types.ClusterConfig, now time.Time) (time.Time, bool) {
	g := &a.guard
	reason := a.settings.Guard.tooMuch(g.endpoints, c.EndpointCount())
	switch {
	case reason == "":
		if !g.until.IsZero() {
			a.log.Info("the endpoints are back; nothing is held any more")
		}
	case g.until.IsZero():
		g.until = now.Add(a.settings.Guard.Hold)
		a.metrics.holds.Inc()
		a.setHeld(heldState{g.until, reason})
		a.log.Warn("held back: "+reason, "until", g.until.Format(time.RFC3339))
		return g.until, false
	case now.Before(g.until):
		a.setHeld(heldState{g.until, reason})
		return g.until, false
	default:
		a.log.Warn("applied after it was held: " + reason)
	}
	g.until = time.Time{}
	a.setHeld(heldState{})
	if n := c.EndpointCount(); n != g.endpoints {
		g.endpoints = n
		a.rememberEndpoints()
	}
	return time.Time{}, true
}

func (a *Agent) setHeld(h heldState) {
	a.mu.Lock()
	a.held = h
	a.mu.Unlock()
}

// The count outlives a restart, or else a restart in the wrong minute would let everything through.

type guardFile struct {
	Endpoints int `json:"endpoints"`
}

func (a *Agent) guardFile() string { return filepath.Join(a.settings.RuntimeDir, "guard.json") }

func (a *Agent) recallEndpoints() {
	if a.settings.RuntimeDir == "" {
		return
	}
	var f guardFile
	if data, err := os.ReadFile(a.guardFile()); err == nil && json.Unmarshal(data, &f) == nil {
		a.guard.endpoints = f.Endpoints
	}
}

func (a *Agent) rememberEndpoints() {
	if a.settings.RuntimeDir == "" || a.opts.DryRun != nil {
		return
	}
	data, err := json.Marshal(guardFile{a.guard.endpoints})
	if err == nil {
		if err = os.MkdirAll(a.settings.RuntimeDir, 0o755); err == nil {
			err = os.WriteFile(a.guardFile(), data, 0o644) // torn is as good as missing
		}
	}
	if err != nil {
		a.log.Debug("the guard's count cannot be kept", "err", err)
	}
}
