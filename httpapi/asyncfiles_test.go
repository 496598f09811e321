package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// withInbound returns a world with a depot, the job inbound, and an endpoint for files.
func withInbound(t *testing.T, opt *httpapi.AsyncOptions) (*couriertest.Depot, *endpoint) {
	t.Helper()
	d := new(couriertest.Depot)
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy(), Depot: d, MaxUpload: 1000})
	w.defineInbound(0)
	opt.Files = true
	return d, w.on("/in/{customer}", opt)
}

// A form becomes the files and fields of the request, and another body is one file.
func TestAsyncFiles(t *testing.T) {
	d, e := withInbound(t, &httpapi.AsyncOptions{})
	body, kind := form(part{"f", "run.sh", "echo"}, part{"service", "", "x"}, part{"f", "a.csv", "1"})
	x := e.accepted("POST", "/in/acme", body, http.Header{"X-User": {"admin"}, "Content-Type": {kind}})
	var got struct{ Request httpapi.Received }
	if err := json.Unmarshal(x.Params, &got); err != nil {
		t.Fatal(err)
	}
	r := got.Request
	if len(r.Files) != 2 || r.Files[0].Name != "run.sh" || r.Files[1].Size != 1 || r.BodyEncoding != "form" || r.Route["customer"] != "acme" {
		t.Errorf("%s", x.Params)
	}
	if fields, _ := r.Body.(map[string]any); fields["service"] != "x" {
		t.Errorf("%s", x.Params)
	}
	if content, _ := d.Content(depot.InputKey(x.ID, "run.sh")); content != "echo" {
		t.Errorf("%q", content)
	}
	for disposition, name := range map[string]string{"": "body", `attachment; filename="in voice.csv"`: "in voice.csv", "attachment; filename*=UTF-8''%C3%A4.csv": "ä.csv"} {
		head := http.Header{"X-User": {"admin"}, "Content-Type": {"text/csv"}}
		if disposition != "" {
			head.Set("Content-Disposition", disposition)
		}
		x := e.accepted("PUT", "/in/acme", "1;2", head)
		if content, _ := d.Content(depot.InputKey(x.ID, name)); content != "1;2" || strings.Contains(string(x.Params), `"body":"`) {
			t.Errorf("%s: %q, %s", name, content, x.Params)
		}
	}
}

// What is missing or wrong is refused, and leaves nothing.
func TestAsyncFilesRefused(t *testing.T) {
	d, e := withInbound(t, &httpapi.AsyncOptions{Require: []string{"run.sh", "data.csv"}})
	csv := http.Header{"X-User": {"ann"}, "Content-Type": {"text/csv"}}
	send := func(body string, head http.Header, status int, code string, texts ...string) {
		t.Helper()
		head = head.Clone()
		head.Set("X-User", "admin")
		e.send("POST", "/in/acme", body, head).problem(status, code, texts...)
		e.nothing(d)
	}
	send("", csv, 400, "missing_file")
	send("1", csv, 400, "missing_file", "run.sh", "data.csv")
	send("1", http.Header{"Content-Disposition": {"attachment"}}, 400, "invalid", "Content-Disposition")
	send("1", http.Header{"Content-Disposition": {`attachment; filename="../a"`}}, 400, "unsafe_name")
	send(strings.Repeat("x", 1001), csv, 413, "too_large")
	body, kind := form(part{"f", "run.sh", "1"}, part{"a", "", "1"}, part{"a", "", "2"}, part{"f", "data.csv", "1"})
	send(body, http.Header{"Content-Type": {kind}}, 400, "invalid", "/a")
	body, kind = form(part{"f", "run.sh", "1"}, part{"user_id", "", "ben"}, part{"f", "data.csv", "1"})
	send(body, http.Header{"Content-Type": {kind}}, 403, "forbidden")
	e.send("POST", "/in/acme", body, http.Header{"X-User": {"nobody"}, "Content-Type": {kind}}).problem(404, "not_found")
	e.nothing(d)
}

// The files count for an idempotency key, also where they are no parameters.
func TestAsyncFilesTwice(t *testing.T) {
	d, e := withInbound(t, &httpapi.AsyncOptions{Params: func(*httpapi.Received) (map[string]any, error) { return nil, nil }})
	head := http.Header{"X-User": {"admin"}, "Content-Type": {"text/csv"}, "Idempotency-Key": {"k"}}
	first := e.accepted("POST", "/in/acme", "1", head)
	if again := e.accepted("POST", "/in/acme", "1", head); again.ID != first.ID {
		t.Errorf("%s and %s", first.ID, again.ID)
	}
	e.send("POST", "/in/acme", "2", head).problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
	e.holds(d, 1, 1)
	// Params that the host refuses leave no file.
	d, e = withInbound(t, &httpapi.AsyncOptions{Params: func(*httpapi.Received) (map[string]any, error) {
		return nil, courier.Errorf(courier.ErrInvalid, "not today")
	}})
	e.send("POST", "/in/acme", "1", head).problem(http.StatusBadRequest, "invalid", "not today")
	e.nothing(d)
}

// A job that requires files is started by an upload and by an async endpoint, with the same
// parameters; a field of the form picks the job, and says until when it has to begin.
func TestOneRuleForInputs(t *testing.T) {
	virtual(t, &httpapi.Options{Access: clientOf("inbound"), Depot: new(couriertest.Depot)}, func(w *world) {
		params := map[string]any{"files": courier.Param{Type: "list", Required: true}, "customer": courier.Param{Type: "text"}, "copies": courier.Param{Type: "integer"}}
		define := func(name string, params map[string]any) {
			_, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: name, Queue: "night", Params: params, Steps: []courier.StepSpec{{Type: "test.work"}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		define("inbound", params)
		define("other", params)
		define("both", map[string]any{"files": courier.Param{Type: "list", Required: true}, "request": nil})
		define("own", map[string]any{"files": courier.Param{Type: "list"}, "expires_seconds": courier.Param{Type: "integer"}})
		e := w.on("POST /in", &httpapi.AsyncOptions{Files: true, Expires: time.Hour, JobField: "service"})
		formParts := form
		form := func(more ...part) (string, string) {
			return formParts(append([]part{{"f", "a.csv", "1;2"}, {"customer", "", "acme"}, {"copies", "", "3"}}, more...)...)
		}
		admin := func(kind string) http.Header { return http.Header{"X-User": {"admin"}, "Content-Type": {kind}} }
		body, kind := form()
		var started httpapi.Started
		w.post("v1/jobs/inbound/executions", body, "Content-Type", kind).want(http.StatusAccepted, &started)
		upload, err := w.engine.Executions().Get(w.Context(), started.ID)
		if err != nil {
			t.Fatal(err)
		}
		if x := e.accepted("POST", "/in", body, admin(kind)); string(x.Params) != string(upload.Params) || !strings.Contains(string(x.Params), `"copies": 3`) && !strings.Contains(string(x.Params), `"copies":3`) || !strings.Contains(string(x.Params), "a.csv") {
			t.Errorf("an async endpoint makes %s, and an upload %s", x.Params, upload.Params)
		}
		if x := e.accepted("POST", "/in", "1;2", admin("text/csv")); !strings.Contains(string(x.Params), `"body"`) || x.Job != "inbound" {
			t.Errorf("a body that is one file makes %s", x.Params)
		}
		body, kind = formParts(part{"f", "a.csv", "1"}, part{"service", "", "both"})
		if x := e.accepted("POST", "/in", body, admin(kind)); x.Job != "both" || strings.Count(string(x.Params), "a.csv") != 2 {
			t.Errorf("%s has %s", x.Job, x.Params)
		}
		for _, c := range []struct {
			user, job string
			status    int
		}{
			{"ann", "inbound", http.StatusAccepted}, {"ann", "other", http.StatusNotFound}, {"ann", "othr", http.StatusNotFound},
			{"admin", "othr", http.StatusNotFound}, {"admin", "", http.StatusBadRequest},
		} {
			body, kind := formParts(part{"f", "a.csv", "1"}, part{"service", "", c.job})
			a := e.send("POST", "/in", body, http.Header{"X-User": {c.user}, "Content-Type": {kind}})
			if a.Code != c.status || c.user == "admin" && c.job != "" && !strings.Contains(a.Body.String(), `did you mean \"other\"`) {
				t.Errorf("%s picks %q: %d %s", c.user, c.job, a.Code, a.Body)
			}
		}

		// The time in which it has to begin.
		late := func(id courier.ExecutionID) bool {
			x, err := w.engine.Executions().Get(w.Context(), id)
			return err == nil && x.State == courier.Failed && x.Failure.Reason == courier.ReasonExpired
		}
		body, kind = form(part{"expires_seconds", "", "60"})
		w.post("v1/jobs/inbound/executions", body, "Content-Type", kind).want(http.StatusAccepted, &started)
		minute := e.accepted("POST", "/in", body, admin(kind)).ID
		body, kind = form()
		hour := e.accepted("POST", "/in", body, admin(kind)).ID
		body, kind = formParts(part{"f", "a.csv", "1"}, part{"expires_seconds", "", "60"}, part{"service", "", "own"})
		own := e.accepted("POST", "/in", body, admin(kind))
		if !strings.Contains(string(own.Params), "60") {
			t.Errorf("a parameter of that name: %s", own.Params)
		}
		time.Sleep(10 * time.Minute)
		if !late(started.ID) || !late(minute) || late(hour) || late(own.ID) {
			t.Errorf("after ten minutes: upload %t, endpoint %t, option %t, parameter %t", late(started.ID), late(minute), late(hour), late(own.ID))
		}
		if time.Sleep(time.Hour); !late(hour) {
			t.Error("AsyncOptions.Expires has no effect")
		}
		for _, text := range []string{"-1", "soon", "NaN", "1e300", ""} {
			body, kind := form(part{"expires_seconds", "", text})
			w.post("v1/jobs/inbound/executions", body, "Content-Type", kind).problem(http.StatusBadRequest, "invalid", "expires_seconds")
			e.send("POST", "/in", body, admin(kind)).problem(http.StatusBadRequest, "invalid", "expires_seconds")
		}
	})
}

// An endpoint that can't say where its executions are found answers no request.
func TestAsyncNeedsURL(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.defineInbound(0)
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy(), Log: w.logger()})
	w.on("/in", nil).send("POST", "/in", "1", nil).problem(500, "internal", "Options.URL", "/courier/api/")
	if !strings.Contains(w.log.String(), "Options.URL") {
		t.Errorf("the log has %s", w.log)
	}
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy(), URL: "/api/"})
	e := w.on("/in", nil)
	at := e.send("POST", "/in", "1", nil).want(http.StatusAccepted, nil).Header().Get("Location")
	e.send("GET", at, "", nil).want(http.StatusOK, nil)
	w.on("/in", &httpapi.AsyncOptions{Expires: -1}).send("POST", "/in", "1", nil).problem(500, "internal", "AsyncOptions.Expires")
}

// Settings without a meaning are in the answer to each request, and in the log.
func TestAsyncFilesSettings(t *testing.T) {
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy(), Depot: new(couriertest.Depot)})
	w.defineInbound(0)
	w.on("/in", &httpapi.AsyncOptions{Require: []string{"a"}}).send("POST", "/in", "1", nil).problem(500, "internal", "AsyncOptions.Files")
	verify := func(*http.Request, []byte) error { return nil }
	w.on("/in", &httpapi.AsyncOptions{Files: true, Verify: verify}).send("POST", "/in", "1", nil).problem(500, "internal", "Verify")
	w = newWorld(t, memstore.New(), &httpapi.Options{Access: policy()})
	w.on("/in", &httpapi.AsyncOptions{Files: true}).send("POST", "/in", "1", nil).problem(500, "internal", "Options.Depot")
}
