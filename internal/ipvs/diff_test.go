package ipvs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDiff says what each kind of change becomes. An edit keeps connections, so
// that nothing is deleted and added again.
func TestDiff(t *testing.T) {
	const service = "-A -t 192.0.2.1:80 -s wrr\n"
	tests := map[string]struct{ from, to, want string }{
		"nothing": {service + "-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1 -x 0", service + "-a -t 192.0.2.1:80 -r 198.51.100.1", ""},
		"weight":  {service + "-a -t 192.0.2.1:80 -r 198.51.100.1", service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w 5", "-e -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 5\n"},
		"thresholds": {
			service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -x 9", service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -x 10 -y 5",
			"-e -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1 -x 10 -y 5\n",
		},
		"way":       {service + "-a -t 192.0.2.1:80 -r 198.51.100.1", service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -i", "-e -t 192.0.2.1:80 -r 198.51.100.1:80 -i -w 1\n"},
		"scheduler": {service, "-A -t 192.0.2.1:80 -s mh -b flag-1 -p", "-E -t 192.0.2.1:80 -s mh -p 360 -b mh-fallback\n"},
		"mask":      {service, "-A -t 192.0.2.1:80 -s wrr -M 255.0.0.0", "-E -t 192.0.2.1:80 -s wrr -M 255.0.0.0\n"},
		"another port is another server": {
			service + "-a -t 192.0.2.1:80 -r 198.51.100.1:1 -m", service + "-a -t 192.0.2.1:80 -r 198.51.100.1:2 -m",
			"-a -t 192.0.2.1:80 -r 198.51.100.1:2 -m -w 1\n-d -t 192.0.2.1:80 -r 198.51.100.1:1\n",
		},
		"from empty":   {"", service + "-a -t 192.0.2.1:80 -r 198.51.100.1", "-A -t 192.0.2.1:80 -s wrr\n-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 1\n"},
		"to empty":     {service + "-a -t 192.0.2.1:80 -r 198.51.100.1", "", "-D -t 192.0.2.1:80\n"},
		"family of -f": {"-A -f 1", "-A -f 1 -6", "-A -f 1 -6 -s wlc\n-D -f 1\n"},
		"in turns: who comes back is before who goes": {
			service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w 1\n-a -t 192.0.2.1:80 -r 198.51.100.2 -w 0",
			service + "-a -t 192.0.2.1:80 -r 198.51.100.1 -w 0\n-a -t 192.0.2.1:80 -r 198.51.100.2 -w 1",
			"-e -t 192.0.2.1:80 -r 198.51.100.2:80 -g -w 1\n-e -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 0\n",
		},
		"order": {
			"-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 198.51.100.1\n-A -t 192.0.2.3:80 -s wrr\n-a -t 192.0.2.3:80 -r 198.51.100.1\n-a -t 192.0.2.3:80 -r 198.51.100.2",
			"-A -t 192.0.2.2:80 -s rr\n-a -t 192.0.2.2:80 -r 198.51.100.1\n-A -t 192.0.2.3:80 -s rr\n-a -t 192.0.2.3:80 -r 198.51.100.2 -w 7\n-a -t 192.0.2.3:80 -r 198.51.100.3",
			"-A -t 192.0.2.2:80 -s rr\n-a -t 192.0.2.2:80 -r 198.51.100.1:80 -g -w 1\n-a -t 192.0.2.3:80 -r 198.51.100.3:80 -g -w 1\n" +
				"-E -t 192.0.2.3:80 -s rr\n-e -t 192.0.2.3:80 -r 198.51.100.2:80 -g -w 7\n" +
				"-d -t 192.0.2.3:80 -r 198.51.100.1:80\n-D -t 192.0.2.1:80\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from, to := mustParse(t, test.from), mustParse(t, test.to)
			if got := Print(Diff(from, to)); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			checkDiff(t, from, to)
		})
	}
}

// An engine can only be in the kernel: it goes, by an edit.
func TestDiffDropsEngine(t *testing.T) {
	from, to := mustParse(t, "-A -u 192.0.2.1:5060 -p"), mustParse(t, "-A -u 192.0.2.1:5060 -p")
	from.Services[0].Engine = "sip"
	if got, want := Print(Diff(from, to)), "-E -u 192.0.2.1:5060 -s wlc -p 360\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := from.String(), "-A -u 192.0.2.1:5060 -s wlc -p 360 --pe sip\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// recorded is the folder of rule sets recorded on real hardware, which are not part of
// the repository.
func recorded(t testing.TB) string {
	const dir = "../../../shared/data/ravel"
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the recorded rule sets are missing, and CI must have them")
		}
		t.Skip("the recorded rule sets are not here")
	}
	return dir
}

func readRules(t testing.TB, path ...string) *Rules {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return mustParse(t, string(text))
}

func TestRecordedLarge(t *testing.T) {
	dir := recorded(t)
	configured, generated := readRules(t, dir, "large-configured.rules"), readRules(t, dir, "large-generated.rules")
	if configured.Len() != 12700 || generated.Len() != 12680 {
		t.Errorf("%d and %d rules", configured.Len(), generated.Len())
	}
	ops := Diff(configured, generated)
	if got := Print(ops); got != "-D -t 172.27.223.36:80\n" || len(ops[0].gone()) != 19 {
		t.Errorf("got\n%s, with %d servers", got, len(ops[0].gone()))
	}
	checkDiff(t, configured, generated)
}

func TestRecordedCases(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join(recorded(t), "cases", "*"))
	if err != nil || len(cases) != 9 {
		t.Fatalf("%d cases, want 9: %v", len(cases), err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			checkDiff(t, readRules(t, dir, "configured.rules"), readRules(t, dir, "expected.rules"))
		})
	}
}
