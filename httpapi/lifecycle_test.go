package httpapi_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// retried is the policy of jobs whose step is repeated after 2, 4, 8 ... seconds.
func retried(times int) courier.FailurePolicy {
	base, most := 2*time.Second, time.Hour
	return courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: &times, BackoffBase: &base, BackoffMax: &most, Jitter: courier.JitterNone}
}

var flaky = []courier.StepSpec{{ID: "work", Type: "test.flaky"}}

// TestStatusProgression: the statuses from the request to each end.
func TestStatusProgression(t *testing.T) {
	for _, c := range []struct {
		state, body, status string
		job                 courier.Job
		do                  func(w *world, id string)
	}{
		{state: "Queued", status: "queued", job: courier.Job{Queue: "nobody's"}},
		{state: "Scheduled: delayed", body: `{"delay_seconds": 60}`, status: "scheduled"},
		{state: "Scheduled: retry backoff", status: "scheduled", job: courier.Job{FailurePolicy: retried(3), Steps: flaky}},
		{state: "InProgress", body: `{"params": {"seconds": 60}}`, status: "running"},
		{state: "Completed", status: "completed", do: func(w *world, id string) { w.ended(id) }},
		{state: "Failed", body: `{"params": {"fail": "no"}}`, status: "failed", do: func(w *world, id string) { w.ended(id) }},
		{state: "Failed: retries exhausted", status: "failed", job: courier.Job{FailurePolicy: retried(3), Steps: flaky}, do: func(w *world, id string) { w.ended(id) }},
		{state: "Canceled", body: `{"hold": true}`, status: "cancelled", do: func(w *world, id string) { w.post("v1/executions/"+id+"/cancel", "").want(http.StatusAccepted, nil) }},
	} {
		t.Run(c.state, func(t *testing.T) {
			jobWorld(t, engine.Options{}, c.job, func(w *world) {
				w.begin()
				id := w.as("ann").start("job", c.body)
				synctest.Wait()
				if c.do != nil {
					c.do(w, id)
				}
				w.is(id, c.status)
				w.as("ann").is(id, c.status)
			})
		})
	}
}

// A transition that the state does not permit is refused, and one to the same state changes
// nothing. What is completed can't be cancelled.
func TestRefusedTransitions(t *testing.T) {
	const no = http.StatusConflict
	for _, c := range []struct {
		from, body     string
		ended          bool
		verb           string
		code           int
		status         string
		again          int
		statusOfRepeat string
	}{
		{"queued", `{"delay_seconds": 60}`, false, "cancel", 202, "cancelled", 202, "cancelled"},
		{"queued", `{"delay_seconds": 60}`, false, "pause", 202, "paused", 202, "paused"},
		{"queued", `{"delay_seconds": 60}`, false, "resume", 202, "scheduled", 202, "scheduled"},
		{"created", `{"hold": true}`, false, "release", 202, "completed", no, "completed"},
		{"running", `{"params": {"seconds": 60}}`, false, "cancel", 202, "cancelled", 202, "cancelled"},
		{"running", `{"params": {"seconds": 60}}`, false, "release", 202, "running", 202, "running"},
		{"failed", `{"params": {"fail": "no"}}`, true, "cancel", 202, "cancelled", 202, "cancelled"},
		{"failed", `{"params": {"fail": "no", "seconds": 60}}`, true, "resume", 202, "running", 202, "running"},
		{"failed", `{"params": {"fail": "no"}}`, true, "pause", no, "failed", no, "failed"},
		{"completed", "", true, "cancel", no, "completed", no, "completed"},
		{"completed", "", true, "resume", no, "completed", no, "completed"},
		{"completed", "", true, "pause", no, "completed", no, "completed"},
	} {
		t.Run(c.from+" "+c.verb, func(t *testing.T) {
			jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
				w.begin()
				id := w.start("job", c.body)
				synctest.Wait()
				if c.ended {
					w.ended(id)
				}
				for _, want := range []struct {
					code   int
					status string
				}{{c.code, c.status}, {c.again, c.statusOfRepeat}} {
					a := w.post("v1/executions/"+id+"/"+c.verb, "")
					if a.Code != want.code {
						t.Errorf("%d %s; want %d", a.Code, a.Body, want.code)
					} else if want.code == no {
						a.problem(no, "transition", c.status)
					}
					time.Sleep(10 * time.Second)
					w.is(id, want.status)
				}
			})
		})
	}
}

// The delay before retry n is 2^n times the base, and the count of retries is a viewer's.
func TestRetryDelays(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{FailurePolicy: retried(4), Steps: flaky}, func(w *world) {
		w.begin()
		id := w.as("ann").start("job", "")
		time.Sleep(time.Second)
		x := w.see(id)
		if x["retries"] != 1.0 || x["due_at"] != "2000-01-01T00:00:02Z" {
			t.Errorf("%v", x)
		}
		w.ended(id)
		if x := w.see(id); x["retries"] != 4.0 || x["step_attempts"] != 5.0 {
			t.Errorf("%v", x)
		}
		moves, at := w.audit(id)
		var begun []float64
		for i, move := range moves {
			if move == "queued>running" {
				begun = append(begun, at[i])
			}
		}
		if !reflect.DeepEqual(begun, []float64{0, 2, 6, 14, 30}) {
			t.Errorf("attempts after %v seconds", begun)
		}
		client := w.as("ann").see(id)
		if client["retries"] != nil || client["reason"] != "error" {
			t.Errorf("%v", client)
		}
	})
}

// JobTimeoutMinutes is the timeout of an execution, 30 minutes by default at an async
// endpoint, and JobClaimTimeout the time in which one has to begin.
func TestTimeouts(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		w.begin()
		e := &endpoint{w, http.NewServeMux()}
		e.mux.Handle("/job", w.api.Async("job", &httpapi.AsyncOptions{Params: func(*httpapi.Received) (map[string]any, error) {
			return map[string]any{"seconds": 3600}, nil
		}}))
		x := e.accepted("POST", "/job", "", nil)
		if x := w.ended(string(x.ID)); x.State != courier.Failed || x.Failure.Reason != courier.ReasonExecution || x.EndedAt.Sub(x.StartedAt) != 30*time.Minute {
			t.Errorf("%+v, %+v", x, x.Failure)
		}
		if x := w.see(string(x.ID)); !strings.Contains(toJSON(t, x["failure"]), "timeout of 30m0s") {
			t.Errorf("%v", x)
		}
		late := w.start("job", `{"hold": true, "expires_seconds": 300}`)
		time.Sleep(6 * time.Minute)
		if x := w.see(late); x["status"] != "failed" || !strings.Contains(toJSON(t, x["failure"]), `"expired"`) {
			t.Errorf("%v", x)
		}
	})
}

// An execution whose worker is not heard of is lost when its lease ends, after 15 seconds by
// default, and another worker goes on with it; the third loss in a row fails it.
func TestLostWorkersAreReplaced(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		id := w.as("ann").start("job", "")
		w.lose(id)
		w.is(id, "running")
		if x := w.see(id); x["worker"] != "dead" || x["lease_expires_at"] != "2000-01-01T00:00:15Z" {
			t.Errorf("%v", x)
		}
		time.Sleep(20 * time.Second)
		w.is(id, "lost")
		w.as("ann").is(id, "running") // leases are no client's business
		w.begin()
		if x := w.ended(id); x.State != courier.Completed || x.Worker == "dead" {
			t.Errorf("%+v", x)
		}
		if moves, _ := w.audit(id); !slices.Contains(moves, "running>queued") {
			t.Errorf("%v", moves)
		}
	})
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		id := w.start("job", "")
		for range 3 {
			w.lose(id)
			time.Sleep(20 * time.Second)
		}
		w.begin()
		if x := w.ended(id); x.State != courier.Failed || x.Failure.Reason != courier.ReasonWorkerLost {
			t.Errorf("%+v", x)
		}
	})
}

// WorkerId is null when no worker has the job.
func TestWorkerID(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"params": {"seconds": 10}}`)
		time.Sleep(time.Second)
		var x struct{ Status, Worker string }
		if w.get("v1/executions/"+id).want(http.StatusOK, &x); x.Status != "running" || x.Worker == "" {
			t.Errorf("%+v", x)
		}
		w.ended(id)
		x.Worker = ""
		if w.get("v1/executions/"+id).want(http.StatusOK, &x); x.Status != "completed" || x.Worker != "" {
			t.Errorf("%+v", x)
		}
	})
}

// TestFieldsOfAnExecution: where each field is. A client sees those without "viewer".
func TestFieldsOfAnExecution(t *testing.T) {
	fields := []struct{ field, at, whose string }{
		{"Id", "id", ""}, {"Name", "job", ""}, {"Status", "status", ""}, {"Result", "result", ""}, {"Error", "failure", "viewer"}, {"Error (class)", "reason", "client"},
		{"Headers", "params.request.headers", "viewer"}, {"RouteParams", "params.request.route", "viewer"}, {"QueryParams", "params.request.query", "viewer"},
		{"Payload", "params.request.body", "viewer"}, {"RetryCount", "retries", "viewer"}, {"MaxRetries", "max_retries", "viewer"}, {"RetryDelayUntil", "due_at", "viewer"},
		{"CreatedAt", "created_at", ""}, {"StartedAt", "started_at", ""}, {"CompletedAt", "ended_at", ""}, {"LastUpdatedAt", "updated_at", ""},
	}
	seen := map[string]map[string]any{"viewer": {}, "client": {}}
	job := courier.Job{FailurePolicy: retried(3), Result: "a link"}
	for _, steps := range [][]courier.StepSpec{nil, flaky} { // what completes and what fails
		job.Steps = steps
		jobWorld(t, engine.Options{}, job, func(w *world) {
			w.begin()
			id := w.as("ann").start("job", `{"max_attempts": 2, "params": {"request": {"headers": {}, "route": {}, "query": [], "body": 1}}}`)
			w.ended(id)
			flatten("", w.as("admin").see(id), seen["viewer"])
			flatten("", w.as("ann").see(id), seen["client"])
		})
	}
	clients := make(map[string]bool)
	for _, f := range fields {
		for _, who := range []string{"viewer", "client"} {
			_, ok := seen[who][f.at]
			if want := f.whose == "" || f.whose == who; ok != want {
				t.Errorf("%s: %s, %s sees it: %v", f.field, f.at, who, ok)
			}
		}
		if f.whose != "viewer" {
			clients[f.at] = true
		}
	}
	if got := fieldsOf(seen["client"]); !maps.Equal(got, clients) {
		t.Errorf("a client sees %v, not %v", got, clients)
	}
}

// flatten adds the fields of an object and of those in it, by their paths.
func flatten(prefix string, x, to map[string]any) {
	for name, v := range x {
		to[prefix+name] = v
		if in, ok := v.(map[string]any); ok {
			flatten(prefix+name+".", in, to)
		}
	}
}

// MaximumConcurrency is a setting of each worker, and claims are atomic.
func TestSlotsAndClaims(t *testing.T) {
	jobWorld(t, engine.Options{Slots: 3}, courier.Job{}, func(w *world) {
		if err := w.engine.Limits().Set(w.Context(), "global", 0, courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.begin()
		for range 10 {
			w.start("job", `{"params": {"seconds": 60}}`)
		}
		w.counts(map[string]int{"running": 3, "queued": 7})
	})
}

// counts requires how many executions there are with each status.
func (w *world) counts(want map[string]int) {
	w.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	var page struct{ Items []struct{ Status string } }
	w.get("v1/executions").want(http.StatusOK, &page)
	got := make(map[string]int)
	for _, x := range page.Items {
		got[x.Status]++
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(got, want) {
		w.Errorf("%v, not %v", got, want)
	}
}

// Each instant is set once, and the last change follows the others.
func TestInstants(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		id := w.as("ann").start("job", `{"params": {"seconds": 60}}`)
		ann := w.as("ann")
		at := func(created, started, ended, updated any) {
			t.Helper()
			x := ann.see(id)
			for name, want := range map[string]any{"created_at": created, "started_at": started, "ended_at": ended, "updated_at": updated} {
				if x[name] != want {
					t.Errorf("%s is %v, not %v", name, x[name], want)
				}
			}
		}
		at("2000-01-01T00:00:00Z", nil, nil, "2000-01-01T00:00:00Z")
		time.Sleep(10 * time.Second)
		w.begin()
		at("2000-01-01T00:00:00Z", "2000-01-01T00:00:10Z", nil, "2000-01-01T00:00:10Z")
		w.ended(id)
		at("2000-01-01T00:00:00Z", "2000-01-01T00:00:10Z", "2000-01-01T00:01:10Z", "2000-01-01T00:01:10Z")
	})
}

// What is no id, what is not there and what is another's have the same answer.
func TestUnknownExecutions(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		own, foreign := w.as("ann").start("job", ""), w.as("ben").start("job", "")
		w.as("ann").get("v1/executions/"+own).want(http.StatusOK, nil)
		bodies := make(map[string]bool)
		for _, id := range []string{foreign, "00000000-0000-7000-8000-000000000000", "1", "x", strings.ToUpper(own) + "0", "%00"} {
			a := w.as("ann").get("v1/executions/" + id)
			a.problem(http.StatusNotFound, "not_found")
			bodies[a.Body.String()] = true
		}
		if len(bodies) != 1 {
			t.Errorf("the answers differ: %v", bodies)
		}
	})
}

// The creation and each change of state are in the audit, with the instant and the error.
func TestAuditOfAnExecution(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		w.begin()
		good, bad := w.start("job", ""), w.start("job", `{"params": {"fail": "the partner is closed"}}`)
		w.ended(good)
		w.ended(bad)
		for id, last := range map[string]string{good: "running>completed", bad: "running>failed"} {
			moves, _ := w.audit(id)
			if moves[0] != ">queued" || moves[1] != "queued>running" || moves[len(moves)-1] != last {
				t.Errorf("%v", moves)
			}
		}
		if a := w.get("v1/executions/" + bad + "/audit"); !strings.Contains(a.Body.String(), "the partner is closed") {
			t.Errorf("%s", a.Body)
		}
	})
}

// An execution says how often its steps are tried again, whoever has said so.
func TestMaxRetriesAreShown(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for name, p := range map[string]courier.FailurePolicy{
		"stops": {}, "retries": {Type: courier.RetryStep}, "once": {Type: courier.RetryJob, MaxRetries: new(1)},
	} {
		job := courier.Job{Name: name, FailurePolicy: p, Steps: []courier.StepSpec{{Type: "test.work"}}}
		if _, err := w.engine.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		job, body string
		want      float64
	}{{"stops", "", 0}, {"retries", "", 3}, {"once", "", 1}, {"once", `{"max_attempts": 6}`, 5}} {
		var got map[string]any
		w.get("v1/executions/"+w.start(c.job, c.body)).want(http.StatusOK, &got)
		if n, ok := got["max_retries"].(float64); !ok || n != c.want {
			t.Errorf("%s %s: max_retries %v, want %v", c.job, c.body, got["max_retries"], c.want)
		}
	}
}
