package httpapi_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// POST records what is to be done, and does nothing: it is queued at once, also if no worker
// is there, and the answer says no more than how to find it.
func TestPostExecutesNothing(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		var got map[string]any
		a := w.as("ann").post("v1/jobs/job/executions", `{"params": {"text": "Welcome"}, "idempotency_key": "req_550e8400-e29b-41d4-a716-446655440000"}`).want(http.StatusAccepted, &got)
		id, _ := got["id"].(string)
		if got["status"] != "queued" || !strings.HasSuffix(a.Header().Get("Location"), "v1/executions/"+id) || len(got) != 4 {
			t.Errorf("%s", a.Body)
		}
		time.Sleep(time.Hour)
		w.is(id, "queued")
		w.begin()
		w.ended(id)
		w.as("ann").is(id, "completed")
	})
}

// A repetition has the same status code, headers and fields as the first request, in any
// state of the execution; only the status is the current one. Requests at the same time
// create one execution. Other parameters are refused.
func TestRepetitionsHaveTheSameAnswer(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		body, ann := `{"params": {"seconds": 60}, "idempotency_key": "k"}`, w.as("ann")
		answers := make(chan answer, 16)
		var all sync.WaitGroup
		for range cap(answers) {
			all.Go(func() { answers <- ann.post("v1/jobs/job/executions", body) })
		}
		all.Wait()
		close(answers)
		first := <-answers
		for again := range answers {
			same(t, first, again, "queued")
		}
		w.begin()
		synctest.Wait()
		same(t, first, ann.post("v1/jobs/job/executions", body), "running")
		time.Sleep(2 * time.Minute)
		same(t, first, ann.post("v1/jobs/job/executions", body), "completed")
		w.counts(map[string]int{"completed": 1})
		ann.post("v1/jobs/job/executions", `{"idempotency_key": "k"}`).problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		w.counts(map[string]int{"completed": 1})
	})
}

// same requires that an answer is that of a repetition.
func same(t *testing.T, first, again answer, status string) {
	t.Helper()
	var a, b map[string]any
	first.want(http.StatusAccepted, &a)
	again.want(http.StatusAccepted, &b)
	a["status"] = status
	if !maps.Equal(a, b) {
		t.Errorf("%v and then %v", a, b)
	}
	x, y := first.Header().Clone(), again.Header().Clone()
	x.Del("Content-Length") // that of the status
	y.Del("Content-Length")
	if toJSON(t, x) != toJSON(t, y) {
		t.Errorf("%v and then %v", x, y)
	}
}

// Whatever state an execution is in, a client sees how it stands, and none of the payload,
// counters, workers, leases, messages and traces; nor in lists.
func TestFieldsThatClientsDoNotSee(t *testing.T) {
	always := []string{"id", "job", "status", "created_at", "updated_at"}
	for _, c := range []struct {
		status string
		steps  []courier.StepSpec
		more   []string
		lost   bool
	}{
		{status: "queued"},
		{status: "running", more: []string{"started_at"}, lost: true},
		{status: "scheduled", steps: flaky, more: []string{"started_at", "reason"}},
		{status: "completed", steps: []courier.StepSpec{{ID: "work", Type: "test.work"}}, more: []string{"started_at", "ended_at", "result"}},
		{status: "failed", steps: []courier.StepSpec{{ID: "work", Type: "test.panic"}}, more: []string{"started_at", "ended_at", "reason"}},
	} {
		t.Run(c.status, func(t *testing.T) {
			job := courier.Job{Steps: c.steps, Result: "a link", LimitKeys: []string{"secret-key"}}
			if c.status == "scheduled" {
				job.FailurePolicy = retried(3)
			}
			jobWorld(t, engine.Options{Worker: "worker-host-17"}, job, func(w *world) {
				id := w.as("ann").start("job", `{"params": {"text": "`+canaryParam+`"}, "max_attempts": 7, "priority": 9}`)
				switch {
				case c.lost:
					w.lose(id)
					time.Sleep(time.Minute)
				case c.steps != nil:
					w.begin()
					time.Sleep(time.Second)
				}
				ann := w.as("ann")
				x := ann.see(id)
				want := make(map[string]bool)
				for _, name := range append(always, c.more...) {
					want[name] = true
				}
				if x["status"] != c.status || !maps.Equal(fieldsOf(x), want) {
					t.Errorf("%v; want %v", x, want)
				}
				for _, path := range []string{"v1/executions/" + id, "v1/executions", "v1/executions/" + id + "/explain"} {
					text := ann.get(path).want(http.StatusOK, nil).Body.String()
					for _, secret := range []string{canaryParam, "worker-host-17", "dead", "secret-key", "goroutine", ".go:", "the partner", "7", "lease"} {
						if strings.Contains(strings.ReplaceAll(text, id, ""), secret) {
							t.Errorf("%s has %q: %s", path, secret, text)
						}
					}
				}
				for _, below := range []string{"steps", "audit", "outline", "values", "log", "files"} {
					if a := ann.get("v1/executions/" + id + "/" + below); a.Code != http.StatusForbidden {
						t.Errorf("%s: %d %s", below, a.Code, a.Body)
					}
				}
			})
		})
	}
}

// GET changes nothing, however often it is sent, and neither does one of what is not there.
func TestGetIsReadOnly(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		id := w.as("ann").start("job", "")
		first := w.as("ann").get("v1/executions/"+id).want(http.StatusOK, nil)
		for range 20 {
			time.Sleep(time.Minute)
			again := w.as("ann").get("v1/executions/" + id)
			if again.Body.String() != first.Body.String() || again.Header().Get("ETag") != first.Header().Get("ETag") {
				t.Errorf("%s and then %s", first.Body, again.Body)
			}
			w.as("ann").get("v1/executions/019a0000-0000-7000-8000-000000000000").problem(http.StatusNotFound, "not_found")
		}
		w.counts(map[string]int{"queued": 1})
		if moves, _ := w.audit(id); len(moves) != 1 {
			t.Errorf("%v", moves)
		}
		if list, err := w.engine.Journal(w.Context(), store.ActionFilter{}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestStatesOfClients: the statuses, and what leads from one to the next. That
// a failed execution can be resumed is an operator's "manual intervention".
func TestStatesOfClients(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{FailurePolicy: retried(1), Steps: flaky}, func(w *world) {
		w.begin()
		id := w.start("job", `{"hold": true}`)
		w.is(id, "created") // CREATED
		w.post("v1/executions/"+id+"/release", "").want(http.StatusAccepted, nil)
		time.Sleep(time.Second)
		w.is(id, "scheduled") // RETRY
		w.ended(id)
		w.is(id, "failed") // DEAD
		moves, _ := w.audit(id)
		var all []string
		for _, m := range moves {
			if !strings.HasPrefix(m, "step ") {
				all = append(all, m)
			}
		}
		if got := strings.Join(all, " "); got != ">created created>queued queued>running running>queued queued>running running>failed" {
			t.Errorf("%s", got)
		}
	})
}

// panicking is the step of those whose stack must not be seen.
func panicking(context.Context, *courier.Context, struct{}) (struct{}, error) {
	panic(errors.New("the partner's secret"))
}
