package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// The error of a failed item says by what people know the item, without secrets.
func TestFailedItemsHaveNames(t *testing.T) {
	h := couriertest.New(t, &engine.Options{Secrets: func(context.Context, courier.SecretRequest) (string, error) { return "canary-QzPlain7", nil }})
	h.Stub("demo.fails", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		return nil, errors.New("is bad")
	})
	job := h.Job(`{"name": "a", "params": {"files": []}, "steps": [
		{"type": "flow.foreach", "config": {"source": "context:params.files", "on_item_failure": "continue"}},
		{"type": "demo.fails", "config": {"token": "secret:t"}},
		{"type": "flow.end"}]}`)
	r := h.Run(job, map[string]any{"files": []any{
		map[string]any{"path": "in/a.csv", "name": "a.csv"}, map[string]any{"name": "b\x01", "size": 1}, "c.csv", 7, map[string]any{"size": 1}, "to canary-QzPlain7",
	}}).RequireState(courier.Failed)
	items, err := h.Engine.Executions().FailedItems(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range items {
		got = append(got, i.Error)
	}
	want := []string{`item "in/a.csv": is bad`, `item "b\x01": is bad`, `item "c.csv": is bad`, "is bad", "is bad", `item "to [secret t]": is bad`}
	if !slices.Equal(got, want) {
		t.Errorf("the errors are %q, want %q", got, want)
	}
}
