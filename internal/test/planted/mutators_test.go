package planted

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// A mutant is one small change of a file.
type mutant struct {
	file     string // relative to the root of the module
	line     int    // of the change, from 1
	column   int    // in bytes, from 1
	kind     string // the mutator
	from, to int    // the range of bytes that new replaces
	old, new string
}

// String says where the change is and what it is.
func (m mutant) String() string {
	text := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > 60 {
			s = s[:60] + " ..."
		}
		return s
	}
	s := fmt.Sprintf("%s:%d: %s: %s", m.file, m.line, m.kind, text(m.old))
	if m.kind != "remove" {
		s += " -> " + text(m.new)
	}
	return s
}

// apply returns the text of the file with the change.
func (m mutant) apply(src string) string { return src[:m.from] + m.new + src[m.to:] }

// swapped has the operators that boundary and logic exchange.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
}

// mutantsOf returns the mutants of a file, by position. info tells which values
// are errors. The mutators are:
//
//	negate    the condition of an if, or of a case without a tag
//	boundary  < for <=, > for >=, and the reverse
//	logic     && for ||, and the reverse
//	remove    a statement: a call, an assignment, a defer, ++ or --
//	error     an error that is returned is ignored
//	constant  an integer literal is one more
func mutantsOf(fset *token.FileSet, name string, f *ast.File, src string, info *types.Info) []mutant {
	c := &collector{fset: fset, file: name, src: src, info: info}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			ast.Inspect(fn.Body, c.visit)
		}
	}
	slices.SortStableFunc(c.list, func(a, b mutant) int { return cmp.Compare(a.from, b.from) })
	return c.list
}

// A collector collects the mutants of one file.
type collector struct {
	fset *token.FileSet
	file string
	src  string
	info *types.Info
	list []mutant
}

// add adds a mutant that replaces the text between two positions by new, in which
// %s stands for the old text.
func (c *collector) add(kind string, from, to token.Pos, new string) {
	p, end := c.fset.Position(from), c.fset.Position(to)
	old := c.src[p.Offset:end.Offset]
	c.list = append(c.list, mutant{
		file: c.file, line: p.Line, column: p.Column, kind: kind, from: p.Offset, to: end.Offset,
		old: old, new: strings.ReplaceAll(new, "%s", old),
	})
}

func (c *collector) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		c.remove(n.List)
	case *ast.CommClause:
		c.remove(n.Body)
	case *ast.CaseClause:
		c.remove(n.Body)
	case *ast.SwitchStmt:
		if n.Tag != nil {
			break
		}
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List {
				c.add("negate", e.Pos(), e.End(), "!(%s)")
			}
		}
	case *ast.IfStmt:
		c.add("negate", n.Cond.Pos(), n.Cond.End(), "!(%s)")
		if returnsError(n, c.info) {
			c.add("error", n.Cond.Pos(), n.Cond.End(), "(%s) && false")
		}
	case *ast.BinaryExpr:
		if other, ok := swapped[n.Op]; ok {
			kind := "boundary"
			if n.Op == token.LAND || n.Op == token.LOR {
				kind = "logic"
			}
			c.add(kind, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			c.add("constant", n.Pos(), n.End(), "(%s + 1)")
		}
	}
	return true
}

// remove adds the mutants that lack one of the statements.
func (c *collector) remove(body []ast.Stmt) {
	for _, s := range body {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.DeferStmt, *ast.IncDecStmt:
		default:
			continue
		}
		c.add("remove", s.Pos(), s.End(), "")
	}
}

// returnsError reports whether an if compares an error with nil, and ends with a
// return.
func returnsError(n *ast.IfStmt, info *types.Info) bool {
	c, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || c.Op != token.NEQ || len(n.Body.List) == 0 {
		return false
	}
	_, returns := n.Body.List[len(n.Body.List)-1].(*ast.ReturnStmt)
	t := info.TypeOf(c.X)
	return returns && t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// TestMutators compares the mutants of a text with those that it must have, and
// requires that each of them compiles.
func TestMutators(t *testing.T) {
	const src = `package p

import "errors"

var errOdd = errors.New("odd")

func f(a, b int) (n int, err error) {
	defer g()
	if err = g(); err != nil {
		return 0, err
	}
	switch {
	case a < b && b > 7:
		n = a
	}
	for range 3 {
		n++
	}
	return n, err
}

func g() error { return nil }
`
	want := []string{
		"p.go:8: remove: defer g()",
		"p.go:9: negate: err != nil -> !(err != nil)",
		"p.go:9: error: err != nil -> (err != nil) && false",
		"p.go:10: constant: 0 -> (0 + 1)",
		"p.go:13: negate: a < b && b > 7 -> !(a < b && b > 7)",
		"p.go:13: boundary: < -> <=",
		"p.go:13: logic: && -> ||",
		"p.go:13: boundary: > -> >=",
		"p.go:13: constant: 7 -> (7 + 1)",
		"p.go:14: remove: n = a",
		"p.go:16: constant: 3 -> (3 + 1)",
		"p.go:17: remove: n++",
	}
	list, check := mutantsOfText(t, src)
	var got []string
	for _, m := range list {
		got = append(got, m.String())
		if changed := m.apply(src); changed == src {
			t.Errorf("%v changes nothing", m)
		} else if err := check(changed); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("mutants\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// mutantsOfText returns the mutants of a package of one file that imports the
// package errors at most, and a function that compiles another text of it.
func mutantsOfText(t *testing.T, src string) ([]mutant, func(src string) error) {
	t.Helper()
	fset := token.NewFileSet()
	parse := func(src string) (*ast.File, *types.Info, error) {
		f, err := parser.ParseFile(fset, "p.go", src, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
		_, err = (&types.Config{Importer: exports(t, module(t), "errors")}).Check("p", fset, []*ast.File{f}, info)
		return f, info, err
	}
	f, info, err := parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return mutantsOf(fset, "p.go", f, src, info), func(src string) error {
		_, _, err := parse(src)
		return err
	}
}
