package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

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
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: access(), Depot: d, MaxUpload: 1000})
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

// Settings without a meaning are in the answer to each request, and in the log.
func TestAsyncFilesSettings(t *testing.T) {
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: access(), Depot: new(couriertest.Depot)})
	w.defineInbound(0)
	w.on("/in", &httpapi.AsyncOptions{Require: []string{"a"}}).send("POST", "/in", "1", nil).problem(500, "internal", "AsyncOptions.Files")
	verify := func(*http.Request, []byte) error { return nil }
	w.on("/in", &httpapi.AsyncOptions{Files: true, Verify: verify}).send("POST", "/in", "1", nil).problem(500, "internal", "Verify")
	w = newWorld(t, memstore.New(), &httpapi.Options{Access: access()})
	w.on("/in", &httpapi.AsyncOptions{Files: true}).send("POST", "/in", "1", nil).problem(500, "internal", "Options.Depot")
}
