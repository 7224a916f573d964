package command

import (
	"bytes"
	"strings"
	"sync"
)

// tail is a writer that keeps the last max bytes.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte // one byte more than max, if there was one: it tells whether a line begins after it
}

// Write never fails: a command must not get EPIPE because it is talkative.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	// Cutting at twice the size keeps the copying linear in what is written.
	if len(t.buf) > 2*t.max+1 {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max-1:]...)
	}
	return len(p), nil
}

// String returns the last max bytes as valid UTF-8. When something was dropped
// it starts at a line's beginning, if there is one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if n := len(b) - t.max; n > 0 {
		begins := b[n-1] == '\n'
		b = b[n:]
		if i := bytes.IndexByte(b, '\n'); !begins && i >= 0 && i < len(b)-1 {
			b = b[i+1:]
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
