package inside_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/courierhq/courier/internal/inside"
)

// TestFrom: a context has the inside that was put into it last, also below other contexts, and nil
// if there was none.
func TestFrom(t *testing.T) {
	type one struct{ inside.Context }
	a, b := new(one), new(one)
	outer := inside.With(t.Context(), a)
	below, cancel := context.WithCancel(outer)
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		want inside.Context
	}{
		"none": {t.Context(), nil}, "its own": {outer, a}, "below another, which has ended": {below, a}, "of a call in a call": {inside.With(below, b), b},
		"taken away": {inside.With(outer, nil), nil},
	} {
		if got := inside.From(c.ctx); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestReport: a report that went through JSON says the same. A cursor that was removed is told from
// one that was not saved.
func TestReport(t *testing.T) {
	type report = inside.Report[int, string, string]
	n, f := 7, "a.csv"
	for _, r := range []report{
		{}, {Progress: &n}, {File: &f}, {Cursor: json.RawMessage(`{"at":12345678901234567890}`), Saved: true}, {Saved: true}, {Secret: "db", Value: []byte("\xff\x00")}, {Workspace: true},
	} {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var got report
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(got); string(again) != string(text) || got.Saved != r.Saved || string(got.Cursor) != string(r.Cursor) || string(got.Value) != string(r.Value) {
			t.Errorf("%s became %s", text, again)
		}
	}
}
