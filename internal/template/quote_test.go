package template

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// haproxyWords cuts a line into words as HAProxy's parse_line does
// (configuration manual, 2.2 "Quoting and escaping").
func haproxyWords(line string) (words []string, err error) {
	line = strings.TrimLeft(line, " \t")
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == 0 || c == '\n' || c == '\r':
			return nil, fmt.Errorf("the line ends inside")
		case quote == '\'':
			if c == '\'' {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case quote == '"' && c == '$':
			return nil, fmt.Errorf("a variable is expanded")
		case c == '\\':
			i++
			if i == len(line) || strings.ContainsRune("nrtx", rune(line[i])) {
				return nil, fmt.Errorf("an escape")
			}
			word.WriteByte(line[i])
			in = true
		case c == quote:
			quote = 0
		case quote == '"':
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == '#':
			return nil, fmt.Errorf("a comment begins")
		case c == ' ' || c == '\t':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is open")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

func checkHAProxyQuote(t *testing.T, s string) {
	t.Helper()
	words, err := haproxyWords("description " + haproxyQuote(s) + " end")
	if err != nil || len(words) != 3 || words[0] != "description" || words[2] != "end" {
		t.Fatalf("%q: %q is read as %q, %v", s, haproxyQuote(s), words, err)
	}
	if words[1] != oneLine(s) {
		t.Fatalf("%q is read as %q", s, words[1])
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) && words[1] != s {
		t.Fatalf("%q was altered to %q", s, words[1])
	}
}

var keepalivedWord = regexp.MustCompile(`^"[A-Za-z0-9 _.,:;/=+*()\[\]<>|?%&-]{0,250}"$`)

func checkKeepalivedQuote(t *testing.T, s string) {
	t.Helper()
	if q := keepalivedQuote(s); !keepalivedWord.MatchString(q) {
		t.Fatalf("%q: %q", s, q)
	}
	if c := comment(s); strings.ContainsAny(c, "\n\r\x00\"\\$#!{}@~") || len(c) > 250 {
		t.Fatalf("%q: comment %q", s, c)
	}
}

var safeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func checkIdentifier(t *testing.T, s string) {
	t.Helper()
	id := identifier(s)
	if !safeName.MatchString(id) || len(id) > 253 {
		t.Fatalf("%q: %q", s, id)
	}
	if identifier(id) != id {
		t.Fatalf("%q: %q becomes %q", s, id, identifier(id))
	}
	if safeName.MatchString(s) && len(s) <= 253 && id != s {
		t.Fatalf("%q was altered to %q", s, id)
	}
}

func TestQuoting(t *testing.T) {
	ids := map[string]string{}
	for _, s := range append(nasty(), "plain", "a b", "a_b", "a-b", "a.b", "a:b", "a#b", "#", "a$b") {
		checkHAProxyQuote(t, s)
		checkKeepalivedQuote(t, s)
		checkIdentifier(t, s)
		if other, ok := ids[identifier(s)]; ok {
			t.Errorf("%q and %q are both %q", s, other, identifier(s))
		}
		ids[identifier(s)] = s
	}
}

func FuzzQuoting(f *testing.F) {
	for _, s := range nasty() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkHAProxyQuote(t, s)
		checkKeepalivedQuote(t, s)
		checkIdentifier(t, s)
	})
}

func FuzzHosts(f *testing.F) {
	for _, s := range append(nasty(), "192.0.2.1", "2001:db8::1", "[2001:db8::1]", "fe80::1%eth0", "fe80::1%a b", "::ffff:192.0.2.1", "lb.example.org") {
		f.Add(s)
	}
	host := regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]|[A-Za-z0-9_.-]+)$`)
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := bracket(s); err == nil && !host.MatchString(b) {
			t.Errorf("bracket(%q) is %q", s, b)
		}
		if a, err := ipAddress(s); err == nil && (a != s || strings.ContainsAny(a, "% \n[]")) {
			t.Errorf("ipAddress(%q) is %q", s, a)
		}
	})
}

// The real HAProxy reads every quoted value as one argument: after the name of a
// bind only its keywords may follow.
func TestQuotedValuesInHAProxy(t *testing.T) {
	const head = "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n"
	var b strings.Builder
	b.WriteString(head)
	for i, s := range append(nasty(), "plain") {
		if s == "" {
			continue // '' is one argument, but HAProxy wants a name that is not empty
		}
		fmt.Fprintf(&b, "listen p%d\n  bind 192.0.2.1:%d name %s\n", i, 1000+i, haproxyQuote(s))
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	write(t, path, b.String())
	if err := checkHAProxy(t, path); err != nil {
		t.Error(err)
	}
	// The same without quotes is not accepted, so the check above can fail.
	for _, s := range []string{"a b", "'", `"`, "a\nb"} {
		write(t, path, head+"listen p\n  bind 192.0.2.1:1 name "+s+"\n")
		if checkHAProxy(t, path) == nil {
			t.Errorf("%q was accepted unquoted", s)
		}
	}
}

func TestQuotedValuesInKeepalived(t *testing.T) {
	config := func(word string, i int) string {
		return fmt.Sprintf("virtual_server 192.0.2.1 %d {\n  lvs_sched rr\n  lvs_method DR\n  protocol TCP\n  snmp_name %s\n  real_server 192.0.2.2 %d {\n    weight 1\n  }\n}\n", i, word, i)
	}
	var b strings.Builder
	for i, s := range append(nasty(), "plain") {
		b.WriteString("# " + comment(s) + "\n" + config(keepalivedQuote(s), 1000+i))
	}
	path := filepath.Join(t.TempDir(), "keepalived.conf")
	write(t, path, b.String())
	if err := checkKeepalived(t, path); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"\"a\nb\"", "\"a}\nb\"", "\"a\"\n}\nlisten"} {
		write(t, path, config(s, 1))
		if checkKeepalived(t, path) == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Whatever the names, labels and annotations are, the shipped templates give the
// same lines with the same keywords.
func TestHostileValuesAddNothing(t *testing.T) {
	var hostile fixture
	for _, f := range fixtures() {
		if f.name == "hostile" {
			hostile = f
		}
	}
	for _, o := range outputs {
		tmpl := load(t, o.template)
		bad := keywords(string(hostile.render(t, tmpl)))
		for i, l := range hostile.cc.Listeners {
			c := *l
			c.Name, c.Namespace, c.Service, c.PortName = fmt.Sprint("name", i), "ns", "svc", l.PortName
			if c.PortName != "" {
				c.PortName = "port"
			}
			hostile.cc.Listeners[i] = &c
		}
		good := keywords(string(hostile.render(t, tmpl)))
		if len(good) != len(bad) {
			t.Fatalf("%s: %d lines instead of %d", o.golden, len(bad), len(good))
		}
		for i := range good {
			if good[i] != bad[i] {
				t.Errorf("%s, line %d: %q instead of %q", o.golden, i+1, bad[i], good[i])
			}
		}
		for _, f := range fixtures() {
			if f.name == "hostile" {
				hostile = f
			}
		}
	}
}

// keywords returns the first word and the number of words of each line;
// of a comment only that it is one.
func keywords(config string) []string {
	var out []string
	for line := range strings.SplitSeq(config, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			out = append(out, "")
		case words[0] == "#":
			out = append(out, "#")
		default:
			out = append(out, fmt.Sprint(words[0], " ", len(words)))
		}
	}
	return out
}

// Hostile params: the file may be refused by the daemon, but no line is added.
func TestHostileParamsAddNothing(t *testing.T) {
	var params, plain fixture
	for _, f := range fixtures() {
		switch f.name {
		case "params":
			params = f
		case "ipv4":
			plain = f
		}
	}
	for _, o := range outputs {
		tmpl := load(t, o.template)
		source, err := os.ReadFile(filepath.Join(shipped, o.template))
		if err != nil {
			t.Fatal(err)
		}
		for name := range params.params {
			if !strings.Contains(string(source), `"`+name+`"`) {
				continue
			}
			with := func(v any) ([]string, error) {
				out, err := tmpl.Render(plain.cc, map[string]any{"interface": "eth0", name: v})
				return keywords(haproxyUnquoted(string(out))), err
			}
			most := 0
			for _, v := range []any{"x", "", 5, "192.0.2.10", []any{"192.0.2.1"}} { // a number that is 0 may leave a line out
				if good, err := with(v); err == nil {
					most = max(most, len(good))
				}
			}
			for _, s := range nasty() {
				if bad, err := with(s); err == nil && len(bad) > most {
					t.Errorf("%s: %s=%q: %d lines, not at most %d", o.golden, name, s, len(bad), most)
				}
			}
		}
	}
}

// haproxyUnquoted takes the strong quotes away, so that words can be counted.
func haproxyUnquoted(config string) string {
	return regexp.MustCompile(`'[^'\n]*'`).ReplaceAllString(config, "x")
}
