package template

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lb-render/lb-render/internal/types"
)

// FuzzIncremental holds the incremental render against the plain one: random
// templates, random clusters, random sequences of changes. There must not be a
// byte, or a word of an error, that differs.
func FuzzIncremental(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed, seed*31+7)
	}
	f.Fuzz(func(t *testing.T, templateSeed, clusterSeed uint64) {
		text := newGrammar(templateSeed).file()
		file := filepath.Join(t.TempDir(), "random.tmpl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		incremental, err := Load(file, Options{})
		if err != nil {
			t.Fatalf("the grammar made what is no template: %v\n%s", err, text)
		}
		w := newWorld(clusterSeed)
		var before []byte
		for step := range 12 {
			cc, params := w.next()
			got, gotErr := incremental.Render(cc, params)
			switch clusterSeed % 3 { // what is given back is overwritten, sooner or later
			case 0:
				if gotErr != nil {
					break // the next render still copies from before
				}
				for i := range before {
					before[i] = '!'
				}
				incremental.Recycle(before)
				before = got
			case 1:
				shown := slices.Clone(got)
				incremental.Recycle(got)
				got = shown
			}
			want, wantErr := incremental.RenderPlain(cc, params)
			if string(got) != string(want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("step %d\n--- incremental (%v)\n%s\n--- plain (%v)\n%s\n--- template\n%s", step, gotErr, got, wantErr, want, text)
			}
		}
	})
}

// TestGrammarIsWorthIt makes sure that the random templates do render, and that they do use the memory.
func TestGrammarIsWorthIt(t *testing.T) {
	rendered, remembered := 0, 0
	const n = 300
	for seed := range uint64(n) {
		file := filepath.Join(t.TempDir(), "random.tmpl")
		if err := os.WriteFile(file, []byte(newGrammar(seed).file()), 0o600); err != nil {
			t.Fatal(err)
		}
		tmpl, err := Load(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		cc, params := newWorld(seed).next()
		if _, err := tmpl.Render(cc, params); err != nil {
			continue
		}
		rendered++
		if s := tmpl.memory.session.last; s != nil && !s.frame.empty() {
			remembered++
		}
	}
	t.Logf("of %d templates %d render, and %d of these have something to remember", n, rendered, remembered)
	if rendered < n/2 || remembered < n/4 {
		t.Errorf("too few to prove anything: %d render, %d remember", rendered, remembered)
	}
}

// world is a cluster that changes.
type world struct {
	rng    *rand.Rand
	cc     *types.ClusterConfig
	params map[string]any
	n      int
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 3)), cc: &types.ClusterConfig{}, params: map[string]any{"x": 1, "s": "text", "m": map[string]any{"a": "b"}, "l": []any{"p", "q"}}}
	for range w.rng.IntN(6) {
		w.addListener()
	}
	return w
}

func (w *world) pick(n int) int { return w.rng.IntN(max(n, 1)) }

func (w *world) endpoint() *types.Endpoint {
	w.n++
	return endpoint(fmt.Sprintf("pod-%d", w.n), fmt.Sprintf("198.51.100.%d", w.n%250+1), 8080)
}

func (w *world) addListener() {
	w.n++
	l := listener(fmt.Sprintf("192.0.2.%d", 1+w.pick(3)), 80+w.n, func(l *types.Listener) {
		l.Service = fmt.Sprintf("svc-%d", w.pick(3))
		if w.pick(4) == 0 {
			l.Protocol = "UDP"
		}
		for range w.pick(4) {
			l.Endpoints = append(l.Endpoints, w.endpoint())
		}
		l.SetRealServers(nil, []*types.RealServer{realServer("203.0.113.1", w.n), realServer("203.0.113.2", 0)}[:w.pick(3)])
		l.Labels = map[string]string{"n": fmt.Sprint(w.n), "z": "z"}
	})
	at := w.pick(len(w.cc.Listeners) + 1)
	w.cc.Listeners = slices.Insert(slices.Clone(w.cc.Listeners), at, l)
}

// next changes something, or nothing, as the watcher does: what changes gets a new pointer, and nothing else does.
func (w *world) next() (*types.ClusterConfig, map[string]any) {
	next := *w.cc
	w.cc = &next
	for range 1 + w.pick(3) {
		switch w.pick(12) {
		case 0:
			if len(w.cc.Listeners) < 7 {
				w.addListener()
			}
		case 1:
			if n := len(w.cc.Listeners); n > 0 {
				at := w.pick(n)
				w.cc.Listeners = slices.Delete(slices.Clone(w.cc.Listeners), at, at+1)
			}
		case 2, 3, 4, 5:
			if n := len(w.cc.Listeners); n > 0 {
				w.cc.Listeners = slices.Clone(w.cc.Listeners)
				at := w.pick(n)
				l := *w.cc.Listeners[at]
				l.Endpoints = slices.Clone(l.Endpoints)
				if len(l.Endpoints) > 0 && w.pick(2) == 0 {
					l.Endpoints[w.pick(len(l.Endpoints))] = w.endpoint()
				} else {
					l.Endpoints = append(l.Endpoints, w.endpoint())
				}
				w.cc.Listeners[at] = &l
			}
		case 6:
			w.params = maps.Clone(w.params)
			w.params["x"] = w.pick(3)
			w.params["m"] = map[string]any{"a": fmt.Sprint(w.pick(2))}
		case 7:
			w.cc.Node = &types.Node{Name: fmt.Sprintf("n%d", w.pick(3))}
		case 8:
			w.cc.Node = nil
		case 9:
			w.cc.Nodes = append(slices.Clone(w.cc.Nodes), &types.Node{Name: fmt.Sprintf("n%d", w.pick(9)), Ready: true})
		case 10:
			w.cc.Listeners = slices.Clone(w.cc.Listeners)
			w.rng.Shuffle(len(w.cc.Listeners), func(i, j int) {
				l := w.cc.Listeners
				l[i], l[j] = l[j], l[i]
			})
		}
	}
	w.cc.Services = map[string]*types.ServiceEndpoints{"shop/svc-0": {Ports: []types.ServicePort{{Name: "http", Port: 80, Protocol: "TCP", Endpoints: []*types.Endpoint{w.endpoint()}}}}}
	// VIPs follow the listeners, and one with the same listeners stays the same.
	var vips []*types.VIP
	for i := range 3 {
		v := &types.VIP{Address: fmt.Sprintf("192.0.2.%d", i+1), Family: types.IPv4, InPool: true}
		for _, l := range w.cc.Listeners {
			if l.VIP == v.Address {
				v.Listeners = append(v.Listeners, l)
			}
		}
		for _, old := range w.cc.VIPs {
			if old.Address == v.Address && slices.Equal(old.Listeners, v.Listeners) {
				v = old
			}
		}
		vips = append(vips, v)
	}
	w.cc.VIPs = vips
	return w.cc, maps.Clone(w.params)
}

// kind is what a value of a random template is.
type kind string

const (
	aRoot     kind = "root"
	aVIP      kind = "vip"
	aListener kind = "listener"
	anEnd     kind = "endpoint"
	aServer   kind = "realserver"
	aNode     kind = "node"
	aText     kind = "text"
	aNumber   kind = "number"
	aDict     kind = "dict" // with the keys e (a listener) and s (a text)
)

// grammar makes random templates that mostly make sense.
type grammar struct {
	rng     *rand.Rand
	b       strings.Builder
	vars    []typed
	defines []kind // the dot of each template
	self    int    // which is being written; it calls those after it only
	dollar  kind
	loops   int // that a break may end
	nested  int
	budget  int
}

type typed struct {
	name string
	kind kind
}

func newGrammar(seed uint64) *grammar { return &grammar{rng: rand.New(rand.NewPCG(seed, 1))} }

func (g *grammar) one(of ...string) string { return of[g.rng.IntN(len(of))] }
func (g *grammar) chance(n int) bool       { return g.rng.IntN(n) == 0 }

// file writes the main template and those that it calls.
func (g *grammar) file() string {
	kinds := []kind{aRoot, aVIP, aListener, aListener, anEnd, aDict, aText, aNode, aServer}
	g.defines = []kind{aRoot}
	for range g.rng.IntN(5) {
		g.defines = append(g.defines, kinds[g.rng.IntN(len(kinds))])
	}
	g.budget = 60
	g.dollar = aRoot
	g.statements(aRoot, 0)
	for i := 1; i < len(g.defines); i++ {
		g.self, g.vars, g.dollar, g.loops = i, nil, g.defines[i], 0
		g.budget = 25
		fmt.Fprintf(&g.b, "%sdefine \"t%d\"%s", g.one("{{", "{{- "), i, g.one("}}", " -}}"))
		g.statements(g.defines[i], 1)
		g.b.WriteString("{{ end }}")
	}
	return g.b.String()
}

func (g *grammar) action(format string, args ...any) {
	fmt.Fprintf(&g.b, "%s"+format+"%s", append(append([]any{g.one("{{", "{{ ", "{{- ")}, args...), g.one("}}", " }}", " -}}"))...)
}

func (g *grammar) statements(dot kind, depth int) {
	mark := len(g.vars)
	for range 1 + g.rng.IntN(4) {
		g.statement(dot, depth)
	}
	g.vars = g.vars[:mark]
}

func (g *grammar) statement(dot kind, depth int) {
	if g.budget--; g.budget < 0 || depth > 4 {
		g.b.WriteString(g.one("x", "\n", " y\n"))
		return
	}
	switch n := g.rng.IntN(24); {
	case n < 3:
		g.b.WriteString(g.one("text", "\n", "  \n\t", "a b\n", "", "<no"))
	case n < 7:
		g.action("%s", g.scalar(dot))
	case n == 7:
		g.b.WriteString(g.one("{{/* x */}}", "{{- /* {{ y }} */ -}}"))
	case n == 8:
		name, k := g.name(), g.kindOf(dot)
		g.action("%s := %s", name, g.value(dot, k))
		g.vars = append(g.vars, typed{name, k})
	case n == 9:
		if v, ok := g.variable(aText); ok {
			g.action("%s = %s", v, g.value(dot, aText))
		}
	case n < 12:
		g.action("if %s", g.condition(dot))
		g.statements(dot, depth+1)
		if g.chance(3) {
			g.action("else if %s", g.condition(dot))
			g.statements(dot, depth+1)
		}
		if g.chance(2) {
			g.action("else")
			g.statements(dot, depth+1)
		}
		g.action("end")
	case n == 12:
		g.with(dot, depth)
	case n < 18 && g.nested < 3: // more takes long, and shows nothing new
		g.nested++
		g.loop(dot, depth)
		g.nested--
	case n < 21:
		g.call(dot)
	default:
		if g.loops > 0 && g.chance(2) {
			g.action("if %s", g.condition(dot))
			g.action("%s", g.one("break", "continue"))
			g.action("end")
		}
	}
}

// loop writes a range in one of its forms.
func (g *grammar) loop(dot kind, depth int) {
	list, of := g.list(dot)
	mark := len(g.vars)
	switch g.rng.IntN(6) {
	case 0:
		name := g.name()
		g.action("range %s := %s", name, list)
		g.vars = append(g.vars, typed{name, of})
	case 1, 2:
		i, name := g.name()+"i", g.name()
		g.action("range %s, %s := %s", i, name, list)
		g.vars = append(g.vars, typed{name, of})
		if g.chance(2) {
			g.vars = append(g.vars, typed{i, aNumber})
		}
	case 3:
		if v, ok := g.variable(of); ok {
			g.action("range %s = %s", v, list)
			break
		}
		fallthrough
	default:
		g.action("range %s", list)
	}
	g.loops++
	g.statements(of, depth+1)
	g.loops--
	g.vars = g.vars[:mark]
	if g.chance(3) {
		loops := g.loops
		g.loops = 0 // a break there would mean the outer loop; sometimes it does
		if g.chance(3) {
			g.loops = loops
		}
		g.action("else")
		g.statements(dot, depth+1)
		g.loops = loops
	}
	g.action("end")
}

func (g *grammar) with(dot kind, depth int) {
	k := g.kindOf(dot)
	mark := len(g.vars)
	if g.chance(2) {
		name := g.name()
		g.action("with %s := %s", name, g.value(dot, k))
		g.vars = append(g.vars, typed{name, k})
	} else {
		g.action("with %s", g.value(dot, k))
	}
	g.statements(k, depth+1)
	g.vars = g.vars[:mark]
	if g.chance(2) {
		g.action("else")
		g.statements(dot, depth+1)
	}
	g.action("end")
}

func (g *grammar) call(dot kind) {
	if g.self+1 >= len(g.defines) {
		return
	}
	i := g.self + 1 + g.rng.IntN(len(g.defines)-g.self-1)
	arg := g.value(dot, g.defines[i])
	if g.chance(8) { // a variable that lives on behind the call
		name := g.name()
		g.action("template \"t%d\" (%s := %s)", i, name, arg)
		g.vars = append(g.vars, typed{name, g.defines[i]})
		return
	}
	switch g.rng.IntN(5) {
	case 0:
		g.action("include \"t%d\" %s | indent 2", i, parens(arg))
	case 1:
		g.action("%s | include \"t%d\" | upper", arg, i)
	case 2:
		g.action("include (printf \"t%%d\" %d) %s", i, parens(arg))
	case 3:
		g.action("$it := include \"t%d\" %s", i, parens(arg))
		g.vars = append(g.vars, typed{"$it", aText})
	default:
		g.action("template \"t%d\" %s", i, arg)
	}
}

func (g *grammar) name() string {
	if g.chance(60) {
		return "$"
	}
	return g.one("$a", "$b", "$c")
}

// variable is one of a kind that is visible under its name, or $.
func (g *grammar) variable(k kind) (string, bool) {
	var names []string
	for i, v := range g.vars {
		hidden := slices.ContainsFunc(g.vars[i+1:], func(o typed) bool { return o.name == v.name })
		if v.kind == k && !hidden {
			names = append(names, v.name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return names[g.rng.IntN(len(names))], true
}

// kindOf is a kind that can be had from dot.
func (g *grammar) kindOf(dot kind) kind {
	return []kind{dot, aText, aNumber, aListener, aVIP, aRoot, aDict}[g.rng.IntN(7)]
}

func parens(expr string) string {
	if strings.ContainsAny(expr, " ") {
		return "(" + expr + ")"
	}
	return expr
}

// value is an expression of a kind.
func (g *grammar) value(dot, k kind) string {
	if v, ok := g.variable(k); ok && g.chance(2) {
		return v
	}
	if k == g.dollar && g.chance(3) {
		return "$"
	}
	if k == dot && g.chance(2) {
		return "."
	}
	root, hasRoot := "", true
	switch {
	case dot == aRoot:
		root = "."
	case g.dollar == aRoot:
		root = "$."
	default:
		root, hasRoot = "", false
	}
	if v, ok := g.variable(aRoot); ok && !hasRoot {
		root, hasRoot = v+".", true
	}
	switch k {
	case aText:
		return g.text(dot)
	case aNumber:
		return g.one("1", "2", "len (list 1 2)", "add 1 2")
	case aDict:
		return fmt.Sprintf("dict \"e\" %s \"s\" %s", parens(g.value(dot, aListener)), parens(g.text(dot)))
	case aRoot:
		if hasRoot {
			return strings.TrimSuffix(root, ".") + map[bool]string{true: ".", false: ""}[root == "."]
		}
	case aListener:
		switch {
		case dot == aVIP:
			return "first .Listeners"
		case dot == aDict:
			return ".e"
		case hasRoot:
			return "index " + root + "Listeners 0"
		}
	case aVIP:
		if hasRoot {
			return "index " + root + "VIPs " + g.one("0", "1", "2")
		}
	case anEnd:
		if dot == aListener {
			return "index .Endpoints 0"
		}
	case aServer:
		if dot == aListener {
			return "index .RealServers 0"
		}
	case aNode:
		if hasRoot {
			return root + "Node"
		}
	}
	return "."
}

// text is an expression that is printed well.
func (g *grammar) text(dot kind) string {
	if v, ok := g.variable(aText); ok && g.chance(3) {
		return v
	}
	if v, ok := g.variable(aListener); ok && g.chance(3) {
		return v + g.one(".Name", ".Service")
	}
	if v, ok := g.variable(aVIP); ok && g.chance(3) {
		return v + ".Address"
	}
	if g.dollar == aRoot && g.chance(3) {
		return g.one("$.Params.s", "$.Params.m.a", "toString $.Params.x", "toString (len $.Listeners)", "index $.Params.l 0", "dig \"m\" \"a\" \"\" $.Params")
	}
	switch dot {
	case aRoot:
		return g.one(".Params.s", ".Params.m.a", "toString .Params.x", "toString (len .Listeners)", "toString (len .VIPs)")
	case aVIP:
		return g.one(".Address", ".Family", "toString (len .Listeners)")
	case aListener:
		return g.one(".Name", ".VIP", ".Service", "toString .Port", "hostPort .VIP .Port", "toYaml .Labels | quote", "identifier .Name", "toString (len .Endpoints)", ".Labels.n")
	case anEnd:
		return g.one(".Name", ".IP", "toString .Port", "hostPort .IP .Port")
	case aServer:
		return g.one(".Address", "toString .Weight")
	case aNode:
		return ".Name"
	case aDict:
		return g.one(".s", ".e.Name", "toString (len .e.Endpoints)")
	case aNumber:
		return "toString ."
	}
	return "."
}

func (g *grammar) scalar(dot kind) string {
	if v, ok := g.variable(aNumber); ok && g.chance(3) {
		return v
	}
	if g.chance(40) {
		return g.one(".Nothing", "$.Nothing", "fail \"no\"", "index (list) 1") // errors have to be the same, too
	}
	return g.text(dot) + g.one("", "", " | upper", " | quote", " | printf \"%s!\"")
}

func (g *grammar) condition(dot kind) string {
	return g.one("eq 1 1", "eq 1 2", fmt.Sprintf("eq %s \"80\"", parens(g.text(dot))), fmt.Sprintf("contains \"1\" %s", parens(g.text(dot))), "not .")
}

// list is an expression of a list, and what its elements are.
func (g *grammar) list(dot kind) (string, kind) {
	if v, ok := g.variable(aListener); ok && g.chance(4) {
		return v + ".Endpoints", anEnd
	}
	if v, ok := g.variable(aVIP); ok && g.chance(4) {
		return v + ".Listeners", aListener
	}
	if dot == aVIP && g.chance(2) {
		return ".Listeners", aListener
	}
	if dot == aListener && g.chance(2) {
		if g.chance(3) {
			return g.one(".RealServers", "realServers ."), aServer
		}
		return ".Endpoints", anEnd
	}
	r := ""
	switch {
	case dot == aRoot:
		r = "."
	case g.dollar == aRoot:
		r = "$."
	}
	if v, ok := g.variable(aRoot); ok && r == "" {
		r = v + "."
	}
	if r != "" {
		switch g.rng.IntN(12) {
		case 0, 1, 2:
			return r + "Listeners", aListener
		case 3, 4:
			return r + "VIPs", aVIP
		case 5:
			return "ofProtocol " + g.one("\"TCP\"", "\"UDP\"") + " " + r + "Listeners", aListener
		case 6:
			return g.one("reverse ", "initial ", "rest ", "uniq ") + r + "Listeners", aListener
		case 7:
			return r + "Nodes", aNode
		case 8:
			return "endpoints \"shop\" \"svc-0\" \"\"", anEnd
		case 9:
			return r + "Params.m", aText
		case 10:
			return r + "Params.l", aText
		}
	}
	switch g.rng.IntN(4) {
	case 3:
		return "endpoints \"shop\" \"svc-0\" \"\"", anEnd
	case 0:
		return g.one("3", "0"), aNumber
	case 1:
		return "list \"u\" \"v\"", aText
	}
	return "list", aText
}
