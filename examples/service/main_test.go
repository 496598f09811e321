package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// programEnv makes the test binary the program itself.
const programEnv = "COURIER_TEST_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A client sends requests to a service without a network.
type client struct {
	t   *testing.T
	svc *service
}

// virtual runs f with a service in virtual time, whose engine is started if
// asked for.
func virtual(t *testing.T, started bool, f func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc, err := newService(t.Context(), t.TempDir(), 10, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if started {
			if err := svc.engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f(t, &client{t, svc})
		if err := svc.engine.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// do sends a request and returns the answer, which must have the status and be
// JSON, decoded into v if that is not nil.
func (c *client) do(r *http.Request, status int, v any) *http.Response {
	c.t.Helper()
	rec := httptest.NewRecorder()
	c.svc.ServeHTTP(rec, r)
	what := fmt.Sprintf("%s %s: %d %s", r.Method, r.URL, rec.Code, strings.TrimSpace(rec.Body.String()))
	if rec.Code != status {
		c.t.Fatalf("%s; want %d", what, status)
	}
	if h := rec.Header().Get("Content-Type"); h != "application/json" || !json.Valid(rec.Body.Bytes()) {
		c.t.Errorf("%s: is no JSON; its type is %q", what, h)
	}
	if v != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
			c.t.Errorf("%s: %v", what, err)
		}
	}
	return rec.Result()
}

func (c *client) get(path string, status int, v any) {
	c.t.Helper()
	c.do(httptest.NewRequest(http.MethodGet, path, nil), status, v)
}

func (c *client) post(path, body string, status int, v any) *http.Response {
	c.t.Helper()
	return c.do(httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)), status, v)
}

// refused posts what is refused with a message that contains text.
func (c *client) refused(path, body string, status int, text string) {
	c.t.Helper()
	var got struct{ Error string }
	if c.post(path, body, status, &got); !strings.Contains(got.Error, text) {
		c.t.Errorf("POST %s %.80s: %q lacks %q", path, body, got.Error, text)
	}
}

// at requires the status of an execution and the step that it stands at.
func (c *client) at(path, status string, step int) view {
	c.t.Helper()
	var v view
	c.get(path, http.StatusOK, &v)
	if v.Status != status || v.Position.Step != step {
		c.t.Errorf("%s is %s at step %d; want %s at step %d", path, v.Status, v.Position.Step, status, step)
	}
	return v
}

const jobs = "/jobs/demo/executions"

func TestExecutionIsFollowed(t *testing.T) {
	virtual(t, true, func(t *testing.T, c *client) {
		var v view
		path := c.post(jobs, `{"params": {"seconds": 60}, "priority": 3}`, http.StatusAccepted, &v).Header.Get("Location")
		if path != "/executions/"+string(v.ID) || v.Status != "queued" || v.Job != "demo" || v.Version != 1 {
			t.Errorf("Location %q, %+v", path, v)
		}
		time.Sleep(90 * time.Second)
		if v := c.at(path, "running", 1); v.Step != `step 1 "convert" (demo.work)` || v.StartedAt.IsZero() || !v.EndedAt.IsZero() {
			t.Errorf("%+v", v)
		}
		time.Sleep(2 * time.Minute)
		if v := c.at(path, "completed", 3); v.Step != "" || v.Failure != nil || v.EndedAt.IsZero() {
			t.Errorf("%+v", v)
		}
		var list []courier.AuditEntry
		c.get(path+"/audit", http.StatusOK, &list)
		for i, a := range list {
			if a.Seq != int64(i+1) || string(a.Execution) != string(v.ID) {
				t.Errorf("audit entry %d: %+v", i, a)
			}
		}
		if n := len(list); n == 0 || list[0].To != "queued" || list[0].By != "http 192.0.2.1" || list[n-1].To != "completed" {
			t.Errorf("audit: %+v", list)
		}
	})
}

func TestFailureIsShown(t *testing.T) {
	virtual(t, true, func(t *testing.T, c *client) {
		path := c.post(jobs, `{"params": {"error": "the partner is closed"}}`, http.StatusAccepted, nil).Header.Get("Location")
		time.Sleep(time.Minute)
		f := c.at(path, "failed", 2).Failure
		if f == nil || f.ID != "deliver" || f.Reason != courier.ReasonError || f.Message != "the partner is closed" {
			t.Errorf("failure: %+v", f)
		}
		c.post(path+"/resume", "", http.StatusAccepted, nil)
		time.Sleep(time.Minute)
		c.at(path, "failed", 2)
		c.post(path+"/cancel", "", http.StatusAccepted, nil)
		c.at(path, "cancelled", 2)
	})
}

func TestRequests(t *testing.T) {
	virtual(t, true, func(t *testing.T, c *client) {
		path := c.post(jobs, `{"params": {"seconds": 60}}`, http.StatusAccepted, nil).Header.Get("Location")
		time.Sleep(30 * time.Second)
		var v view
		if c.post(path+"/pause", "", http.StatusAccepted, &v); v.Status != "pausing" {
			t.Errorf("the answer to a pause says %s", v.Status)
		}
		time.Sleep(time.Hour)
		c.at(path, "paused", 1)
		c.refused(path+"/pause", "", http.StatusConflict, "is paused already; nothing was changed")
		c.post(path+"/resume", "", http.StatusAccepted, nil)
		time.Sleep(30 * time.Second)
		if c.post(path+"/cancel", "", http.StatusAccepted, &v); v.Status != "cancelling" {
			t.Errorf("the answer to a cancel says %s", v.Status)
		}
		synctest.Wait()
		c.at(path, "cancelled", 1)
		for _, request := range []string{"pause", "resume"} {
			c.refused(path+"/"+request, "", http.StatusConflict, "its state is final; nothing was changed")
		}
		c.refused(path+"/cancel", "", http.StatusConflict, "is cancelled already; nothing was changed")
	})
}

func TestRefused(t *testing.T) {
	virtual(t, false, func(t *testing.T, c *client) {
		const bad = http.StatusBadRequest
		c.refused(jobs, `{"params": `, bad, "body: unexpected EOF")
		c.refused(jobs, `[]`, bad, "body: json: cannot unmarshal array")
		c.refused(jobs, `{} {}`, bad, "body: more than one JSON value")
		c.refused(jobs, `{} no`, bad, "body: more than one JSON value")
		c.refused(jobs, `{"parms": {}}`, bad, `body: json: unknown field "parms"`)
		c.refused(jobs, `{"priority": 100000}`, bad, "body: json: cannot unmarshal number 100000")
		c.refused(jobs, `{"params": {"second": 1}}`, bad, `unknown parameter "second"; did you mean "seconds"?`)
		c.refused(jobs, `{"params": {"error": "`+strings.Repeat("x", maxBody)+`"}}`, http.StatusRequestEntityTooLarge, "body: http: request body too large")
		c.refused("/jobs/dmo/executions", "", http.StatusNotFound, `"dmo"`)
		for _, request := range []string{"pause", "resume", "cancel"} {
			c.refused("/executions/none/"+request, "", http.StatusNotFound, `there is no execution "none"`)
		}
		c.refused("/executions/none/restart", "", http.StatusNotFound, "there is no POST /executions/none/restart here")
		c.refused("/", "", http.StatusNotFound, "there is no POST / here")
		c.refused("/healthz", "", http.StatusMethodNotAllowed, "there is no POST /healthz here")
		c.get("/executions/none", http.StatusNotFound, nil)
		c.get("/executions/none/audit", http.StatusNotFound, nil)
		r := httptest.NewRequest(http.MethodDelete, jobs, nil)
		if h := c.do(r, http.StatusMethodNotAllowed, nil).Header.Get("Allow"); h != "POST" {
			t.Errorf("Allow: %q", h)
		}
		r = httptest.NewRequest(http.MethodPost, jobs, nil)
		r.Header.Set("Origin", "https://elsewhere.example")
		c.do(r, http.StatusForbidden, nil)
		if list, err := c.svc.engine.Executions().List(t.Context(), store.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("what was refused left %d executions, %v", len(list), err)
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	virtual(t, false, func(t *testing.T, c *client) {
		request := func(key, body string, status int) string {
			t.Helper()
			r := httptest.NewRequest(http.MethodPost, jobs, strings.NewReader(body))
			r.Header.Set("Idempotency-Key", key)
			return c.do(r, status, nil).Header.Get("Location")
		}
		a := request("a", "", http.StatusAccepted)
		if b := request("b", "", http.StatusAccepted); a == b {
			t.Errorf("two keys, one execution")
		}
		if again := request("a", "{}", http.StatusAccepted); a != again {
			t.Errorf("one key, two executions: %s, %s", a, again)
		}
		request("a", `{"params": {"seconds": 7}}`, http.StatusConflict)
		request(strings.Repeat("k", 1001), "", http.StatusBadRequest)
	})
}

func TestHealth(t *testing.T) {
	virtual(t, false, func(t *testing.T, c *client) {
		c.get("/healthz", http.StatusOK, nil)
		c.svc.stopping.Store(true)
		c.get("/healthz", http.StatusServiceUnavailable, nil)
	})
}

// TestErrors shows the status of each class of errors, and that what the store
// says goes to the log only.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{courier.ErrNotFound, http.StatusNotFound},
		{courier.ErrConflict, http.StatusConflict},
		{&courier.TransitionError{From: courier.Paused, To: courier.Paused}, http.StatusConflict},
		{courier.ErrInvalid, http.StatusBadRequest},
		{&courier.DefinitionError{Job: "demo"}, http.StatusBadRequest},
		{errors.New("password of the database: hunter2"), http.StatusInternalServerError},
	} {
		var log strings.Builder
		s := &service{log: slog.New(slog.NewTextHandler(&log, nil))}
		rec := httptest.NewRecorder()
		s.fail(rec, httptest.NewRequest(http.MethodGet, "/", nil), fmt.Errorf("request: %w", c.err))
		if rec.Code != c.status {
			t.Errorf("%v: status %d, want %d", c.err, rec.Code, c.status)
		}
		own := c.status == http.StatusInternalServerError
		if strings.Contains(rec.Body.String(), "hunter2") || own != strings.Contains(log.String(), "hunter2") {
			t.Errorf("%v: answer %s, log %s", c.err, rec.Body, &log)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-running", "0"}, {"-patience", "-1s"}, {"-drain", "-1s"}, {"more"}, {"-addr", "127.0.0.1:-1"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}
