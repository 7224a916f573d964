// Command table turns the output of the benchmarks (make bench) into the
// tables of docs/performance.md, between its two marks.
//
//	go run ./test/bench/table FILE PAGE
//
// FILE is what "go test -bench" printed, in the format that benchstat reads:
// each line as often as it was measured. A figure is the median of them.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(args []string, now time.Time) error {
	if len(args) != 2 {
		return fmt.Errorf("want the benchmarks' output and the page")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	page, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has not got the lines %q and %q", args[1], begin, end)
	}
	return os.WriteFile(args[1], []byte(before+begin+"\n"+r.tables(now)+end+after), 0o644)
}

const (
	begin = "<!-- made by make bench -->"
	end   = "<!-- end -->"
)

// results are all measurements, by benchmark and unit.
type results struct {
	cpu    string
	values map[string]map[string][]float64
}

var procs = regexp.MustCompile(`-\d+$`)

func read(in io.Reader) (*results, error) {
	r := &results{values: map[string]map[string][]float64{}}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if cpu, ok := strings.CutPrefix(line, "cpu: "); ok {
			r.cpu = strings.TrimSpace(cpu)
		}
		if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") {
			return nil, fmt.Errorf("a benchmark has failed: %s", line)
		}
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "Benchmark") || len(fields) < 4 {
			continue
		}
		name := strings.TrimPrefix(procs.ReplaceAllString(fields[0], ""), "Benchmark")
		if r.values[name] == nil {
			r.values[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			r.values[name][fields[i+1]] = append(r.values[name][fields[i+1]], v)
		}
	}
	return r, lines.Err()
}

// median returns the median and how many measurements there are; 0 and 0 for none.
func (r *results) median(name, unit string) (float64, int) {
	list := slices.Sorted(slices.Values(r.values[name][unit]))
	if len(list) == 0 {
		return 0, 0
	}
	if n := len(list); n%2 == 0 {
		return (list[n/2-1] + list[n/2]) / 2, n
	}
	return list[len(list)/2], len(list)
}

func (r *results) time(name string) float64 {
	v, _ := r.median(name, "ns/op")
	return v
}

var sizes = []string{"size=1of1", "size=1of10", "size=1of100"}

// tables are the times at all sizes, the ratios that are promised, and the memory.
func (r *results) tables(now time.Time) string {
	var b strings.Builder
	least := 1 << 30
	fmt.Fprintf(&b, "\n%s, %d CPUs (%s), %s/%s, %s. Medians.\n\n", now.UTC().Format("2006-01-02"), runtime.NumCPU(), r.cpu, runtime.GOOS, runtime.GOARCH, runtime.Version())
	b.WriteString("| | 1/1 | 1/10 | 1/100 | allocated at 1/1 |\n|---|--:|--:|--:|--:|\n")
	for _, row := range []struct{ what, name string }{
		{"render: plain text/template and sprig", "Render/plain"},
		{"render: ours, everything new", "Render/full"},
		{"render: ours, one endpoint changed", "Render/one"},
		{"the same, but the copying of output", "Render/one-not-copying"},
		{"render: ours, 1 % of the services changed", "Render/percent"},
		{"ClusterConfig from nothing", "Build/all"},
		{"ClusterConfig after one slice changed, from the event", "Build/slice"},
		{"a node's heartbeat, from the event", "Build/heartbeat"},
		{"bare write + fsync + rename of the same bytes", "Event/bare"},
		{"one slice changed, from the event to the renamed file", "Event/slice"},
		{"the same, but the copying and writing of output", "Event/slice-not-copying"},
	} {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, s := range sizes {
			v, n := r.median(row.name+"/"+s, "ns/op")
			least = min(least, n)
			fmt.Fprintf(&b, " %s |", duration(v))
		}
		if v, n := r.median(row.name+"/size=1of1", "B/op"); n > 0 {
			fmt.Fprintf(&b, " %s |\n", size(v))
		} else {
			b.WriteString(" |\n")
		}
	}
	fmt.Fprintf(&b, "\nEach figure is the median of at least %d measurements, each the median of its rounds.\n\n", least)
	b.WriteString("| ratio | measured | limit |\n|---|--:|--:|\n")
	at := func(name string) float64 { return r.time(name + "/size=1of1") }
	for _, row := range []struct {
		what     string
		got      float64
		limit    float64
		inverted bool // shown as 1/x
	}{
		{"event to renamed file / bare write + fsync + rename", at("Event/slice") / at("Event/bare"), 2, false},
		{"render after one change / plain", at("Render/one") / at("Render/plain"), 50, true},
		{"full render / plain", at("Render/full") / at("Render/plain"), 1.1, false},
		{"ClusterConfig after one change / from nothing", at("Build/slice") / at("Build/all"), 100, true},
		{"event to renamed file but the output, 1/1 / 1/100", at("Event/slice-not-copying") / r.time("Event/slice-not-copying/size=1of100"), 2, false},
		{"render after one change but the copying, 1/1 / 1/100", at("Render/one-not-copying") / r.time("Render/one-not-copying/size=1of100"), 2, false},
		{"ClusterConfig after one change, 1/1 / 1/100", at("Build/slice") / r.time("Build/slice/size=1of100"), 2, false},
	} {
		if row.inverted {
			fmt.Fprintf(&b, "| %s | 1/%.0f | 1/%.0f |\n", row.what, 1/row.got, row.limit)
		} else {
			fmt.Fprintf(&b, "| %s | %.2f | %.1f |\n", row.what, row.got, row.limit)
		}
	}
	b.WriteString("\n| two sets of 12,700 IPVS rules | 1 x | 2 x | 4 x | 4 x / 1 x | allocated at 1 x |\n|---|--:|--:|--:|--:|--:|\n")
	for _, row := range []struct{ what, name string }{{"parse both", "Rules/parse"}, {"compare them", "Rules/diff"}} {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, s := range []string{"/size=1", "/size=2", "/size=4"} {
			fmt.Fprintf(&b, " %s |", duration(r.time(row.name+s)))
		}
		allocated, _ := r.median(row.name+"/size=1", "B/op")
		fmt.Fprintf(&b, " %.1f | %s |\n", r.time(row.name+"/size=4")/r.time(row.name+"/size=1"), size(allocated))
	}
	b.WriteString("\nThe memory is that of one run of the agent each.\n\n| peak resident memory, MiB | 1/1 | 1/10 | 1/100 | limit |\n|---|--:|--:|--:|--:|\n")
	for _, row := range []struct{ what, name, limit string }{
		{"`pods: all`", "PeakRSS/pods=all", "900"},
		{"`pods: node`", "PeakRSS/pods=node", ""},
		{"`pods: none`", "PeakRSS/pods=none", "350"},
		{"`pods: all`, a server that cannot stream lists, in pages", "PeakRSS/pods=all,list=plain", ""},
		{"`pods: all`, the same, in one piece", "PeakRSS/pods=all,list=whole", ""},
	} {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, s := range sizes {
			if v, n := r.median(row.name+"/"+s, "peak-RSS-MB"); n > 0 {
				fmt.Fprintf(&b, " %.0f |", v)
			} else {
				b.WriteString(" |")
			}
		}
		fmt.Fprintf(&b, " %s |\n", row.limit)
	}
	b.WriteString("\n")
	return b.String()
}

// duration and size print three digits.

func duration(ns float64) string {
	switch {
	case ns == 0:
		return "not measured"
	case ns < 1e3:
		return digits(ns) + " ns"
	case ns < 1e6:
		return digits(ns/1e3) + " µs"
	case ns < 1e9:
		return digits(ns/1e6) + " ms"
	}
	return digits(ns/1e9) + " s"
}

func size(b float64) string {
	switch {
	case b < 1e3:
		return digits(b) + " B"
	case b < 1e6:
		return digits(b/1e3) + " kB"
	}
	return digits(b/1e6) + " MB"
}

func digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
