package jsonschema_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A verdict says whether a definition fits the schema of its kind.
type verdict struct {
	Kind       string          `json:"kind"`
	Definition json.RawMessage `json:"definition"`
	Fits       bool            `json:"fits"`
}

// TestVerdicts holds verdicts of this package's validator against those in the
// repository. internal/test/libraries holds the same ones against another validator.
func TestVerdicts(t *testing.T) {
	var got []byte
	add := func(v *validator, kind string, definition any) {
		text, err := json.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(verdict{kind, text, v.check(string(text)) == nil})
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, line...), '\n')
	}
	jobs := newValidator(t, schemas()["job"])
	for _, m := range mistakenJobs(t) {
		add(jobs, "job", m.job)
	}
	for _, kind := range slices.Sorted(maps.Keys(kindCases)) {
		v := newValidator(t, schemas()[kind])
		d := &drawer{Rand: rand.New(rand.NewPCG(1, 3)), bad: 0.1}
		for range 20 {
			add(v, kind, d.draw(kindCases[kind]))
		}
	}
	compareFile(t, filepath.Join("testdata", "verdicts.jsonl"), got)
}

// compareFile compares what a test has made with a file, or writes the file.
func compareFile(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, path); want != string(got) {
		t.Errorf("%s has something else; run go test ./jsonschema -update and look at what has changed", path)
	}
}
