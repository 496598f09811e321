// Package arch holds the rules that the repository keeps about itself, and
// the checks that hold it to them: which package may import which, what a
// user's program links, what is documented, how long a file may be.
//
// The rules are data, in policy.go. They are a statement of policy: do not
// extend them to make a build pass. The checks read the source as text and
// syntax, for every operating system at once, and report what they find as
// file, line and what to do about it.
package arch

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Tree is the Go source of a repository. The directories testdata and
// vendor and those whose names begin with a dot or an underscore are no part
// of it, as for the go command. The directories of nested modules are.
type Tree struct {
	Module   string     // path of the module at the root
	Packages []*Package // in the order of their directories
	Broken   []Finding  // syntax errors; their files are missing from Packages

	fset *token.FileSet
}

// A Package is the Go files of one directory, whichever build they belong to.
type Package struct {
	Dir    string // slash-separated, relative to the root, which is "."
	Nested bool   // belongs to a module further down than the root
	Files  []*File
}

// A File is one parsed Go file.
type File struct {
	Path   string // slash-separated, relative to the root
	Test   bool   // its name ends in _test.go
	Source []byte
	Syntax *ast.File
}

// A Finding is a place where a rule is broken, and what to do there.
type Finding struct {
	File string
	Line int
	Text string
}

// String returns the finding in the form that editors and people can follow,
// "file:line: text".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Load reads the Go source below fsys, whose root holds the go.mod of the
// module. A file that does not parse is listed in Broken and is no error.
func Load(fsys fs.FS) (*Tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	t := &Tree{Module: modulePath(mod), fset: token.NewFileSet()}
	var nested []string
	byDir := map[string]*Package{}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil
		case err != nil:
			return err
		case d.IsDir() && ignored(name):
			return fs.SkipDir
		case d.Name() == "go.mod" && name != "go.mod":
			nested = append(nested, path.Dir(name))
			return nil
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		return t.add(fsys, name, byDir)
	})
	for _, p := range t.Packages {
		p.Nested = slices.ContainsFunc(nested, func(dir string) bool { return within(p.Dir, dir) })
	}
	slices.SortFunc(t.Packages, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return t, err
}

// add parses the file called name into its package.
func (t *Tree) add(fsys fs.FS, name string, byDir map[string]*Package) error {
	src, err := fs.ReadFile(fsys, name)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Broken = append(t.Broken, broken(name, err))
		return nil
	}
	dir := path.Dir(name)
	if byDir[dir] == nil {
		byDir[dir] = &Package{Dir: dir}
		t.Packages = append(t.Packages, byDir[dir])
	}
	byDir[dir].Files = append(byDir[dir].Files, &File{
		Path:   name,
		Test:   strings.HasSuffix(name, "_test.go"),
		Source: src,
		Syntax: syntax,
	})
	return nil
}

// broken returns the finding for a file whose parsing ended in err.
func broken(name string, err error) Finding {
	if list, ok := errors.AsType[scanner.ErrorList](err); ok && len(list) > 0 {
		return Finding{name, list[0].Pos.Line, "does not parse: " + list[0].Msg}
	}
	return Finding{name, 1, "does not parse: " + err.Error()}
}

// gone reports whether err says that a file vanished, which happens to a walk
// when somebody works in the tree meanwhile.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// ignored reports whether the go command passes over the directory dir.
func ignored(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
}

// within reports whether dir is parent or lies below it.
func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// modulePath returns the path in the module line of a go.mod file, or "".
func modulePath(mod []byte) string {
	for line := range bytes.Lines(mod) {
		if f := strings.Fields(string(line)); len(f) >= 2 && f[0] == "module" {
			return strings.Trim(f[1], `"`)
		}
	}
	return ""
}

// at returns the finding that text holds at pos.
func (t *Tree) at(pos token.Pos, format string, args ...any) Finding {
	p := t.fset.Position(pos)
	return Finding{p.Filename, p.Line, fmt.Sprintf(format, args...)}
}

// files yields every file of the tree with its package.
func (t *Tree) files(yield func(*Package, *File) bool) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !yield(p, f) {
				return
			}
		}
	}
}

// imports yields the import declarations of f with the paths they name.
func (f *File) imports(yield func(*ast.ImportSpec, string) bool) {
	for _, spec := range f.Syntax.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil && !yield(spec, name) {
			return
		}
	}
}
