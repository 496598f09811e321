package libraries

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestJSONSchemas: the schemas of package jsonschema are valid ones of draft-07, and a
// validator of other people comes to the same verdicts as that of the package's tests.
func TestJSONSchemas(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "jsonschema", "testdata")
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schemas := make(map[string]*jsonschema.Schema)
	for _, kind := range []string{"job", "chain", "schedule", "monitor", "subscription", "calendar", "expectation"} {
		compiled, err := compiler.Compile(filepath.Join(dir, kind+".json")) // checks it against the draft's own schema
		if err != nil {
			t.Fatal(err)
		}
		if compiled.DraftVersion != 7 {
			t.Errorf("the schema of a %s is of draft %d", kind, compiled.DraftVersion)
		}
		schemas[kind] = compiled
	}
	lines, err := os.ReadFile(filepath.Join(dir, "verdicts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	fits, n := 0, 0
	for line := range bytes.Lines(lines) {
		var v struct {
			Kind       string          `json:"kind"`
			Definition json.RawMessage `json:"definition"`
			Fits       bool            `json:"fits"`
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(v.Definition))
		if err != nil {
			t.Fatal(err)
		}
		if n++; v.Fits {
			fits++
		}
		if err := schemas[v.Kind].Validate(value); (err == nil) != v.Fits {
			t.Errorf("the own verdict is %v, that of the library %v:\n%s", v.Fits, err, v.Definition)
		}
	}
	if fits < 20 || n-fits < 20 {
		t.Errorf("%d of %d definitions fit", fits, n)
	}
}
