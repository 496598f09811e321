package planted

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A compiler checks the types of packages in which files were changed.
type compiler struct {
	fset    *token.FileSet
	imports types.Importer
	files   map[string][]string // names relative to the module, by directory
	texts   map[string]string   // of the files, as they are
}

// newCompiler reads the packages that bugs change.
func newCompiler(t *testing.T, root string, list []*bug) *compiler {
	t.Helper()
	dirs := make(map[string]bool)
	for _, b := range list {
		for _, e := range b.edits {
			if path.Ext(e.file) == ".go" {
				dirs["./"+path.Dir(e.file)] = true
			}
		}
	}
	packages := slices.Sorted(maps.Keys(dirs))
	c := &compiler{fset: token.NewFileSet(), imports: exports(t, root, packages...), files: make(map[string][]string), texts: make(map[string]string)}
	in := json.NewDecoder(strings.NewReader(string(goList(t, root, append([]string{"-json=Dir,GoFiles"}, packages...)...))))
	for {
		var p struct {
			Dir     string
			GoFiles []string
		}
		if err := in.Decode(&p); err == io.EOF {
			return c
		} else if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.GoFiles {
			raw, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			dir, err := filepath.Rel(root, p.Dir)
			if err != nil {
				t.Fatal(err)
			}
			dir = filepath.ToSlash(dir)
			file := path.Join(dir, name)
			c.files[dir], c.texts[file] = append(c.files[dir], file), string(raw)
		}
	}
}

// compile checks each package in which a file has another text.
func (c *compiler) compile(changed map[string]string) error {
	dirs := make(map[string]bool)
	for file := range changed {
		if path.Ext(file) == ".go" {
			dirs[path.Dir(file)] = true
		}
	}
	for dir := range dirs {
		var files []*ast.File
		for _, name := range c.files[dir] {
			text, ok := changed[name]
			if !ok {
				text = c.texts[name]
			}
			f, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		if len(files) == 0 {
			return errors.New(dir + " has no files for this system")
		}
		if _, err := (&types.Config{Importer: c.imports}).Check(dir, c.fset, files, nil); err != nil {
			return err
		}
	}
	return nil
}
