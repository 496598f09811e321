package flow_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A loop with more iterations than it may have is not entered, whatever its
// source, and counts those of the loops around it.
func TestMaxIterations(t *testing.T) {
	loop := func(source any, most any) courier.StepSpec {
		config := m{"source": source}
		if most != nil {
			config["max_iterations"] = most
		}
		return with("flow.foreach", config)
	}
	million := "[" + strings.Repeat("1,", 1_000_000) + "1]"
	three := []any{1, 2, 3}
	for name, c := range map[string]struct {
		steps []courier.StepSpec
		limit int
		at    int    // where the walk comes to first
		want  string // of the error
	}{
		"as many as it may":       {[]courier.StepSpec{loop(three, 3), do("a.b"), end}, 0, 1, ""},
		"one more":                {[]courier.StepSpec{loop(three, 2), do("a.b"), end}, 0, 0, "flow.foreach: source: has 3 items; a loop may have at most 2 iterations"},
		"by the option":           {[]courier.StepSpec{loop(three, nil), do("a.b"), end}, 2, 0, "a loop may have at most 2 iterations"},
		"the marker counts":       {[]courier.StepSpec{loop(three, 3), do("a.b"), end}, 2, 1, ""},
		"null":                    {[]courier.StepSpec{loop(three, json.RawMessage("null")), do("a.b"), end}, 2, 0, "at most 2 iterations"},
		"a million of text":       {[]courier.StepSpec{loop("context:params.text", nil), do("a.b"), end}, 0, 0, "has 1000001 items; a loop may have at most 1000000 iterations"},
		"loops in loops":          {[]courier.StepSpec{loop(three, nil), loop(three, nil), do("a.b"), end, end}, 8, 1, "has 3 items, and the loops around it have 3 iterations; a loop may have at most 8"},
		"loops in loops, as many": {[]courier.StepSpec{loop(three, nil), loop(three, nil), do("a.b"), end, end}, 9, 2, ""},
		"nothing to do in it":     {[]courier.StepSpec{loop(three, 1), end, do("a.b")}, 0, 2, ""},
	} {
		w := walk(t, parse(t, c.steps...), courier.Position{}, values{"params.text": million})
		w.Limit(c.limit)
		step, err := w.Next()
		if step != c.at || (err == nil) != (c.want == "") {
			t.Errorf("%s: Next() = %d, %v; want %d, %q", name, step, err, c.at, c.want)
		}
		if err == nil {
			continue
		}
		var failed *flow.EvalError
		if !errors.As(err, &failed) || failed.Step != c.at || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "set max_iterations") {
			t.Errorf("%s: the error is %v, want %q", name, err, c.want)
		}
	}
	for _, bad := range []any{0, -1, 1.5, "3", true, []any{}, "context:params.n", json.Number("1e9999")} {
		_, err := flow.Parse([]courier.StepSpec{loop(three, bad), do("a.b"), end})
		if err == nil || !strings.Contains(err.Error(), "config.max_iterations: must be a whole number above 0") {
			t.Errorf("max_iterations %v: the error is %v", bad, err)
		}
	}
}
