package template

import (
	"slices"

	"github.com/lb-render/lb-render/internal/types"
)

// memos are ofProtocol with a memory, by protocol.
type memos map[string]*memo

// memo remembers one protocol: where a few listeners of a long list have
// been replaced by others with the same VIP, port and protocol, the outcome
// is the last one with these replaced, and nothing has to be checked anew.
type memo struct {
	in, out []*types.Listener
	used    bool // in this render
}

func (m memos) ofProtocol(protocol string, list []*types.Listener) ([]*types.Listener, error) {
	switch protocol {
	case "TCP", "UDP", "SCTP":
	default: // a text of the template's own making; there may be any number of them
		return ofProtocol(protocol, list)
	}
	if m[protocol] == nil {
		m[protocol] = &memo{}
	}
	m[protocol].used = true
	return m[protocol].ofProtocol(protocol, list)
}

// sweep drops what the render that has ended did not use.
func (m memos) sweep() {
	for protocol, one := range m {
		if !one.used {
			delete(m, protocol)
		}
		one.used = false
	}
}

func (m *memo) ofProtocol(protocol string, list []*types.Listener) ([]*types.Listener, error) {
	if out, ok := m.replaced(list); ok {
		m.in, m.out = list, out
		return out, nil
	}
	out, err := ofProtocol(protocol, list)
	if err != nil {
		return nil, err
	}
	m.in, m.out = list, out
	return out, nil
}

// replaced returns the outcome if list differs from the last one in the content of listeners only.
func (m *memo) replaced(list []*types.Listener) ([]*types.Listener, bool) {
	if len(list) != len(m.in) || len(list) == 0 {
		return nil, false
	}
	all := len(m.out) == len(m.in) // the outcome is the list itself
	out := list
	if !all {
		out = slices.Clone(m.out)
	}
	at := 0 // in out
	for i, l := range list {
		old := m.in[i]
		if l != old && (l.VIP != old.VIP || l.Port != old.Port || l.Protocol != old.Protocol) {
			return nil, false
		}
		if !all && at < len(m.out) && m.out[at] == old {
			out[at] = l
			at++
		}
	}
	return out, true
}
