package courier_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

// Each reason has words of its own, and none of them is a name of the engine.
func TestReasonWords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "failure.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]courier.Reason)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		reason := courier.Reason(text)
		words := reason.Words()
		if strings.Contains(words, "_") || words == "" || words == text {
			t.Errorf("%s is said as %q", reason, words)
		}
		if other, twice := seen[words]; twice {
			t.Errorf("%s and %s are both said as %q", reason, other, words)
		}
		seen[words] = reason
		return true
	})
	if len(seen) < 25 {
		t.Errorf("%d reasons were found in failure.go", len(seen))
	}
	if words := courier.Reason("of_another_kind").Words(); words != "of another kind" {
		t.Errorf("an unknown reason is said as %q", words)
	}
}
