package steps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/hostile"
)

// TestCorpora fails if hostile input is taken away from the tests: the corpora
// have at least the sizes that were promised, and each package that takes such
// input runs its own.
func TestCorpora(t *testing.T) {
	for _, corpus := range []struct {
		what string
		min  int
		got  int
	}{
		{"names", 150, len(hostile.Names())},
		{"zip and tar archives", 40, elements(t, "file/hostile_test.go", "[]hostileArchive") + elements(t, "file/hostiletar_test.go", "[]hostileArchive")},
		{"zip archives", 20, elements(t, "file/hostile_test.go", "[]hostileArchive")},
		{"tar archives", 20, elements(t, "file/hostiletar_test.go", "[]hostileArchive")},
		{"trees that only names imply", 4, calls(t, "file/implied_test.go", "hostile.Trees") * len(hostile.Trees(1))},
		{"OpenPGP messages", 40, elements(t, "../internal/pgpstream/hostile_test.go", "[]hostileMessage")},
		{"FTP servers", 30, elements(t, "ftp/hostile_test.go", "map[string]lie")},
		{"SFTP servers", 30, elements(t, "sftp/hostile_test.go", "map[string]func(r sftpserver.Request) []byte") + elements(t, "sftp/hostile_test.go", "map[string]sftpserver.Script")},
		{"HTTP servers", 20, elements(t, "httpreq/hostile_test.go", "[]struct{name string; serve func(c net.Conn); permanent bool; want string}")},
	} {
		t.Logf("%d %s", corpus.got, corpus.what)
		if corpus.got < corpus.min {
			t.Errorf("there are %d hostile %s, at least %d were promised", corpus.got, corpus.what, corpus.min)
		}
	}
	names := hostile.Names()
	slices.Sort(names)
	if n := len(slices.Compact(names)); n < 150 {
		t.Errorf("only %d of the names differ", n)
	}
}

// elements counts the elements of the literals of a type in a test file.
func elements(t *testing.T, file, typ string) int {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	n := 0
	ast.Inspect(syntax, func(node ast.Node) bool {
		if lit, ok := node.(*ast.CompositeLit); ok && lit.Type != nil && types.ExprString(lit.Type) == typ {
			n += len(lit.Elts)
		}
		return true
	})
	return n
}

// calls counts the calls of a function in a test file.
func calls(t *testing.T, file, function string) int {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(file), nil, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	n := 0
	ast.Inspect(syntax, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && types.ExprString(call.Fun) == function {
			n++
		}
		return true
	})
	return n
}

// TestFuzzTargets fails if one of the fuzz targets that were promised is gone.
func TestFuzzTargets(t *testing.T) {
	for what, at := range map[string][2]string{
		"names of files":            {"../internal/safename", "FuzzCheck"},
		"patterns, local":           {"file", "FuzzPattern"},
		"patterns, remote":          {"sftp ../internal/remote", "FuzzPattern"}, // in one of the two
		"extraction of zip":         {"file", "FuzzUnzip"},
		"extraction of tar":         {"file", "FuzzUntar"},
		"lines of FTP listings":     {"../internal/ftpclient", "FuzzList"},
		"replies of FTP servers":    {"../internal/ftpclient", "FuzzReply"},
		"opening OpenPGP messages":  {"../internal/pgpstream", "FuzzDecrypt"},
		"responses of HTTP servers": {"../internal/safehttp", "FuzzResponse"},
		"downloads by HTTP":         {"httpreq", "FuzzServer"},
		"URLs":                      {"../internal/safehttp", "FuzzURL"},
	} {
		var files []string
		for _, dir := range strings.Fields(at[0]) {
			found, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			return err == nil && syntax.Scope.Lookup(at[1]) != nil
		}) {
			t.Errorf("%s: no %s in %s", what, at[1], at[0])
		}
	}
}
