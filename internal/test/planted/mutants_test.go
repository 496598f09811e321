package planted

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	mutate = flag.String("mutate", "", "the packages that TestMutants changes, as ./flow,./webhook")
	amount = flag.Int("mutants", 30, "how many mutants of each package are tried")
	seed   = flag.Uint64("seed", 1, "which mutants are tried")
	with   = flag.String("with", "", "arguments of go test; without a package the tests of the changed one are run")
)

// TestMutants changes packages at random places, one at a time, and counts how
// many of the changes the tests find. It logs each change with the test that has
// found it or with "missed", and a row of a table for each package. A change that
// no test executes is missed, and not tried. A test that hangs has found the
// change.
//
// Without -mutate it takes a module of a few lines, of which it knows what is
// found and what isn't.
func TestMutants(t *testing.T) {
	if *mutate == "" {
		testKnownMutants(t)
		return
	}
	t.Log("| package | changes | tried | found | score |")
	for dir := range strings.SplitSeq(*mutate, ",") {
		s := newScore(t, module(t), dir, strings.Fields(*with))
		s.run(*amount, *seed)
		t.Logf("| `%s` | %d | %d | %d | %d %% |", strings.TrimPrefix(dir, "./"), len(s.all), s.tried, s.found, 100*s.found/max(1, s.tried))
	}
}

func testKnownMutants(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"m.go": "package m\n\nfunc Larger(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n\n" +
			"func Unused(n *int) {\n\t*n = 7\n}\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestLarger(t *testing.T) {\n\tif Larger(1, 2) != 2 || Larger(2, 1) != 2 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newScore(t, root, ".", nil)
	s.run(10, 1)
	missed := strings.Join(s.missed, "\n")
	if s.tried != 4 || s.found != 1 || strings.Contains(missed, "negate") || !strings.Contains(missed, "m.go:4: boundary: > -> >=, survived") ||
		!strings.Contains(missed, "m.go:11: remove: *n = 7, not executed") || !strings.Contains(missed, "m.go:11: constant: 7 -> (7 + 1), not executed") {
		t.Errorf("%d tried, %d found; missed:\n%s", s.tried, s.found, missed)
	}
}

// A score is what the tests find of the changes of one package.
type score struct {
	t       *testing.T
	root    string
	args    []string // of go test
	path    string   // of the package
	fset    *token.FileSet
	files   []*ast.File
	texts   map[string]string // of the files, by name relative to root
	imports types.Importer
	all     []mutant

	tried, found int
	missed       []string
}

// newScore reads the package in a directory of the module at root. Its tests are
// what the arguments of go test choose.
func newScore(t *testing.T, root, dir string, args []string) *score {
	t.Helper()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{dir}, args...)
	}
	s := &score{t: t, root: root, args: args, fset: token.NewFileSet(), texts: make(map[string]string), imports: exports(t, root, dir)}
	var p struct {
		ImportPath string
		GoFiles    []string
	}
	if err := json.Unmarshal(goList(t, root, "-json=ImportPath,GoFiles", dir), &p); err != nil {
		t.Fatal(err)
	}
	s.path = p.ImportPath
	for _, name := range p.GoFiles {
		name = filepath.ToSlash(filepath.Join(dir, name))
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(s.fset, name, raw, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files, s.texts[name] = append(s.files, f), string(raw)
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
	if _, err := (&types.Config{Importer: s.imports}).Check(s.path, s.fset, s.files, info); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.files {
		name := s.fset.File(f.FileStart).Name()
		s.all = append(s.all, mutantsOf(s.fset, name, f, s.texts[name], info)...)
	}
	return s
}

// run tries n of the changes that compile.
func (s *score) run(n int, seed uint64) {
	s.t.Helper()
	profile := filepath.Join(s.t.TempDir(), "cover")
	base := goTest(s.t.Context(), s.root, "", append([]string{"-count=1", "-timeout=10m", "-coverprofile=" + profile, "-coverpkg=" + s.path}, s.args...))
	if base.verdict != passed {
		s.t.Fatalf("without any change, go test %s %s:\n%s", strings.Join(s.args, " "), base.verdict, base.output)
	}
	executed, err := covered(profile, s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	timeout := fmt.Sprintf("-timeout=%v", max(time.Minute, 3*base.took.Round(time.Second)))
	r := rand.New(rand.NewPCG(seed, 0))
	for _, i := range r.Perm(len(s.all)) {
		m := s.all[i]
		if s.tried == n {
			break
		}
		if !s.compiles(m) {
			continue
		}
		s.tried++
		if !executed(m) {
			s.miss(m, "not executed")
			continue
		}
		overlay, err := writeOverlay(s.t.TempDir(), s.root, map[string]string{m.file: m.apply(s.texts[m.file])})
		if err != nil {
			s.t.Fatal(err)
		}
		got := goTest(s.t.Context(), s.root, overlay, append(append([]string{"-failfast"}, s.args...), timeout))
		switch got.verdict {
		case failed, hung:
			s.found++
			s.t.Logf("%v, found by %s", m, strings.Join(got.failed, ", "))
		case passed:
			s.miss(m, "survived")
		default:
			s.t.Errorf("%v: %s\n%s", m, got.verdict, got.output)
		}
	}
}

// miss notes a change that the tests have not found.
func (s *score) miss(m mutant, why string) {
	s.missed = append(s.missed, m.String()+", "+why)
	s.t.Logf("%v, missed: %s", m, why)
}

// compiles reports whether the package compiles with a change.
func (s *score) compiles(m mutant) bool {
	f, err := parser.ParseFile(s.fset, m.file, m.apply(s.texts[m.file]), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	files := []*ast.File{f}
	for _, other := range s.files {
		if s.fset.File(other.FileStart).Name() != m.file {
			files = append(files, other)
		}
	}
	_, err = (&types.Config{Importer: s.imports}).Check(s.path, s.fset, files, nil)
	return err == nil
}

// covered reads the coverage profile of a package. What it returns reports
// whether the place of a mutant was executed. Of places that belong to no block
// of the profile, as the conditions of cases, it is taken to be so.
func covered(profile, path string) (func(mutant) bool, error) {
	type block struct{ fromLine, fromColumn, toLine, toColumn, statements, count int }
	raw, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	blocks := make(map[string][]block)
	for line := range strings.Lines(string(raw)) {
		file, rest, ok := strings.Cut(line, ":")
		if !ok || file == "mode" {
			continue
		}
		var b block
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn, &b.statements, &b.count); err != nil {
			return nil, fmt.Errorf("the profile has %q: %w", line, err)
		}
		if name, ok := strings.CutPrefix(file, path+"/"); ok {
			blocks[name] = append(blocks[name], b)
		}
	}
	return func(m mutant) bool {
		within, most := false, 0
		for _, b := range blocks[filepath.Base(m.file)] {
			after := m.line > b.fromLine || m.line == b.fromLine && m.column >= b.fromColumn
			before := m.line < b.toLine || m.line == b.toLine && m.column < b.toColumn
			if after && before {
				within, most = true, max(most, b.count)
			}
		}
		return !within || most > 0
	}, nil
}

// exports returns an importer of what the go command has compiled for packages.
func exports(t *testing.T, root string, packages ...string) types.Importer {
	t.Helper()
	files := make(map[string]string)
	for line := range strings.Lines(string(goList(t, root, append([]string{"-export", "-deps", "-f={{.ImportPath}} {{.Export}}"}, packages...)...))) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("package %s is not compiled", path)
		}
		return os.Open(files[path])
	})
}

// goList runs go list in the directory root.
func goList(t *testing.T, root string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if bad, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("go list %s: %s", strings.Join(args, " "), bytes.TrimSpace(bad.Stderr))
	} else if err != nil {
		t.Fatal(err)
	}
	return out
}
