package steps_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

var update = flag.Bool("update", false, "write docs/step-types.md")

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

// TestDocumentation holds docs/step-types.md against the types themselves; run
// it with -update after a change.
func TestDocumentation(t *testing.T) {
	reg, shown := registry(), examples(t)
	var b strings.Builder
	b.WriteString("# Step types\n\nGenerated from the code by `go test ./steps -run Documentation -update`. The markers `flow.if`, `flow.else`, `flow.foreach`, `flow.try`,\n" +
		"`flow.rescue` and `flow.end`, and how a configuration refers to outputs, params and secrets, are in [flow.md](flow.md).\n")
	for _, key := range reg.Keys() {
		typ, _ := reg.Lookup(key)
		if typ.Key() != key {
			fmt.Fprintf(&b, "\n## %s\n\nAnother name of `%s`.\n", key, typ.Key())
			continue
		}
		if typ.Doc() == "" {
			t.Errorf("%s has no documentation in its TypeOptions", key)
		}
		if typ.RepeatDoc() == "" {
			t.Errorf("%s does not say in its TypeOptions what a repetition does", key)
		}
		if (typ.CleanupDoc() != "") != typ.RollsBack() {
			t.Errorf("%s has a Cleanup or Rollback: %v; its TypeOptions say of that %q", key, typ.RollsBack(), typ.CleanupDoc())
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", key, sentence(typ.Doc()))
		fmt.Fprintf(&b, "\n| repetition | cleanup | timeout | without progress |\n|---|---|---|---|\n| %s | %s | %s | %s |\n",
			typ.RepeatDoc(), cmp.Or(typ.CleanupDoc(), "nothing to clean up"), duration(typ.Timeout()), duration(typ.Stall()))
		table(t, &b, key, "Configuration", typ.Config())
		fmt.Fprintf(&b, "\n```json\n{\"type\": %q, \"config\": %s}\n```\n", key, shown[key])
		table(t, &b, key, "Output", typ.Output())
	}
	path := filepath.Join("..", "docs", "step-types.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the types say (%v); run: go test ./steps -run Documentation -update", path, err)
	}
}

// duration is a limit in words.
func duration(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

func table(t *testing.T, b *strings.Builder, key, title string, s *courier.Schema) {
	t.Helper()
	if len(s.Properties) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | type | |\n|---|---|---|\n", strings.ToLower(title))
	rows(t, b, key+": the "+strings.ToLower(title), "", s)
}

// rows describes the fields of an object, and those of the objects in it, by their
// names with prefix before them.
func rows(t *testing.T, b *strings.Builder, where, prefix string, s *courier.Schema) {
	t.Helper()
	for _, p := range s.Properties {
		name := prefix + p.Name
		if p.Doc == "" {
			t.Errorf("%s: the field %s has no doc tag", where, name)
		}
		var more []string
		if p.Required {
			more = append(more, "required")
		}
		if p.Default != "" {
			more = append(more, "default `"+p.Default+"`")
		}
		if p.Alias != "" {
			more = append(more, "also `"+p.Alias+"`")
		}
		more = append(more, values(p.Schema)...)
		for _, g := range s.Groups {
			if slices.Contains(g.Fields, p.Name) {
				how := map[string]string{"one_of": "one", "any_of": "at least one", "at_most_one": "one at most"}[g.Kind]
				more = append(more, how+" of `"+strings.Join(g.Fields, "`, `")+"`")
			}
		}
		note := sentence(p.Doc)
		if len(more) > 0 {
			note = strings.TrimSpace(note + " (" + strings.Join(more, ", ") + ")")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, typeName(p.Schema), strings.ReplaceAll(note, "|", `\|`))
		if p.Schema.Type == "object" {
			rows(t, b, where, name+".", p.Schema)
		}
	}
}

// values describes what a field may be.
func values(s *courier.Schema) (all []string) {
	if s.Items != nil {
		s = s.Items
	}
	if len(s.Enum) > 0 {
		all = append(all, "one of `"+strings.Join(s.Enum, "`, `")+"`")
	}
	if s.Min != "" {
		all = append(all, "at least "+s.Min.String())
	}
	if s.Max != "" {
		all = append(all, "at most "+s.Max.String())
	}
	return all
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
	return map[string]string{"string": "text", "integer": "whole number", "boolean": "true or false"}[s.Type] + map[bool]string{true: s.Type}[s.Type == "number" || s.Type == "object"]
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
