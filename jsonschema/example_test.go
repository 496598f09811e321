package jsonschema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/jsonschema"
)

func ExampleParams() {
	job := courier.Job{Name: "invoices", Params: map[string]any{
		"day":    courier.Param{Type: "date", Required: true, Doc: "the day of the invoices"},
		"copies": courier.Param{Type: "integer", Min: 1, Max: 10, Default: 1},
	}}
	var b bytes.Buffer
	_ = json.Indent(&b, jsonschema.Params(job), "", " ")
	fmt.Println(b.String())
	// Output:
	// {
	//  "$schema": "http://json-schema.org/draft-07/schema#",
	//  "additionalProperties": false,
	//  "properties": {
	//   "copies": {
	//    "default": 1,
	//    "maximum": 10,
	//    "minimum": 1,
	//    "type": "integer"
	//   },
	//   "day": {
	//    "description": "the day of the invoices",
	//    "format": "date",
	//    "type": "string"
	//   }
	//  },
	//  "required": [
	//   "day"
	//  ],
	//  "title": "Parameters of a Courier job",
	//  "type": "object"
	// }
}

// TestNames: known names are offered where definitions have names, connections by the
// family of the step type, and other names stay valid.
func TestNames(t *testing.T) {
	o := &jsonschema.Options{Names: jsonschema.Names{
		Jobs: []string{"known-job", "a-job", "a-job"}, Chains: []string{"known-chain"},
		Connections: map[string][]string{"sftp": {"known-sftp"}, "ftp": {"known-ftp"}},
	}}
	for kind, c := range map[string]struct {
		text  []byte
		count map[string]int
	}{
		"job":          {jsonschema.Job(registry(), o), map[string]int{`["a-job","known-job"]`: 2, `["known-sftp"]`: 8, `["known-ftp"]`: 8, "known-chain": 0}},
		"chain":        {jsonschema.Chain(o), map[string]int{`["a-job","known-job"]`: 1}},
		"schedule":     {jsonschema.Schedule(o), map[string]int{`["a-job","known-job"]`: 1, `["known-chain"]`: 1}},
		"monitor":      {jsonschema.Monitor(o), map[string]int{`["a-job","known-job"]`: 1, `["known-chain"]`: 1, `["known-ftp","known-sftp"]`: 1}},
		"subscription": {jsonschema.Subscription(o), map[string]int{`["a-job","known-job"]`: 2, `["known-chain"]`: 1}},
	} {
		for text, want := range c.count {
			if got := bytes.Count(c.text, []byte(text)); got != want {
				t.Errorf("the schema of a %s has %s %d times, want %d", kind, text, got, want)
			}
		}
	}
	other := `{"name": "x", "depends_on": ["unknown"], "steps": [{"type": "sftp.list", "config": {"connection_id": "unknown"}}]}`
	if wrong := newValidator(t, jsonschema.Job(registry(), o)).check(other); wrong != nil {
		t.Errorf("other names are refused: %v", wrong)
	}
	if !slices.Equal(jsonschema.Job(registry(), o), jsonschema.Job(registry(), o)) {
		t.Error("the same options give another text")
	}
}
