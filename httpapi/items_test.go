package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/courierhq/courier"
)

// A client of the API rescues, skips and accepts failed items by their names, has a rescued one
// executed again, and reads the attempts in one item.
func TestItemsByName(t *testing.T) {
	virtual(t, nil, func(w *world) {
		fail := func(item any) map[string]any { return map[string]any{"text": "${context:loop.label}", "fail": item} }
		job := courier.Job{Name: "other", Params: map[string]any{"files": []any{"a", "b", "c"}}, Steps: []courier.StepSpec{
			{ID: "each", Type: "flow.foreach", Config: map[string]any{"source": "context:params.files"}},
			{ID: "load", Type: "test.work", Config: fail("context:loop.current_item")},
			{Type: "flow.rescue", Config: map[string]any{"no_rescue_on": []any{"error"}, "rescued": "fail"}},
			{ID: "aside", Type: "test.work", Config: fail("")},
			{Type: "flow.end"},
		}}
		if _, err := w.engine.Jobs().Define(w.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		admin := w.as("admin")
		id := admin.start("other", `{}`)
		admin.ended(id)
		at := "v1/executions/" + id
		var failed, rescued struct{ Items []courier.FailedItem }
		admin.get(at+"/failed-items").want(http.StatusOK, &failed)
		if len(failed.Items) != 3 || failed.Items[2].Label != "c" {
			t.Fatalf("failed are %+v", failed.Items)
		}
		path := func(i int) string { return fmt.Sprintf(`[{"loop": 0, "iteration": [%d]}]`, i) }
		admin.post(at+"/resume", `{"rescue": `+path(0)+`}`).want(http.StatusBadRequest, nil)
		admin.post(at+"/resume", `{"rescue": `+path(0)+`, "skip_items": `+path(1)+`, "accept": `+path(2)+`, "reason": "they are bad"}`).want(http.StatusAccepted, nil)
		if x := admin.ended(id); x.State != courier.Failed || x.FailedItems != 0 || x.RescuedItems != 1 || x.Failure.Reason != courier.ReasonRescued {
			t.Fatalf("it is %s, %d items failed, %d were rescued: %+v", x.State, x.FailedItems, x.RescuedItems, x.Failure)
		}
		admin.get(at+"/rescued-items").want(http.StatusOK, &rescued)
		if len(rescued.Items) != 1 || rescued.Items[0].Label != "a" || rescued.Items[0].ID != "load" {
			t.Errorf("rescued are %+v", rescued.Items)
		}
		w.as("blind").get(at+"/rescued-items").want(http.StatusOK, &rescued)
		if rescued.Items[0].Label != "0" {
			t.Errorf("who may not see values sees %+v", rescued.Items[0])
		}
		var steps struct{ Items []courier.StepExecution }
		admin.get(at+"/steps?loop=0&item=0").want(http.StatusOK, &steps)
		if len(steps.Items) != 2 || steps.Items[0].ID != "load" || steps.Items[1].ID != "aside" || steps.Items[1].Iteration[0] != 0 {
			t.Errorf("the attempts in item 0 are %+v", steps.Items)
		}
		for _, bad := range []string{"?loop=0", "?item=0", "?loop=0&item=x", "?loop=0&item=0.1", "?loop=1&item=0"} {
			if a := admin.get(at + "/steps" + bad); a.Code < 400 || a.Code >= 500 {
				t.Errorf("%s: %d", bad, a.Code)
			}
		}
		admin.post(at+"/resume", `{"items": `+path(0)+`}`).want(http.StatusAccepted, nil)
		if x := admin.ended(id); x.FailedItems != 1 || x.RescuedItems != 0 {
			t.Errorf("%d items failed, %d were rescued", x.FailedItems, x.RescuedItems)
		}
	})
}
