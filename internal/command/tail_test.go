package command

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTail(t *testing.T) {
	for _, tc := range []struct {
		name   string
		max    int
		writes []string
		want   string
	}{
		{"nothing", 10, nil, ""},
		{"fits", 10, []string{"a\n", "b\n"}, "a\nb\n"},
		{"exactly", 4, []string{"a\nb\n"}, "a\nb\n"},
		{"starts at a line", 6, []string{"first\nsecond\nthird\n"}, "third\n"},
		{"drops a half line", 7, []string{"first\nsecond\nthird\n"}, "third\n"},
		{"one long line", 5, []string{"0123456789"}, "56789"},
		{"one long line with its end", 5, []string{"0123456789\n"}, "6789\n"},
		{"many writes", 4, []string{"aaaaaaaaa", "b\nc", "\nd\n"}, "c\nd\n"},
		{"not UTF-8", 10, []string{"a\xffb"}, "a\uFFFDb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &tail{max: tc.max}
			for _, s := range tc.writes {
				if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
			}
			if got := w.String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzTail(f *testing.F) {
	f.Add("first\nsecond\n", 3, 5)
	f.Fuzz(func(t *testing.T, s string, chunk, max int) {
		chunk, max = chunk&0xff+1, max&0xff+1
		w := &tail{max: max}
		for rest := s; rest != ""; {
			n := min(chunk, len(rest))
			_, _ = w.Write([]byte(rest[:n]))
			rest = rest[n:]
			if len(w.buf) > 2*max+1 {
				t.Fatalf("holds %d bytes of %d", len(w.buf), max)
			}
		}
		got := w.String()
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		if utf8.ValidString(s) && !strings.HasSuffix(s, strings.TrimLeft(got, "\uFFFD")) {
			t.Errorf("%q is not the end of %q", got, s)
		}
		if utf8.ValidString(s) && len(s) <= max && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestMessageIsBounded(t *testing.T) {
	e := &Error{Argv: []string{"haproxy", "-c", "-f", "/a b", ""}, Err: errors.New("exit status 1"),
		Result: Result{Tail: strings.Repeat("x\n\n", 20) + "[ALERT] " + strings.Repeat("é", 2000) + "\n"}}
	msg := e.Error()
	if !strings.HasPrefix(msg, "haproxy -c -f '/a b' '': exit status 1: …") {
		t.Errorf("message begins %.80q", msg)
	}
	if len(msg) > messageBytes+100 || !utf8.ValidString(msg) {
		t.Errorf("%d bytes, valid: %v", len(msg), utf8.ValidString(msg))
	}
	e.Result.Tail = strings.Repeat("x\n\n", 20)
	if got, want := e.Error(), "haproxy -c -f '/a b' '': exit status 1: x | x | x | x | x | x | x | x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
