package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out := write("bench.txt", `goos: linux
cpu: Some CPU
BenchmarkRender/plain/size=1of1-2  3  400000000 ns/op  100 B/op  2 allocs/op
BenchmarkRender/plain/size=1of1-2  3  500000000 ns/op  100 B/op  2 allocs/op
BenchmarkRender/plain/size=1of1-2  3  900000000 ns/op  100 B/op  2 allocs/op
BenchmarkRender/one/size=1of1-2  3  1000000 ns/op  19400 B/op  2 allocs/op
BenchmarkRules/parse/size=1-2  20  20000000 ns/op  9000000 B/op  8000 allocs/op
BenchmarkRules/parse/size=2-2  20  40000000 ns/op  18000000 B/op  16000 allocs/op
BenchmarkRules/parse/size=4-2  20  90000000 ns/op  18000000 B/op  16000 allocs/op
BenchmarkPeakRSS/pods=all/size=1of1-2  1  621.4 peak-RSS-MB  3 ready-s
`)
	page := write("page.md", "before\n"+begin+"\nold\n"+end+"\nafter\n")
	if err := run([]string{out, page}, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n" + begin, end + "\nafter\n", "2026-01-02", "Some CPU",
		"| render: plain text/template and sprig | 500 ms | not measured | not measured | 100 B |",
		"| render after one change / plain | 1/500 | 1/50 |",
		"| parse both | 20.0 ms | 40.0 ms | 90.0 ms | 4.5 | 9.00 MB |",
		"| `pods: all` | 621 | | | 900 |",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "old") {
		t.Error("the old table is still there")
	}
	for _, bad := range []string{"--- FAIL: BenchmarkX\n", "FAIL\n", "BenchmarkX-2 1 many ns/op\n"} {
		if err := run([]string{write("bad.txt", bad), page}, time.Now()); err == nil {
			t.Errorf("%q is taken for figures", bad)
		}
	}
	if err := run([]string{out, write("plain.md", "no marks")}, time.Now()); err == nil {
		t.Error("a page without marks is overwritten")
	}
}
