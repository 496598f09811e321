package values_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/values"
	"github.com/courierhq/courier/flow"
)

// TestRows: a value has who has set it and which entries use it. A step with an id has its values
// once, whatever name refers to them.
func TestRows(t *testing.T) {
	tree, err := flow.Parse([]courier.StepSpec{
		{ID: "list", Type: "demo.list", Config: map[string]any{"dir": "${context:params.dir}/${context:params.dir}"}},
		{Type: "demo.get", Config: map[string]any{"a": "context:list.files", "b": []any{"context:0.files"}}},
		{Type: "demo.put", Config: map[string]any{"a": "context:1.path", "secret": "secret:db"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := courier.Values{
		"params.dir": "/in", "list.files": []any{"a"}, "0.files": []any{"a"}, "1.path": "<b>", "job.name": "x", "loop.index": 3, "gone.value": 1, "1.long": strings.Repeat("x", 30_000),
	}
	rows, err := values.Rows(all, tree, &courier.Repairs{Values: []courier.ValueChange{{Step: 0, Name: "files"}, {Step: -1, Name: "day"}, {Step: 99, Name: "x"}}})
	var got []string
	for _, r := range rows {
		if len(r.Value) > 25_000 {
			t.Errorf("%s has %d bytes", r.Key, len(r.Value))
		}
		got = append(got, fmt.Sprint(r.Key, " of ", r.SetBy, " by ", len(r.UsedBy), " ", r.Changed))
	}
	want := []string{
		"1.long of step 1 (demo.get) by 0 false", "1.path of step 1 (demo.get) by 1 false", "gone.value of gone by 0 false", "job.name of the execution by 0 false",
		`list.files of step 0 "list" (demo.list) by 1 true`, "loop.index of the loop by 0 false", "params.dir of parameter by 1 false",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
	if rows, err := values.Rows(courier.Values{"params.dir": "/in"}, tree, nil); err != nil || len(rows) != 1 || rows[0].Changed || rows[0].UsedBy[0] != `step 0 "list" (demo.list)` {
		t.Errorf("%+v, %v", rows, err)
	}
}
