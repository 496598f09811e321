package jsonschema_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/jsonschema"
)

// kinds are the fields by which a definition is told from others, as engine.Check says.
var kinds = []struct{ field, kind string }{
	{"steps", "job"}, {"members", "chain"}, {"kind", "subscription"}, {"path", "monitor"}, {"pattern", "expectation"}, {"weekend", "calendar"},
	{"cron", "schedule"}, {"every_seconds", "schedule"}, {"at", "schedule"},
}

// definitionsIn appends the definitions in a text, which is one, a list of them, or an
// object of lists.
func definitionsIn(text json.RawMessage, found map[string][]string) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil {
		for _, x := range list {
			definitionsIn(x, found)
		}
		return
	}
	if json.Unmarshal(text, &object) != nil {
		return
	}
	for _, k := range kinds {
		if _, ok := object[k.field]; ok && object["name"] != nil {
			found[k.kind] = append(found[k.kind], string(text))
			return
		}
	}
	for _, x := range object {
		definitionsIn(x, found)
	}
}

var block = regexp.MustCompile("(?ms)^```json[^\n]*\n(.*?)^```")

// TestExamples: the schemas accept all definitions in the examples and the documentation.
func TestExamples(t *testing.T) {
	validators := make(map[string]*validator)
	for kind, text := range schemas() {
		validators[kind] = newValidator(t, text)
	}
	r := registry()
	for _, own := range []string{"text.count", "invoices.report"} { // of the tutorial and of examples/invoices
		courier.RegisterFunc(r, own, func(context.Context, *courier.Context, map[string]any) (o struct{}, err error) { return o, nil }, nil)
	}
	validators["job"] = newValidator(t, jsonschema.Job(r, nil))
	count := make(map[string]int)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var texts []string
		switch {
		case strings.Contains(path, "testdata") || strings.HasSuffix(path, "CHANGELOG.md"):
			return nil
		case strings.HasSuffix(path, ".json"):
			texts = []string{read(t, path)}
		case strings.HasSuffix(path, ".md"):
			for _, m := range block.FindAllStringSubmatch(read(t, path), -1) {
				texts = append(texts, m[1])
			}
		}
		for _, text := range texts {
			found := make(map[string][]string)
			definitionsIn(json.RawMessage(text), found)
			for kind, list := range found {
				for _, definition := range list {
					count[kind]++
					for _, wrong := range validators[kind].check(definition) {
						t.Errorf("%s: %s%s\n%s", path, kind, wrong, definition)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(count)
	if count["job"] < 10 || count["chain"] == 0 || count["schedule"] == 0 {
		t.Error("these are too few examples")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStepExamples: the schema of jobs accepts the example of each step type.
func TestStepExamples(t *testing.T) {
	v := newValidator(t, jsonschema.Job(registry(), nil))
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(read(t, "../steps/testdata/examples.json")), &all); err != nil {
		t.Fatal(err)
	}
	for key, config := range all {
		if wrong := v.check(`{"name": "x", "steps": [{"type": "` + key + `", "config": ` + string(config) + `}]}`); wrong != nil {
			t.Errorf("%s: %v", key, wrong)
		}
	}
	if len(all) < 40 {
		t.Errorf("there are %d examples", len(all))
	}
}
