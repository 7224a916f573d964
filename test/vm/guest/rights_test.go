package guest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNoRights: one line, and an exit code that is not that of a bad file.
func TestNoRights(t *testing.T) {
	start(t)
	restore(t, "-A -t 192.0.2.9:80 -s rr\n")
	before := rawDump(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "rules")
	if err := os.WriteFile(file, []byte("-A -t 192.0.2.1:80 -s rr\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/"; d = filepath.Dir(d) { // nobody is to get as far as the table
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod("/tmp", 0o1777) })
	for _, args := range [][]string{{"sync", file}, {"sync", file, "--dry-run"}, {"sync", file, "--json"}, {"diff", file}, {"save"}} {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), file, "FILE"), func(t *testing.T) {
			p := prepare("", append([]string{"lb-render", "ipvs"}, args...)...)
			p.Dir = "/"
			p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			r := p.wait(t)
			t.Log(r)
			oneLine(t, r, 2)
		})
	}
	holdsRaw(t, before, "commands without rights")
	// What needs no kernel works for everybody.
	p := prepare("", "lb-render", "ipvs", "check", file)
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if r := p.wait(t); r.code != 0 {
		t.Error(r)
	}
}

// TestNoModule: the same on a kernel that has no ip_vs, and cannot load it.
func TestNoModule(t *testing.T) {
	start(t)
	file := write(t, "rules", "-A -t 192.0.2.1:80 -s rr\n")
	const modprobe = "/proc/sys/kernel/modprobe"
	loader, err := os.ReadFile(modprobe)
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for line := range strings.Lines(must(t, "lsmod")) {
		if name := strings.Fields(line)[0]; strings.HasPrefix(name, "ip_vs_") {
			modules = append(modules, name)
		}
	}
	if len(modules) < 10 {
		t.Fatalf("modules: %q", modules)
	}
	// Neither the kernel nor a command is to load it again.
	release := strings.TrimSpace(must(t, "uname", "-r"))
	if err := os.Rename("/lib/modules/"+release, "/lib/modules/away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(modprobe, []byte("/nowhere"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(modprobe, loader, 0o644); err != nil {
			t.Error(err)
		}
		if err := os.Rename("/lib/modules/away", "/lib/modules/"+release); err != nil {
			t.Error(err)
		}
		must(t, append([]string{"modprobe", "-a", "ip_vs"}, modules...)...)
	})
	for _, m := range append(modules, "ip_vs") {
		must(t, "rmmod", m)
	}
	if r := run(t, "ipvsadm", "-Ln"); r.code == 0 {
		t.Fatalf("ip_vs is still there: %s", r)
	}
	for _, args := range [][]string{{"sync", file}, {"sync", file, "--dry-run"}, {"diff", file}, {"save"}} {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), file, "FILE"), func(t *testing.T) {
			r := run(t, append([]string{"lb-render", "ipvs"}, args...)...)
			t.Log(r)
			oneLine(t, r, 2)
		})
	}
	if r := run(t, "lb-render", "ipvs", "diff", file, "--against", file); r.code != 0 {
		t.Errorf("two files need no kernel: %s", r)
	}
}
