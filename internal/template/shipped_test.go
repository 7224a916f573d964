package template

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lb-render/lb-render/internal/types"
)

// What HAProxy's own check does not see.
func TestHAProxyGoldensHold(t *testing.T) {
	tmpl := load(t, "haproxy.cfg.tmpl")
	for _, f := range fixtures() {
		binds, proxies, servers := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for line := range strings.SplitSeq(string(f.render(t, tmpl)), "\n") {
			words := strings.Fields(line)
			if len(words) < 2 {
				continue
			}
			switch words[0] {
			case "bind":
				if binds[words[1]] {
					t.Errorf("%s: bind %s twice", f.name, words[1])
				}
				binds[words[1]] = true
			case "listen":
				if proxies[words[1]] || !regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`).MatchString(words[1]) {
					t.Errorf("%s: %s", f.name, line)
				}
				proxies[words[1]], servers = true, map[string]bool{}
			case "server":
				if servers[words[1]] || !regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`).MatchString(words[1]) {
					t.Errorf("%s: %s", f.name, line)
				}
				servers[words[1]] = true
				if w, err := strconv.Atoi(words[4]); words[3] != "weight" || err != nil || w < 0 || w > 256 {
					t.Errorf("%s: %s", f.name, line)
				}
			}
		}
		tcp := 0
		for _, l := range f.cc.Listeners {
			if l.Protocol == "TCP" {
				tcp++
			}
		}
		if tcp != len(binds) && (tcp != 0 || len(binds) != 1) {
			t.Errorf("%s: %d binds for %d TCP listeners", f.name, len(binds), tcp)
		}
	}
}

func TestHAProxyWeightIsCapped(t *testing.T) {
	l := listener("192.0.2.1", 80, func(l *types.Listener) {
		e := endpoint("a", "198.51.100.1", 80)
		e.Weight = 1000
		l.Endpoints = []*types.Endpoint{e}
	})
	out, err := load(t, "haproxy.cfg.tmpl").Render(cluster(l), nil)
	if err != nil || !strings.Contains(string(out), " weight 256\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestVRRPParams(t *testing.T) {
	tmpl := load(t, "keepalived-vrrp.conf.tmpl")
	cc := cluster(listener("192.0.2.1", 80, nil))
	for _, c := range []struct {
		params map[string]any
		want   []string
	}{
		{nil, []string{"keepalived-vrrp.conf.tmpl:", "param interface is missing"}},
		{map[string]any{"interface": nil}, []string{"param interface is missing"}},
		{map[string]any{"interface": "eth0", "anchor": "192.0.2.9"}, []string{"param anchor", "192.0.2.9", "192.0.2.1"}},
		{map[string]any{"interface": "eth0", "unicastPeers": []any{"lb-2"}}, []string{`"lb-2" is not an IP address`}},
		{map[string]any{"interface": "eth0", "unicastSource": "192.0.2.1\n}"}, []string{"is not an IP address"}},
		{map[string]any{"interface": "eth0", "checkScript": "/bin/check $HOME"}, []string{"param checkScript", "file"}},
	} {
		_, err := tmpl.Render(cc, c.params)
		wantError(t, err, c.want...)
	}
}

var vips = regexp.MustCompile(`(?s)virtual_ipaddress \{\n(.*?)\n    \}`)

// One VIP is announced for each family, however many there are; all are held.
func TestVRRPHoldsAllVIPs(t *testing.T) {
	tmpl := load(t, "keepalived-vrrp.conf.tmpl")
	for _, f := range fixtures() {
		out := string(f.render(t, tmpl))
		for _, v := range f.cc.VIPs {
			if strings.Count(out, "\n        "+v.Address+"\n") != 1 {
				t.Errorf("%s: %s is not there once", f.name, v.Address)
			}
		}
		for _, m := range vips.FindAllStringSubmatch(out, -1) {
			if strings.Contains(m[1], "\n") {
				t.Errorf("%s: announces more than one VIP: %s", f.name, m[1])
			}
		}
	}
}

var header = regexp.MustCompile(`(?s)^\{\{- /\*\n(.*?)\*/ -\}\}`)

// The header of a shipped template names each param that it reads, every field
// of a Listener that it uses, and the version it was tested with.
func TestHeadersAreComplete(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shipped, "*"))
	if err != nil || len(files) != len(outputs) {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := header.FindStringSubmatch(string(b))
		if m == nil {
			t.Errorf("%s: no header comment", file)
			continue
		}
		head, body := m[1], string(b[len(m[0]):])
		for _, want := range []string{"Fields", "Params", "Tested"} {
			if !strings.Contains(head, "\n"+want+" ") && !strings.Contains(head, "\n"+want+",") {
				t.Errorf("%s: the header has no %s", file, want)
			}
		}
		for _, m := range regexp.MustCompile(`dig "(\w+)"[^}]*\.[pP]arams`).FindAllStringSubmatch(body, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(head) {
				t.Errorf("%s: the header does not name param %s", file, m[1])
			}
		}
		for _, t2 := range []reflect.Type{reflect.TypeFor[types.Listener](), reflect.TypeFor[types.RealServer]()} {
			for _, f := range reflect.VisibleFields(t2) {
				if regexp.MustCompile(`[ ($]l?\.`+f.Name+`\b`).MatchString(body) && !regexp.MustCompile(`\b`+f.Name+`\b`).MatchString(head) {
					t.Errorf("%s: the header does not name field %s", file, f.Name)
				}
			}
		}
	}
}

// Recorded rule sets, put into a ClusterConfig and rendered, come out as they
// were, line by line.
func TestRecordedRules(t *testing.T) {
	const recorded = "../../../shared/data/ravel"
	files, _ := filepath.Glob(filepath.Join(recorded, "cases", "*", "expected.rules"))
	if len(files) == 0 {
		missing(t, "the recorded rule sets are not beside the repository")
	}
	tmpl := load(t, "ipvs.rules.tmpl")
	for _, file := range append(files, filepath.Join(recorded, "large-generated.rules")) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := sorted(strings.Split(strings.TrimSpace(string(b)), "\n"))
		out, err := tmpl.Render(&types.ClusterConfig{Listeners: parseRules(t, lines)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := sorted(strings.Split(strings.TrimSpace(string(out)), "\n"))
		if !reflect.DeepEqual(got, lines) {
			t.Errorf("%s: %d lines instead of %d, or different", file, len(got), len(lines))
		}
	}
}

func parseRules(t *testing.T, lines []string) []*types.Listener {
	t.Helper()
	byKey := map[string]*types.Listener{}
	var out []*types.Listener
	for _, line := range lines {
		w := strings.Fields(line)
		key := w[1] + w[2]
		host, port, _ := strings.Cut(w[2], ":")
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		if w[0] == "-A" {
			l := listener(host, n, func(l *types.Listener) {
				l.Scheduler = w[4]
				if len(w) > 6 {
					l.SchedulerFlags = w[6]
				}
				if w[1] == "-u" {
					l.Protocol = "UDP"
				}
			})
			byKey[key] = l
			out = append(out, l)
			continue
		}
		address, _, _ := strings.Cut(w[4], ":")
		weight, err := strconv.Atoi(w[7])
		if err != nil {
			t.Fatal(err)
		}
		l := byKey[key]
		l.ForwardingMethod = w[5][1:]
		l.SetRealServers(nil, append(l.RealServers(), &types.RealServer{Address: address, Weight: weight}))
	}
	return out
}
