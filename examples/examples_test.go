package examples

import (
	"bytes"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// lbRender is the program, built once for all tests.
var lbRender string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "lb-render-examples")
	if err != nil {
		panic(err)
	}
	lbRender = filepath.Join(dir, "lb-render")
	out, err := exec.Command("go", "build", "-o", lbRender, "../cmd/lb-render").CombinedOutput()
	code := 1
	if err != nil {
		os.Stderr.Write(out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func render(t *testing.T, example, manifests, output string) []byte {
	t.Helper()
	cmd := exec.Command(lbRender, "render", "--config", filepath.Join(example, "lb-render.yaml"), "--manifests", manifests, output)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("%s", stderr.String())
	}
	return out
}

// need skips visibly where a daemon is missing, except in CI.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing, and CI must have it", program)
		}
		t.Skipf("%s is not installed: its check is left out", program)
	}
}

func TestGolden(t *testing.T) {
	for output, golden := range map[string]string{
		"haproxy": "haproxy/golden/haproxy.cfg", "keepalived": "haproxy/golden/keepalived.conf", "ipvs": "ipvs/golden/ipvs.rules",
	} {
		t.Run(output, func(t *testing.T) {
			example, _, _ := strings.Cut(golden, "/")
			got := render(t, example, filepath.Join(example, "manifests"), output)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("not as in %s (make golden rewrites it):\n%s", golden, got)
			}
		})
	}
}

func TestDaemonsAcceptTheGoldens(t *testing.T) {
	t.Run("haproxy", func(t *testing.T) {
		need(t, "haproxy")
		if out, err := exec.Command("haproxy", "-c", "-dW", "-f", "haproxy/golden/haproxy.cfg").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := haproxyCheck(t, "haproxy/golden/haproxy.cfg", "balance roundrobin", "balance roundrabbit"); err == nil {
			t.Errorf("a broken one is accepted:\n%s", out)
		}
	})
	t.Run("keepalived", func(t *testing.T) {
		need(t, "keepalived")
		// keepalived -t wants the interface to exist, to do multicast, and not to be lo.
		i := interfaceName(t)
		if out, err := keepalivedCheck(t, "haproxy/golden/keepalived.conf", "eth0", i); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := keepalivedCheck(t, "haproxy/golden/keepalived.conf", "interface eth0", "interfaze "+i); err == nil {
			t.Errorf("a broken one is accepted:\n%s", out)
		}
	})
}

// TestRulesAreTaken: our own check takes what the shipped template renders, here and
// for every case of the template's tests, and finds a broken one.
func TestRulesAreTaken(t *testing.T) {
	goldens, err := filepath.Glob("../testdata/templates/*/*.rules")
	if err != nil || len(goldens) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	cases, err := filepath.Glob("../testdata/ipvs/*/expected.rules")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, golden := range slices.Concat([]string{"ipvs/golden/ipvs.rules"}, goldens, cases) {
		if out, err := exec.Command(lbRender, "ipvs", "check", golden).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", golden, err, out)
		}
	}
	if out, err := check(t, "ipvs/golden/ipvs.rules", "-s wlc", "-s wcl", lbRender, "ipvs", "check"); err == nil {
		t.Errorf("a broken one is taken:\n%s", out)
	}
}

// TestIPVSChecksItself: the example's check command is lb-render itself, which is found in PATH.
func TestIPVSChecksItself(t *testing.T) {
	data, err := os.ReadFile("ipvs/lb-render.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	templates, err := filepath.Abs("../templates")
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("/etc/ipvs/", dir+"/", "../../templates", templates).Replace(string(data))
	file := filepath.Join(dir, "lb-render.yaml")
	if err := os.WriteFile(file, []byte(config+"stateDir: s\nruntimeDir: r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lbRender, "check", "--config", file, "--manifests", "ipvs/manifests")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(lbRender)+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "output ipvs: ok") {
		t.Errorf("%v\n%s", err, out)
	}
}

func interfaceName(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagMulticast != 0 {
			return i.Name
		}
	}
	const dummy = "lbrender-test0"
	if out, err := exec.Command("ip", "link", "add", dummy, "type", "dummy").CombinedOutput(); err != nil {
		t.Skipf("no interface but lo, and none can be made: %v %s", err, out)
	}
	t.Cleanup(func() { exec.Command("ip", "link", "del", dummy).Run() })
	return dummy
}

func haproxyCheck(t *testing.T, golden, old, with string) ([]byte, error) {
	return check(t, golden, old, with, "haproxy", "-c", "-dW", "-f")
}

func keepalivedCheck(t *testing.T, golden, old, with string) ([]byte, error) {
	return check(t, golden, old, with, "keepalived", "-t", "-f")
}

func check(t *testing.T, golden, old, with string, command ...string) ([]byte, error) {
	t.Helper()
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s has no %q", golden, old)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte(old), []byte(with)), 0o644); err != nil {
		t.Fatal(err)
	}
	return exec.Command(command[0], append(command[1:], file)...).CombinedOutput()
}

// TestRecordedTruth renders clusters recorded on real hardware, which are not
// part of the repository, to exactly the rules that were recorded with them.
func TestRecordedTruth(t *testing.T) {
	cases, err := filepath.Glob("../../shared/data/ravel/cases/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("the recorded clusters are missing, and CI must have them")
		}
		t.Skip("the recorded clusters are not here: rendering is not compared with them")
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) { compareRules(t, dir) })
	}
}

// TestOwnCases does the same with small clusters of our own.
func TestOwnCases(t *testing.T) {
	cases, err := filepath.Glob("../testdata/ipvs/*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) { compareRules(t, dir) })
	}
}

func compareRules(t *testing.T, dir string) {
	want, err := os.ReadFile(filepath.Join(dir, "expected.rules"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(render(t, "ipvs", dir, "ipvs"))) {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "#") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	if got := strings.Join(lines, ""); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestManifestsNameNoRealAddress keeps the examples to the addresses that are for documentation.
func TestManifestsNameNoRealAddress(t *testing.T) {
	files, err := filepath.Glob("*/manifests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(errors.New("no manifests"), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(data), func(r rune) bool { return strings.ContainsRune(" \n\t\"'[]{},", r) }) {
			ip := net.ParseIP(strings.TrimSuffix(word, ":"))
			if ip == nil {
				continue
			}
			if !slices.ContainsFunc([]string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"}, func(cidr string) bool {
				_, n, err := net.ParseCIDR(cidr)
				return err == nil && n.Contains(ip)
			}) {
				t.Errorf("%s: %s is somebody's address", f, ip)
			}
		}
	}
}

// TestDocumentedCommands runs every lb-render command of the READMEs that needs
// no cluster, and loads every config they show.
func TestDocumentedCommands(t *testing.T) {
	ran := 0
	for _, file := range []string{"../README.md", "../docs/ipvs.md", "haproxy/README.md", "ipvs/README.md"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			args := strings.Fields(strings.TrimSpace(line))
			if i := slices.Index(args, "#"); i > 0 {
				args = args[:i]
			}
			needsNothing := slices.Contains(args, "--manifests") || len(args) > 3 && args[1] == "ipvs" && strings.HasPrefix(args[3], "examples/")
			if len(args) < 2 || args[0] != "lb-render" || !needsNothing {
				continue
			}
			ran++
			cmd := exec.Command(lbRender, args[1:]...)
			cmd.Dir = ".."
			quiet := slices.Contains(args, "--against") // says nothing where nothing differs
			if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 && !quiet {
				t.Errorf("%s: %s: %v\n%s", file, strings.Join(args, " "), err, out)
			}
		}
	}
	if ran < 8 {
		t.Errorf("only %d commands found", ran)
	}
}

// TestFirstConfig does what the README tells a newcomer: its config, its ConfigMap, and the shop's manifests.
func TestFirstConfig(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(data), "```") {
		if text, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("%d YAML blocks in the README, want a config and a ConfigMap", len(blocks))
	}
	dir := t.TempDir()
	templates, err := filepath.Abs("../templates")
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("/usr/local/share/lb-render/templates", templates, "/etc/haproxy/haproxy.cfg", filepath.Join(dir, "haproxy.cfg"),
		"[haproxy, -c, -f, ", "[grep, -q, 'listen tcp_192.0.2.10_80', ", "[systemctl, reload, haproxy]", "[touch, "+filepath.Join(dir, "reloaded")+"]").Replace(blocks[0])
	web, err := os.ReadFile("haproxy/manifests/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"lb-render.yaml": config + "stateDir: s\nruntimeDir: r\n", "m/config.yaml": blocks[1], "m/web.yaml": string(web)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"check", "apply", "diff"} {
		out, err := exec.Command(lbRender, command, "-c", filepath.Join(dir, "lb-render.yaml"), "--manifests", filepath.Join(dir, "m")).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "reloaded")); err != nil {
		t.Error(err)
	}
}
