package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier/httpapi"
)

// A client starts an execution, and sees how it stands and what it resulted in.
func TestStart(t *testing.T) {
	virtual(t, nil, func(w *world) {
		ann := w.as("ann")
		var got httpapi.Started
		a := ann.post("v1/jobs/report/executions", `{"params": {"text": "hello", "seconds": 1}}`).want(http.StatusAccepted, &got)
		if got.Job != "report" || got.Status != "queued" || got.CreatedAt.IsZero() {
			t.Errorf("%+v", got)
		}
		if want := "../../../v1/executions/" + string(got.ID); a.Header().Get("Location") != want {
			t.Errorf("location %q, not %q", a.Header().Get("Location"), want)
		}
		w.ended(string(got.ID))
		var x httpapi.ClientExecution
		a = ann.get("v1/executions/"+string(got.ID)).want(http.StatusOK, &x)
		if x.Status != "completed" || string(x.Result) != `"hello"` || x.EndedAt.IsZero() {
			t.Errorf("%s", a.Body)
		}
		ann.get("v1/executions/"+string(got.ID), "If-None-Match", a.Header().Get("ETag")).want(http.StatusNotModified, nil)
		w.as("ben").get("v1/executions/"+string(got.ID)).problem(http.StatusNotFound, "not_found")
	})
}

// Prefer: wait waits for the end, and answers with 202 if it does not come.
func TestWait(t *testing.T) {
	virtual(t, nil, func(w *world) {
		ann := w.as("ann")
		var x httpapi.ClientExecution
		a := ann.post("v1/jobs/report/executions", `{"params": {"text": "hello", "seconds": 5}}`, "Prefer", "wait=30").want(http.StatusOK, &x)
		if x.Status != "completed" || string(x.Result) != `"hello"` || a.Header().Get("Preference-Applied") != "wait=30" {
			t.Errorf("%s", a.Body)
		}
		ann.post("v1/jobs/report/executions", `{"params": {"seconds": 50}}`, "Prefer", "wait=30").want(http.StatusAccepted, nil)
		ann.post("v1/jobs/report/executions", "", "Prefer", "wait=x").problem(http.StatusBadRequest, "invalid", "wait=30")
	})
}

// A repeated key is answered as the first time; other parameters under it are refused, and
// a key of another visitor is another key.
func TestIdempotencyKey(t *testing.T) {
	virtual(t, nil, func(w *world) {
		ann := w.as("ann")
		body := `{"params": {"text": "a"}, "hold": true}`
		first := ann.post("v1/jobs/report/executions", body, "Idempotency-Key", "k").want(http.StatusAccepted, nil)
		again := ann.post("v1/jobs/report/executions", body, "Idempotency-Key", "k").want(http.StatusAccepted, nil)
		inBody := ann.post("v1/jobs/report/executions", `{"params": {"text": "a"}, "hold": true, "idempotency_key": "k"}`).want(http.StatusAccepted, nil)
		for _, a := range []answer{again, inBody} {
			if a.Body.String() != first.Body.String() || a.Header().Get("Location") != first.Header().Get("Location") {
				t.Errorf("%s and then %s", first.Body, a.Body)
			}
		}
		ann.post("v1/jobs/report/executions", `{"params": {"text": "b"}}`, "Idempotency-Key", "k").problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		ann.post("v1/jobs/report/executions", `{"idempotency_key": "x"}`, "Idempotency-Key", "k").problem(http.StatusBadRequest, "invalid", "differs")
		other := w.as("ben").post("v1/jobs/report/executions", body, "Idempotency-Key", "k").want(http.StatusAccepted, nil)
		if other.Body.String() == first.Body.String() {
			t.Error("ben got the execution of ann")
		}
		w.put("v1/jobs/second", `{"steps": [{"type": "test.work"}]}`, "If-None-Match", "*").want(http.StatusCreated, nil)
		w.post("v1/jobs/report/executions", `{"params": {"text": "a"}, "key_scope": "orders"}`, "Idempotency-Key", "s").want(http.StatusAccepted, nil)
		w.post("v1/jobs/second/executions", `{"key_scope": "orders"}`, "Idempotency-Key", "s").problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		w.post("v1/jobs/second/executions", `{}`, "Idempotency-Key", "s").want(http.StatusAccepted, nil)
		ann.post("v1/jobs/report/executions", body, "Idempotency-Key", strings.Repeat("k", 201)).problem(http.StatusBadRequest, "invalid", "200")
	})
}

func TestStartRefused(t *testing.T) {
	virtual(t, &httpapi.Options{Access: policy(), MaxBody: 1000}, func(w *world) {
		for _, c := range []struct {
			job, body, code string
			status          int
			texts           []string
		}{
			{"report", `{"params": {"txet": 1}}`, "invalid", 400, []string{"txet", "text"}},
			{"report", `{"parms": {}}`, "invalid", 400, []string{"parms"}},
			{"report", `{"params": {}, "params": {}}`, "invalid", 400, []string{"repeated"}},
			{"report", `{"params": []}`, "invalid", 400, []string{"/params", "an object", "a list"}},
			{"report", `{"priority": 70000, "delay_seconds": 1}`, "invalid", 400, []string{"/priority", "32767"}},
			{"report", `{"delay_seconds": -1, "max_attempts": 0, "timeout_seconds": 1e300}`, "invalid", 400, []string{"/delay_seconds", "/max_attempts", "/timeout_seconds"}},
			{"report", `{`, "invalid", 400, []string{"no JSON", "line 1"}},
			{"report", `{} {}`, "invalid", 400, nil},
			{"report", `{"labels": {"by": "ben"}}`, "invalid", 400, []string{"/labels/by"}},
			{"report", `{"params": {"text": "` + strings.Repeat("x", 1000) + `"}}`, "too_large", 413, []string{"1000 bytes"}},
			{"report", `{"limit_keys": ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17"]}`, "invalid", 400, []string{"limit_keys: there are 17; 16 is the most"}},
			{"reprot", `{}`, "not_found", 404, []string{"report"}},
		} {
			w.post("v1/jobs/"+c.job+"/executions", c.body).problem(c.status, c.code, c.texts...)
		}
		w.send("POST", "v1/jobs/report/executions", "<x/>", "Content-Type", "text/xml").problem(http.StatusUnsupportedMediaType, "media_type")
		w.as("ann").post("v1/jobs/hidden/executions", "").problem(http.StatusNotFound, "not_found")
		w.as("stranger").post("v1/jobs/report/executions", "").problem(http.StatusUnauthorized, "unauthenticated")
	})
}
