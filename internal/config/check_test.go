package config

import (
	"strings"
	"testing"
)

// checks makes a config with two files, whose check is command.
func checks(command string) []byte {
	return []byte("cluster: {inCluster: true}\noutputs:\n  - name: lb\n" +
		"    files: [{template: t, path: /p/a.cfg}, {template: t, path: out/b.cfg, name: b}]\n    check: {command: " + command + "}\n")
}

func TestChecksThatAreFine(t *testing.T) {
	for _, command := range []string{
		`[haproxy, -c, -f, "{{ .Staged }}"]`,
		`"haproxy -c -f {{.Staged}}"`,
		`"haproxy -c -f {{ .Files.a_cfg.Staged }} -f {{ .Files.b.Staged }}"`,
		`"haproxy -c -f {{ .Files.b.Staged | quote }}"`,
		`'haproxy -c {{ range .Files }}-f {{ .Staged }} {{ end }}'`,
		`'haproxy -c -f {{ (index .Files "b").Staged }}'`,
		`'diff {{ (index .Files "b").Staged }} /etc/out/b.cfg'`,
		`"haproxy -c -f $LB_RENDER_STAGED"`,
		`"haproxy -c -f ${LB_RENDER_FILES_A_CFG_STAGED}"`,
		`"haproxy -c -f $LB_RENDER_FILES_B_STAGED"`,
		// Paths that are others.
		`"diff /p/a.cfg.reference {{ .Files.b.Staged }}"`,
		`"diff /backup/p/a.cfg {{ .Files.b.Staged }}"`,
		`"jq .Path {{ .Staged }}"`,
		// Both, to compare them.
		`"diff {{ .Path }} {{ .Staged }}"`,
		`"diff /p/a.cfg {{ .Staged }}"`,
		`'cd "$(dirname "$LB_RENDER_PATH")" && haproxy -c -f "$LB_RENDER_STAGED"'`,
	} {
		if _, err := Parse("/etc/f", checks(command), Overrides{}); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestChecksOfTheWrongFile(t *testing.T) {
	const (
		ofA  = "/etc/f:5: outputs[0].check.command: checks the live file /p/a.cfg, which says nothing of the new one; write {{ .Files.a_cfg.Staged }}"
		ofB  = "/etc/f:5: outputs[0].check.command: checks the live file /etc/out/b.cfg, which says nothing of the new one; write {{ .Files.b.Staged }}"
		none = "/etc/f:5: outputs[0].check.command: does not look at the new file; give it {{ .Staged }}"
	)
	for _, c := range []struct{ command, want string }{
		{`[haproxy, -c, -f, /p/a.cfg]`, ofA},
		{`[haproxy, -c, -f/p/a.cfg]`, none}, // that may be any argument; but it is still no staged file
		{`[haproxy, -c, --file=/p/a.cfg]`, ofA},
		{`'haproxy -c -f "/p/a.cfg"'`, ofA},
		{`"haproxy -c -f {{ .Path }}"`, ofA},
		{`"haproxy -c -f {{ .Files.a_cfg.Path }}"`, ofA},
		{`"haproxy -c -f $LB_RENDER_PATH"`, ofA},
		{`"haproxy -c -f ${LB_RENDER_FILES_A_CFG_PATH}"`, ofA},
		{`[haproxy, -c, -f, /etc/out/b.cfg]`, ofB},
		{`[haproxy, -c, -f, out/b.cfg]`, strings.Replace(ofB, "/etc/out", "out", 1)},
		{`"haproxy -c -f {{ .Files.b.Path }}"`, ofB},
		{`"haproxy -c -f $LB_RENDER_FILES_B_PATH"`, ofB},
		{`"haproxy -c -f {{ .Staged }} -f {{ .Files.b.Path }}"`, ofB},
		{`"haproxy -c -f {{ .Files.b.Staged }} -f /p/a.cfg"`, ofA},
		{`[true]`, none},
		{`[echo, ok]`, none},
		{`"echo .Staged"`, none},
		{`"echo $LB_RENDER_HASH"`, none},
	} {
		_, err := Parse("/etc/f", checks(c.command), Overrides{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngot  %v\nwant %s", c.command, err, c.want)
		}
	}
}

// TestCheckOfTheOnlyFile: the way out is the short one.
func TestCheckOfTheOnlyFile(t *testing.T) {
	_, err := Parse("f", []byte(strings.TrimSuffix(least, "}\n")+", check: {command: [x, /p/a.cfg]}}\n"), Overrides{})
	if err == nil || !strings.Contains(err.Error(), "write {{ .Staged }} in its place") {
		t.Errorf("got %v", err)
	}
}
