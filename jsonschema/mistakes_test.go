package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// mistakes are steps, or fields of a job, that Define refuses.
var mistakes = map[string]struct{ seen, unseen []string }{
	"step": {
		seen: []string{
			`{"type": ""}`, `{"type": "sftp.lst"}`, `{"type": "flow_if"}`, `{"type": "flow.esle"}`, `{}`, `{"tpye": "flow.end"}`, `"file.list"`, `{"type": "file.list"}`,
			`{"type": "file.list", "config": {"paht": "/srv"}}`, `{"type": "file.list", "config": {"path": ""}}`, `{"type": "file.list", "config": {"path": ["/srv"]}}`,
			`{"type": "file.list", "config": {"path": "/srv", "min_age_seconds": "soon"}}`, `{"type": "file.list", "config": {"path": "/srv", "min_age_seconds": "${context:params.p}"}}`,
			`{"type": "file.list", "config": {"path": "/srv", "min_age_seconds": "context:"}}`, `{"type": "file.list", "config": {"path": "/srv", "min_age_seconds": "secret:"}}`,
			`{"type": "file.list", "config": {"path": "/srv"}, "id": "Big"}`, `{"type": "file.list", "config": {"path": "/srv"}, "id": "job"}`, `{"type": "file.list", "config": {"path": "/srv"}, "id": "1a"}`,
			`{"type": "file.list", "config": {"path": "/srv"}, "timeout_seconds": -0.001}`, `{"type": "file.list", "config": {"path": "/srv"}, "stall_timeout_seconds": -1}`,
			`{"type": "file.list", "config": {"path": "/srv"}, "failure_policy": "retry_job"}`, `{"type": "file.list", "config": {"path": "/srv"}, "name": "a\u0007b"}`,
			`{"type": "flow.if", "config": {"left": "a", "operator": "matches", "right": "b"}}`, `{"type": "flow.if", "config": {"left": "a", "operator": "equals"}}`, `{"type": "flow.if", "config": {"operator": "exists"}}`,
			`{"type": "flow.if"}`, `{"type": "flow.if", "config": {"left": "secret:x", "operator": "exists"}}`, `{"type": "flow.if", "config": {"left": 1, "operator": "exists", "rihgt": 1}}`,
			`{"type": "flow.foreach", "config": {}}`, `{"type": "flow.foreach", "config": {"source": 7}}`, `{"type": "flow.foreach", "config": {"source": "x"}}`, `{"type": "flow.foreach", "config": {"source": [], "max_iterations": 0}}`,
			`{"type": "flow.foreach", "config": {"source": [], "on_resume": "again"}}`, `{"type": "flow.foreach", "config": {"source": [], "on_item_failure": "stop", "then": "complete"}}`,
			`{"type": "flow.foreach", "config": {"source": [], "on_item_failure": "continue", "continue_on": ["conection"]}}`, `{"type": "flow.foreach", "config": {"source": [], "on_item_failure": "continue", "max_failures": "101%"}}`,
			`{"type": "flow.end", "config": {"x": 1}}`, `{"type": "flow.else", "failure_policy": "retry_step"}`,
			`{"type": "http.request", "config": {"url": "https://a.example", "body": "x", "json": 1}}`, `{"type": "file.zip", "config": {"output_path": "/srv/a.zip"}}`,
		},
		unseen: []string{
			`{"type": "flow.end"}`, `{"type": "flow.else"}`, `{"type": "flow.if", "config": {"left": 1, "operator": "exists"}}`, `{"type": "flow.if", "config": {"left": "a", "operator": "regex", "right": "("}}`,
			`{"type": "flow.foreach", "config": {"source": "[1"}}`, `{"type": "flow.foreach", "config": {"source": "context:nobody.files"}}`,
			`{"type": "file.list", "config": {"path": "context:nobody.file"}}`, `{"type": "file.list", "config": {"path": "context:"}}`, `{"type": "file.list", "config": {"path": "context:1.file_list"}}`,
			`{"type": "file.list", "config": {"path": "context:files.file_list"}}`, `{"type": "file.list", "config": {"path": "context:loop.current_item.name"}}`, `{"type": "file.list", "config": {"path": "x-${secret:x}"}}`,
			`{"type": "file.list", "config": {"path": "/srv"}, "id": "files"}`, `{"type": "FILE.LIST", "config": {"paht": "/srv"}}`, `{"type": "file.copy", "config": {"source_path": "/srv/a", "destination_path": "/srv/b", "mode": "rwx"}}`,
		},
	},
	"job": {
		seen: []string{
			`"name": ""`, `"name": "bad\u0007"`, `"name": ".."`, `"name": 5`, `"limit": -1`, `"queue": 5`, `"failure_policy": "stopp"`, `"failure_policy": {"type": "stop", "retry_on": ["login"]}`, `"steps": []`, `"stesp": []`,
			`"limit_keys": [""]`, `"limit_keys": ["a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a"]`, `"limit_keys": ["secret:x"]`, `"result": "secret:x"`, `"expected_by": "7:30"`, `"timeout_seconds": -1`, `"depends_on": [{"job": "other", "on_unmet": "wait"}]`, `"outputs": [{"from": "a.csv", "to": "/srv"}]`,
			`"params": {"p": {"type": "string"}}`, `"params": {"p": {"type": "text", "min": 1}}`, `"params": {"p": {"type": "date", "default": "2026-02-30"}}`, `"params": {"p": {"type": "integer", "required": true, "default": 1}}`,
		},
		unseen: []string{
			`"limit_keys": ["${context:"]`, `"limit_keys": ["${context:0.file}"]`, `"result": "context:nobody.x"`, `"expected_by": "07:30 Nowhere"`, `"depends_on": ["nobody"]`, `"failure_policy": {"type": "retry_step", "retry_on": ["login"], "no_retry_on": ["login"]}`,
			`"params": {"p": {"type": "text", "pattern": "("}}`, `"params": {"p": {"type": "integer", "min": 2, "max": 1}}`, `"params": {"p": {"type": "integer", "max": 1, "default": 2}}`, `"outputs": [{"from": "context:nobody.file", "to": "/srv"}]`,
		},
	},
}

// A mistaken job has one mistake.
type mistaken struct {
	text string
	job  json.RawMessage
	seen bool
}

// mistakenJobs returns a job for each mistake.
func mistakenJobs(t *testing.T) (list []mistaken) {
	t.Helper()
	for _, what := range []string{"step", "job"} {
		m := mistakes[what]
		for i, text := range slices.Concat(m.seen, m.unseen) {
			job := map[string]json.RawMessage{"name": json.RawMessage(`"a"`)}
			steps := `[{"id": "files", "type": "file.list", "config": {"path": "/srv"}}`
			if what == "step" {
				steps += ", " + text
			}
			job["steps"] = json.RawMessage(steps + "]")
			if what == "job" {
				if err := json.Unmarshal([]byte("{"+text+"}"), &job); err != nil {
					t.Fatal(err)
				}
			}
			definition, err := json.Marshal(job)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, mistaken{text, definition, i < len(m.seen)})
		}
	}
	return list
}

// TestMistakes: the schema refuses the mistakes that it can see, and the others are those
// that it can't.
func TestMistakes(t *testing.T) {
	c := &comparison{validator: newValidator(t, schemas()["job"]), r: registry()}
	for _, m := range mistakenJobs(t) {
		seen := c.check(string(m.job)) != nil
		if refused := len(c.problems(m.job)) > 0; !refused || seen != m.seen {
			t.Errorf("%s: Check refuses it: %v; the schema sees it: %v, want %v", m.text, refused, seen, m.seen)
		}
	}
}

// TestEachField: the schema refuses, for each step type and each field, a value of another
// type, a value that is not permitted, and a value that is missing; and for each group
// too few and too many fields.
func TestEachField(t *testing.T) {
	r, v, count := registry(), newValidator(t, schemas()["job"]), 0
	var shown map[string]json.RawMessage
	if err := json.Unmarshal([]byte(read(t, "../steps/testdata/examples.json")), &shown); err != nil {
		t.Fatal(err)
	}
	for key, text := range shown {
		typ, _ := r.Lookup(key)
		parsed, err := jsontext.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		example := parsed.(map[string]any)
		refused := func(what string, change func(config map[string]any)) {
			config := maps.Clone(example)
			change(config)
			text, _ := jsontext.Append(nil, map[string]any{"name": "x", "steps": []any{map[string]any{"type": key, "config": config}}})
			count++
			if len(typ.Check(config, false)) == 0 {
				t.Errorf("%s: Check accepts %s: %s", key, what, text)
			}
			if v.check(string(text)) == nil {
				t.Errorf("%s: the schema accepts %s: %s", key, what, text)
			}
		}
		for _, p := range typ.Config().Properties {
			if p.Required {
				refused(p.Name+" is missing", func(c map[string]any) { delete(c, p.Name) })
			}
			for _, bad := range wrong(p.Schema) {
				refused(fmt.Sprintf("%s %v", p.Name, bad), func(c map[string]any) { c[p.Name] = bad })
			}
		}
		for _, g := range typ.Config().Groups {
			if g.Kind != "at_most_one" {
				refused("none of "+g.Name, func(c map[string]any) {
					for _, name := range g.Fields {
						delete(c, name)
					}
				})
			}
			if g.Kind != "any_of" {
				refused("all of "+g.Name, func(c map[string]any) {
					for _, name := range g.Fields {
						p, _ := typ.Config().Property(name)
						c[name] = right(p.Schema)
					}
				})
			}
		}
	}
	if t.Logf("%d mistakes", count); count < 600 {
		t.Errorf("only %d mistakes were made", count)
	}
}

// wrong returns values that a schema does not permit.
func wrong(s *courier.Schema) (list []any) {
	if s.Type == "" {
		return nil
	}
	list = append(list, json.Number("7.5"), map[string]any{"unknwon": 1}, []any{[]any{}})
	switch s.Type {
	case "number":
		list[0] = true
	case "object":
		list[1] = "x"
	case "array":
		if list[2] = "x"; s.Items.Type == "" {
			break
		}
		for _, x := range wrong(s.Items) {
			list = append(list, []any{x})
		}
	}
	if len(s.Enum) > 0 {
		list = append(list, "nonsense")
	}
	for bound, by := range map[json.Number]int64{s.Min: -1, s.Max: 1} {
		if r, ok := new(big.Rat).SetString(bound.String()); ok {
			list = append(list, json.Number(strings.TrimSuffix(r.Add(r, big.NewRat(by, 1)).FloatString(3), ".000")))
		}
	}
	for _, p := range s.Properties {
		for _, x := range wrong(p.Schema) {
			list = append(list, map[string]any{p.Name: x})
		}
	}
	return list
}

// right returns a value that a schema permits.
func right(s *courier.Schema) any {
	switch s.Type {
	case "boolean":
		return true
	case "integer", "number":
		return json.Number("1")
	case "array":
		return []any{right(s.Items)}
	}
	return "x"
}
