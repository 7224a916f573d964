package template

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the goldens; read the diff")

const goldens = "../../testdata/templates"

// outputs are the shipped templates, the golden's name, and who checks it.
var outputs = []struct {
	template, golden string
	check            func(*testing.T, string) error
}{
	{"haproxy.cfg.tmpl", "haproxy.cfg", checkHAProxy},
	{"keepalived-vrrp.conf.tmpl", "keepalived-vrrp.conf", checkKeepalived},
	{"keepalived-ipvs.conf.tmpl", "keepalived-ipvs.conf", checkKeepalived},
	{"ipvs.rules.tmpl", "ipvs.rules", checkRules},
}

func load(t testing.TB, name string) *Template {
	t.Helper()
	tmpl, err := Load(name, Options{Dir: shipped})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// render renders a fixture; eth0 is the interface in the goldens.
func (f fixture) render(t testing.TB, tmpl *Template) []byte {
	t.Helper()
	params := map[string]any{"interface": "eth0"}
	for k, v := range f.params {
		params[k] = v
	}
	out, err := tmpl.Render(f.cc, params)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return out
}

func TestGoldens(t *testing.T) {
	for _, o := range outputs {
		tmpl := load(t, o.template)
		for _, f := range fixtures() {
			t.Run(o.golden+"/"+f.name, func(t *testing.T) {
				got := f.render(t, tmpl)
				if !bytes.HasSuffix(got, []byte("\n")) {
					t.Error("the file does not end in a line break")
				}
				path := filepath.Join(goldens, f.name, o.golden)
				if *update {
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s differs; go test -update rewrites it\ngot:\n%s\nwant:\n%s", path, short(got), short(want))
				}
				if err := o.check(t, path); err != nil {
					t.Errorf("refused: %v", err)
				}
			})
		}
	}
}

// A checker that takes anything proves nothing: each has to refuse a golden
// with one fault in it.
func TestBrokenGoldensAreRefused(t *testing.T) {
	for _, c := range []struct {
		golden, old, broken string
		check               func(*testing.T, string) error
	}{
		{"haproxy.cfg", "balance roundrobin", "balance roundabout", checkHAProxy},
		{"haproxy.cfg", "bind 192.0.2.10:80", "bind 192.0.2.10:80800", checkHAProxy},
		{"keepalived-vrrp.conf", "virtual_router_id", "virtual_router", checkKeepalived},
		{"keepalived-ipvs.conf", "lvs_sched wrr", "lvs_sched werr", checkKeepalived},
		{"ipvs.rules", " -w 1 ", " -w one ", checkRules},
		{"ipvs.rules", "-A ", "# a comment\n-A ", checkRules},
		{"ipvs.rules", "-a -t 192.0.2.10:80 ", "-a -t 192.0.2.99:80 ", checkRules},
	} {
		t.Run(c.golden+"/"+c.broken, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(goldens, "ipv4", c.golden))
			if err != nil {
				t.Fatal(err)
			}
			broken := strings.Replace(string(b), c.old, c.broken, 1)
			if broken == string(b) {
				t.Fatalf("there is no %q to break", c.old)
			}
			path := filepath.Join(t.TempDir(), c.golden)
			if err := os.WriteFile(path, []byte(broken), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := c.check(t, path); err == nil {
				t.Error("was accepted")
			}
		})
	}
}

// daemon finds a program. Where there is none the test is skipped, but not in CI.
func daemon(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	missing(t, name+" is not installed")
	return ""
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s, which CI has to have", what)
	}
	t.Skipf("NOT CHECKED by the daemon: %s", what)
}

func checkHAProxy(t *testing.T, path string) error {
	return checkWith(exec.Command(daemon(t, "haproxy"), "-c", "-dW", "-f", path))
}

// checkKeepalived replaces the interface by one of this host: keepalived -t
// says 5 for one that is not there, that is lo, or that cannot do multicast.
func checkKeepalived(t *testing.T, path string) error {
	keepalived := daemon(t, "keepalived")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Contains(b, []byte("interface eth0\n")) {
		if _, err := os.Stat("/usr/bin/systemctl"); err != nil {
			missing(t, "the check script's /usr/bin/systemctl is not installed")
		}
		b = bytes.ReplaceAll(b, []byte("interface eth0\n"), []byte("interface "+multicastInterface(t)+"\n"))
	}
	real := filepath.Join(t.TempDir(), "keepalived.conf")
	if err := os.WriteFile(real, b, 0o644); err != nil {
		return err
	}
	return checkWith(exec.Command(keepalived, "-t", "-f", real))
}

func multicastInterface(t *testing.T) string {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagMulticast != 0 && i.Flags&net.FlagLoopback == 0 {
			return i.Name
		}
	}
	missing(t, "this host has no interface with multicast besides lo")
	return ""
}

func checkWith(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

var (
	serviceRule = regexp.MustCompile(`^-A (-t|-u|--sctp-service) (\S+) -s [a-z]+( -b [a-z0-9,-]+)?$`)
	serverRule  = regexp.MustCompile(`^-a (-t|-u|--sctp-service) (\S+) -r (\S+) -[gim] -w (\d+) -x (\d+) -y (\d+)$`)
)

// checkRules is our own: ipvsadm --restore has no dry run. It was held against
// ipvsadm 1.31 in a virtual machine: "#" ends the restore, empty lines do not.
func checkRules(_ *testing.T, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	services, servers := map[string]bool{}, map[string]bool{}
	for i, line := range strings.Split(string(b), "\n") {
		fault := func(what string) error { return fmt.Errorf("line %d: %s: %s", i+1, what, line) }
		if line == "" {
			continue
		}
		if m := serviceRule.FindStringSubmatch(line); m != nil {
			key := m[1] + m[2]
			if services[key] {
				return fault("service twice")
			}
			services[key] = true
			if err := addrPort(m[2]); err != nil {
				return fault(err.Error())
			}
			continue
		}
		m := serverRule.FindStringSubmatch(line)
		switch {
		case m == nil:
			return fault("neither a service nor a server")
		case !services[m[1]+m[2]]:
			return fault("server of no service above")
		case servers[m[1]+m[2]+m[3]]:
			return fault("server twice")
		}
		servers[m[1]+m[2]+m[3]] = true
		if err := addrPort(m[3]); err != nil {
			return fault(err.Error())
		}
	}
	return nil
}

func addrPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return err
	}
	if net.ParseIP(host) == nil {
		return fmt.Errorf("%q is no address", host)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is no port", port)
	}
	return nil
}

func short(b []byte) []byte { return b[:min(len(b), 4000)] }
