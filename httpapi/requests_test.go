package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/courierhq/courier"
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
