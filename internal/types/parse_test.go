package types

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// good is a document with 99 good entries, and whatever is put beside them.
func good(beside string) string {
	var b strings.Builder
	b.WriteString(`{"vipPool": ["192.0.2.1"], "config": {`)
	for i := range 99 {
		fmt.Fprintf(&b, `"198.51.100.%d": {"80": {"namespace": "a", "service": "s%d", "portName": "http"}},`+"\n", i+1, i)
	}
	b.WriteString(beside)
	b.WriteString("}}")
	return b.String()
}

func mustParse(t *testing.T, doc string) *Document {
	t.Helper()
	d, err := Parse([]byte(doc))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, doc)
	}
	return d
}

const known = `"192.0.2.1": {"80": {"namespace": "a", "service": "web", "portName": "http", "ipvsOptions": {"scheduler": "rr"}}}`

func TestBadEntryKeepsItsLastValidVersion(t *testing.T) {
	entry := func(key, value string) string {
		return `{"namespace": "a", "service": "web", "portName": "http", "` + key + `": ` + value + `}`
	}
	options := func(s string) string { return `"192.0.2.1": {"80": ` + entry("ipvsOptions", s) + `}` }
	for name, c := range map[string]struct {
		beside string
		reason Reason
		says   string
	}{
		"duplicate VIP":       {known + "," + known, Invalid, "given twice"},
		"port 0":              {`"192.0.2.1": {"0": ` + entry("tcpEnabled", "true") + `}`, Invalid, "out of range"},
		"port 70000":          {`"192.0.2.1": {"70000": ` + entry("tcpEnabled", "true") + `}`, Invalid, "out of range"},
		"port 080":            {`"192.0.2.1": {"080": ` + entry("tcpEnabled", "true") + `}`, Invalid, "decimal"},
		"port in hex":         {`"192.0.2.1": {0x50: ` + entry("tcpEnabled", "true") + `}`, Invalid, "decimal"},
		"port plus 80":        {`"192.0.2.1": {"+80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "decimal"},
		"unknown scheduler":   {options(`{"scheduler": "best"}`), Invalid, `unknown scheduler "best"`},
		"newline in flags":    {options(`{"flags": "flag-1\n-A -t 192.0.2.9:80"}`), Invalid, "unknown flag"},
		"flags of another":    {options(`{"scheduler": "sh", "flags": "mh-port"}`), Invalid, "unknown flag"},
		"forwarding":          {options(`{"forwardingMethod": "x"}`), Invalid, "unknown forwarding method"},
		"threshold":           {options(`{"uThreshold": -1}`), Invalid, "whole number"},
		"null entry":          {`"192.0.2.1": {"80": null}`, Invalid, "null"},
		"null VIP":            {`"192.0.2.1": null`, Invalid, "null"},
		"list for entry":      {`"192.0.2.1": {"80": []}`, Invalid, "a list"},
		"duplicate port":      {`"192.0.2.1": {"80": ` + entry("tcpEnabled", "true") + `, "80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "given twice"},
		"duplicate field":     {`"192.0.2.1": {"80": ` + entry("Service", `"other"`) + `}`, Invalid, "given twice"},
		"IPv6 in config":      {`"2001:db8::1": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "IPv6 address in a map for IPv4"},
		"zone":                {`"192.0.2.1%eth0": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "no zone"},
		"leading zeros":       {`"192.0.2.001": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "leading zeros"},
		"spaces":              {`" 192.0.2.1": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "spaces"},
		"prefix length":       {`"192.0.2.1/32": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "prefix length"},
		"mapped":              {`"::ffff:192.0.2.1": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "IPv4-mapped"},
		"no address":          {`"web": {"80": ` + entry("tcpEnabled", "true") + `}`, Invalid, "not an IP address"},
		"bool as text":        {`"192.0.2.1": {"80": ` + entry("tcpEnabled", `"true"`) + `}`, Invalid, "true or false"},
		"service name":        {`"192.0.2.1": {"80": {"namespace": "a", "service": "web\nbind :1", "portName": "http"}}`, Invalid, "not a name"},
		"service missing":     {`"192.0.2.1": {"80": {"namespace": "a", "portName": "http"}}`, Invalid, "missing"},
		"port name":           {`"192.0.2.1": {"80": {"namespace": "a", "service": "web", "portName": "a b"}}`, Invalid, "neither the name"},
		"whole config a list": {``, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			last := mustParse(t, good(known)).Config
			if name == "whole config a list" {
				d := mustParse(t, `{"config": []}`)
				if got := d.KeepLastValid(last); len(got.Config) != 100 {
					t.Errorf("%d VIPs kept, want 100", len(got.Config))
				}
				return
			}
			for _, first := range []bool{true, false} { // never valid, then known
				d := mustParse(t, good(c.beside))
				var from *ClusterConfig
				if !first {
					from = last
				}
				got := d.KeepLastValid(from)
				if !d.Invalid() || len(d.Problems) == 0 {
					t.Fatal("no problem found")
				}
				p := d.Problems[0]
				if p.Reason != c.reason || !strings.Contains(p.Message, c.says) || p.Line == 0 || p.Place == "" {
					t.Errorf("problem %+v; want reason %q, a message with %q, and a place", p, c.reason, c.says)
				}
				for i := range 99 {
					if got.Config[fmt.Sprintf("198.51.100.%d", i+1)]["80"] == nil {
						t.Fatalf("good entry %d is gone", i)
					}
				}
				def := got.Config["192.0.2.1"]["80"]
				switch {
				case first && def != nil:
					t.Errorf("an entry that never was valid is served: %+v", def)
				case !first && (def == nil || def.Service != "web" || def.IPVSOptions.Scheduler != "rr"):
					t.Errorf("last valid version not kept: %+v", def)
				}
				wantServed := ServedLastValid
				if first {
					wantServed = ServedNothing
				}
				if p.Served != wantServed && p.Served != ServedRest {
					t.Errorf("served %q, want %q", p.Served, wantServed)
				}
			}
		})
	}
}

func TestTwoSpellingsAreOneVIP(t *testing.T) {
	e := func(svc string) string { return `{"namespace": "a", "service": "` + svc + `"}` }
	d := mustParse(t, `{"config6": {"2001:db8::1": {"80": `+e("x")+`, "81": `+e("y")+`},
		"2001:DB8:0:0::0001": {"80": `+e("z")+`, "82": `+e("w")+`}}}`)
	ports := d.Config.Config6["2001:db8::1"]
	if len(ports) != 2 || ports["81"].Service != "y" || ports["82"].Service != "w" {
		t.Errorf("ports %v, want 81 and 82", ports)
	}
	if len(d.Problems) != 1 || d.Problems[0].Reason != Conflict || d.Problems[0].Line != 2 {
		t.Errorf("problems %+v", d.Problems)
	}
	last := mustParse(t, `{"config6": {"2001:db8::1": {"80": `+e("x")+`}}}`).Config
	if got := d.KeepLastValid(last); got.Config6["2001:db8::1"]["80"].Service != "x" {
		t.Error("the last valid owner is not kept")
	}
}

func TestEveryMistakeIsReported(t *testing.T) {
	d := mustParse(t, `{
		"vipPool": ["192.0.2.300"],
		"mtuConfig": {"192.0.2.1": "nine thousand"},
		"labels": {"a b": "c"},
		"ipv6": {"192.0.2.1": "192.0.2.2"},
		"config": {"192.0.2.1": {"80": {"namespace": "A", "service": "s", "ipvsOptions": {"scheduler": "x", "forwardingMethod": "y"}}}},
		"vipPol": []
	}`)
	want := map[string]int{
		"vipPool[0]": 2, `mtuConfig["192.0.2.1"]`: 3, `labels["a b"]`: 4, `ipv6["192.0.2.1"]`: 5, "vipPol": 7,
		`config["192.0.2.1"]["80"].namespace`: 6, `config["192.0.2.1"]["80"].ipvsOptions.scheduler`: 6,
		`config["192.0.2.1"]["80"].ipvsOptions.forwardingMethod`: 6,
	}
	for _, p := range d.Problems {
		if want[p.Place] != p.Line {
			t.Errorf("problem at %s, line %d: %s; want line %d", p.Place, p.Line, p.Message, want[p.Place])
		}
		delete(want, p.Place)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
}

func TestTablesKeepTheirLastValidEntries(t *testing.T) {
	last := mustParse(t, `{"vipPool": ["192.0.2.1", "192.0.2.2"], "mtuConfig": {"192.0.2.1": 9000}, "labels": {"lb": "yes"},
		"ipv6": {"192.0.2.1": "2001:db8::1"}, "mtuConfig6": {"2001:db8::1": 9000}}`).Config
	got := mustParse(t, `{"vipPool": ["192.0.2.01", "192.0.2.3"], "mtuConfig": {"192.0.2.1": 1}, "labels": {"lb": {}},
		"ipv6": {"192.0.2.1": "x"}, "mtuConfig6": [1]}`).KeepLastValid(last)
	b, err := got.MarshalAuthored()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"vipPool":["192.0.2.1","192.0.2.3"],"mtuConfig":{"192.0.2.1":"9000"},"mtuConfig6":{"2001:db8::1":"9000"},` +
		`"labels":{"lb":"yes"},"ipv6":{"192.0.2.1":"2001:db8::1"},"config":{},"config6":{}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// TestThreeSpellings: of several claims none takes effect, however many there are.
func TestThreeSpellings(t *testing.T) {
	d := mustParse(t, `{"mtuConfig6": {"2001:db8::1": "9000", "2001:DB8::1": "1500", "2001:db8:0::1": "1400", "2001:db8::2": "9000"},
		"mtuConfig": {"192.0.2.1": "bad", "192.0.2.1": "1500"}}`)
	if len(d.Config.MTUConfig6) != 1 || len(d.Config.MTUConfig) != 0 || len(d.Problems) != 4 {
		t.Errorf("%v, %v, %+v", d.Config.MTUConfig6, d.Config.MTUConfig, d.Problems)
	}
	for _, p := range d.Problems {
		if strings.Contains(p.Message, `""`) {
			t.Errorf("which spelling? %s", p.Message)
		}
	}
}

func TestMisspelledPoolKeepsItsVIP(t *testing.T) {
	last := mustParse(t, `{"vipPool": ["192.0.2.1", "192.0.2.2"]}`).Config
	if got := mustParse(t, `{"vipPool": ["192.0.2.1", "192.0.2.2x"]}`).KeepLastValid(last).VIPPool; len(got) != 2 {
		t.Errorf("pool %q", got)
	}
	if got := mustParse(t, `{"vipPool": ["192.0.2.2x"]}`).KeepLastValid(last).VIPPool; len(got) != 0 {
		t.Errorf("two are missing, and one is bad: which one? pool %q", got)
	}
}

func TestProblemsOfABadVIPAndPort(t *testing.T) {
	last := mustParse(t, "{"+`"config": {`+known+"}}").Config
	d := mustParse(t, `{"config": {"192.0.2.01": {"80": {"namespace": "a", "service": "web", "portName": "http", "tcpEnabled": 5}}}}`)
	d.KeepLastValid(last)
	for _, p := range d.Problems {
		if p.Served != ServedLastValid {
			t.Errorf("%s: served %q", p.Message, p.Served)
		}
	}
	d = mustParse(t, `{"config": {"192.0.2.1": {"0": {"namespace": "a", "service": "web"}}}}`)
	if d.Problems[0].Service != "a/web" {
		t.Errorf("whose port? %+v", d.Problems[0])
	}
}

func TestEqualIgnoresOrder(t *testing.T) {
	a := &ClusterConfig{Nodes: []*Node{{Name: "a"}, {Name: "b"}}, Problems: []Problem{}, VIPs: []*VIP{{Address: "192.0.2.1", Listeners: []*Listener{{Name: "x", Endpoints: []*Endpoint{{Name: "1"}, {Name: "2"}}}}}}}
	b := &ClusterConfig{Nodes: []*Node{{Name: "b"}, {Name: "a"}}, VIPs: []*VIP{{Address: "192.0.2.1", Listeners: []*Listener{{Name: "x", Endpoints: []*Endpoint{{Name: "2"}, {Name: "1"}}}}}}}
	if !Equal(a, b) {
		t.Error("the order counts")
	}
	b.VIPs[0].Listeners[0].Endpoints[0].Weight = 7
	if Equal(a, b) {
		t.Error("a weight does not count")
	}
}

func TestWhatIsAccepted(t *testing.T) {
	d := mustParse(t, `
# YAML, keys in any case, ports and MTUs as numbers, null for a missing map
VIPPOOL: [192.0.2.2, 192.0.2.1, 192.0.2.1]
Config:
  192.0.2.1:
    80: &web {Namespace: a, SERVICE: web, ipvsoptions: {scheduler: mh, flags: "mh-port,1"}}
    81: *web
config6: null
mtuConfig: {192.0.2.1: 1500}
`)
	if len(d.Problems) != 0 {
		t.Fatalf("problems: %+v", d.Problems)
	}
	b, _ := d.Config.MarshalAuthored()
	const e = `{"namespace":"a","service":"web","portName":"","ipvsOptions":{"scheduler":"mh","flags":"flag-1,flag-2","forwardingMethod":"","uThreshold":0,"lThreshold":0},` +
		`"ipv4Enabled":false,"ipv6Enabled":false,"tcpEnabled":false,"udpEnabled":false,"proxyProtocolEnabled":false}`
	want := `{"vipPool":["192.0.2.1","192.0.2.2"],"mtuConfig":{"192.0.2.1":"1500"},"mtuConfig6":{},"labels":{},"ipv6":{},"config":{"192.0.2.1":{"80":` + e + `,"81":` + e + `}},"config6":{}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	again := mustParse(t, string(b))
	if c, _ := again.Config.MarshalAuthored(); string(c) != want || !Equal(again.Config, d.Config) {
		t.Errorf("not the same when read back: %s", c)
	}
}

// TestEveryJSONIsRead: what JSON allows and YAML does not is read all the same.
func TestEveryJSONIsRead(t *testing.T) {
	for text, want := range map[string]string{
		`\ud83d\ude00`: "\U0001F600", `\uD83D\uDE00x`: "\U0001F600x", `a\ud83d`: "a\uFFFD", `\\ud83d`: `\ud83d`, `\ud83d\ud83d\ude00`: "\uFFFD\U0001F600",
		"\x7f\u0085\u2028\ufeff": "\x7f\u0085\u2028\ufeff", "\xff": "\uFFFD",
		`\u0041\/\n`: "A/\n", `\\\ude00`: "\\\uFFFD",
	} {
		d := mustParse(t, `{"vipPool": ["`+text+`"]}`)
		if len(d.Problems) != 1 || d.Problems[0].VIP != want {
			t.Errorf("%s is read as %q, want %q", text, d.Problems[0].VIP, want)
		}
	}
	d := mustParse(t, "\ufeff{\r\n\t\"config\": {\r\n\t}\r\n}")
	if len(d.Problems) != 0 {
		t.Errorf("byte order mark, tabs and CRLF: %+v", d.Problems)
	}
}

func TestDocumentsThatSayNothing(t *testing.T) {
	for doc, says := range map[string]string{
		"":                 "empty",
		"# only a comment": "empty",
		"[]":               "a list",
		"null":             "null",
		"text":             `"text"`,
		`{"config": `:      "neither JSON nor YAML",
		"{}\n---\n{}":      "goes on",
		"\x00":             "neither JSON nor YAML",
	} {
		if _, err := Parse([]byte(doc)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Parse(%q) = %v, want an error with %q", doc, err, says)
		}
	}
}

// TestRecordedConfigs reads documents recorded on a real cluster, which are not part of the repository.
func TestRecordedConfigs(t *testing.T) {
	for _, name := range []string{"clusterconfig.json", "clusterconfig-2.json"} {
		data, err := os.ReadFile(filepath.Join("../../../shared/data/ravel", name))
		if err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("recorded data is missing: %v", err)
			}
			t.Skipf("recorded data is not here: %v", err)
		}
		d := mustParse(t, string(data))
		if len(d.Problems) != 0 {
			t.Errorf("%s: %+v", name, d.Problems)
		}
		if len(d.Config.Config) != 6 || len(d.Config.Config6) != 6 || len(d.Config.VIPPool) != 6 {
			t.Errorf("%s: %d and %d VIPs, pool of %d", name, len(d.Config.Config), len(d.Config.Config6), len(d.Config.VIPPool))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good(known))
	f.Add(`{"config": {"192.0.2.1": {"80": null}}}`)
	f.Add(`{"vipPool": ["\ud83d\ude00\\\ud83d"]}`)
	f.Add("a: &a [*a]")
	f.Add("config: &c {192.0.2.1: *c}")
	f.Add("labels: {? [a] : b}")
	f.Fuzz(func(t *testing.T, doc string) {
		d, err := Parse([]byte(doc))
		if err != nil {
			return
		}
		c := d.KeepLastValid(mustParse(t, good(known)).Config)
		b, err := c.MarshalAuthored()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(b)
		if err != nil || len(again.Problems) > 0 || !Equal(again.Config, c) {
			t.Fatalf("what was accepted is not read back: %v %+v\n%s", err, again, b)
		}
	})
}

// FuzzJSON: whatever is JSON is read; nothing that JSON allows makes the document unreadable.
func FuzzJSON(f *testing.F) {
	f.Add("\u2028\x7f/\\\"", true)
	f.Fuzz(func(t *testing.T, text string, escape bool) {
		b := &strings.Builder{}
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(escape)
		if err := enc.Encode(map[string]any{"vipPool": []string{text}}); err != nil {
			t.Skip(err)
		}
		d, err := Parse([]byte(b.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if len(d.Problems) > 1 || len(d.Problems) == 1 && d.Problems[0].VIP != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			t.Fatalf("%q is read as %+v", text, d.Problems)
		}
	})
}
