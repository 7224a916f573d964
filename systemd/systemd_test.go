package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// units copies the unit, and its drop-in on request, to a place where its binary exists.
func units(t *testing.T, dropIn bool) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is missing, and CI must have it")
		}
		t.Skip("systemd-analyze is not installed: the units are not checked")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "lb-render")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile("lb-render.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "lb-render.service")
	text := strings.ReplaceAll(string(unit), "/usr/local/bin/lb-render", bin)
	if dropIn {
		// What systemd would merge, in the order in which it would.
		more, err := os.ReadFile("lb-render.service.d/ipvs.conf")
		if err != nil {
			t.Fatal(err)
		}
		text += "\n" + string(more)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnitIsValid(t *testing.T) {
	for _, dropIn := range []bool{false, true} {
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", units(t, dropIn)).CombinedOutput()
		if err != nil || strings.Contains(string(out), "lb-render.service") {
			t.Errorf("with the drop-in %v: %v\n%s", dropIn, err, out)
		}
	}
}

func TestVerifySeesMistakes(t *testing.T) {
	path := units(t, false)
	unit, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(unit), "WatchdogSec=", "WatchdogSecs=", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if !strings.Contains(string(out), "WatchdogSecs") {
		t.Errorf("a misspelled key goes unseen: %s", out)
	}
}

func TestUnitIsHardened(t *testing.T) {
	for _, c := range []struct {
		dropIn bool
		most   float64
	}{{false, 3.0}, {true, 3.5}} {
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", units(t, c.dropIn)).CombinedOutput()
		m := regexp.MustCompile(`Overall exposure level for .*: ([0-9.]+)`).FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("no figure: %v\n%s", err, out)
		}
		level, err := strconv.ParseFloat(m[1], 64)
		if err != nil || level > c.most {
			t.Errorf("with the drop-in %v the exposure is %s, want at most %.1f\n%s", c.dropIn, m[1], c.most, out)
		}
		t.Logf("with the drop-in %v the exposure is %s", c.dropIn, m[1])
	}
}
