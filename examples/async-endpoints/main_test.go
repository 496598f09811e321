package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/process"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

func TestMain(m *testing.M) {
	process.Run(func(string) error { main(); return nil })
	pgtest.Main(m)
}

// defaults are those of the flags, but for one job at a time.
func defaults() options {
	return options{timeout: 30 * time.Minute, claimTimeout: 5 * time.Minute, retryBase: 2 * time.Second, maxRetries: 3, concurrency: 1, lease: 15 * time.Second}
}

// A client sends requests to a service without a network.
type client struct {
	*testing.T
	svc   *service
	store *memstore.Store
	log   *strings.Builder
}

// virtual runs f in virtual time, with a service on the memory store whose engine runs.
func virtual(t *testing.T, opt options, f func(c *client)) {
	t.Helper()
	stopped(t, opt, func(c *client) {
		if err := c.svc.engine.Start(c.Context()); err != nil {
			c.Fatal(err)
		}
		f(c)
	})
}

// stopped is virtual without a worker.
func stopped(t *testing.T, opt options, f func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &client{T: t, store: memstore.New(), log: new(strings.Builder)}
		opt.dir, opt.log = t.TempDir(), slog.New(slog.NewTextHandler(c.log, nil))
		var err error
		if c.svc, err = newService(t.Context(), c.store, opt, append(slices.Clone(endpoints), endpoint{"PUT /any/{a}/{rest...}", "any", anything})); err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.svc.api.Close()
			if err := c.svc.engine.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		f(c)
	})
}

// anything is a second handler: it returns what it was given, or fails for good.
func anything(_ context.Context, r request) (any, error) {
	if r.Payload == "fatal" {
		return nil, courier.Permanent(errors.New("this can't be done"))
	}
	return r, nil
}

// send sends a request with headers as names and values, and requires the status of the answer.
func (c *client) send(method, target, body string, code int, headers ...string) *httptest.ResponseRecorder {
	c.Helper()
	r := httptest.NewRequestWithContext(c.Context(), method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	if strings.HasSuffix(target, "/status") && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	c.svc.routes.ServeHTTP(rec, r)
	if rec.Code != code {
		c.Fatalf("%s %s %s: %d %s; want %d", method, target, body, rec.Code, rec.Body, code)
	}
	return rec
}

// post starts a job of report, and returns its id.
func (c *client) post(body string) string {
	c.Helper()
	return string(decode[job](c.T, c.send("POST", "/reports/acme", body, http.StatusAccepted)).ID)
}

// see returns a job when everything has happened that happens now.
func (c *client) see(id string) job {
	c.Helper()
	synctest.Wait()
	return decode[job](c.T, c.send("GET", "/jobs/"+id, "", http.StatusOK))
}

// is requires the status of a job, and returns it.
func (c *client) is(id string, want status) job {
	c.Helper()
	j := c.see(id)
	if j.Status != want {
		c.Fatalf("the job is %s, not %s: %+v", j.Status, want, j)
	}
	return j
}

func decode[T any](t *testing.T, rec *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, rec.Body)
	}
	return v
}

var guid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// fields are those of the document, with what each is in JSON.
var fields = map[string]string{
	"id": "string", "name": "string", "status": "string", "headers": "object", "routeParams": "object", "queryParams": "list", "payload": "string",
	"result": "string or null", "error": "object or null", "retryCount": "number", "maxRetries": "number", "retryDelayUntil": "string or null",
	"workerId": "string or null", "createdAt": "string", "startedAt": "string or null", "completedAt": "string or null", "lastUpdatedAt": "string",
}

// kinds requires that a job has all fields of the document, each of its kind, and no other.
func kinds(t *testing.T, raw []byte) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range fields {
		kind := map[reflect.Kind]string{reflect.String: "string", reflect.Map: "object", reflect.Slice: "list", reflect.Float64: "number", reflect.Invalid: "null"}[reflect.ValueOf(got[name]).Kind()]
		if _, ok := got[name]; !ok || !strings.Contains(want, kind) {
			t.Errorf("%s is %s in %s; want %s", name, kind, raw, want)
		}
	}
	if len(got) != len(fields) {
		t.Errorf("%d fields in %s", len(got), raw)
	}
}

// A request of any method is answered with 202, the job and where it is found, and the job
// keeps the request. A worker calls the handler later, whose result the job then has.
func TestRequestBecomesJob(t *testing.T) {
	stopped(t, defaults(), func(c *client) {
		rec := c.send("PUT", "/any/x%20y/b/c?tag=a&sort=up&tag=b", `{"n":  1.50}`, http.StatusAccepted,
			"Content-Type", "application/json", "X-Tenant", "acme", "X-Tenant", "more", "Authorization", "Bearer canary", "Cookie", "canary")
		j := decode[job](t, rec)
		if got := rec.Header().Get("Location"); got != "/jobs/"+string(j.ID) || !guid.MatchString(string(j.ID)) {
			t.Errorf("Location %s of %s", got, j.ID)
		}
		kinds(t, rec.Body.Bytes())
		want := request{
			Headers:     map[string][]string{"Content-Type": {"application/json"}, "X-Tenant": {"acme", "more"}},
			RouteParams: map[string]string{"a": "x y", "rest": "b/c"},
			QueryParams: []queryParam{{"tag", []string{"a", "b"}}, {"sort", []string{"up"}}},
			Payload:     `{"n":  1.50}`,
		}
		if j.Name != "any" || j.Status != queued || !reflect.DeepEqual(j.request, want) {
			t.Errorf("%+v", j)
		}
		if strings.Contains(rec.Body.String()+c.log.String(), "canary") {
			t.Errorf("%s", rec.Body)
		}
		if j.Result != nil || j.Error != nil || j.RetryDelayUntil != nil || j.WorkerID != nil || j.StartedAt != nil || j.CompletedAt != nil || j.MaxRetries != 3 || j.RetryCount != 0 {
			t.Errorf("%s", rec.Body)
		}
		if err := c.svc.engine.Start(c.Context()); err != nil {
			t.Fatal(err)
		}
		j = c.is(string(j.ID), completed)
		var got request
		if j.Result == nil {
			t.Fatalf("%+v", j)
		}
		if err := json.Unmarshal([]byte(*j.Result), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s, %v", *j.Result, err)
		}
	})
}

// in returns a job in a status, with a worker that has another job for an hour unless the job
// is in progress itself.
func (c *client) in(s status) string {
	c.Helper()
	var id string
	switch s {
	case completed:
		id = c.post("")
	case failed:
		c.send("PUT", "/any/a/b", "fatal", http.StatusAccepted)
		id = string(decode[job](c.T, c.send("PUT", "/any/a/b", "fatal", http.StatusAccepted)).ID)
	case scheduled:
		id = c.post(`{"fail": "closed"}`)
	}
	time.Sleep(time.Second)
	busy := c.post(`{"seconds": 3600}`)
	c.is(busy, inProgress)
	switch s {
	case inProgress:
		id = busy
	case queued, canceled:
		id = c.post("")
	}
	if s == canceled {
		c.send("PUT", "/jobs/"+id+"/status", `{"status": "Canceled"}`, http.StatusOK)
	}
	c.is(id, s)
	return id
}

// allowed is the document's table: whether a request does it, a worker, or nobody.
var allowed = map[[2]status]string{
	{queued, completed}: "nobody", {queued, failed}: "worker", {queued, canceled}: "request", {queued, inProgress}: "worker", {queued, scheduled}: "request",
	{scheduled, queued}: "request", {scheduled, canceled}: "request",
	{inProgress, completed}: "worker", {inProgress, failed}: "worker", {inProgress, canceled}: "request", {inProgress, scheduled}: "worker",
	{failed, queued}: "request", {failed, scheduled}: "request", {failed, canceled}: "request",
	{completed, canceled}: "nobody",
}

// Each pair of statuses is asked for: those that the table allows on request are reached, one
// to the same status changes nothing, and all others are refused and change nothing. What a
// worker does is shown by TestWorkersMakeTheirTransitions.
func TestTransitionsOnRequest(t *testing.T) {
	opt := defaults()
	opt.timeout, opt.claimTimeout, opt.retryBase = 48*time.Hour, 24*time.Hour, time.Hour
	for _, from := range statuses {
		for _, to := range statuses {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				virtual(t, opt, func(c *client) {
					id := c.in(from)
					before := c.see(id)
					body := fmt.Sprintf(`{"status": %q}`, to)
					if to == scheduled {
						body = `{"status": "Scheduled", "delaySeconds": 90}`
					}
					time.Sleep(time.Second)
					path := "/jobs/" + id + "/status"
					switch by := allowed[[2]status{from, to}]; {
					case from == to:
						c.send("PUT", path, body, http.StatusOK)
					case by == "request" && from == inProgress:
						c.send("PUT", path, body, http.StatusAccepted)
					case by == "request":
						c.send("PUT", path, body, http.StatusOK)
					default:
						rec := c.send("PUT", path, body, http.StatusConflict)
						var p struct{ Code, Detail string }
						if p = decode[struct{ Code, Detail string }](t, rec); p.Code != "transition" || !strings.Contains(p.Detail, "can't be made "+string(to)) {
							t.Errorf("%s", rec.Body)
						}
						if reason := transitions[[2]status{from, to}]; by == "nobody" && (reason == "" || !strings.Contains(p.Detail, reason)) {
							t.Errorf("%s does not say why", rec.Body)
						}
						to = from
					}
					after := c.is(id, to)
					if from == to && !reflect.DeepEqual(after, before) {
						t.Errorf("%+v and then %+v", before, after)
					}
					if from != to && to == scheduled && time.Until(*after.RetryDelayUntil) != 90*time.Second {
						t.Errorf("%+v", after)
					}
				})
			})
		}
	}
	if len(transitions) != len(allowed) {
		t.Errorf("%d transitions, not %d", len(transitions), len(allowed))
	}
}

// A job that a process has paused to move it, and has died, is Queued, and goes on with the next
// request. One that a worker takes before it is paused goes on as if nothing had been asked.
func TestMovesThatAreCutOff(t *testing.T) {
	virtual(t, defaults(), func(c *client) {
		busy := c.post(`{"seconds": 60}`)
		ids := []string{c.post(""), c.post(""), c.post("")}
		for i, body := range []string{`{"status": "Queued"}`, `{"status": "Scheduled", "delaySeconds": 90}`, `{"status": "Canceled"}`} {
			if _, err := c.svc.engine.Pause(c.Context(), courier.ExecutionID(ids[i]), courier.By{}); err != nil {
				t.Fatal(err)
			}
			c.is(ids[i], queued)
			c.send("PUT", "/jobs/"+ids[i]+"/status", body, http.StatusOK)
		}
		stale := courier.Execution{ID: courier.ExecutionID(busy), State: courier.Queued, CreatedAt: time.Now()}
		if _, err := c.svc.reschedule(c.Context(), stale, time.Second); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "has begun meanwhile") {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * time.Minute)
		for id, want := range map[string]status{busy: completed, ids[0]: completed, ids[1]: completed, ids[2]: canceled} {
			c.is(id, want)
		}
	})
}

// A worker takes a queued job, completes it, fails it, schedules its retry and takes it up
// again; a job that is due while no worker is free is Queued, and fails if it does not begin.
func TestWorkersMakeTheirTransitions(t *testing.T) {
	virtual(t, defaults(), func(c *client) {
		busy := c.post(`{"seconds": 60}`)
		good, bad := c.post(`{"seconds": 1}`), c.post(`{"fail": "closed"}`)
		// path waits until a job has the first status, and requires that the others follow.
		path := func(id string, want ...status) {
			t.Helper()
			var got []status
			for range 12_000 {
				if j := c.see(id); len(got) > 0 && got[len(got)-1] != j.Status || len(got) == 0 && j.Status == want[0] {
					got = append(got, j.Status)
				}
				if len(got) == len(want) {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, not %v", got, want)
			}
		}
		path(busy, inProgress, completed)
		path(good, inProgress, completed)
		path(bad, scheduled)
		// The worker is busy when the delay ends.
		busy = c.post(`{"seconds": 10}`)
		path(bad, scheduled, queued, scheduled)
		c.is(busy, completed)
		fatal := string(decode[job](t, c.send("PUT", "/any/a/b", "fatal", http.StatusAccepted)).ID)
		path(fatal, failed)
		c.post(`{"seconds": 1200}`)
		path(c.post(""), queued, failed)
	})
}

// The delay before retry n is 2^n times the base, exactly, and the worker is released meanwhile.
// When no retry is left the job fails with the details of the error.
func TestRetriesWaitTwoFourEightSixteenSeconds(t *testing.T) {
	opt := defaults()
	opt.maxRetries = 5
	virtual(t, opt, func(c *client) {
		id := c.post(`{"fail": "the archive is closed"}`)
		begun := time.Now()
		for n, delay := range []time.Duration{2, 4, 8, 16, 32} {
			j := c.is(id, scheduled)
			if got := time.Until(*j.RetryDelayUntil); got != delay*time.Second || j.RetryCount != n+1 || j.MaxRetries != 5 || j.WorkerID != nil || j.CompletedAt != nil {
				t.Errorf("retry %d after %v: %+v", n, got, j)
			}
			time.Sleep(delay*time.Second - time.Nanosecond)
			c.is(id, scheduled)
			time.Sleep(time.Nanosecond)
		}
		j := c.is(id, failed)
		if j.RetryCount != 5 || j.Error == nil || j.Error.Code != courier.ReasonError || !strings.Contains(j.Error.Message, "the archive is closed") || j.CompletedAt.Sub(begun) != 62*time.Second {
			t.Errorf("%+v, %+v", j, j.Error)
		}
	})
}

// A job that succeeds when it is tried again keeps the count of its retries; one whose error
// can't be mended is not tried again.
func TestRetryCountAndUnrecoverableErrors(t *testing.T) {
	virtual(t, defaults(), func(c *client) {
		tries := 0
		endpoints := []endpoint{{"POST /late", "late", func(context.Context, request) (any, error) {
			if tries++; tries < 3 {
				return nil, context.DeadlineExceeded // of something that the handler has called
			}
			return tries, nil
		}}}
		opt := c.svc.opt
		opt.dir = c.TempDir()
		late, err := newService(c.Context(), c.store, opt, endpoints)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newService(c.Context(), c.store, opt, endpoints); err != nil { // as another process does
			t.Fatal(err)
		}
		if err := late.engine.Start(c.Context()); err != nil {
			t.Fatal(err)
		}
		other := &client{T: c.T, svc: late}
		id := string(decode[job](t, other.send("POST", "/late", "", http.StatusAccepted)).ID)
		time.Sleep(time.Minute)
		if list, err := late.engine.Jobs().Versions(c.Context(), "late", store.VersionFilter{}); err != nil || len(list) != 1 {
			t.Errorf("%d versions, %v", len(list), err)
		}
		if j := other.is(id, completed); j.RetryCount != 2 || *j.Result != "3" || j.Error != nil {
			t.Errorf("%+v", j)
		}
		late.api.Close()
		if err := late.engine.Stop(c.Context()); err != nil {
			t.Error(err)
		}
		id = string(decode[job](t, c.send("PUT", "/any/a/b", "fatal", http.StatusAccepted)).ID)
		if j := c.is(id, failed); j.RetryCount != 0 || !strings.Contains(j.Error.Message, "this can't be done") {
			t.Errorf("%+v, %+v", j, j.Error)
		}
		// Retried at once, and retried with a delay.
		for _, body := range []string{`{"status": "Queued"}`, `{"status": "Scheduled", "delaySeconds": 30}`} {
			c.send("PUT", "/jobs/"+id+"/status", body, http.StatusOK)
			time.Sleep(time.Minute)
			c.is(id, failed)
		}
	})
}

// A handler that takes longer than 30 minutes is cancelled; the job fails for that reason, and
// is not retried.
func TestJobTimesOutAfterThirtyMinutes(t *testing.T) {
	virtual(t, defaults(), func(c *client) {
		id := c.post(`{"seconds": 7200}`)
		time.Sleep(30*time.Minute - time.Second)
		c.is(id, inProgress)
		time.Sleep(time.Second)
		j := c.is(id, failed)
		if j.Error.Code != courier.ReasonTimeout || !strings.Contains(j.Error.Message, "30m0s") || j.CompletedAt.Sub(*j.StartedAt) != 30*time.Minute || j.RetryCount != 0 {
			t.Errorf("%+v, %+v", j, j.Error)
		}
		next := c.post("")
		time.Sleep(time.Second)
		c.is(next, completed) // the worker has ended with it
	})
}

// A job that no worker claims within the claim timeout fails, also if a worker comes later; one
// that is moved to a later time than that is refused.
func TestJobThatIsNotClaimedFails(t *testing.T) {
	virtual(t, defaults(), func(c *client) {
		c.post(`{"seconds": 1000}`)
		id := c.post("")
		time.Sleep(5*time.Minute - time.Second)
		c.is(id, queued)
		c.send("PUT", "/jobs/"+id+"/status", `{"status": "Scheduled", "delaySeconds": 2}`, http.StatusBadRequest)
		c.is(id, queued)
		time.Sleep(20 * time.Second)
		j := c.is(id, failed)
		if j.Error.Code != courier.ReasonExpired || j.StartedAt != nil || j.CompletedAt == nil {
			t.Errorf("%+v, %+v", j, j.Error)
		}
		time.Sleep(time.Hour)
		c.is(id, failed)
	})
}

// lose claims a job for an instance that is not heard of again.
func (c *client) lose(id string) {
	c.Helper()
	got, err := c.store.Claim(c.Context(), store.ClaimRequest{
		Worker: "dead", StepTypes: []string{"endpoint.report"}, Queues: []string{"default"}, Only: []courier.ExecutionID{courier.ExecutionID(id)}, Max: 1, Lease: c.svc.opt.lease,
	})
	if err != nil || len(got.List) != 1 {
		c.Fatalf("%+v, %v", got, err)
	}
}

// Jobs of an instance that is gone are InProgress until its lease has ended; then another
// instance runs them again, which is no retry. The third loss in a row fails the job.
func TestStuckJobsAreRecovered(t *testing.T) {
	stopped(t, defaults(), func(c *client) {
		saved, poison := c.post(""), c.post("")
		c.lose(saved)
		if j := c.is(saved, inProgress); j.WorkerID == nil || *j.WorkerID != "dead" {
			t.Errorf("%+v", j)
		}
		for range 3 {
			c.lose(poison)
			time.Sleep(20 * time.Second)
		}
		c.is(poison, inProgress)
		if err := c.svc.engine.Start(c.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if j := c.is(saved, completed); j.RetryCount != 0 || j.WorkerID != nil {
			t.Errorf("%+v", j)
		}
		if j := c.is(poison, failed); j.Error.Code != courier.ReasonWorkerLost {
			t.Errorf("%+v, %+v", j, j.Error)
		}
	})
}

// A worker runs as many jobs at once as -concurrency says.
func TestConcurrencyOfWorker(t *testing.T) {
	opt := defaults()
	opt.concurrency = 3
	virtual(t, opt, func(c *client) {
		var ids []string
		for range 10 {
			ids = append(ids, c.post(`{"seconds": 60}`))
		}
		for running := 3; running <= 10; running = min(running+3, 11) {
			n := 0
			for _, id := range ids {
				if j := c.see(id); j.Status == inProgress {
					if n++; !guid.MatchString(*j.WorkerID) || *j.WorkerID != c.svc.worker {
						t.Errorf("worker %s", *j.WorkerID)
					}
				}
			}
			if want := min(3, 10-(running-3)); n != want {
				t.Errorf("%d run at once, not %d", n, want)
			}
			time.Sleep(61 * time.Second)
		}
	})
}

// Each instant is set when the document says so.
func TestTimestamps(t *testing.T) {
	stopped(t, defaults(), func(c *client) {
		zero := time.Now()
		id := c.post(`{"seconds": 60}`)
		at := func(started, ended, updated time.Duration) {
			t.Helper()
			j := c.see(id)
			for name, pair := range map[string][2]any{
				"createdAt": {j.CreatedAt, zero.UTC()}, "lastUpdatedAt": {j.LastUpdatedAt, zero.Add(updated).UTC()},
				"startedAt": {j.StartedAt != nil, started >= 0}, "completedAt": {j.CompletedAt != nil, ended >= 0},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s is %v, not %v", name, pair[0], pair[1])
				}
			}
			if j.StartedAt != nil && j.StartedAt.Sub(zero) != started || j.CompletedAt != nil && j.CompletedAt.Sub(zero) != ended {
				t.Errorf("%v, %v", j.StartedAt, j.CompletedAt)
			}
		}
		at(-1, -1, 0)
		time.Sleep(10 * time.Second)
		if err := c.svc.engine.Start(c.Context()); err != nil {
			t.Fatal(err)
		}
		at(10*time.Second, -1, 10*time.Second)
		time.Sleep(time.Minute)
		at(10*time.Second, 70*time.Second, 70*time.Second)
		dropped := c.post(`{"seconds": 3600}`)
		time.Sleep(time.Second)
		c.is(dropped, inProgress)
		c.send("PUT", "/jobs/"+dropped+"/status", `{"status": "Canceled"}`, http.StatusAccepted)
		if j := c.is(dropped, canceled); j.CompletedAt == nil || !j.CompletedAt.Equal(time.Now()) {
			t.Errorf("%+v", j)
		}
	})
}

// What happens to a job is in the audit, each change of status with its instant and the error,
// and a canceled job is processed no further.
func TestLifecycleEvents(t *testing.T) {
	virtual(t, defaults(), func(c *client) {
		for body, want := range map[string]string{
			"":                   ">queued queued>running running>completed",
			`{"fail": "closed"}`: ">queued queued>running running>queued queued>running running>queued queued>running running>queued queued>running running>failed",
			`{"seconds": 3600}`:  ">queued queued>running running>cancelled",
		} {
			id := c.post(body)
			time.Sleep(time.Minute)
			if strings.Contains(want, "cancelled") {
				c.send("PUT", "/jobs/"+id+"/status", `{"status": "Canceled"}`, http.StatusAccepted)
				time.Sleep(2 * time.Hour)
			}
			list, err := c.svc.engine.Executions().Audit(c.Context(), courier.ExecutionID(id))
			if err != nil {
				t.Fatal(err)
			}
			var got, errs []string
			for _, a := range list {
				if a.Step == nil {
					got = append(got, a.From+">"+a.To)
				}
				if a.At.IsZero() {
					t.Errorf("%+v", a)
				}
				errs = append(errs, a.Error)
			}
			if strings.Join(got, " ") != want || strings.Contains(want, "failed") != strings.Contains(strings.Join(errs, " "), "closed") {
				t.Errorf("%s: %v %q", body, got, errs)
			}
		}
	})
}

// What is wrong is answered with a problem document, and nothing is done.
func TestBadInput(t *testing.T) {
	stopped(t, defaults(), func(c *client) {
		id := c.post("")
		before := c.see(id)
		for _, r := range []struct {
			method, target, body string
			code                 int
			headers              []string
		}{
			{"GET", "/jobs/" + strings.ToUpper(id) + "0", "", http.StatusNotFound, nil},
			{"GET", "/jobs/1", "", http.StatusNotFound, nil},
			{"GET", "/jobs/%00", "", http.StatusNotFound, nil},
			{"GET", "/jobs/00000000-0000-7000-8000-000000000000", "", http.StatusNotFound, nil},
			{"PUT", "/jobs/1/status", `{"status": "Canceled"}`, http.StatusNotFound, nil},
			{"PUT", "/jobs/" + id + "/status", "", http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", "null", http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Done"}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Canceled"} {}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Canceled", "why": 1}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Canceled", "delaySeconds": 1}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Scheduled"}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Scheduled", "delaySeconds": -1}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Scheduled", "delaySeconds": 1e300}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Scheduled", "delaySeconds": 301}`, http.StatusBadRequest, nil},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Canceled"}`, http.StatusForbidden, []string{"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"}},
			{"PUT", "/jobs/" + id + "/status", `{"status": "Canceled"}`, http.StatusUnsupportedMediaType, []string{"Content-Type", "text/plain"}},
			{"POST", "/reports/acme", `{"seconds": `, http.StatusBadRequest, []string{"Content-Type", "application/json"}},
			{"POST", "/reports/acme", "\xff\xfe", http.StatusBadRequest, nil},
			{"POST", "/reports/acme", "a\x00", http.StatusBadRequest, nil},
			{"POST", "/reports/acme?a=%zz", "", http.StatusBadRequest, nil},
			{"POST", "/reports/acme", "", http.StatusBadRequest, []string{"X-Odd", "\xff"}},
			{"POST", "/reports/acme", strings.Repeat("x", 1<<20+1), http.StatusRequestEntityTooLarge, nil},
			{"POST", "/reports/acme", "", http.StatusForbidden, []string{"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"}},
		} {
			rec := c.send(r.method, r.target, r.body, r.code, r.headers...)
			var p struct{ Type, Title, Detail string }
			if p = decode[struct{ Type, Title, Detail string }](t, rec); rec.Header().Get("Content-Type") != "application/problem+json" || p.Title == "" || p.Detail == "" {
				t.Errorf("%.100s %s: %s", r.target, r.body, rec.Body)
			}
			c.send("GET", p.Type, "", http.StatusOK)
		}
		if after := c.see(id); !reflect.DeepEqual(after, before) {
			t.Errorf("%+v and then %+v", before, after)
		}
		if list, err := c.svc.engine.Executions().List(c.Context(), store.Filter{}); err != nil || len(list) != 1 {
			t.Errorf("%d jobs, %v", len(list), err)
		}
		// A repeated key is one job.
		first := decode[job](t, c.send("POST", "/reports/acme", "1", http.StatusAccepted, "Idempotency-Key", "k"))
		if again := decode[job](t, c.send("POST", "/reports/acme", "1", http.StatusAccepted, "Idempotency-Key", "k", "X-Request-Id", "7")); again.ID != first.ID {
			t.Errorf("%s and %s", first.ID, again.ID)
		}
	})
}

// What is wrong with the flags ends the program with an error.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"more"}, {"-timeout", "0"}, {"-concurrency", "0"}, {"-max-retries", "-1"}, {"-retry-base", "-1s"},
		{"-addr", "127.0.0.1:99999"}, {"-database", "postgres://127.0.0.1:1/none?connect_timeout=1"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
