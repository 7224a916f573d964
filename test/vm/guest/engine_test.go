package guest

import (
	"strings"
	"testing"
)

// TestPersistenceEngine: a service with --pe is not for us, since an edit would
// drop the engine. We refuse it in a file, and leave it alone elsewhere.
func TestPersistenceEngine(t *testing.T) {
	start(t)
	must(t, "modprobe", "ip_vs_pe_sip")
	t.Cleanup(func() {
		must(t, "ipvsadm", "-C")
		must(t, "rmmod", "ip_vs_pe_sip")
	})
	const sip = "-A -u 192.0.2.60:5060 -s rr -p 60 --pe sip\n"
	restore(t, sip+"-a -u 192.0.2.60:5060 -r 198.51.100.1 -m -w 3\n")
	before := rawDump(t)

	file := write(t, "ours.rules", "-A -u 192.0.2.1:5060 -s rr\n")
	if s := syncFile(t, file, "--owned-vips", "192.0.2.1"); s.Created != 1 || s.edits() != 1 {
		t.Error(s)
	}
	if saved := must(t, "ipvsadm", "-Sn"); !strings.Contains(saved, sip) {
		t.Errorf("it is not as it was:\n%s", saved)
	}
	syncFile(t, write(t, "none.rules", "\n"), "--owned-vips", "192.0.2.1")
	holdsRaw(t, before, "sync beside it")

	file = write(t, "sip.rules", "-A -t 192.0.2.1:80\n"+sip)
	for _, command := range []string{"check", "sync"} {
		r := run(t, "lb-render", "ipvs", command, file)
		if r.code != 1 || !strings.Contains(r.stderr, file+":2:") || !strings.Contains(r.stderr, "--pe") {
			t.Errorf("want exit code 1, and a fault at line 2: %s", r)
		}
	}
	holdsRaw(t, before, "files that were refused")
}
