package template

import (
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"

	"github.com/lb-render/lb-render/internal/types"
)

// allowed are the functions of sprig that give the same for the same input and
// leave it as it is; "=" marks those in whose place we have our own.
const allowed = `
abbrev abbrevboth add add1 add1f addf adler32sum all any append atoi b32dec b32enc b64dec b64enc base biggest
buildCustomCert camelcase cat ceil chunk clean coalesce compact concat contains date_in_zone= date_modify dateInZone=
dateModify decryptAES deepCopy deepEqual default derivePassword dict dig= dir div divf duration durationRound= empty ext
fail first float64 floor fromJson get= has hasKey= hasPrefix hasSuffix hello htmlDateInZone= indent initial initials int
int64 isAbs join kebabcase keys= kindIs kindOf last list lower max maxf min minf mod mul mulf mustAppend mustChunk
mustCompact mustDateModify mustDeepCopy mustFirst mustFromJson mustHas mustInitial mustLast mustPrepend mustPush
mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest
mustReverse mustSlice mustToJson mustToPrettyJson mustToRawJson mustUniq mustWithout must_date_modify nindent nospace omit
osBase osClean osDir osExt osIsAbs pick pluck plural prepend push quote regexFind regexFindAll regexMatch regexQuoteMeta
regexReplaceAll regexReplaceAllLiteral regexSplit repeat replace rest reverse round semver semverCompare seq sha1sum
sha256sum sha512sum slice snakecase sortAlpha= split splitList splitn squote sub subf substr swapcase ternary title toDecimal
toJson toPrettyJson toRawJson toString toStrings trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike
typeOf uniq unixEpoch until untilStep untitle upper urlJoin urlParse values= without wrap wrapWith`

// Every function of sprig is either known to be harmless or refused: one that
// an update brings has to be looked at before a template can use it.
func TestEveryFunctionOfSprigIsClassified(t *testing.T) {
	refused := refusals()
	own := ours()
	fine := map[string]bool{}
	for _, name := range strings.Fields(allowed) {
		name, replaced := strings.CutSuffix(name, "=")
		fine[name] = true
		if _, ok := own[name]; ok != replaced {
			t.Errorf("%s: replaced by ours: %v, the list says %v", name, ok, replaced)
		}
	}
	for name := range sprig.TxtFuncMap() {
		_, no := refused[name]
		if no == fine[name] {
			t.Errorf("%s: refused %v, allowed %v; it has to be one of the two", name, no, fine[name])
		}
		delete(fine, name)
	}
	for name := range fine {
		t.Errorf("%s: in the list, but not in sprig", name)
	}
	for name, why := range refused {
		if sprig.TxtFuncMap()[name] == nil {
			t.Errorf("%s: refused, but not in sprig", name)
		}
		if why.reason == "" || why.instead == "" {
			t.Errorf("%s: refused without a reason or a way out", name)
		}
	}
}

// What the list calls harmless is put to the test where it takes a list or map:
// the input has to be the same afterwards.
func TestAllowedFunctionsLeaveTheirInputAlone(t *testing.T) {
	input := func() map[string]any {
		return map[string]any{
			"list": []any{"c", "a", nil, "b", "a", 1}, "texts": []string{"c", "a", "b"}, "map": map[string]any{"z": 1, "a": map[string]any{"x": "y"}},
			"labels": map[string]string{"z": "1", "a": "2"},
		}
	}
	funcs, _, err := functions(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range funcs {
		for _, key := range []string{"list", "texts", "map", "labels"} {
			in := input()
			callWith(f, in[key])
			if !reflect.DeepEqual(in, input()) {
				t.Errorf("%s changes its input: %v", name, in)
			}
		}
	}
}

// callWith calls f with arg wherever it fits, alone and beside others; panics do not count.
func callWith(f any, arg any) {
	v := reflect.ValueOf(f)
	for n := 1; n <= 4; n++ {
		for at := range n {
			args := make([]reflect.Value, n)
			fits := true
			for i := range args {
				in := 0
				if in = i; v.Type().IsVariadic() && i >= v.Type().NumIn()-1 {
					in = v.Type().NumIn() - 1
				}
				if in >= v.Type().NumIn() {
					fits = false
					break
				}
				want := v.Type().In(in)
				if v.Type().IsVariadic() && in == v.Type().NumIn()-1 {
					want = want.Elem()
				}
				given := reflect.ValueOf(arg)
				if i != at {
					given = reflect.ValueOf("a")
					if want.Kind() == reflect.Int {
						given = reflect.ValueOf(1)
					}
				}
				if !given.Type().AssignableTo(want) {
					fits = false
					break
				}
				args[i] = given
			}
			if fits {
				func() {
					defer func() { _ = recover() }()
					v.Call(args)
				}()
			}
		}
	}
}

func TestAllowFunctions(t *testing.T) {
	for name := range refusals() {
		funcs, refused, err := functions([]string{name})
		if err != nil || funcs[name] == nil {
			t.Errorf("%s: is not allowed: %v", name, err)
		}
		if _, ok := refused[name]; ok {
			t.Errorf("%s: is still refused", name)
		}
		if len(refused) != len(refusals())-1 {
			t.Errorf("%s: brings more than itself", name)
		}
	}
	if _, _, err := functions([]string{"upper"}); err != nil {
		t.Errorf("a function that nobody refuses: %v", err)
	}
	_, _, err := functions([]string{"nwo"})
	wantError(t, err, `allowFunctions`, `no function "nwo"`, `did you mean "now"?`, "ago, bcrypt, ")
}

func TestFunctions(t *testing.T) {
	for text, want := range map[string]string{
		`{{ hostPort "192.0.2.1" 80 }}`:                         "192.0.2.1:80",
		`{{ hostPort "2001:db8::1" 80 }}`:                       "[2001:db8::1]:80",
		`{{ hostPort "[2001:db8::1]" "443" }}`:                  "[2001:db8::1]:443",
		`{{ hostPort "lb.example.org" 0 }}`:                     "lb.example.org:0",
		`{{ hostPort "fe80::1%eth0" 65535 }}`:                   "[fe80::1%eth0]:65535",
		`{{ bracket "2001:db8::1" }} {{ bracket "192.0.2.1" }}`: "[2001:db8::1] 192.0.2.1",
		`{{ ipAddress "2001:db8::1" }}`:                         "2001:db8::1",
		`{{ isIPv4 "192.0.2.1" }}{{ isIPv4 "2001:db8::1" }}{{ isIPv4 "x" }}{{ isIPv4 "192.0.2.01" }}`:                        "truefalsefalsefalse",
		`{{ isIPv6 "192.0.2.1" }}{{ isIPv6 "2001:db8::1" }}{{ isIPv6 "[2001:db8::1]" }}`:                                     "falsetruefalse",
		`{{ mss 1500 "IPv4" }} {{ mss 1500 "IPv6" }} {{ mss "1400" "192.0.2.1" }} {{ mss 9000 "2001:db8::1" }}`:              "1460 1440 1360 8940",
		`{{ mss 0 "IPv4" }} {{ mss 0 "2001:db8::1" }} {{ mss 68 "IPv4" }} {{ mss 65535 "IPv6" }}`:                            "0 0 88 32767",
		`{{ ipvsFlag "g" }}{{ ipvsFlag "i" }}{{ ipvsFlag "m" }}{{ ipvsFlag "" }}`:                                            "-g-i-m-g",
		`{{ ipvsProto "TCP" }} {{ ipvsProto "UDP" }} {{ ipvsProto "SCTP" }}`:                                                 "-t -u --sctp-service",
		`{{ required "no" "yes" }}{{ required "no" 0 }}`:                                                                     "yes0",
		`{{ toYaml (dict "b" 1 "a" (list "x" 2)) }}`:                                                                         "a:\n- x\n- 2\nb: 1",
		`{{ keys (dict "c" 1 "a" 2 "b" 3) }}{{ keys .NodeLabels }}`:                                                          "[a b c][rack zone]",
		`{{ values (dict "c" 1 "a" 2 "b" 3) }}{{ values .NodeLabels }}`:                                                      "[2 3 1][r1 z1]",
		`{{ get .NodeLabels "zone" }}{{ get .NodeLabels "none" }}{{ get .Params "null" }}`:                                   "z1",
		`{{ hasKey .NodeLabels "zone" }}{{ hasKey .Params "none" }}`:                                                         "truefalse",
		`{{ dig "a" "b" 7 .Params }} {{ dig "a" "x" 7 .Params }} {{ dig "null" 7 .Params }} {{ dig "zone" "" .NodeLabels }}`: "5 7 7 z1",
		`{{ sortAlpha .VIPPool }}{{ .VIPPool }}`:                                                                             "[192.0.2.1 192.0.2.2][192.0.2.2 192.0.2.1]",
		`{{ dateInZone "2006-01-02" 0 "UTC" }} {{ htmlDateInZone 86400 "UTC" }}`:                                             "1970-01-01 1970-01-02",
		`{{ durationRound "49h" }} {{ durationRound "90s" }} {{ durationRound "0s" }}`:                                       "2d 1m 0s",
		`{{ .Params.big }} {{ .Params.float }} {{ until .Params.two }}`:                                                      "1000000 1.5 [0 1]",
		`{{ identifier "web-1" }} {{ identifier "tcp_192.0.2.10_80" }}`:                                                      "web-1 tcp_192.0.2.10_80",
		`{{ identifier "a b" }} {{ identifier "" }} {{ identifier ".." }}`:                                                   "a_b-c8687a08 _-e3b0c442 _..-5ec1f7e7",
		`{{ haproxyQuote "plain" }} {{ haproxyQuote "it's $HOME" }} {{ haproxyQuote "" }} {{ haproxyQuote 5 }}`:              `plain 'it'\''s $HOME' '' 5`,
		`{{ keepalivedQuote "a \"b\" $c {d} #!" }}`:                                                                          `"a _b_ _c _d_ __"`,
		`{{ comment "a\nb" }}`: "a_b",
		`{{ endpoints "shop" "web" "http" | len }}{{ endpoints "shop" "web" 80 | len }}{{ endpoints "shop" "web" "80" | len }}`: "222",
		`{{ range endpoints "kube-system" "dns" 53 }}{{ .Name }}{{ end }}`:                                                      "tcp",
		`{{ range endpoints "shop" "one" "" }}{{ .Name }}{{ end }}`:                                                             "only",
		`{{ endpoints "shop" "none" "http" | len }}`:                                                                            "0",
		`{{ range ofProtocol "UDP" .Listeners }}{{ .Port }}{{ end }}`:                                                           "53",
		`{{ with index .Listeners 0 }}{{ range realServers . }}{{ .Address }}{{ end }} {{ totalWeight .RealServers }}{{ end }}`: "203.0.113.1 5",
	} {
		got, err := renderText(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestFunctionsRefuseWhatMakesNoSense(t *testing.T) {
	for text, want := range map[string][]string{
		`{{ hostPort "" 80 }}`:                          {"hostPort", "neither an address nor a host name"},
		`{{ hostPort "a\nb" 80 }}`:                      {"neither an address nor a host name"},
		`{{ hostPort "fe80::1%a\nb" 80 }}`:              {"neither an address nor a host name"},
		`{{ hostPort "192.0.2.1" 65536 }}`:              {"65536 is not a port"},
		`{{ hostPort "192.0.2.1" "010" }}`:              {"010 is not a port"},
		`{{ hostPort "192.0.2.1" "80\n" }}`:             {"is not a port"},
		`{{ ipAddress "fe80::1%eth0" }}`:                {"is not an IP address"},
		`{{ mss 1500 "IPv5" }}`:                         {"neither a family"},
		`{{ mss "big" "IPv4" }}`:                        {"not a whole number"},
		`{{ ipvsFlag "x" }}`:                            {`unknown forwarding method "x"`},
		`{{ ipvsProto "ICMP" }}`:                        {`unknown protocol "ICMP"`},
		`{{ required "interface is missing" "" }}`:      {"interface is missing"},
		`{{ required "null is missing" .Params.null }}`: {"null is missing"},
		`{{ fail "no way" }}`:                           {"no way"},
		`{{ keys 5 }}`:                                  {"keys", "needs a map"},
		`{{ dig "a" "b" "c" "d" .Params }}`:             {"dig", `key "c"`, "needs a map"},
		`{{ dateInZone "2006" "yesterday" "UTC" }}`:     {"neither a time nor seconds"},
		`{{ dateInZone "2006" 0 "Local" }}`:             {"is the host's"},
		`{{ dateInZone "2006" 0 "Atlantis/Nowhere" }}`:  {"unknown time zone"},
		`{{ endpoints "shop" "web" "htpt" }}`:           {`service shop/web has no port "htpt"`, `"http" (80/TCP)`},
		`{{ endpoints "kube-system" "dns" "" }}`:        {`has no port ""`},
	} {
		_, err := renderText(t, text)
		wantError(t, err, append(want, "t.tmpl:1:")...)
	}
}

func TestVrid(t *testing.T) {
	seen := map[int]bool{}
	for i := range 5000 {
		v := vrid(strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i))
		if v < 1 || v > 255 {
			t.Fatalf("vrid gave %d", v)
		}
		seen[v] = true
	}
	if len(seen) != 255 {
		t.Errorf("only %d ids were ever given", len(seen))
	}
	if got := vrid("192.0.2.10"); got != 24 {
		t.Errorf("the id of 192.0.2.10 became %d: running pairs would lose each other", got)
	}
}

func TestEndpointsNeedServices(t *testing.T) {
	tmpl, err := Load(writeFile(t, "t.tmpl", `{{ endpoints "a" "b" "c" }}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tmpl.Render(&types.ClusterConfig{}, nil)
	wantError(t, err, "Services is nil")
}

// renderText renders a text on a small cluster.
func renderText(t *testing.T, text string) (string, error) {
	t.Helper()
	tmpl, err := Load(writeFile(t, "t.tmpl", text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tmpl.Render(smallCluster(), map[string]any{"a": map[string]any{"b": 5, "c": "text"}, "null": nil, "big": 1e6, "float": 1.5, "two": int64(2)})
	return string(out), err
}

func smallCluster() *types.ClusterConfig {
	cc := cluster(listener("192.0.2.1", 80, func(l *types.Listener) {
		l.Labels = map[string]string{"app": "web"}
		l.Endpoints = []*types.Endpoint{endpoint("web-1", "198.51.100.1", 80)}
		l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", 2), realServer("2001:db8::1", 3)})
	}), listener("192.0.2.1", 53, func(l *types.Listener) { l.Protocol = "UDP" }))
	cc.VIPPool = []string{"192.0.2.2", "192.0.2.1"}
	cc.NodeLabels = map[string]string{"zone": "z1", "rack": "r1"}
	cc.Services = map[string]*types.ServiceEndpoints{
		"shop/web": {Ports: []types.ServicePort{{Name: "http", Port: 80, Protocol: "TCP",
			Endpoints: []*types.Endpoint{endpoint("a", "198.51.100.1", 80), endpoint("b", "198.51.100.2", 80)}}}},
		"shop/one": {Ports: []types.ServicePort{{Port: 80, Protocol: "TCP", Endpoints: []*types.Endpoint{endpoint("only", "198.51.100.1", 80)}}}},
		"kube-system/dns": {Ports: []types.ServicePort{
			{Name: "dns", Port: 53, Protocol: "UDP", Endpoints: []*types.Endpoint{endpoint("udp", "198.51.100.1", 53)}},
			{Name: "dns-tcp", Port: 53, Protocol: "TCP", Endpoints: []*types.Endpoint{endpoint("tcp", "198.51.100.1", 53)}}}},
	}
	return cc
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one with %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error has no %q:\n%v", p, err)
		}
	}
}

func sorted(s []string) []string {
	out := append([]string(nil), s...)
	sort.Strings(out)
	return out
}
