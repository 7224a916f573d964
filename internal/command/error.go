package command

import (
	"strings"
)

// Error says which command failed, how it ended, and what it said last.
type Error struct {
	Result Result
	// Argv is what ran; for a shell command `sh -c …`.
	Argv []string
	// Err is how it ended: *exec.ExitError, *exec.Error, a timeout, or the context's cause.
	Err error
}

// How much of a command's output goes into the message: a daemon's checker puts
// its verdict into the last lines. All of the tail is in Result.
const (
	messageLines = 8
	messageBytes = 1 << 10
)

// Error is one line: `haproxy -c -f x: exit status 1: first line | second line`.
func (e *Error) Error() string {
	msg := display(e.Argv) + ": " + e.Err.Error()
	if said := lastLines(e.Result.Tail); said != "" {
		msg += ": " + said
	}
	return msg
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// lastLines joins the last non-blank lines of s with " | ".
func lastLines(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if n := len(lines) - messageLines; n > 0 {
		lines = lines[n:]
	}
	s = strings.Join(lines, " | ")
	if n := len(s) - messageBytes; n > 0 {
		s = "…" + strings.ToValidUTF8(s[n:], "")
	}
	return s
}

// display prints argv so that it can be pasted into a shell.
func display(argv []string) string {
	if len(argv) == 0 {
		return "command"
	}
	quoted := make([]string, len(argv))
	for i, a := range argv {
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`&|;<>()*?[]#~!{}") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted[i] = a
	}
	return strings.Join(quoted, " ")
}
