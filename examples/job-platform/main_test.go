package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	process.Run(func(as string) error {
		if as == "insert" || as == "accept" {
			return mortal(os.Args[1], as)
		}
		main()
		return nil
	})
	pgtest.Main(m)
}

// A dying store kills its process when it has inserted a job, or when it has accepted one.
type dying struct {
	store.Store
	at string // "insert" or "accept"
}

func (d dying) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	got, err := d.Store.Enqueue(ctx, list)
	if err == nil && d.at == "insert" {
		err = die()
	}
	return got, err
}

func (d dying) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	x, err := d.Store.Request(ctx, r)
	if err == nil && d.at == "accept" {
		err = die()
	}
	return x, err
}

// die returns only if it can't.
func die() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return err
	}
	select {}
}

// mortal serves the API of a platform on a database, until it dies there.
func mortal(database, at string) error {
	ctx, release := context.WithCancel(context.Background())
	defer release()
	st, done, err := openStore(ctx, database)
	if err != nil {
		return err
	}
	defer done()
	opt := options{maxRetries: 3, backoff: 2 * time.Second, dir: os.TempDir(), log: slog.New(slog.DiscardHandler)}
	p, err := newPlatform(ctx, dying{st, at}, opt)
	if err != nil {
		return err
	}
	return p.serve(ctx, release, "127.0.0.1:0", os.Stdout)
}

// A client sends requests to a platform without a network.
type client struct {
	*testing.T
	platform *platform
	store    *memstore.Store
	log      *strings.Builder
}

// virtual runs f in virtual time with a platform on the memory store, whose workers do not run
// yet.
func virtual(t *testing.T, workers int, f func(c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &client{T: t, store: memstore.New(), log: new(strings.Builder)}
		var err error
		opt := options{workers: workers, maxRetries: 3, backoff: 2 * time.Second, lease: 15 * time.Second, dir: t.TempDir(), log: slog.New(slog.NewTextHandler(c.log, nil))}
		if c.platform, err = newPlatform(t.Context(), c.store, opt); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.platform.stop(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		f(c)
	})
}

// begin starts the workers.
func (c *client) begin() {
	c.Helper()
	if err := c.platform.start(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// send sends a request, and requires the status of the answer.
func (c *client) send(method, target, body string, code int, headers ...string) *httptest.ResponseRecorder {
	c.Helper()
	r := httptest.NewRequestWithContext(c.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	c.platform.routes.ServeHTTP(rec, r)
	if rec.Code != code {
		c.Fatalf("%s %s %s: %d %s; want %d", method, target, body, rec.Code, rec.Body, code)
	}
	return rec
}

// request is the body of a request for a job.
func request(jobType, payload, key string) string {
	return fmt.Sprintf(`{"jobType": %q, "payload": %s, "idempotencyKey": %q}`, jobType, payload, key)
}

// post records a job of the type RUN_BATCH, and returns its id.
func (c *client) post(payload, key string) string {
	c.Helper()
	return string(decode[accepted](c.T, c.send("POST", "/jobs", request("RUN_BATCH", payload, key), http.StatusAccepted).Body.Bytes()).JobID)
}

// is requires the status and the state of a job.
func (c *client) is(id, status string, want state) view {
	c.Helper()
	synctest.Wait()
	v := decode[view](c.T, c.send("GET", "/jobs/"+id, "", http.StatusOK).Body.Bytes())
	if got := stateOf(new(c.execution(id))); v.Status != status || got != want {
		c.Fatalf("the job is %s and %s, not %s and %s", v.Status, got, status, want)
	}
	return v
}

func (c *client) execution(id string) courier.Execution {
	c.Helper()
	x, err := c.platform.api.Executions().Get(c.Context(), courier.ExecutionID(id))
	if err != nil {
		c.Fatal(err)
	}
	return x
}

func decode[T any](t *testing.T, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// names are the fields of an object.
func names(t *testing.T, raw []byte) string {
	t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(decode[map[string]any](t, raw))), " ")
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// The first request of a key is answered with 202, an id and the status PENDING. The job is
// recorded with its payload, and nothing executes it unless a worker does.
func TestPostRecordsIntentOnly(t *testing.T) {
	virtual(t, 1, func(c *client) {
		body := `{"jobType": "SEND_EMAIL", "payload": {"to": "user@example.com", "subject": "Welcome", "...": "..."}, "idempotencyKey": "req_550e8400-e29b-41d4-a716-446655440000"}`
		rec := c.send("POST", "/jobs", body, http.StatusAccepted)
		got := decode[accepted](t, rec.Body.Bytes())
		if names(t, rec.Body.Bytes()) != "jobId status" || got.Status != "PENDING" || !uuid.MatchString(string(got.JobID)) {
			t.Errorf("%s", rec.Body)
		}
		x := c.execution(string(got.JobID))
		if x.IdempotencyKey != "req_550e8400-e29b-41d4-a716-446655440000" || !strings.Contains(string(x.Params), `"to":"user@example.com"`) || x.Job != "SEND_EMAIL" {
			t.Errorf("%+v %s", x, x.Params)
		}
		time.Sleep(24 * time.Hour)
		c.is(string(got.JobID), "PENDING", queued)
		c.begin()
		c.is(string(got.JobID), "COMPLETED", success)
	})
}

// A repetition is answered as the first request was, with the same id and the present status,
// in any state of the job, whatever its payload and job type are. No other job is created.
func TestRepetitionHasTheSameAnswer(t *testing.T) {
	virtual(t, 1, func(c *client) {
		body := request("RUN_BATCH", `{"seconds": 60, "failures": 1}`, "k")
		first := c.send("POST", "/jobs", body, http.StatusAccepted)
		id := string(decode[accepted](t, first.Body.Bytes()).JobID)
		again := func(status string, want state) {
			t.Helper()
			c.is(id, status, want)
			for _, body := range []string{body, request("RUN_BATCH", `{}`, "k"), request("SEND_EMAIL", `{"to": "b@example.com"}`, "k"), `{"jobType": "RUN_BATCH", "idempotencyKey": "k"}`} {
				rec := c.send("POST", "/jobs", body, http.StatusAccepted)
				got := decode[accepted](t, rec.Body.Bytes())
				a, b := first.Header().Clone(), rec.Header().Clone()
				a.Del("Content-Length") // that of the status
				b.Del("Content-Length")
				if string(got.JobID) != id || got.Status != status || names(t, rec.Body.Bytes()) != "jobId status" || !maps.EqualFunc(a, b, slices.Equal) {
					t.Errorf("%v %s and then %v %s", first.Header(), first.Body, rec.Header(), rec.Body)
				}
			}
			c.is(id, status, want)
		}
		again("PENDING", queued)
		c.begin()
		again("RUNNING", running)
		time.Sleep(61 * time.Second)
		again("PENDING", retry)
		time.Sleep(62 * time.Second)
		again("COMPLETED", success)
		dead2 := c.post(`{"failures": 99}`, "other")
		time.Sleep(time.Minute)
		c.is(dead2, "FAILED", dead)
		if got := c.post(`{}`, "other"); got != dead2 {
			t.Errorf("%s and %s", dead2, got)
		}
		time.Sleep(10 * time.Minute)
		c.is(dead2, "FAILED", dead)
		c.jobs(2)
	})
}

// jobs requires how many jobs there are.
func (c *client) jobs(want int) {
	c.Helper()
	if list, err := c.platform.api.Executions().List(c.Context(), store.Filter{}); err != nil || len(list) != want {
		c.Errorf("%d jobs, not %d, %v", len(list), want, err)
	}
}

// Requests with one key at the same time are one job.
func TestConcurrentRequestsAreOneJob(t *testing.T) {
	virtual(t, 1, func(c *client) {
		c.begin()
		ids := make([]string, 20)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() { ids[i] = c.post(fmt.Sprintf(`{"n": %d}`, i), "k") })
		}
		all.Wait()
		if slices.Sort(ids); ids[0] != ids[19] {
			t.Errorf("%v", ids)
		}
		c.jobs(1)
		c.is(ids[0], "COMPLETED", success)
		if runs, err := c.platform.api.Executions().Steps(c.Context(), courier.ExecutionID(ids[0])); err != nil || len(runs) != 1 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// Whatever its state, a job shows its id, type, status and two instants, and neither payload,
// counters, workers, leases, messages nor traces. Nor does the API of Courier.
func TestFieldsNeverExposed(t *testing.T) {
	for want, payload := range map[state]string{created: `"seconds": 0`, queued: `"seconds": 0`, running: `"seconds": 3600`, retry: `"failures": 3`, success: `"seconds": 0`, dead: `"failures": 99`} {
		t.Run(string(want), func(t *testing.T) {
			virtual(t, 1, func(c *client) {
				key, id := "canary-key", ""
				if want == created {
					x, err := c.platform.api.Enqueue(c.Context(), "RUN_BATCH", &courier.EnqueueOptions{Params: map[string]any{"payload": map[string]any{"text": "canary-payload"}}, IdempotencyKey: key, KeyScope: keyScope, Hold: true})
					if err != nil {
						t.Fatal(err)
					}
					id = string(x.ID)
				} else {
					id = c.post(`{"text": "canary-payload", `+payload+`}`, key)
				}
				if want != created && want != queued {
					c.begin()
					synctest.Wait()
				}
				if want == dead {
					time.Sleep(time.Minute)
				}
				v := c.is(id, visible[want], want)
				rec := c.send("GET", "/jobs/"+id, "", http.StatusOK)
				if names(t, rec.Body.Bytes()) != "createdAt jobId jobType status updatedAt" || v.JobType != "RUN_BATCH" || string(v.JobID) != id || v.CreatedAt.IsZero() || v.UpdatedAt.Before(v.CreatedAt) {
					t.Errorf("%s", rec.Body)
				}
				for _, secret := range []string{"canary", "attempt", "lease", "worker", ".go:", "jobs"} {
					if strings.Contains(rec.Body.String(), secret) {
						t.Errorf("%s has %q", rec.Body, secret)
					}
				}
				for _, path := range []string{"executions/" + id, "executions/" + id + "/audit", "executions/" + id + "/steps"} {
					if rec := c.send("GET", "/courier/api/v1/"+path, "", http.StatusNotFound); strings.Contains(rec.Body.String(), "canary") {
						t.Errorf("%s", rec.Body)
					}
				}
			})
		})
	}
}

// GET has no effect, however often it is sent and whatever is there.
func TestGetIsReadOnly(t *testing.T) {
	virtual(t, 0, func(c *client) {
		id := c.post(`{}`, "k")
		before, first := c.execution(id), c.send("GET", "/jobs/"+id, "", http.StatusOK).Body.String()
		for range 20 {
			time.Sleep(time.Hour)
			if again := c.send("GET", "/jobs/"+id, "", http.StatusOK).Body.String(); again != first {
				t.Errorf("%s and then %s", first, again)
			}
			for _, none := range []string{"019a0000-0000-7000-8000-000000000000", "1", strings.ToUpper(id) + "0"} {
				rec := c.send("GET", "/jobs/"+none, "", http.StatusNotFound)
				if !strings.Contains(rec.Body.String(), "there is no such job") || rec.Header().Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s", rec.Body)
				}
			}
		}
		if after := c.execution(id); after.Seq != before.Seq || !after.UpdatedAt.Equal(before.UpdatedAt) {
			t.Errorf("%+v and then %+v", before, after)
		}
		c.jobs(1)
	})
}

// legal is the document's table of transitions.
var legal = []string{"CREATED>QUEUED", "QUEUED>RUNNING", "RUNNING>SUCCESS", "RUNNING>RETRY", "RETRY>QUEUED", "RETRY>DEAD"}

// moves returns the transitions of a job as its audit has them.
func (c *client) moves(id string) (list []string) {
	c.Helper()
	audit, err := c.platform.api.Executions().Audit(c.Context(), courier.ExecutionID(id))
	if err != nil {
		c.Fatal(err)
	}
	for _, a := range audit {
		if a.Step == nil && a.From != "" {
			list = append(list, map[string][]string{
				"created>queued": {"CREATED>QUEUED"}, "queued>running": {"QUEUED>RUNNING"}, "running>completed": {"RUNNING>SUCCESS"},
				"running>queued": {"RUNNING>RETRY", "RETRY>QUEUED"}, "running>failed": {"RUNNING>RETRY", "RETRY>DEAD"},
			}[a.From+">"+a.To]...)
		}
	}
	return list
}

// A job is in one state at a time, and comes from one to the next as the table of transitions
// says: by the API, by a worker, and by time. The states that end it are final.
func TestStateMachine(t *testing.T) {
	virtual(t, 1, func(c *client) {
		x, err := c.platform.api.Enqueue(c.Context(), "RUN_BATCH", &courier.EnqueueOptions{Params: map[string]any{"payload": map[string]any{}}, IdempotencyKey: "held", KeyScope: keyScope, Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		c.begin()
		time.Sleep(10 * time.Minute)
		c.is(string(x.ID), "PENDING", created) // no worker takes it
		if id := c.post(`{}`, "held"); id != string(x.ID) {
			t.Errorf("%s is not %s", id, x.ID)
		}
		c.is(string(x.ID), "COMPLETED", success)
		c.send("POST", "/jobs", request("SEND_EMAIL", `{"to": "nobody"}`, "fatal"), http.StatusAccepted)
		seen := make(map[string]bool)
		for payload, want := range map[string]string{
			`{}`:              "CREATED>QUEUED QUEUED>RUNNING RUNNING>SUCCESS",
			`{"failures": 1}`: "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>SUCCESS",
			`{"failures": 99}`: "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING " +
				"RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>DEAD",
		} {
			id := c.post(payload, payload)
			time.Sleep(time.Minute)
			got := c.moves(id)
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v", payload, got)
			}
			for _, m := range got {
				seen[m] = true
			}
			x := c.execution(id)
			if x.State == courier.Completed {
				// Nothing leads out of SUCCESS.
				_, released := c.platform.api.Release(c.Context(), x.ID, courier.By{})
				_, resumed := c.platform.api.Resume(c.Context(), x.ID, nil)
				_, cancelled := c.platform.api.Cancel(c.Context(), x.ID, &courier.CancelOptions{By: courier.By{}})
				for _, err := range []error{released, resumed, cancelled} {
					if _, ok := errors.AsType[*courier.TransitionError](err); !ok {
						t.Errorf("a job that has succeeded was moved: %v", err)
					}
				}
			}
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, slices.Sorted(slices.Values(legal))) {
			t.Errorf("%v, not %v", got, legal)
		}
		// A fatal error leaves no retry.
		fatal := string(decode[accepted](t, c.send("POST", "/jobs", request("SEND_EMAIL", `{}`, "fatal"), http.StatusAccepted).Body.Bytes()).JobID)
		c.is(fatal, "FAILED", dead)
		if got := strings.Join(c.moves(fatal), " "); got != "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>DEAD" {
			t.Errorf("%s", got)
		}
	})
}

// A job that fails is retried after 2, 4 and 8 seconds and no earlier, is counted each time, and
// is dead when the limit is exceeded. No worker owns it meanwhile.
func TestRetriesAreDeterministic(t *testing.T) {
	virtual(t, 1, func(c *client) {
		c.begin()
		id := c.post(`{"failures": 99}`, "k")
		for n, delay := range []time.Duration{2, 4, 8} {
			c.is(id, "PENDING", retry)
			if x := c.execution(id); x.Retries != n+1 || !x.LeaseExpiresAt.IsZero() || time.Until(x.DueAt) != delay*time.Second {
				t.Errorf("%+v", x)
			}
			time.Sleep(delay*time.Second - time.Nanosecond)
			c.is(id, "PENDING", retry)
			time.Sleep(time.Nanosecond)
		}
		c.is(id, "FAILED", dead)
		if x := c.execution(id); x.Attempt != 4 || !x.LeaseExpiresAt.IsZero() {
			t.Errorf("%+v", x)
		}
		time.Sleep(10 * time.Minute)
		c.is(id, "FAILED", dead)
	})
}

// claim claims jobs for a worker that is not heard of again, and returns their ids.
func (c *client) claim(most int) (ids []string) {
	c.Helper()
	got, err := c.store.Claim(c.Context(), store.ClaimRequest{Worker: "dead", StepTypes: []string{stepType("RUN_BATCH")}, Queues: []string{"default"}, Max: most, Lease: 15 * time.Second})
	if err != nil {
		c.Fatal(err)
	}
	for _, x := range got.List {
		ids = append(ids, string(x.Execution.ID))
	}
	return ids
}

// A lease is the exclusive right to a job until it expires: until then no other worker acquires
// the job, and then one does, without anybody's help.
func TestLeaseExpires(t *testing.T) {
	virtual(t, 1, func(c *client) {
		id := c.post(`{}`, "k")
		if got := c.claim(10); !slices.Equal(got, []string{id}) {
			t.Errorf("%v", got)
		}
		if x := c.execution(id); x.Worker != "dead" || time.Until(x.LeaseExpiresAt) != 15*time.Second {
			t.Errorf("%+v", x)
		}
		c.begin()
		time.Sleep(15*time.Second - time.Millisecond)
		if got := c.claim(10); got != nil {
			t.Errorf("%v was claimed under the lease of another", got)
		}
		c.is(id, "RUNNING", running)
		time.Sleep(5 * time.Second)
		c.is(id, "COMPLETED", success)
		if got := strings.Join(c.moves(id), " "); got != "CREATED>QUEUED QUEUED>RUNNING RUNNING>RETRY RETRY>QUEUED QUEUED>RUNNING RUNNING>SUCCESS" {
			t.Errorf("%s", got)
		}
	})
}

// Each worker executes one job at a time; more workers execute more at once. Nothing is deleted.
func TestWorkersExecuteOneJobEach(t *testing.T) {
	for _, workers := range []int{1, 3} {
		virtual(t, workers, func(c *client) {
			c.begin()
			for i := range 9 {
				c.post(`{"seconds": 60}`, fmt.Sprint(i))
			}
			for round := range 9 / workers {
				time.Sleep(time.Second)
				synctest.Wait()
				list, err := c.platform.api.Executions().List(c.Context(), store.Filter{})
				if err != nil || len(list) != 9 {
					t.Fatalf("%d jobs, %v", len(list), err)
				}
				n, owners := make(map[state]int), make(map[string]bool)
				for _, x := range list {
					if n[stateOf(&x)]++; x.State == courier.Running {
						owners[x.Worker] = true
					}
				}
				if n[running] != workers || len(owners) != workers || n[success] != round*workers {
					t.Errorf("%d workers: %v by %v", workers, n, owners)
				}
				time.Sleep(60 * time.Second)
			}
		})
	}
}

// What is wrong is answered with a problem document, and nothing is recorded.
func TestBadInput(t *testing.T) {
	virtual(t, 0, func(c *client) {
		good := request("RUN_BATCH", "{}", "k")
		page := []string{"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"}
		for _, r := range []struct {
			body    string
			code    int
			headers []string
		}{
			{"", http.StatusBadRequest, nil},
			{"[]", http.StatusBadRequest, nil},
			{"null", http.StatusBadRequest, nil},
			{"{}", http.StatusBadRequest, nil},
			{good + "{}", http.StatusBadRequest, nil},
			{`{"jobType": "RUN_BATCH", "jobType": "RUN_BATCH", "idempotencyKey": "k"}`, http.StatusBadRequest, nil},
			{`{"jobType": "RUN_BATCH", "payload": {}}`, http.StatusBadRequest, nil},
			{`{"jobType": "RUN_BATCH", "payload": {}, "idempotencyKey": 5}`, http.StatusBadRequest, nil},
			{request("RUN_BATCH", "{}", ""), http.StatusBadRequest, nil},
			{request("RUN_BATCH", "{}", strings.Repeat("k", 201)), http.StatusBadRequest, nil},
			{request("RUN_BATCH", "[1]", "k"), http.StatusBadRequest, nil},
			{request("RUN_BATCH", `{"a": "\u0000"}`, "k"), http.StatusBadRequest, nil},
			{request("run_batch", "{}", "k"), http.StatusBadRequest, nil},
			{request("", "{}", "k"), http.StatusBadRequest, nil},
			{`{"jobType": "RUN_BATCH", "payload": {}, "idempotencyKey": "k", "status": "DEAD"}`, http.StatusBadRequest, nil},
			{good, http.StatusUnsupportedMediaType, []string{"Content-Type", "text/plain"}},
			{good, http.StatusForbidden, page},
			{request("RUN_BATCH", `{"a": "`+strings.Repeat("x", 1<<20)+`"}`, "k"), http.StatusRequestEntityTooLarge, nil},
		} {
			rec := c.send("POST", "/jobs", r.body, r.code, r.headers...)
			p := decode[struct{ Type, Title, Detail string }](t, rec.Body.Bytes())
			if rec.Header().Get("Content-Type") != "application/problem+json" || p.Title == "" || p.Detail == "" {
				t.Errorf("%.100s: %s", r.body, rec.Body)
			}
			c.send("GET", p.Type, "", http.StatusOK)
		}
		c.send("PUT", "/jobs", good, http.StatusMethodNotAllowed)
		c.send("DELETE", "/jobs/1", "", http.StatusMethodNotAllowed)
		c.jobs(0)
		c.post("{}", "k")
		c.post("null", "k2")
		c.jobs(2)
	})
}

// A worker that does not know a job type leaves its jobs to one that does.
func TestUnknownJobTypeOfWorker(t *testing.T) {
	virtual(t, 1, func(c *client) {
		jobTypes["LATER"] = pretend
		defer delete(jobTypes, "LATER")
		newer, err := newPlatform(c.Context(), c.store, options{workers: 1, maxRetries: 3, backoff: time.Second, lease: 15 * time.Second, dir: c.TempDir(), log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer newer.stop(c.Context())
		c.begin()
		id := string(decode[accepted](t, c.send("POST", "/jobs", request("LATER", "{}", "k"), http.StatusAccepted).Body.Bytes()).JobID)
		time.Sleep(time.Hour)
		c.is(id, "PENDING", queued)
		if err := newer.start(c.Context()); err != nil {
			t.Fatal(err)
		}
		c.is(id, "COMPLETED", success)
	})
}

// What is wrong with the flags ends the program with an error.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"more"}, {"-workers", "-1"}, {"-max-retries", "-1"}, {"-backoff", "-1s"}, {"-lease", "1ns"},
		{"-addr", "127.0.0.1:99999"}, {"-database", "postgres://127.0.0.1:1/none?connect_timeout=1"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
