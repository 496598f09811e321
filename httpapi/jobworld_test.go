package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// jobWorld runs f in virtual time with an engine of its own settings, which is not started, and
// the job "job", which does what the parameters say. Ann is its client, and may set its
// priority and number of attempts.
func jobWorld(t *testing.T, opt engine.Options, job courier.Job, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: memstore.New(), log: new(strings.Builder), user: "admin"}
		var reg courier.Registry
		courier.RegisterFunc(&reg, "test.work", work, nil)
		courier.RegisterFunc(&reg, "test.flaky", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
			return struct{}{}, errors.New("the partner is away")
		}, nil)
		courier.RegisterFunc(&reg, "test.panic", panicking, nil)
		opt.Workspace = t.TempDir()
		w.engine = engine.New(w.store, &reg, &opt)
		w.define(job)
		a := clientOf("job")
		a.ClientMay = func(string) []string { return []string{"max_attempts", "priority"} }
		w.api = httpapi.New(w.engine, &httpapi.Options{Access: a, URL: "/api/", Log: slog.New(slog.NewTextHandler(w.log, nil))})
		f(w)
		w.api.Close()
		if err := w.engine.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// define defines the job "job", whose only step is test.work unless it has others.
func (w *world) define(job courier.Job) {
	w.Helper()
	job.Name = "job"
	job.Params = map[string]any{"seconds": 0, "fail": "", "text": "", "request": nil}
	if job.Steps == nil {
		day := 24 * time.Hour
		job.Steps = []courier.StepSpec{{ID: "work", Type: "test.work", Timeout: &day, Config: map[string]any{
			"seconds": "context:params.seconds", "fail": "context:params.fail", "text": "context:params.text",
		}}}
	}
	if _, err := w.engine.Jobs().Define(w.Context(), job, nil); err != nil {
		w.Fatal(err)
	}
}

// begin starts the engine.
func (w *world) begin() {
	w.Helper()
	if err := w.engine.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// see returns an execution as the user sees it.
func (w *world) see(id string) map[string]any {
	w.Helper()
	synctest.Wait()
	var x map[string]any
	w.get("v1/executions/"+id).want(http.StatusOK, &x)
	return x
}

// is requires the status of an execution, as the user sees it.
func (w *world) is(id, status string) {
	w.Helper()
	if x := w.see(id); x["status"] != status {
		w.Errorf("%s, not %s", x["status"], status)
	}
}

// lose claims an execution for a worker that is not heard of again.
func (w *world) lose(id string) {
	w.Helper()
	got, err := w.store.Claim(w.Context(), store.ClaimRequest{
		Worker: "dead", StepTypes: []string{"test.work"}, Queues: []string{"default"}, Only: []courier.ExecutionID{courier.ExecutionID(id)}, Max: 1, Lease: 15 * time.Second,
	})
	if err != nil || len(got.List) != 1 {
		w.Fatalf("%+v, %v", got, err)
	}
}

// audit returns the changes of state of an execution, such as "running>completed", and
// their instants in seconds since the first.
func (w *world) audit(id string) (moves []string, at []float64) {
	w.Helper()
	var page struct{ Items []courier.AuditEntry }
	w.get("v1/executions/"+id+"/audit").want(http.StatusOK, &page)
	for _, a := range page.Items {
		move := a.From + ">" + a.To
		if a.Step != nil {
			move = "step " + move
		}
		moves = append(moves, move)
		at = append(at, a.At.Sub(page.Items[0].At).Seconds())
	}
	return moves, at
}

// fieldsOf returns the names of the fields of an object.
func fieldsOf(x map[string]any) map[string]bool {
	all := make(map[string]bool)
	for name := range x {
		all[name] = true
	}
	return all
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
