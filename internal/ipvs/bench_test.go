package ipvs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkRules parses two large sets and compares them. They are the
// recorded ones where they are, else sets of their size and shape; at n times the size
// each set n times, with VIPs in other networks.
func BenchmarkRules(b *testing.B) {
	for _, scale := range []int{1, 2, 4} {
		textA, textB := benchmarkTexts(b, scale)
		from, to := mustParse(b, textA), mustParse(b, textB)
		b.Run(fmt.Sprintf("parse/size=%d", scale), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustParse(b, textA)
				mustParse(b, textB)
			}
		})
		b.Run(fmt.Sprintf("diff/size=%d", scale), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ops := Diff(from, to); len(ops) != scale {
					b.Fatalf("%d operations", len(ops))
				}
			}
		})
	}
}

func benchmarkTexts(b *testing.B, scale int) (from, to string) {
	const dir = "../../../shared/data/ravel"
	configured, errA := os.ReadFile(filepath.Join(dir, "large-configured.rules"))
	generated, errB := os.ReadFile(filepath.Join(dir, "large-generated.rules"))
	if errA != nil || errB != nil {
		b.Log("the recorded sets are not here: measured with sets of their size")
		to := likeRecorded(1)
		configured, generated = []byte(to+"-A -t 172.27.0.1:80 -s wrr\n"), []byte(to)
	}
	var a, c strings.Builder
	for i := range scale {
		moved := func(text []byte) string {
			// The VIPs of the sets are in 10.0.0.0/8 and 172.0.0.0/8.
			return strings.NewReplacer(" -t 10.", fmt.Sprintf(" -t %d.", 30+i), " -t 172.", fmt.Sprintf(" -t %d.", 40+i),
				" -u 10.", fmt.Sprintf(" -u %d.", 30+i), " -u 172.", fmt.Sprintf(" -u %d.", 40+i)).Replace(string(text))
		}
		a.WriteString(moved(configured) + "\n")
		c.WriteString(moved(generated) + "\n")
	}
	return a.String(), c.String()
}
