package steps_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// examples returns a configuration for each step type, as docs/step-types.md shows it.
func examples(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "examples.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestExamples: there is an example for each step type, and a job with it can be
// defined. The outputs and params that the examples refer to are given around it.
func TestExamples(t *testing.T) {
	reg, all := registry(), examples(t)
	want := slices.DeleteFunc(reg.Keys(), func(key string) bool {
		typ, _ := reg.Lookup(key)
		return typ.Key() != key
	})
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("examples.json has %v, and the step types are %v", got, want)
	}
	e := engine.New(memstore.New(), reg, nil)
	for key, text := range all {
		var config map[string]any
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		_, err := e.Jobs().Define(t.Context(), courier.Job{
			Name: key, Params: map[string]any{"day": nil},
			Steps: []courier.StepSpec{
				{ID: "get", Type: "sftp.download", Config: map[string]any{"connection_id": "acme", "remote_path": "/out/a.pgp"}},
				{ID: "list", Type: "file.list", Config: map[string]any{"path": "/srv/in"}},
				{Type: "flow.foreach", Config: map[string]any{"source": "context:list.file_list"}},
				{Type: key, Config: config},
				{Type: "flow.end"},
			},
		}, nil)
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
