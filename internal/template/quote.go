package template

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quoting. A value from the cluster must never add a line or a directive to the
// file it goes into, whatever is in it. Each function returns exactly one word
// of the daemon's language, without a line break.

// haproxyQuote returns s as one word of haproxy.cfg: as it is if it is made of
// letters, digits and _ . / : @ + - only, else in strong quotes, where HAProxy
// interprets nothing: no variable, no escape, no comment. Control characters
// become "?": a line break ends a line even in quotes, and a NUL hides the rest
// of it. What a log-format makes of the word afterwards, as of %[…], no quoting
// can prevent: keep cluster values out of those.
func haproxyQuote(v any) string {
	s := oneLine(text(v))
	if haproxyPlain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var haproxyPlain = regexp.MustCompile(`^[A-Za-z0-9_./:@+-]+$`)

// keepalivedLimit keeps lines far below the 1,024 bytes at which keepalived
// cuts them, comments too: the rest would be read as a directive.
const keepalivedLimit = 250

// keepalivedQuote returns s as one quoted word of keepalived.conf. keepalived
// has no escape that works everywhere, and looks for '!' and '#' (comments),
// '$' (definitions), '~' (sequences), '{' and '}' before and regardless of
// quotes, so every character that is not plainly harmless becomes "_", and
// what is longer than 250 bytes is cut off.
func keepalivedQuote(v any) string {
	return `"` + cut(strings.Map(func(r rune) rune {
		if isAlnum(r) || strings.ContainsRune(" _.,:;/=+-*()[]<>|?%&", r) {
			return r
		}
		return '_'
	}, text(v)), keepalivedLimit) + `"`
}

// comment returns s as text for the rest of a comment line of any of the
// daemons: one line of plain characters, not longer than 250 bytes.
func comment(v any) string {
	q := keepalivedQuote(v)
	return strings.TrimRight(q[1:len(q)-1], " ")
}

// identifier returns s if it is a name that HAProxy, keepalived and file
// systems take alike ([A-Za-z0-9_.-], at most 253, not beginning with a dot or
// a dash); else it makes one and appends eight hexadecimal digits that depend
// on s, so that two names that differ still do.
func identifier(v any) string {
	s := text(v)
	if plainName(s) {
		return s
	}
	safe := strings.Map(func(r rune) rune {
		if isAlnum(r) || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, s)
	if safe == "" || safe[0] == '.' || safe[0] == '-' {
		safe = "_" + safe
	}
	sum := sha256.Sum256([]byte(s))
	return cut(safe, 55) + "-" + hex.EncodeToString(sum[:4])
}

// plainName reports whether identifier leaves s as it is. A loop, since it is
// asked once for every server; a regular expression takes most of a render.
func plainName(s string) bool {
	if s == "" || len(s) > 253 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := rune(s[i]); !isAlnum(c) && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func isAlnum(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// cut returns at most n bytes of ASCII text.
func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// oneLine replaces everything that is no visible character, or no UTF-8, by "?".
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, s)
}

// text returns v as text; nil is "".
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}
