// Package internal_test: the folder has no code of its own; this test keeps the rules that no compiler keeps.
package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lb-render/lb-render/"

// mayImport is what each package may import of ours. The direction is that of
// the data; a package that is not here is one that somebody has to think about.
var mayImport = map[string][]string{
	"internal/config":   {"internal/types"},
	"internal/types":    {},                 // the model depends on nothing
	"internal/watcher":  {"internal/types"}, // not on manifest: it cannot tell it from an API server
	"internal/manifest": {},
	"internal/template": {"internal/types"},
	"internal/output":   {"internal/command"}, // not on types: it writes bytes, whatever they mean
	"internal/command":  {},
	"internal/ipvs":     {},                                                                             // a table and a file: it knows nothing of clusters and outputs
	"internal/agent":    {"internal/types", "internal/watcher", "internal/template", "internal/output"}, // config reaches it as a function
	"cmd/lb-render":     {"internal/config", "internal/types", "internal/watcher", "internal/manifest", "internal/template", "internal/output", "internal/agent", "internal/ipvs"},
	"examples":          {},
	"systemd":           {},
}

// only says who alone may import a package, and why.
var only = []struct {
	prefix string
	users  []string
	why    string
}{
	{"k8s.io/client-go", []string{"internal/watcher", "internal/manifest"}, "the cluster has one way in"},
	{"text/template", []string{"internal/template"}, "what templates may do is decided in one place"},
	{"html/template", nil, "we do not write HTML"},
	{"github.com/Masterminds/sprig", []string{"internal/template"}, "its functions are vetted there"},
	{"github.com/cloudflare/ipvs", []string{"internal/ipvs"}, "the kernel's table has one way in"},
	{"github.com/mdlayher", []string{"internal/ipvs"}, "netlink is for IPVS only"},
	{"os/exec", []string{"internal/command"}, "process groups, timeouts and pipes are hard enough once"},
	{"log", nil, "log/slog, injected"},
}

// TestImports keeps the direction of dependencies.
func TestImports(t *testing.T) {
	eachFile(t, func(pkg, path string, f *ast.File) {
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("%s: the package is not in mayImport; what may it import?", pkg)
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, ok := strings.CutPrefix(name, module); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s; it may import %v", path, ours, allowed)
			}
			for _, o := range only {
				if (name == o.prefix || strings.HasPrefix(name, o.prefix+"/")) && name != "log/slog" && !slices.Contains(o.users, pkg) {
					t.Errorf("%s imports %s, which only %v may: %s", path, name, o.users, o.why)
				}
			}
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function: dependencies come through constructors", path)
			}
		}
	})
}

// TestPackageComments: each package says what it is for, once.
func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	eachFile(t, func(pkg, path string, f *ast.File) {
		if _, ok := comments[pkg]; !ok {
			comments[pkg] = nil
		}
		if f.Doc != nil {
			comments[pkg] = append(comments[pkg], path)
		}
	})
	for pkg, files := range comments {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments, want 1: %v", pkg, len(files), files)
		}
	}
}

// eachFile calls do for every Go file of the product that is no test.
func eachFile(t *testing.T, do func(pkg, path string, f *ast.File)) {
	t.Helper()
	n := 0
	for _, top := range []string{"cmd", "internal", "examples", "systemd"} {
		err := fs.WalkDir(os.DirFS(".."), top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", path), nil, parser.ParseComments)
			if err != nil {
				return err
			}
			n++
			do(filepath.ToSlash(filepath.Dir(path)), path, f)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 20 {
		t.Fatalf("only %d files were looked at", n)
	}
}
