package watcher

import (
	"fmt"
	"testing"
	"unsafe"
)

// TestInternerIsBounded: names that come and go for a year do not stay for a year.
func TestInternerIsBounded(t *testing.T) {
	in := newInterner()
	for i := range 3 * maxInterned {
		name := fmt.Sprint("name-", i)
		in.text(name)
		in.pointer(&name)
		in.sharedLabels(map[string]string{"hash": name})
	}
	for what, n := range map[string]int{"texts": len(in.texts), "pointers": len(in.pointers), "sets": len(in.sets) + maxInterned - maxSets} {
		if n > maxInterned {
			t.Errorf("too many %s", what)
		}
	}
	a, b := fmt.Sprint("sa", "me"), fmt.Sprint("sam", "e")
	if x, y := in.text(a), in.text(b); unsafe.StringData(x) != unsafe.StringData(y) {
		t.Error("one text is there twice")
	}
}
