package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lb-render/lb-render/internal/ipvs"
)

// TestTextFileOfAPipe: a pipe can be read once. sync reads its file when it begins and again
// with the lock; the second time a pipe is empty, which would be an empty table.
func TestTextFileOfAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("-A -t 192.0.2.1:80\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	f := textFile{path: fmt.Sprintf("/dev/fd/%d", r.Fd())}
	for range 3 {
		parsed, err := f.rules(t.Context(), &ipvs.Scope{})
		if err != nil || parsed.Len() != 1 {
			t.Fatalf("got %v, %v", parsed, err)
		}
	}
}

// A file is read anew each time.
func TestTextFileIsReadAnew(t *testing.T) {
	f := textFile{path: filepath.Join(t.TempDir(), "rules")}
	for n, text := range []string{"", "-A -t 192.0.2.1:80\n", "-A -t 192.0.2.1:80\n-A -t 192.0.2.2:80\n"} {
		if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		parsed, err := f.rules(t.Context(), &ipvs.Scope{})
		if err != nil || parsed.Len() != n {
			t.Fatalf("got %v, %v", parsed, err)
		}
	}
}

// Who waits for a pipe that nobody writes to can be stopped.
func TestTextFileOfASilentPipe(t *testing.T) {
	f := textFile{path: filepath.Join(t.TempDir(), "fifo")}
	if err := unix.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w, err := os.OpenFile(f.path, os.O_RDWR, 0) // lets the reader go
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}
