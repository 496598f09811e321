package schemadoc_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/schemadoc"
	"github.com/courierhq/courier/internal/test/schemacheck"
	"github.com/courierhq/courier/schedule"
)

// parse returns the value of a JSON text.
func parse(t *testing.T, text string) any {
	t.Helper()
	v, err := jsontext.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// fits reports whether a JSON text fits the schema of a document.
func fits(t *testing.T, document []byte, text string) bool {
	t.Helper()
	root := parse(t, string(document)).(map[string]any)
	v := schemacheck.Validator{Root: root}
	return len(v.Check(root, parse(t, text))) == 0
}

// TestParams: the schema of an execution's parameters permits what the engine takes of each type,
// with its bounds, and no unknown name. A job that declares none takes any.
func TestParams(t *testing.T) {
	for name, c := range map[string]struct {
		params    map[string]any
		good, bad string // values of the parameter p
	}{
		"text":    {map[string]any{"type": "text", "min_length": 2, "max_length": 3}, `"ab" "abc" "日本"`, `"a" "abcd" 1 null`},
		"pattern": {map[string]any{"type": "text", "pattern": "[a-z]+"}, `"abc"`, `"a1" "" "1a"`},
		"enum":    {map[string]any{"type": "text", "enum": []any{"a", "b"}}, `"a"`, `"c" 1`},
		"integer": {map[string]any{"type": "integer", "min": 1, "max": 10}, `1 10`, `0 11 1.5 "1"`},
		"number":  {map[string]any{"type": "number", "max": 1.5}, `1.5 -3`, `1.6 "1"`},
		"boolean": {map[string]any{"type": "boolean"}, `true`, `"true" 1`},
		"list":    {map[string]any{"type": "list", "min_length": 1, "max_length": 2}, `[1] ["a",{}]`, `[] [1,2,3] {}`},
		"object":  {map[string]any{"type": "object"}, `{} {"a":1}`, `[] "a"`},
		"file":    {map[string]any{"type": "file"}, `"/in/a" "C:\\in\\a" {"path":"/in/a"} {"name":"a"}`, `"a" "/in/" {} {"name":".."} {"name":"a/b"}`},
	} {
		document := schemadoc.Params(courier.Job{Params: map[string]any{"p": c.params}})
		for values, want := range map[string]bool{c.good: true, c.bad: false} {
			for v := range strings.FieldsSeq(values) {
				if fits(t, document, `{"p":`+v+`}`) != want {
					t.Errorf("%s: %s is permitted: %v", name, v, !want)
				}
			}
		}
		if !fits(t, document, `{}`) || fits(t, document, `{"q":1}`) {
			t.Errorf("%s: it is required, or other names are permitted", name)
		}
	}
	required := schemadoc.Params(courier.Job{Params: map[string]any{"p": map[string]any{"type": "text", "required": true}}})
	if fits(t, required, `{}`) || !fits(t, required, `{"p":""}`) {
		t.Error("a required parameter can be left out, or not be empty")
	}
	if !fits(t, schemadoc.Params(courier.Job{}), `{"any":[1]}`) {
		t.Error("a job without declarations does not take any parameters")
	}
	odd := string(schemadoc.Params(courier.Job{Params: map[string]any{"p": map[string]any{"type": "text", "pattern": `(?i)\pL+`}}}))
	if strings.Contains(odd, "pL") {
		t.Errorf("a pattern that other engines read differently is in the schema: %s", odd)
	}
}

// TestNames: known names are offered and others permitted. Each stands once and in order, and
// connections are those of the family.
func TestNames(t *testing.T) {
	r := new(courier.Registry)
	for _, key := range []string{"ftp.get", "sftp.get"} {
		courier.RegisterFunc(r, key, func(context.Context, *courier.Context, struct {
			Connection string `json:"connection_id" courier:"required"`
		}) (struct{}, error) {
			return struct{}{}, nil
		}, nil)
	}
	n := schemadoc.Names{Jobs: []string{"b", "a", "b"}, Connections: map[string][]string{"sftp": {"acme"}, "ftp": {"old"}}}
	job := schemadoc.Definition("job", r, n)
	if !strings.Contains(string(job), `"examples":["a","b"]`) {
		t.Error("the names of jobs are not offered in order")
	}
	if a, b := strings.Count(string(job), `"examples":["acme"]`), strings.Count(string(job), `"examples":["old"]`); a != 1 || b != 1 {
		t.Errorf("connections are offered %d and %d times", a, b)
	}
	for text, want := range map[string]bool{
		`{"name":"x","depends_on":["c"],"steps":[{"type":"sftp.get","config":{"connection_id":"new"}}]}`: true,
		`{"name":"x","steps":[{"type":"sftp.get","config":{}}]}`:                                         false,
		`{"name":"x","steps":[{"type":"sftp.get"}]}`:                                                     false,
		`{"name":"x","steps":[{"type":"sftp.put"}]}`:                                                     false,
		`{"name":"x","steps":[]}`:                                                                        false,
		`{"name":"..","steps":[{"type":"sftp.get","config":{"connection_id":"new"}}]}`:                   false,
	} {
		if fits(t, job, text) != want {
			t.Errorf("%s is permitted: %v", text, !want)
		}
	}
	monitor := string(schemadoc.Definition("monitor", nil, n))
	if !strings.Contains(monitor, `"examples":["acme","old"]`) {
		t.Error("a monitor is not offered the connections of all families")
	}
}

// TestConditions: an editor is told of fields that exclude each other. An OpenAPI document leaves
// conditions out, and permits the zero values that generated clients send.
func TestConditions(t *testing.T) {
	editor := schemadoc.Definition("schedule", nil, schemadoc.Names{})
	named, names := schemadoc.Components()
	root := parse(t, string(schemadoc.Text(schemadoc.Schema{"components": schemadoc.Schema{"schemas": named}}))).(map[string]any)
	api := schemacheck.Validator{Root: root}
	schema, err := api.Resolve("#/components/schemas/Schedule")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]bool{ // for an editor, and in the API
		`{"name":"s","job":"a","cron":"0 0 3 ? * TUE"}`:                                           {true, true},
		`{"name":"s","job":"a","chain":"b","cron":"0 0 3 ? * TUE"}`:                               {false, true},
		`{"name":"s","job":"a"}`:                                                                  {false, true},
		`{"name":"s","job":"a","chain":"","cron":"0 0 3 ? * TUE","every_seconds":0,"overlap":""}`: {false, true},
		`{"name":"s","job":"a","every_seconds":60,"window_seconds":60}`:                           {false, true},
		`{"name":"s","job":"a","every_seconds":60,"misfire":"fire_all","window_seconds":60}`:      {true, true},
		`{"name":"","job":"a","every_seconds":60}`:                                                {false, false},
		`{"name":"s","job":"a","every_seconds":60,"overlap":"alow"}`:                              {false, false},
		`{"name":"s","job":"a","every_seconds":60,"evry":1}`:                                      {false, false},
	} {
		if got := [2]bool{fits(t, editor, text), len(api.Check(schema, parse(t, text))) == 0}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for typ, name := range map[reflect.Type]string{
		reflect.TypeFor[courier.Job](): "Job", reflect.TypeFor[chain.Chain](): "Chain", reflect.TypeFor[schedule.Schedule](): "Schedule", reflect.TypeFor[chain.Dependency](): "ChainDependency",
	} {
		if names[typ] != name || named[name] == nil {
			t.Errorf("%v is called %q", typ, names[typ])
		}
	}
}

// TestReferences: each reference of a document leads to a part of it.
func TestReferences(t *testing.T) {
	var walk func(v *schemacheck.Validator, value any)
	walk = func(v *schemacheck.Validator, value any) {
		switch x := value.(type) {
		case map[string]any:
			if ref, ok := x["$ref"].(string); ok {
				if _, err := v.Resolve(ref); err != nil {
					t.Error(err)
				}
			}
			for _, inner := range x {
				walk(v, inner)
			}
		case []any:
			for _, inner := range x {
				walk(v, inner)
			}
		}
	}
	named, _ := schemadoc.Components()
	documents := [][]byte{schemadoc.Text(schemadoc.Schema{"components": schemadoc.Schema{"schemas": named}})}
	for _, kind := range []string{"job", "chain", "schedule", "monitor", "subscription"} {
		documents = append(documents, schemadoc.Definition(kind, new(courier.Registry), schemadoc.Names{}))
	}
	for _, d := range documents {
		root := parse(t, string(d)).(map[string]any)
		walk(&schemacheck.Validator{Root: root}, root)
	}
}

// TestNullable: null is permitted beside a type, and beside a schema that has no single one.
func TestNullable(t *testing.T) {
	type s = schemadoc.Schema
	for _, c := range []struct {
		in   s
		want string
	}{
		{s{}, `{}`}, {s{"type": "string"}, `{"type":["string","null"]}`}, {s{"type": "string", "enum": []string{"a"}}, `{"anyOf":[{"enum":["a"],"type":"string"},{"type":"null"}]}`},
		{schemadoc.Ref("Job"), `{"anyOf":[{"$ref":"#/components/schemas/Job"},{"type":"null"}]}`},
	} {
		if got := string(schemadoc.Text(schemadoc.Nullable(c.in))); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got := fmt.Sprint(schemadoc.Object(s{"a": s{}})); strings.Contains(got, "required") || !strings.Contains(got, "additionalProperties:false") {
		t.Errorf("an object without required properties is %s", got)
	}
}
