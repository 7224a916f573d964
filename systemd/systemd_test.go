package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lb-render/lb-render/internal/config"
)

const installed = "/usr/local/bin/lb-render"

// need skips visibly where a program is missing, except in CI.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing, and CI must have it", program)
		}
		t.Skipf("%s is not installed: the units are not checked", program)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// units puts the unit to where its binary exists, and the drop-in, on request,
// to where systemd looks for it: in a directory beside the unit.
func units(t *testing.T, dropIn bool) string {
	t.Helper()
	need(t, "systemd-analyze")
	dir := t.TempDir()
	bin := filepath.Join(dir, "lb-render")
	write(t, bin, "#!/bin/sh\n")
	unit := read(t, "lb-render.service")
	if strings.Count(unit, installed) != 1 {
		t.Fatalf("%s is not there just once; make install changes it to its PREFIX", installed)
	}
	path := filepath.Join(dir, "lb-render.service")
	write(t, path, strings.Replace(unit, installed, bin, 1))
	if dropIn {
		write(t, filepath.Join(path+".d", "ipvs.conf"), read(t, "lb-render.service.d/ipvs.conf"))
	}
	for _, f := range []string{path, filepath.Join(path+".d", "ipvs.conf")} {
		if err := os.Chmod(f, 0o644); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return path
}

// verify returns what systemd has to say against a unit. It exits with 0 for
// keys that it does not know, so the exit code is not enough.
func verify(path string) string {
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	var against []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "lb-render") || strings.Contains(line, "modprobe") {
			against = append(against, line)
		}
	}
	if err != nil && len(against) == 0 {
		against = append(against, err.Error()+"\n"+string(out))
	}
	return strings.Join(against, "")
}

func TestUnitIsValid(t *testing.T) {
	for _, dropIn := range []bool{false, true} {
		if against := verify(units(t, dropIn)); against != "" {
			t.Errorf("with the drop-in %v:\n%s", dropIn, against)
		}
	}
}

// TestVerifySeesMistakes: what says nothing against a unit must be able to.
func TestVerifySeesMistakes(t *testing.T) {
	path := units(t, true)
	write(t, path, strings.Replace(read(t, path), "WatchdogSec=", "WatchdogSecs=", 1))
	if against := verify(path); !strings.Contains(against, "WatchdogSecs") {
		t.Errorf("a misspelled key of the unit goes unseen: %s", against)
	}
	path = units(t, true)
	dropIn := filepath.Join(path+".d", "ipvs.conf")
	write(t, dropIn, strings.Replace(read(t, dropIn), "ProcSubset=all", "ProcSubset=some", 1))
	if against := verify(path); !strings.Contains(against, "ipvs.conf") {
		t.Errorf("a wrong value in the drop-in goes unseen: %s", against)
	}
}

// TestUnitIsHardened: 3.0 or better, with the drop-in, too; and that gives just what it is for.
func TestUnitIsHardened(t *testing.T) {
	for _, c := range []struct {
		dropIn bool
		most   float64
	}{{false, 3.0}, {true, 3.0}} { // systemd 252 says 2.5 and 2.7
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", units(t, c.dropIn)).CombinedOutput()
		m := regexp.MustCompile(`Overall exposure level for .*: ([0-9.]+)`).FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("no figure: %v\n%s", err, out)
		}
		level, err := strconv.ParseFloat(m[1], 64)
		if err != nil || level > c.most {
			t.Errorf("with the drop-in %v the exposure is %s, want at most %.1f\n%s", c.dropIn, m[1], c.most, out)
		}
		if hasNetAdmin := strings.Contains(string(out), "✗ CapabilityBoundingSet=~CAP_NET_ADMIN"); hasNetAdmin != c.dropIn {
			t.Errorf("with the drop-in %v the unit has CAP_NET_ADMIN: %v", c.dropIn, hasNetAdmin)
		}
		t.Logf("with the drop-in %v the exposure is %s", c.dropIn, m[1])
	}
}

// setting returns the values of a key, in order.
func setting(unit, key string) []string {
	var values []string
	for line := range strings.Lines(unit) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			values = append(values, v)
		}
	}
	return values
}

// TestWhatTheAgentRestsOn: each line here has cost somebody a reload.
func TestWhatTheAgentRestsOn(t *testing.T) {
	unit := read(t, "lb-render.service")
	for key, c := range map[string]struct{ want, why string }{
		"Type":                     {"notify", "READY is after the first pass"},
		"NotifyAccess":             {"main", "commands must not speak for the agent"},
		"KillMode":                 {"mixed", "with control-group a stop sends TERM to the reload that is to be finished"},
		"StateDirectory":           {"lb-render", "the last valid entries"},
		"RuntimeDirectory":         {"lb-render", "the markers"},
		"RuntimeDirectoryPreserve": {"yes", "or else every restart of the agent reloads every daemon"},
		"Restart":                  {"always", "there is no reason to stay dead"},
		"ExecReload":               {"/bin/kill -HUP $MAINPID", "systemctl reload"},
		"ProtectSystem":            {"strict", "only what is listed is written"},
	} {
		if got := setting(unit, key); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s=%q, want %s: %s", key, got, c.want, c.why)
		}
	}
	if got := setting(unit, "MemoryDenyWriteExecute"); len(got) > 0 && got[0] != "no" {
		t.Errorf("MemoryDenyWriteExecute=%s: haproxy -c refuses a config with a regular expression", got[0])
	}
	for _, dir := range []string{"/etc/haproxy", "/etc/keepalived", "/etc/ipvs"} {
		if got := setting(unit, "ReadWritePaths"); len(got) != 1 || !strings.Contains(" "+got[0]+" ", " -"+dir+" ") {
			t.Errorf("ReadWritePaths=%q does not have -%s: the unit must start where there is none", got, dir)
		}
	}
}

// TestTimeouts: systemd must not lose patience before the agent's own defaults have run out.
func TestTimeouts(t *testing.T) {
	c, err := config.Parse("x", []byte("cluster: {inCluster: true}\noutputs:\n  - name: a\n    files: [{template: t, path: /p}]\n"+
		"    check: {command: 'x {{ .Staged }}'}\n    reload: {command: x}\n    verify: {command: x}\n"), config.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	o := c.Outputs[0]
	const kill = 6 * time.Second // from TERM to KILL to giving up, for each command
	transaction := o.Check.Timeout + o.Reload.Timeout + o.Verify.Timeout + 3*kill
	unit := read(t, "lb-render.service")
	for key, least := range map[string]time.Duration{
		"TimeoutStartSec": c.Timing.StartTimeout + 30*time.Second,
		"TimeoutStopSec":  transaction,
	} {
		got := setting(unit, key)
		if len(got) != 1 {
			t.Fatalf("%s=%q", key, got)
		}
		if d, err := time.ParseDuration(got[0] + "s"); err != nil || d < least {
			t.Errorf("%s=%s, want at least %s", key, got[0], least)
		}
	}
}

// TestChecksWithTheUnitsPowers runs the daemons' own checks with the capabilities
// that the unit leaves, which is as much of its cage as a test can build without systemd.
func TestChecksWithTheUnitsPowers(t *testing.T) {
	need(t, "setpriv")
	if os.Getuid() != 0 {
		t.Skip("not root: the capabilities cannot be limited")
	}
	caps := "-all"
	for _, c := range strings.Fields(strings.Join(setting(read(t, "lb-render.service"), "CapabilityBoundingSet"), " ")) {
		caps += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	dir := t.TempDir()
	write(t, dir+"/haproxy.cfg", `global
    user haproxy
    chroot /var/lib/haproxy
defaults
    timeout connect 5s
    timeout client 5s
    timeout server 5s
listen web
    mode http
    bind 192.0.2.10:80
    http-request deny if { path_reg ^/[0-9]+$ }
    server a 198.51.100.1:8080
`)
	write(t, dir+"/keepalived.conf", `virtual_server 192.0.2.10 80 {
    lb_algo wrr
    lb_kind TUN
    protocol TCP
    real_server 198.51.100.1 80 {
        weight 1
    }
}
`)
	if err := os.Chmod(dir+"/keepalived.conf", 0o644); err != nil { // it is no script
		t.Fatal(err)
	}
	for _, check := range [][]string{
		{"haproxy", "-c", "-f", dir + "/haproxy.cfg"},
		{"keepalived", "-t", "-f", dir + "/keepalived.conf"},
		{"sh", "-c", "chown 1:1 " + dir + "/haproxy.cfg && chmod 0600 " + dir + "/haproxy.cfg && cat " + dir + "/haproxy.cfg"},
	} {
		t.Run(check[0], func(t *testing.T) {
			need(t, check[0])
			args := append([]string{"--no-new-privs", "--bounding-set", caps, "--inh-caps", "-all"}, check...)
			if out, err := exec.Command("setpriv", args...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", check, err, out)
			}
		})
	}
	t.Run("mount", func(t *testing.T) { // the cage is one
		if out, err := exec.Command("setpriv", "--no-new-privs", "--bounding-set", caps, "--inh-caps", "-all", "mount", "-t", "tmpfs", "none", dir).CombinedOutput(); err == nil {
			exec.Command("umount", dir).Run()
			t.Errorf("the unit may mount: %s", out)
		}
	})
}
