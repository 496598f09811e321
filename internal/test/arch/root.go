package arch

import (
	"fmt"
	"go/ast"
	"go/token"
)

// Root returns what makes the root package too large to be the vocabulary of the
// others, and the packages that it imports, or these do, which know the module: every
// other package speaks in its words, and it must not speak in theirs.
func Root(t *Tree, rooms []Room) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		if p.Dir != "." {
			continue
		}
		files, names, values := 0, 0, 0
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			files++
			n, v := f.exported()
			names, values = names+n, values+v
		}
		at := p.Files[0].Syntax.Package
		for _, c := range []struct {
			what    string
			n, most int
		}{{"files", files, MaxRootFiles}, {"exported names", names, MaxRootNames}, {"exported values of types", values, MaxRootValues}} {
			if c.n > c.most {
				found = append(found, t.at(at, "the root package has %d %s, %d at most: move what users don't call to an internal package", c.n, c.what, c.most))
			}
		}
	}
	return append(found, below(t, rooms)...)
}

// exported counts the names that a file exports: types, functions, variables and
// constants, but for the constants of a named type, which are its values. Methods and
// fields are not counted.
func (f *File) exported() (names, values int) {
	for _, decl := range f.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				names++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						names++
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						switch {
						case !name.IsExported():
						case d.Tok == token.CONST && s.Type != nil:
							values++
						default:
							names++
						}
					}
				}
			}
		}
	}
	return names, values
}

// below returns the imports of the module that the root package may have and that
// lead, at last, back to it.
func below(t *Tree, rooms []Room) []Finding {
	var found []Finding
	seen := map[string]bool{".": true}
	var visit func(dir, by string)
	visit = func(dir, by string) {
		if covers(dir, ".") {
			found = append(found, Finding{File: "internal/test/arch/policy.go", Line: 1, Text: fmt.Sprintf(
				"%s may import the root package, which imports it: only what knows nothing of the module may be imported there", title(by))})
		}
		if seen[dir] {
			return
		}
		seen[dir] = true
		if room, ok := roomOf(dir, rooms); ok {
			for _, next := range room.Imports {
				visit(next, dir)
			}
		}
	}
	for _, r := range rooms {
		if r.Dir == "." {
			for _, dir := range r.Imports {
				visit(dir, r.Dir)
			}
		}
	}
	return found
}
