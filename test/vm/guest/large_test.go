package guest

import (
	"os"
	"testing"
)

// TestLarge: of a recorded table, a sync changes what differs, and nothing else.
func TestLarge(t *testing.T) {
	start(t)
	const configured, generated = "large-configured.rules", "large-generated.rules"
	rules := map[string]string{}
	for _, name := range []string{configured, generated} {
		data, err := os.ReadFile(name)
		if err != nil && os.Getenv("CI") != "" {
			t.Fatal(err)
		} else if err != nil {
			t.Skip(err)
		}
		rules[name] = string(data)
	}
	want := stateOf(t, rules[generated])

	s := syncFile(t, configured)
	figure(t, "ipvs sync of a large table into an empty one: %s", s)
	if s.Created != 12700 || s.edits() != s.Created {
		t.Errorf("want 12700 created: %s", s)
	}
	s = syncFile(t, generated)
	figure(t, "ipvs sync of one service with 19 servers out of it: %s", s)
	if s.Deleted != 20 || s.Created != 0 || s.Updated != 0 || s.Unchanged != 12680 {
		t.Errorf("want 20 deleted, 12680 unchanged: %s", s)
	}
	holds(t, want, "sync over the other table")
	s = syncFile(t, generated)
	figure(t, "ipvs sync with nothing to do: %s", s)
	if s.edits() != 0 || s.Unchanged != 12680 {
		t.Errorf("want 12680 unchanged: %s", s)
	}
}
