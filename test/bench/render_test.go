package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lb-render/lb-render/internal/template"
)

// short does for each listener what the shipped template does, and prints a
// number: what is left of a render when the copying of output is left out. The
// number is another one when an endpoint is.
const short = `{{ range ofProtocol "TCP" .Listeners }}{{ $all := "" }}{{ range .Endpoints }}{{ $all = printf "%s server %s %s weight %d" $all (identifier .Name) (hostPort .IP .Port) .Weight }}{{ end }}{{ adler32sum $all }}
{{ end }}`

func load(b *testing.B, file string) *template.Template {
	b.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		b.Fatal(err)
	}
	t, err := template.Load(path, template.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func write(b *testing.B, name, text string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func shipped() string { return filepath.Join("..", "..", "templates", "haproxy.cfg.tmpl") }

// BenchmarkRender renders the shipped HAProxy template: as text/template does,
// which is what others do on each event; all of it through our engine; and after
// one endpoint, or one in a hundred services, has changed.
func BenchmarkRender(b *testing.B) {
	shortFile := write(b, "short.tmpl", short)
	for _, n := range sizes {
		b.Run("plain/"+sizeName(n), func(b *testing.B) {
			t, cc := load(b, shipped()), newLive(b, generated(n)).config
			Rounds(b, func() {}, func() {
				if _, err := t.RenderPlain(cc, nil); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run("full/"+sizeName(n), func(b *testing.B) {
			cc := newLive(b, generated(n)).config
			var t *template.Template
			Rounds(b, func() { t = load(b, shipped()) }, func() {
				if _, err := t.Render(cc, nil); err != nil {
					b.Fatal(err)
				}
			})
		})
		for name, v := range map[string]struct {
			template string
			changes  int
		}{
			"one":             {shipped(), 1},
			"one-not-copying": {shortFile, 1},
			"percent":         {shipped(), len(generated(n).Services) / 100},
		} {
			b.Run(name+"/"+sizeName(n), func(b *testing.B) {
				t, l := load(b, v.template), newLive(b, generated(n))
				var last []byte
				render := func() {
					out, err := t.Render(l.config, nil)
					if err != nil {
						b.Fatal(err)
					}
					t.Recycle(last)
					last = out
				}
				for range 3 { // until all that is reused is there
					l.change(v.changes)
					render()
				}
				Rounds(b, func() { l.change(v.changes) }, render)
			})
		}
	}
}
