package arch

import (
	"go/ast"
	"go/token"
	"strings"
)

// Docs returns the packages and exported names that have no doc comment.
// Test files, struct fields and the methods of unexported types need none.
// In a group of constants or variables one comment on the group is enough,
// as is the comment of an interface for its only method.
func Docs(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		found = append(found, t.packageDoc(p)...)
	}
	for _, f := range t.files {
		if f.Test {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				found = append(found, t.funcDoc(d)...)
			case *ast.GenDecl:
				found = append(found, t.genDoc(d)...)
			}
		}
	}
	return found
}

// packageDoc returns a finding unless p has a package comment that begins the
// way the documentation shows it. A package of tests alone needs none.
func (t *Tree) packageDoc(p *Package) []Finding {
	var first *File
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		if first == nil {
			first = f
		}
		doc, name := f.Syntax.Doc.Text(), f.Syntax.Name.Name
		switch {
		case doc == "":
		case name != "main" && !strings.HasPrefix(doc, "Package "+name+" "):
			return []Finding{t.at(f.Syntax.Doc.Pos(), "the package comment begins otherwise than \"Package %s ...\": say in one sentence what the package is", name)}
		default:
			return nil
		}
	}
	if first == nil {
		return nil
	}
	return []Finding{t.at(first.Syntax.Package, "the package in %s has no package comment: say what it is for", p.Dir)}
}

// funcDoc returns a finding when d is part of the API and has no comment.
func (t *Tree) funcDoc(d *ast.FuncDecl) []Finding {
	name := d.Name.Name
	if d.Recv != nil {
		typ := receiver(d.Recv)
		if !ast.IsExported(typ) {
			return nil
		}
		name = typ + "." + name
	}
	if !d.Name.IsExported() || d.Doc.Text() != "" {
		return nil
	}
	return []Finding{t.undocumented(d.Name, name)}
}

// receiver returns the name of the type that a method belongs to.
func receiver(recv *ast.FieldList) string {
	expr := recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// genDoc returns the exported types, constants and variables that d declares
// without a comment.
func (t *Tree) genDoc(d *ast.GenDecl) []Finding {
	var found []Finding
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			// The comment of a group of types says nothing about each of them.
			if s.Name.IsExported() && s.Doc.Text() == "" && (d.Doc.Text() == "" || d.Lparen.IsValid()) {
				found = append(found, t.undocumented(s.Name, s.Name.Name))
			}
			found = append(found, t.methodDocs(s)...)
		case *ast.ValueSpec:
			if d.Doc.Text() != "" || s.Doc.Text() != "" || d.Tok == token.CONST && s.Comment.Text() != "" {
				continue
			}
			for _, name := range s.Names {
				if name.IsExported() {
					found = append(found, t.undocumented(name, name.Name))
				}
			}
		}
	}
	return found
}

// methodDocs returns the methods without a comment that an exported interface
// of several methods declares.
func (t *Tree) methodDocs(s *ast.TypeSpec) []Finding {
	i, ok := s.Type.(*ast.InterfaceType)
	if !ok || !s.Name.IsExported() || len(i.Methods.List) == 1 {
		return nil
	}
	var found []Finding
	for _, m := range i.Methods.List {
		for _, name := range m.Names {
			if name.IsExported() && m.Doc.Text() == "" && m.Comment.Text() == "" {
				found = append(found, t.undocumented(name, s.Name.Name+"."+name.Name))
			}
		}
	}
	return found
}

// undocumented returns the finding for a name that has no comment.
func (t *Tree) undocumented(id *ast.Ident, name string) Finding {
	return t.at(id.Pos(), "%s is exported and has no doc comment: say in a full sentence what holds for it", name)
}
