package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/store"
)

// Who operates a job acknowledges its troubles, with a reason and until an instant; others see who
// knows of it.
func TestAcknowledge(t *testing.T) {
	virtual(t, &httpapi.Options{Access: policy()}, func(w *world) {
		w.ended(w.start("report", `{"params": {"fail": "no"}}`))
		key := func(user string) (e attention.Entry) {
			t.Helper()
			var list attention.List
			w.as(user).get("v1/attention").want(http.StatusOK, &list)
			if len(list.Entries) != 1 {
				t.Fatalf("%+v", list)
			}
			return list.Entries[0]
		}
		at := "v1/attention/" + key("vera").Key
		body := func(until time.Duration, reason string) string {
			return fmt.Sprintf(`{"reason": %q, "until": %q}`, reason, time.Now().Add(until).UTC().Format(time.RFC3339))
		}
		w.as("vera").post(at+"/acknowledge", body(time.Hour, "known")).problem(http.StatusForbidden, "forbidden")
		w.as("ben").post(at+"/acknowledge", body(time.Hour, "known")).problem(http.StatusNotFound, "not_found")
		w.as("otto").post(at+"/acknowledge", body(time.Hour, " ")).problem(http.StatusBadRequest, "invalid", "/reason", "say why")
		for _, d := range []time.Duration{-time.Second, 31 * 24 * time.Hour} {
			w.as("otto").post(at+"/acknowledge", body(d, "known")).problem(http.StatusBadRequest, "invalid", "", "in the next 30 days")
		}
		w.as("otto").post("v1/attention/failed.none/acknowledge", body(time.Hour, "known")).problem(http.StatusNotFound, "not_found")
		var a store.Acknowledgement
		w.as("otto").post(at+"/acknowledge", body(time.Hour, "known")).want(http.StatusOK, &a)
		if a.By != "otto" || a.Reason != "known" || a.Title != key("vera").Title || a.Snoozed || a.At.IsZero() {
			t.Errorf("%+v", a)
		}
		if e := key("admin"); e.Acknowledged == nil || e.Acknowledged.By != "otto" || e.Returned != nil {
			t.Errorf("%+v", e)
		}
		list, err := w.engine.Journal(t.Context(), store.ActionFilter{Kind: "attention", Acts: true})
		if err != nil || len(list) != 3 || list[0].Verb != "acknowledged" || list[0].By != "otto" || list[0].Reason != "known" || list[0].Via != "api" {
			t.Errorf("%+v, %v", list, err)
		}
		w.as("vera").send("DELETE", at+"/acknowledgement", "").problem(http.StatusForbidden, "forbidden")
		w.as("otto").send("DELETE", at+"/acknowledgement", "").want(http.StatusNoContent, nil)
		w.as("otto").send("DELETE", at+"/acknowledgement", "").problem(http.StatusNotFound, "not_found")
		if e := key("admin"); e.Acknowledged != nil || e.Returned != nil || e.Reason != courier.ReasonError {
			t.Errorf("%+v", e)
		}
	})
}
