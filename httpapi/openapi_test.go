package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store/memstore"
)

var update = flag.Bool("update", false, "write httpapi/testdata/openapi.json and the reference in docs/http-reference.md")

// TestDocument compares the OpenAPI document with the one in the repository, which shows
// each change of the API to its reviewers. It is made anew with -update.
func TestDocument(t *testing.T) {
	var got bytes.Buffer
	if err := json.Indent(&got, httpapi.Document(), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	const file = "testdata/openapi.json"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is not what the routes say (%v); run: go test ./httpapi -run 'TestDocument|TestReference' -update", file, err)
	}
	for range 20 {
		if again := httpapi.Document(); !bytes.Equal(again, httpapi.Document()) {
			t.Fatal("the document is another one each time")
		}
	}
}

// The document is served with an entity tag, and all its references lead somewhere.
func TestDocumentServed(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	a := w.get("v1/openapi.json").want(200, nil)
	w.get("v1/openapi.json", "If-None-Match", a.Header().Get("ETag")).want(304, nil)
	if !bytes.Equal(bytes.TrimSpace(a.Body.Bytes()), httpapi.Document()) || !bytes.Equal(a.Body.Bytes(), w.api.OpenAPI()) {
		t.Error("it is another document")
	}
	doc, err := jsontext.Parse(a.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	v := newValidator(doc)
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, y := range x {
				walk(y)
			}
		case map[string]any:
			if ref, ok := x["$ref"].(string); ok {
				if _, err := v.Resolve(ref); err != nil {
					t.Error(err)
				}
			}
			for _, y := range x {
				walk(y)
			}
		}
	}
	walk(doc)
}

// The document lets the name in a body be left out where the path has it, as the service
// does, and nowhere else.
func TestNameInPath(t *testing.T) {
	v := document()
	for kind, body := range map[string]string{
		"job": `{"steps": [{"type": "test.work"}]}`, "chain": `{"members": [{"job": "report"}]}`, "schedule": `{"job": "report"}`, "monitor": `{"path": "/in"}`,
		"subscription": `{"kind": "func", "events": ["JobFailed"]}`,
	} {
		for route, leaveOut := range map[[2]string]bool{{"PUT", "/v1/" + kind + "s/{name}"}: true, {"POST", "/v1/check/" + kind}: false} {
			o, _ := v.operation(route[0], route[1])
			content := o["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)
			for text, want := range map[string]bool{body: leaveOut, strings.Replace(body, "{", `{"name": "x", `, 1): true} {
				sent, err := jsontext.Parse([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				if err := v.check(content["schema"], sent); (err == nil) != want {
					t.Errorf("%s %s: %v", route, text, err)
				}
			}
		}
	}
}

// Null and the zero values of fields, which clients send for what they do not give, are
// accepted, and the document permits them.
func TestZeroValues(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.receive()
	for path, body := range map[string]string{
		"v1/jobs/zero": `{"queue": "", "limit": 0, "limit_keys": [], "result": "", "timeout_seconds": 0, "max_duration_seconds": 0, "expected_by": "", "outputs": [],
			"failure_policy": {"type": "", "max_retries": null, "backoff_base_seconds": null, "backoff_max_seconds": null, "jitter": null, "retry_on": [], "no_retry_on": []},
			"depends_on": ["inbox", {"job": "report", "required_status": "", "on_unmet": "", "run_on_failure": false}],
			"steps": [{"type": "test.work", "id": "", "name": "", "timeout_seconds": null, "stall_timeout_seconds": null, "allow_parent": false, "config": {}}]}`,
		"v1/chains/zero": `{"description": "", "params": {}, "members": [{"job": "report", "name": "", "version": 0, "priority": 0, "params": {}, "depends_on": []},
			{"job": "report", "name": "second", "depends_on": [{"member": "report", "required_status": ""}]}]}`,
		"v1/schedules/zero": `{"job": "report", "chain": "", "cron": "", "every_seconds": 60, "time_zone": "", "overlap": "", "misfire": "", "window_seconds": 0, "jitter_seconds": 0, "pause_after": 0}`,
		"v1/schedules/cron": `{"job": "report", "every_seconds": 0, "cron": "0 0 3 * * ?"}`,
		"v1/monitors/zero": `{"path": "/in", "lister": "shelf", "connection_id": "", "job": "inbox", "chain": "", "patterns": [], "events": [], "every_seconds": 0, "stable_seconds": 0,
			"done_file": "", "max_failures": 0}`,
		"v1/subscriptions/zero": `{"kind": "job", "events": ["JobFailed"], "jobs": ["report"], "chains": [], "func": "", "webhook": null, "email": null,
			"job": {"name": "inbox", "priority": 0}, "window_seconds": null}`,
	} {
		w.put(path, body, "If-None-Match", "*").want(http.StatusCreated, nil)
	}
}

// Operations have distinct names, and parts that readers need.
func TestOperations(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range httpapi.Table() {
		if r.ID == "" || ids[r.ID] {
			t.Errorf("%s %s: the id %q is empty, or that of another route", r.Method, r.Path, r.ID)
		}
		ids[r.ID] = true
	}
}

// Each type with MarshalJSON that is in a body has a form.
func TestForms(t *testing.T) {
	for _, typ := range httpapi.BodyTypes() {
		_, missing := httpapi.SchemaOf(typ)
		for _, name := range missing {
			t.Errorf("%s in %s has MarshalJSON: add a row to forms in httpapi/forms.go that says how its JSON differs from its fields, or an empty one", name, typ)
		}
	}
}

// The words of enums are the constants of their types.
func TestEnums(t *testing.T) {
	found := map[string][]string{} // by import path and name
	for _, dir := range []string{".", "engine", "engine/dryrun", "expectation", "monitor", "notify", "schedule", "chain", "store", "flow"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range f.Decls {
				if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST && !strings.HasSuffix(name, "_test.go") {
					constants(found, f.Name.Name, g)
				}
			}
		}
	}
	for typ, words := range httpapi.Enums() {
		want := found[typ.String()]
		if got := slices.Sorted(slices.Values(words)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("enums in httpapi/forms.go has %q for %s, whose constants are %q", words, typ, want)
		}
	}
}

// constants adds the texts of typed constants to found.
func constants(found map[string][]string, pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		c := spec.(*ast.ValueSpec)
		typ, ok := c.Type.(*ast.Ident)
		if !ok || len(c.Values) != 1 {
			continue
		}
		if lit, ok := c.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			found[pkg+"."+typ.Name] = append(found[pkg+"."+typ.Name], text)
		}
	}
}

// All that is written in a form with a schema fits it: of types with a form random values
// are made, written and checked.
func TestSchemas(t *testing.T) {
	types := map[string]reflect.Type{}
	for _, typ := range append(httpapi.Forms(), httpapi.BodyTypes()...) {
		if typ.Kind() == reflect.Struct {
			types[typ.String()] = typ
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		typ := types[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, _ := httpapi.SchemaOf(typ)
			schema, err := jsontext.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			v := newValidator(schema)
			g := newRandomValues()
			for range g.runs(typ) {
				value := g.value(typ)
				written, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				got, err := jsontext.Parse(written)
				if err == nil {
					err = v.check(v.Root, got)
				}
				if err != nil {
					t.Fatalf("%v in %s", err, written)
				}
			}
		})
	}
}
