package httpapi_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/httpapi"
)

// An operation is one of the document.
type operation struct {
	method, path, id string
	query            []string // names of its parameters
	fields           []string // of the object that its body is, if it has one
	body             bool
}

func (o *operation) hasBodyField(name string) bool { return slices.Contains(o.fields, name) }

// operations are all that the document has, in their order.
func operations(t *testing.T) (all []operation) {
	t.Helper()
	type schema struct {
		Ref        string `json:"$ref"`
		Properties map[string]any
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
			RequestBody *struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(httpapi.Document(), &document); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			d := document.Paths[path][method]
			o := operation{method: strings.ToUpper(method), path: strings.TrimPrefix(path, "/"), id: d.OperationID}
			for _, p := range d.Parameters {
				if p.In == "query" {
					o.query = append(o.query, p.Name)
				}
			}
			if d.RequestBody != nil {
				o.body = true
				s := d.RequestBody.Content["application/json"].Schema
				if s.Ref != "" {
					s = document.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
				}
				o.fields = slices.Sorted(maps.Keys(s.Properties))
			}
			all = append(all, o)
		}
	}
	return all
}
