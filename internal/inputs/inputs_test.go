package inputs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/store"
)

// TestCheckLabels checks which labels and trace contexts an execution can have, and that all
// mistakes are told at once.
func TestCheckLabels(t *testing.T) {
	many := make(map[string]string)
	for i := range 16 {
		many[fmt.Sprintf("l%d", i)] = "v"
	}
	andBy := maps.Clone(many)
	andBy[courier.LabelBy] = "ann"
	tooMany := maps.Clone(many)
	tooMany["l16"] = "v"
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		labels map[string]string
		trace  string
		wrong  []string
	}{
		"none":       {nil, "", nil},
		"usual":      {map[string]string{"partner": "acme", "a_b-9": strings.Repeat("é", 200)}, trace, nil},
		"16":         {many, "", nil},
		"16 and who": {andBy, "", nil},
		"17":         {tooMany, "", []string{"there are 17, more than 16"}},
		"mistakes": {
			map[string]string{"Partner": "a", "9": "a", "empty": "", "nul": "\x00", "long": strings.Repeat("é", 201), store.TrailFile: "f"}, "00-1-2",
			[]string{`label "Partner": the name must begin`, `label "9": the name`, `label "empty": the value is empty`, `label "nul": the value contains a NUL`,
				`label "long": the value has 201 characters`, "reserved for the names of files", "trace: it must have the form"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := inputs.CheckLabels(c.labels, c.trace)
			if (err != nil) != (len(c.wrong) > 0) || err != nil && !errors.Is(err, courier.ErrInvalid) {
				t.Fatal(err)
			}
			for _, w := range c.wrong {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
}

// TestEncode checks how parameters are stored, and what is refused.
func TestEncode(t *testing.T) {
	if raw, err := inputs.Encode(map[string]any{}, 0); raw != nil || err != nil {
		t.Errorf("none: %s, %v", raw, err)
	}
	if raw, err := inputs.Encode(map[string]any{"b": json.Number("12345678901234567890"), "a": "<&>"}, 100); err != nil || string(raw) != `{"a":"<&>","b":12345678901234567890}` {
		t.Errorf("%s, %v", raw, err)
	}
	for text, values := range map[string]map[string]any{"MaxParams": {"a": strings.Repeat("x", 100)}, "params": {"a": func() {}}} {
		if raw, err := inputs.Encode(values, 100); raw != nil || !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %s, %v", text, raw, err)
		}
	}
}

// TestRerun checks what an execution that repeats another one is started with: the same, but for
// what is replaced, and never in the name of who had asked for the first one.
func TestRerun(t *testing.T) {
	got := inputs.RerunParams([]byte(`{"day":"monday","n":1}`), map[string]any{"n": 2})
	if len(got) != 2 || got["day"] != "monday" || got["n"] != 2 {
		t.Errorf("params %v", got)
	}
	if got := inputs.RerunParams(nil, nil); got != nil {
		t.Errorf("of none: %v", got)
	}
	former := map[string]string{"partner": "acme", courier.LabelBy: "ann"}
	labels := inputs.RerunLabels(former, map[string]string{"again": "yes"})
	if !maps.Equal(labels, map[string]string{"partner": "acme", "again": "yes"}) || former[courier.LabelBy] != "ann" {
		t.Errorf("labels %v", labels)
	}
	if labels = inputs.RerunLabels(former, map[string]string{courier.LabelBy: "bob"}); labels[courier.LabelBy] != "bob" {
		t.Errorf("of somebody else: %v", labels)
	}
}
