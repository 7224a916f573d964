package guest

import (
	"strings"
	"testing"
)

// TestPipes: rules may come by a pipe, which can be read just once. What is read the
// second time is nothing, and must not be taken for an empty table.
func TestPipes(t *testing.T) {
	start(t)
	const rules = "-A -t 192.0.2.1:80 -s wrr\n-a -t 192.0.2.1:80 -r 198.51.100.1:80 -g -w 3\n"
	want := stateOf(t, rules)
	file := write(t, "rules", rules)
	for _, command := range []string{
		"lb-render ipvs sync - < FILE", "cat FILE | lb-render ipvs sync -", "cat FILE | lb-render ipvs sync /dev/fd/0",
		"lb-render ipvs sync <(cat FILE)", "lb-render ipvs sync FILE --owned-from <(echo 192.0.2.0/24)", "mkfifo FILE.fifo && { cat FILE > FILE.fifo & } && lb-render ipvs sync FILE.fifo",
	} {
		reset(t, manyRules(3, 1, "rr"))
		must(t, "bash", "-c", strings.ReplaceAll(command, "FILE", file))
		holds(t, want, command)
	}
	r := runWith(t, rules, "lb-render", "ipvs", "sync", "-", "--drain", "1")
	if r.code != 1 || !strings.Contains(r.stderr, "--drain needs a file") {
		t.Error(r)
	}
}
