// Package cmd holds the programs. Its only code of its own is the test of the house rules, which walks the whole module.
package cmd

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/trunkline/trunkline"

// The limits of the house style, in lines.
const (
	maxFile     = 600
	maxFunction = 70
)

// rooms says what each part of the tree may import of ours. The longest prefix wins; a room may import itself.
var rooms = []struct {
	dir     string
	imports []string
}{
	{"connectors", []string{}},
	{"connectors/", []string{"connectors"}},
	{"log", []string{}},
	{"log/batch", []string{"log"}},
	{"log/vfs", []string{}},
	{"log/", []string{"log"}},
	{"pipeline/codec", []string{"connectors", "log"}},
	{"pipeline/spelling", []string{}},
	{"pipeline/registry", []string{"connectors", "log"}},
	{"pipeline/transform", []string{"connectors", "pipeline/spelling"}},
	{"pipeline/drain", []string{}},
	{"pipeline/pause", []string{"log"}},
	{"pipeline/trace", []string{"connectors"}},
	{"pipeline/ingest", []string{"connectors", "log", "pipeline/codec", "pipeline/drain", "pipeline/pause", "pipeline/trace"}},
	{"pipeline/deliver", []string{"connectors", "log", "pipeline/codec", "pipeline/drain", "pipeline/trace"}},
	{"pipeline", []string{"connectors", "log", "pipeline"}},
	{"cmd", []string{"connectors", "log", "pipeline", "cmd"}},
	{"examples", []string{"connectors", "log", "pipeline", "cmd"}},
}

var badNames = regexp.MustCompile(`^(util|utils|common|types|helper|helpers|manager|base|misc|shared)$`)

// source is one parsed Go file of the module.
type source struct {
	path string // slash-separated, relative to the module
	file *ast.File
	test bool
}

func parseModule(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	fset := token.NewFileSet()
	var files []source
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "data" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		files = append(files, source{filepath.ToSlash(rel), file, strings.HasSuffix(name, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found %d Go files, the walk is wrong", len(files))
	}
	return fset, files
}

func TestHouseRules(t *testing.T) {
	fset, files := parseModule(t)
	t.Run("rooms import only what they may", func(t *testing.T) { checkImports(t, files) })
	t.Run("packages are named for the domain and say what they promise", func(t *testing.T) { checkPackages(t, files) })
	t.Run("files and functions end in time", func(t *testing.T) { checkSizes(t, fset, files) })
	t.Run("nothing happens at import and no context is kept", func(t *testing.T) { checkCode(t, fset, files) })
	t.Run("every connector passes the conformance suite", func(t *testing.T) { checkConformance(t, files) })
	t.Run("git ignores no segment file", checkGitignore)
	t.Run("every direct dependency has a reason", checkDependencies)
}

// allowed returns the rule for a directory.
func allowed(dir string) (own string, imports []string, ok bool) {
	best := -1
	for _, r := range rooms {
		prefix := strings.TrimSuffix(r.dir, "/")
		inside := dir == prefix || strings.HasPrefix(dir, prefix+"/")
		if strings.HasSuffix(r.dir, "/") && dir == prefix {
			inside = false
		}
		if inside && len(r.dir) > best {
			best, own, imports, ok = len(r.dir), prefix, r.imports, true
		}
	}
	return own, imports, ok
}

func checkImports(t *testing.T, files []source) {
	for _, s := range files {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		_, may, known := allowed(dir)
		if !known {
			t.Errorf("%s: no rule for this folder", s.path)
			continue
		}
		for _, imp := range s.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if path == "log" {
				t.Errorf("%s: imports the standard log; take a *slog.Logger", s.path)
			}
			if !s.test && !strings.HasPrefix(dir, "cmd/") && sends(path) {
				t.Errorf("%s: only the program links %s; pipeline/trace is what makes spans", s.path, path)
			}
			ours, ok := strings.CutPrefix(path, module+"/")
			if ok && !mayImport(dir, ours, may, s.test) {
				t.Errorf("%s: %s may not import %s", s.path, dir, ours)
			}
		}
	}
}

// sends reports a module of OpenTelemetry that does more than name spans.
func sends(path string) bool {
	return strings.HasPrefix(path, "go.opentelemetry.io/otel/sdk") || strings.HasPrefix(path, "go.opentelemetry.io/otel/exporters/")
}

// mayImport applies the rules of the rooms: a connector sees the contract, the key store, folded batches, the content of
// files, rows made of documents, the settings of TLS, its own folder and, in tests, the conformance suite and servers to test against; a part of the log sees the log.
func mayImport(dir, ours string, may []string, test bool) bool {
	top := strings.Split(dir, "/")
	if len(top) > 1 && top[0] == "connectors" {
		own := "connectors/" + top[1]
		return ours == "connectors" || ours == "connectors/keystore" || ours == "connectors/fold" || ours == "connectors/secure" || ours == "connectors/rowfile" ||
			ours == "connectors/document" || ours == own || strings.HasPrefix(ours, own+"/") ||
			test && (strings.HasPrefix(ours, "connectors/conformance") || ours == "connectors/memory" || ours == "connectors/localprocess")
	}
	for _, m := range may {
		if ours == m || strings.HasPrefix(ours, m+"/") {
			return true
		}
	}
	// Tests of a room may use what stands behind its contract.
	return test && (strings.HasPrefix(ours, top[0]+"/") || top[0] == "pipeline")
}

func checkPackages(t *testing.T, files []source) {
	documented := map[string]bool{}
	for _, s := range files {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if badNames.MatchString(s.file.Name.Name) {
			t.Errorf("%s: package %s is named for nothing", s.path, s.file.Name.Name)
		}
		if _, ok := documented[dir]; !ok {
			documented[dir] = false
		}
		if s.file.Doc != nil && len(s.file.Doc.Text()) > 40 {
			documented[dir] = true
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment that says what it promises", dir)
		}
	}
}

func checkSizes(t *testing.T, fset *token.FileSet, files []source) {
	for _, s := range files {
		if s.test {
			continue
		}
		if n := fset.Position(s.file.FileEnd).Line; n > maxFile {
			t.Errorf("%s: %d lines, the end is %d", s.path, n, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunction {
				t.Errorf("%s: %s has %d lines, the end is %d", fset.Position(f.Pos()), f.Name.Name, n, maxFunction)
			}
		}
	}
}

func checkCode(t *testing.T, fset *token.FileSet, files []source) {
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: init()", fset.Position(n.Pos()))
				}
			case *ast.ImportSpec:
				if n.Name != nil && n.Name.Name == "_" && n.Path.Value != `"embed"` {
					t.Errorf("%s: import for its side effects", fset.Position(n.Pos()))
				}
			case *ast.StructType:
				for _, f := range n.Fields.List {
					if sel, ok := f.Type.(*ast.SelectorExpr); ok && !s.test && s.file.Name.Name != "conformance" && fmt.Sprint(sel.X) == "context" && sel.Sel.Name == "Context" {
						t.Errorf("%s: a context in a struct", fset.Position(f.Pos()))
					}
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Contains(strings.ToLower(n.Value), "failed"+" to") {
					t.Errorf("%s: an error says verb and noun", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// notConnectors are the rooms beside the connectors that connectors share.
var notConnectors = map[string]bool{"conformance": true, "document": true, "fold": true, "keystore": true, "localprocess": true, "rowfile": true, "secure": true}

func checkConformance(t *testing.T, files []source) {
	passes := map[string]bool{}
	for _, s := range files {
		parts := strings.Split(s.path, "/")
		if len(parts) != 3 || parts[0] != "connectors" || notConnectors[parts[1]] {
			continue
		}
		passes[parts[1]] = passes[parts[1]] || false
		for _, imp := range s.file.Imports {
			if s.test && strings.Trim(imp.Path.Value, `"`) == module+"/connectors/conformance" {
				passes[parts[1]] = true
			}
		}
	}
	for name, ok := range passes {
		if !ok {
			t.Errorf("connectors/%s: no test calls connectors/conformance", name)
		}
	}
}

func checkGitignore(t *testing.T) {
	text, err := os.ReadFile("../.gitignore")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch strings.TrimSpace(line) {
		case "log", "log/", "/log", "/log/", "*.log":
			t.Errorf(".gitignore: %q hides the log's package or its segments", strings.TrimSpace(line))
		}
	}
}

func checkDependencies(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile("../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	requirement := regexp.MustCompile(`^\s*(?:require )?([a-z0-9.]+/\S+|gopkg\.in/\S+) v\S+$`)
	for line := range strings.Lines(string(mod)) {
		m := requirement.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		if !strings.Contains(string(reasons), m[1]) && !strings.Contains(string(reasons), ", "+filepath.Base(m[1])) {
			t.Errorf("docs/dependencies.md: no reason for %s", m[1])
		}
	}
}
