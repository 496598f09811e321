package arch_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// A declared is what the packages of the repository declare, by the last element of their
// paths and by type.
type declared struct {
	packages map[string]map[string]bool
	members  map[string]map[string]bool // fields and methods; types of one name have those of all
}

func (d *declared) add(set map[string]map[string]bool, of, name string) {
	if set[of] == nil {
		set[of] = make(map[string]bool)
	}
	set[of][name] = true
}

// declaration takes what a declaration at the top of a file declares.
func (d *declared) declaration(pkg string, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			d.add(d.packages, pkg, decl.Name.Name)
			return
		}
		of := decl.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if generic, ok := of.(*ast.IndexExpr); ok {
			of = generic.X
		}
		if name, ok := of.(*ast.Ident); ok {
			d.add(d.members, name.Name, decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					d.add(d.packages, pkg, name.Name)
				}
			case *ast.TypeSpec:
				d.add(d.packages, pkg, spec.Name.Name)
				d.typeOf(spec.Name.Name, spec.Type)
			}
		}
	}
}

// typeOf takes the fields of a struct, and the methods of an interface.
func (d *declared) typeOf(name string, of ast.Expr) {
	d.add(d.members, name, "")
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			d.add(d.members, name, "embeds") // what that has is not followed
		}
		for _, n := range f.Names {
			d.add(d.members, name, n.Name)
		}
	}
}

// variables are those that pages take for given, by their types.
var variables = map[string]string{"job": "Context", "e": "Engine", "h": "Harness", "report": "Report"}

// missing returns the name in a path of names that is not declared; empty if all are, or if
// the path is of something else.
func (d *declared) missing(path []string) string {
	if of, ok := variables[path[0]]; ok {
		path = append([]string{of}, path[1:]...)
	}
	if names, ok := d.packages[path[0]]; ok && token.IsExported(path[1]) {
		if !names[path[1]] {
			return path[1]
		}
		path = path[1:]
	}
	for len(path) > 1 && token.IsExported(path[0]) && token.IsExported(path[1]) {
		of, ok := d.members[path[0]]
		switch {
		case !ok:
			return "" // a field, or a name of another system
		case !of[path[1]] && !of["embeds"]:
			return path[1]
		}
		path = path[1:]
	}
	return ""
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	dotted   = regexp.MustCompile(`^(?:&|\*|\[\])?((?:[A-Za-z]\w*\.)+[A-Z]\w*)(?:\(.*\))?$`)
)

// TestNames: what the text of the pages names as a function, a method, a field or a type is
// declared.
func TestNames(t *testing.T) {
	d := &declared{packages: make(map[string]map[string]bool), members: make(map[string]map[string]bool)}
	for _, p := range load(t).Packages {
		for _, f := range p.Files {
			if !f.Test {
				for _, decl := range f.Syntax.Decls {
					d.declaration(f.Syntax.Name.Name, decl)
				}
			}
		}
	}
	n := 0
	for page, text := range pages(t) {
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if name := dotted.FindStringSubmatch(m[1]); name != nil {
				n++
				if missing := d.missing(strings.Split(name[1], ".")); missing != "" {
					t.Errorf("%s names %s, and there is no %s", page, m[1], missing)
				}
			}
		}
	}
	if n < 300 {
		t.Errorf("the pages name %d things: is the text read?", n)
	}
}
