package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Banned returns the imports of packages that bans name, in tests and nested
// modules too.
func Banned(t *Tree, bans []Ban) []Finding {
	var found []Finding
	for _, f := range t.files {
		for spec, name := range f.imports {
			for _, ban := range bans {
				if within(name, ban.Path) {
					found = append(found, t.at(spec.Pos(), "imports %s: %s", name, ban.Reason))
				}
			}
		}
	}
	return found
}

// Inits returns the init functions: what runs when a package is imported
// cannot be configured, ordered or tested.
func Inits(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.files {
		for _, decl := range f.Syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				found = append(found, t.at(d.Pos(), "declares init: do this in a constructor, or when it is first needed"))
			}
		}
	}
	return found
}

// Nouns returns the packages that have one of the names that say nothing.
func Nouns(t *Tree, names []string) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		f := p.Files[0]
		if name := strings.TrimSuffix(f.Syntax.Name.Name, "_test"); slices.Contains(names, name) || slices.Contains(names, path.Base(p.Dir)) {
			found = append(found, t.at(f.Syntax.Package, "package %s in %s: name the package after what it provides", name, p.Dir))
		}
	}
	return found
}

// Aliases returns the exported names that are made of another package's type:
// each thing has one name, in the package where it belongs.
func Aliases(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.files {
		if f.Test {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				if _, foreign := s.Type.(*ast.SelectorExpr); foreign && s.Assign.IsValid() && s.Name.IsExported() {
					found = append(found, t.at(s.Pos(), "%s is an alias of another package's type: use that type by its own name", s.Name.Name))
				}
			}
		}
	}
	return found
}

// environment lists the functions of package os that read the environment.
var environment = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}

// Environment returns the places where a package that users link reads the
// environment: a library is configured by its arguments.
func Environment(t *Tree, rooms []Room) []Finding {
	var found []Finding
	for p, f := range t.files {
		if room, ok := roomOf(p.Dir, rooms); p.Nested || f.Test || !ok || room.Outside {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(environment, sel.Sel.Name) {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" {
				found = append(found, t.at(sel.Pos(), "a library reads the environment with os.%s: take the value as an option", sel.Sel.Name))
			}
			return true
		})
	}
	return found
}

// skipping lists the methods of package testing that skip a test.
var skipping = []string{"Skip", "Skipf", "SkipNow"}

// Skips returns the places where a test skips: what it needs and does not find
// has to make it fail, or nobody knows what was tested.
func Skips(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.files {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(skipping, sel.Sel.Name) {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
				found = append(found, t.at(call.Pos(), "a test skips with %s: make it fail, and say what to install", sel.Sel.Name))
			}
			return true
		})
	}
	return found
}

// loose matches the words that promise work to come. They are put together
// here so that this file does not hold them.
var loose = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}, "|") + `)\b`)

// LooseEnds returns the lines of Go, Markdown and SQL files that put work off
// with a marker. Directories whose names begin with a dot are passed over.
func LooseEnds(fsys fs.FS) ([]Finding, error) {
	var found []Finding
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".md", ".sql"}, path.Ext(name)):
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil && !gone(err) {
			return err
		}
		n := 0
		for line := range bytes.Lines(src) {
			n++
			if word := loose.Find(line); word != nil {
				found = append(found, Finding{name, n, fmt.Sprintf("says %s: do it now, or write down elsewhere what is open", word)})
			}
		}
		return nil
	})
	return found, err
}

// facing are the directories whose packages compare what a client sends with what it should
// know.
var facing = []string{"httpapi", "dashboard", "webhook", "internal/desk", "depot"}

// secretName matches the names of what only some clients know.
var secretName = regexp.MustCompile(`(?i)(token|secret|password|passphrase|signature|hmac|cookie|bearer|nonce)$`)

// comparing lists the functions that compare byte by byte, up to the first difference.
var comparing = map[string]bool{"bytes.Equal": true, "bytes.Compare": true, "strings.Compare": true, "strings.EqualFold": true, "slices.Equal": true, "slices.Contains": true, "reflect.DeepEqual": true}

// SecretComparisons returns the places where a package that faces clients compares a secret
// in a time that says how much of it was right.
func SecretComparisons(t *Tree) []Finding {
	var found []Finding
	for p, f := range t.files {
		if f.Test || !slices.ContainsFunc(facing, func(dir string) bool { return within(p.Dir, dir) }) {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			var operands []ast.Expr
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					operands = []ast.Expr{n.X, n.Y}
				}
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && comparing[lastName(sel.X)+"."+sel.Sel.Name] {
					operands = n.Args
				}
			}
			if !slices.ContainsFunc(operands, func(x ast.Expr) bool { return isFixed(x) }) && slices.ContainsFunc(operands, func(x ast.Expr) bool { return secretName.MatchString(lastName(x)) }) {
				found = append(found, t.at(n.Pos(), "compares a secret up to the first difference: use hmac.Equal or subtle.ConstantTimeCompare, on hashes if the length is secret too"))
			}
			return true
		})
	}
	return found
}

// lastName is the name of a variable, a field or a called method; empty for anything else.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if strings.HasPrefix(x.Sel.Name, "Header") {
			return "" // the name of one
		}
		return x.Sel.Name
	case *ast.CallExpr:
		if len(x.Args) == 1 && secretName.MatchString(lastName(x.Args[0])) {
			return lastName(x.Args[0]) // a conversion
		}
		return lastName(x.Fun)
	}
	return ""
}

// isFixed reports whether an expression is a literal or nil: to look whether there is a secret
// at all says nothing about it.
func isFixed(x ast.Expr) bool {
	if id, ok := x.(*ast.Ident); ok {
		return id.Name == "nil"
	}
	_, ok := x.(*ast.BasicLit)
	return ok
}
