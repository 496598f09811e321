package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
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

// A client sends requests to a service without a network, from this host.
type client struct {
	t   *testing.T
	svc *service
}

// virtual runs f with a service in virtual time.
func virtual(t *testing.T, f func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc, err := newService(t.Context(), config{url: "http://localhost:8080", dir: t.TempDir(), metrics: metricsToken, running: 10}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := svc.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, &client{t, svc})
		svc.pages.Close()
		if err := errors.Join(svc.engine.Stop(t.Context()), svc.close()); err != nil {
			t.Error(err)
		}
	})
}

// do sends a request and returns the headers of the answer, which must have the status.
func (c *client) do(method, path, body string, status int, v any) http.Header {
	c.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:1000", "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", body)
	r.Header.Set("Authorization", "Bearer "+c.svc.policy.Token())
	rec := httptest.NewRecorder()
	c.svc.routes.ServeHTTP(rec, r)
	if rec.Code != status {
		c.t.Fatalf("%s %s: %d %s; want %d", method, path, rec.Code, rec.Body, status)
	}
	if v != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
			c.t.Errorf("%s %s: %v", method, path, err)
		}
	}
	return rec.Header()
}

// A view is what these tests read of an execution.
type view struct {
	ID       courier.ExecutionID
	Status   string
	Position courier.Position
	Result   string
	Failure  *courier.Failure
}

// at requires the status of an execution and the step that it stands at.
func (c *client) at(path, status string, step int) view {
	c.t.Helper()
	var v view
	c.do("GET", path, "", http.StatusOK, &v)
	if v.Status != status || v.Position.Step != step {
		c.t.Errorf("%s is %s at step %d; want %s at step %d", path, v.Status, v.Position.Step, status, step)
	}
	return v
}

func TestReport(t *testing.T) {
	virtual(t, func(t *testing.T, c *client) {
		request := func() string {
			return c.do("POST", "/reports/acme", `{"seconds": 60}`, http.StatusAccepted, nil).Get("Location")
		}
		path := request()
		time.Sleep(90 * time.Second)
		c.at(path, "running", 1)
		if again := request(); again != path {
			t.Errorf("one key, two executions: %s, %s", path, again)
		}
		time.Sleep(2 * time.Minute)
		if v := c.at(path, "completed", 3); v.Result != "the report for acme" {
			t.Errorf("%+v", v)
		}
		c.do("POST", "/reports/acme", `["acme"]`, http.StatusBadRequest, nil)
		c.do("POST", "/reports/acme", `{"second": 1}`, http.StatusBadRequest, nil)
	})
}

// metricsToken is that of a scraper.
const metricsToken = "a token for Prometheus"

// TestMetrics: a scraper reads what the service does by a token that opens nothing else.
func TestMetrics(t *testing.T) {
	virtual(t, func(t *testing.T, c *client) {
		c.do("POST", "/reports/acme", `{"seconds": 1}`, http.StatusAccepted, nil)
		time.Sleep(time.Minute)
		get := func(path string) (int, string) {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Authorization", "Bearer "+metricsToken)
			r.RemoteAddr, r.Host = "127.0.0.1:1000", "localhost"
			w := httptest.NewRecorder()
			c.svc.routes.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		if code, text := get("/courier/api/metrics"); code != http.StatusOK || !strings.Contains(text, `courier_slices_total{cicd_pipeline_name="report",courier_slice_end="completed"} 1`) {
			t.Errorf("%d\n%s", code, text)
		}
		if code, text := get("/courier/api/v1/jobs"); code != http.StatusUnauthorized {
			t.Errorf("jobs: %d %s", code, text)
		}
	})
}

func TestRequests(t *testing.T) {
	virtual(t, func(t *testing.T, c *client) {
		path := c.do("POST", "/reports/acme", `{"seconds": 60, "error": "the partner is closed"}`, http.StatusAccepted, nil).Get("Location")
		time.Sleep(30 * time.Second)
		c.do("POST", path+"/pause", "", http.StatusAccepted, nil)
		time.Sleep(time.Hour)
		c.at(path, "paused", 1)
		c.do("POST", path+"/resume", "", http.StatusAccepted, nil)
		time.Sleep(time.Hour)
		if f := c.at(path, "failed", 2).Failure; f == nil || f.ID != "deliver" || f.Message != "the partner is closed" {
			t.Errorf("failure: %+v", f)
		}
		c.do("POST", path+"/cancel", "", http.StatusAccepted, nil)
		c.at(path, "cancelled", 2)
	})
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-running", "0"}, {"-patience", "-1s"}, {"-drain", "-1s"}, {"more"}, {"-addr", "127.0.0.1:-1"},
		{"-lease", "1ms"}, {"-database", "postgres://localhost/none"}, {"-otlp", "localhost:4318"}, {"-metrics-token", "missing"},
	} {
		if err := run(args); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}

// The pages for operators show what the endpoint has started.
func TestPages(t *testing.T) {
	virtual(t, func(t *testing.T, c *client) {
		c.do("POST", "/reports/acme", `{"seconds": 1}`, http.StatusAccepted, nil)
		time.Sleep(2 * time.Second)
		rec := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/courier/executions", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1000", "localhost"
		r.Header.Set("Authorization", "Bearer "+c.svc.policy.Token())
		c.svc.routes.ServeHTTP(rec, r)
		if page := rec.Body.String(); rec.Code != http.StatusOK || !strings.Contains(page, "completed") || !strings.Contains(page, "report") {
			t.Errorf("%d %s", rec.Code, page)
		}
	})
}
