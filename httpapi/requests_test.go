package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
)

// A request succeeds again when its goal is reached or pending, and is refused when it
// can't be any more.
func TestRequests(t *testing.T) {
	virtual(t, nil, func(w *world) {
		otto := w.as("otto")
		id := w.start("report", `{"params": {"seconds": 100}, "hold": true}`)
		at := "v1/executions/" + id
		var x httpapi.ExecutionView
		otto.post(at+"/release", `{"reason": "go"}`).want(http.StatusAccepted, nil)
		otto.post(at+"/release", "").want(http.StatusAccepted, nil)
		time.Sleep(time.Second)
		for range 2 {
			otto.post(at+"/cancel", `{"reason": "wrong file"}`).want(http.StatusAccepted, &x)
			if x.Request != courier.RequestCancel && x.State != courier.Cancelled {
				t.Errorf("after a cancel: %+v", x)
			}
		}
		if x := w.ended(id); x.State != courier.Cancelled {
			t.Errorf("%+v", x)
		}
		otto.post(at+"/cancel", "").want(http.StatusAccepted, nil)
		otto.post(at+"/resume", "").problem(http.StatusConflict, "transition", "cancelled")
		w.as("vera").post(at+"/cancel", "").problem(http.StatusForbidden, "forbidden", "operator")
		w.as("ann").post(at+"/cancel", "").problem(http.StatusNotFound, "not_found")

		list, err := w.engine.Journal(t.Context(), store.ActionFilter{Kind: "execution"})
		if err != nil || len(list) != 13 {
			t.Errorf("%d entries, %v: %+v", len(list), err, list)
		}
	})
}

// A failed execution is resumed with other values, and started again as a new one.
func TestRepair(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"params": {"fail": "wrong", "text": "a"}}`)
		w.ended(id)
		at := "v1/executions/" + id
		w.post(at+"/resume/dry-run", `{"set": {"params.fail": ""}}`).want(http.StatusOK, nil)
		w.post(at+"/resume", `{"set": {"params.fial": ""}}`).problem(http.StatusBadRequest, "invalid", "params.fial")
		w.post(at+"/resume", `{"set": {"params.fail": ""}, "reason": "typo"}`).want(http.StatusAccepted, nil)
		if x := w.ended(id); x.State != courier.Completed {
			t.Fatalf("%+v", x)
		}
		var again httpapi.Started
		w.post(at+"/rerun", `{"params": {"fail": "", "text": "b"}}`, "Idempotency-Key", "r").want(http.StatusAccepted, &again)
		if x := w.ended(string(again.ID)); x.State != courier.Completed || string(x.Result) != `"b"` || x.RerunOf != courier.ExecutionID(id) {
			t.Errorf("%+v", x)
		}
	})
}

// A cancel leads into the finally part of a job unless its body says otherwise, and the second
// one ends it; a bulk can leave it out as well.
func TestCanceloutFinally(t *testing.T) {
	step := func(id string, seconds int) courier.StepSpec {
		return courier.StepSpec{ID: id, Type: "test.work", Config: map[string]any{"seconds": seconds}}
	}
	steps := []courier.StepSpec{step("work", 200), {Type: "flow.finally"}, step("tidy", 100)}
	jobWorld(t, engine.Options{}, courier.Job{Steps: steps}, func(w *world) {
		w.begin()
		for _, c := range []struct {
			bodies  []string
			seconds int
		}{
			{[]string{""}, 100},
			{[]string{`{"without_finally": true}`}, 0},
			{[]string{"", ""}, 10},
			{[]string{"", `{"without_finally": true, "reason": "now"}`}, 10},
		} {
			id := w.start("job", "{}")
			time.Sleep(10 * time.Second)
			from := time.Now()
			for i, body := range c.bodies {
				if i > 0 {
					time.Sleep(10 * time.Second)
					w.is(id, "finishing")
				}
				w.post("v1/executions/"+id+"/cancel", body).want(http.StatusAccepted, nil)
			}
			if x := w.ended(id); x.State != courier.Cancelled || x.EndedAt.Sub(from).Round(time.Second) != time.Duration(c.seconds)*time.Second {
				t.Errorf("%q: %s after %s", c.bodies, x.State, x.EndedAt.Sub(from))
			}
		}
		id := w.start("job", "{}")
		time.Sleep(10 * time.Second)
		from := time.Now()
		w.post("v1/bulk", `{"action": "cancel", "ids": ["`+id+`"], "without_finally": true}`).want(http.StatusOK, nil)
		if x := w.ended(id); x.State != courier.Cancelled || x.EndedAt.Sub(from) > time.Second {
			t.Errorf("a bulk: %s after %s", x.State, x.EndedAt.Sub(from))
		}
		w.post("v1/bulk", `{"action": "pause", "ids": ["`+id+`"], "without_finally": true}`).want(http.StatusBadRequest, nil)
	})
}
