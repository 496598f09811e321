package steps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

func registry() *courier.Registry {
	reg := new(courier.Registry)
	registerAll(reg)
	return reg
}

func registerAll(reg *courier.Registry) {
	steps.Register(reg, &steps.Options{
		Connections: sftp.Map{}, FTPConnections: ftp.Map{}, Keys: new(pgp.Keyring),
		HTTP: new(httpreq.Options), Exec: new(exec.Options), Azure: new(azure.Options),
		Depot: new(couriertest.Depot),
	})
}

// TestRegisterAddsAllFamilies checks that each family is there, and without what it needs is
// not. Which types a family has is checked in its package.
func TestRegisterAddsAllFamilies(t *testing.T) {
	var families []string
	for _, key := range registry().Keys() {
		family, _, _ := strings.Cut(key, ".")
		families = append(families, family)
	}
	want := []string{"azure_function", "depot", "exec", "file", "ftp", "ftps", "http", "job", "pgp", "sftp"}
	if got := slices.Compact(families); !slices.Equal(got, want) {
		t.Errorf("families %v, want %v", got, want)
	}
	bare := new(courier.Registry)
	steps.Register(bare, nil)
	for _, key := range bare.Keys() {
		if !strings.HasPrefix(key, "file.") && key != "job.fail" {
			t.Errorf("%s is registered without what it needs", key)
		}
	}
}

// Every family holds all of its types against the contract for retries: its
// TestContract runs the cases and has steptest.Cover find the types without one.
func TestContracts(t *testing.T) {
	reg, families := registry(), make(map[string][]string)
	packages := map[string]string{"http": "httpreq", "azure_function": "azure", "depot": "../depot"}
	for _, key := range reg.Keys() {
		if typ, _ := reg.Lookup(key); typ.Key() != key {
			continue
		}
		family, _, _ := strings.Cut(key, ".")
		if name, ok := packages[family]; ok {
			family = name
		}
		families[family] = append(families[family], key)
	}
	for family, keys := range families {
		name := filepath.Join(family, "steptest_test.go")
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Errorf("%v have no test of the contract: %v", keys, err)
			continue
		}
		calls := make(map[string]bool)
		for _, decl := range syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); !ok || f.Name.Name != "TestContract" {
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					calls[types.ExprString(call.Fun)] = true
				}
				return true
			})
		}
		if !calls["steptest.Run"] || !calls["steptest.Cover"] {
			t.Errorf("%s: TestContract does not call steptest.Run and steptest.Cover for %v", name, keys)
		}
	}
}

// TestFixedValues: a text that has a default, or whose documentation begins with
// its values, has them in its schema, where Define checks them, and each number has
// a lower bound there.
func TestFixedValues(t *testing.T) {
	listed := regexp.MustCompile(`(^|: )[A-Za-z0-9_.]+(, [A-Za-z0-9_.]+)*,? or [A-Za-z0-9_.]+($|[;:,.])`)
	reg := registry()
	var look func(where string, s *courier.Schema)
	look = func(where string, s *courier.Schema) {
		for _, p := range s.Properties {
			one, name := p.Schema, where+"."+p.Name
			for one.Items != nil {
				one = one.Items
			}
			look(name, one)
			switch one.Type {
			case "integer", "number":
				if one.Min == "" {
					t.Errorf("%s has no tag min", name)
				}
			case "string", "":
				if one.Kind == "" && len(one.Enum) == 0 && (p.Default != "" || listed.MatchString(p.Doc)) {
					t.Errorf("%s has no tag enum; default %q, %s", name, p.Default, p.Doc)
				}
			}
		}
	}
	for _, key := range reg.Keys() {
		typ, _ := reg.Lookup(key)
		look(key, typ.Config())
	}
}

// TestNamedTypesHaveFixedValues: a field of a configuration whose type is a text of
// its own, as enumerations are, has the tag enum.
func TestNamedTypesHaveFixedValues(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	texts, fields := make(map[string]bool), make(map[string][]*ast.Field) // by package and type
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		in := func(x ast.Expr) string { return syntax.Name.Name + "." + types.ExprString(x) }
		ast.Inspect(syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			switch typ := spec.Type.(type) {
			case *ast.Ident:
				texts[in(spec.Name)] = typ.Name == "string"
			case *ast.StructType:
				for _, f := range typ.Fields.List {
					if strings.HasSuffix(spec.Name.Name, "Config") {
						fields[in(f.Type)] = append(fields[in(f.Type)], f)
					}
				}
			}
			return true
		})
	}
	found := 0
	for typ, list := range fields {
		for _, f := range list {
			if !texts[typ] || f.Tag == nil {
				continue
			}
			found++
			if !strings.Contains(f.Tag.Value, `enum:"`) {
				t.Errorf("%s of type %s has no tag enum: %s", f.Names[0], typ, f.Tag.Value)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d fields with a text type of their own were found", found)
	}
}

// sentence leaves out the full stop, which some texts have.
func sentence(s string) string { return strings.TrimSuffix(strings.TrimSpace(s), ".") }

func typeName(s *courier.Schema) string {
	switch {
	case s.Type == "array" && s.Items != nil && s.Items.Type == "object":
		return "list of objects: " + strings.Join(s.Items.Names(), ", ")
	case s.Type == "array" && s.Items != nil:
		return "list of " + typeName(s.Items)
	case s.Kind != "":
		return map[string]string{"path": "path", "pattern": "pattern", "url": "URL"}[s.Kind]
	case s.Type == "":
		return "text" // enumerations have an unmarshaler of their own
	}
	return map[string]string{"string": "text", "integer": "integer", "boolean": "boolean"}[s.Type] + map[bool]string{true: s.Type}[s.Type == "number" || s.Type == "object"]
}

// TestConnectionsAreNotOverridden: who may write a job names a connection, and
// has no say in where it leads or who logs in. Otherwise its password could be had
// by pointing it at another host.
func TestConnectionsAreNotOverridden(t *testing.T) {
	reg := registry()
	found := 0
	for _, key := range reg.Keys() {
		typ, _ := reg.Lookup(key)
		byID := func(p courier.Property) bool { return p.Name == "connection_id" }
		if !slices.ContainsFunc(typ.Config().Properties, byID) {
			continue
		}
		found++
		for _, p := range typ.Config().Properties {
			for _, word := range []string{"host", "port", "user", "url", "address", "password", "secret", "private", "certificate", "proxy", "jump", "insecure", "master", "function_key"} {
				if strings.Contains(p.Name, word) {
					t.Errorf("%s: %s may not be set by a job; it belongs to the connection", key, p.Name)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d types have a connection_id", found)
	}
}
