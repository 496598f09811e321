package httpapi_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/job"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// anyCode are all exit codes: what the program leaves is kept, whatever it returns.
var anyCode = func() (codes []int) {
	for n := range 256 {
		codes = append(codes, n)
	}
	return codes
}()

// runScript is a job that runs the run.sh that was uploaded, keeps what
// that has left in out, and fails if it has failed.
func runScript(queue string) courier.Job {
	return courier.Job{
		Name: "job", Queue: queue, Params: map[string]any{"files": courier.Param{Type: "list", Required: true}, "request": nil},
		Steps: []courier.StepSpec{
			{ID: "get", Type: "depot.fetch"},
			{ID: "run", Type: "exec.run", Config: map[string]any{"program": "sh", "args": []string{"run.sh"}, "directory": "context:get.fetched_directory", "success_codes": anyCode}},
			{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "${context:get.fetched_directory}/out/**", "ignore_missing": true}},
			{Type: "flow.if", Config: map[string]any{"left": "context:run.exit_code", "operator": "not_equals", "right": 0}},
			{ID: "no", Type: "job.fail", Config: map[string]any{"message": "run.sh has returned ${context:run.exit_code}"}},
			{Type: "flow.end"},
		},
	}
}

// orchestrator returns a world with a server that takes uploads, and whose
// engine is not started. Ann is a client of its service, which is the job.
func orchestrator(t *testing.T, d depot.Depot, definition courier.Job) *world {
	t.Helper()
	w := &world{T: t, store: memstore.New(), log: new(strings.Builder), user: "ann"}
	w.engine = w.worker(d, nil)
	if _, err := w.engine.Jobs().Define(t.Context(), definition, nil); err != nil {
		t.Fatal(err)
	}
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: clientOf("job"), URL: "/api/", Depot: d, Log: slog.New(slog.NewTextHandler(w.log, nil))})
	return w
}

// maxAge is how long files stay.
const maxAge = time.Hour

// worker returns an engine on the store of the world, which runs the scripts.
func (w *world) worker(d depot.Depot, queues []string) *engine.Engine {
	w.Helper()
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	depot.Register(&reg, d, &depot.Retention{Jobs: map[string]time.Duration{"job": maxAge}})
	job.Register(&reg)
	exec.Register(&reg, &exec.Options{Programs: map[string]exec.Program{"sh": {Path: "/bin/sh"}}})
	return engine.New(w.store, &reg, &engine.Options{Workspace: w.TempDir(), Queues: queues})
}

// submit uploads files to the service.
func (w *world) submit(parts ...part) string {
	w.Helper()
	body, kind := form(parts...)
	var got httpapi.Started
	a := w.post("v1/jobs/job/executions", body, "Content-Type", kind).want(http.StatusAccepted, &got)
	if got.Status != "queued" || !strings.HasSuffix(a.Header().Get("Location"), string(got.ID)) {
		w.Errorf("%s %v", a.Body, a.Header())
	}
	return string(got.ID)
}

// The life of a job: files and run.sh are uploaded, a client of the queue runs it, and the
// results are downloaded as results.zip. The user is who makes the request.
func TestUploadRunDownload(t *testing.T) {
	d := new(couriertest.Depot)
	w := orchestrator(t, d, runScript("remote"))
	id := w.submit(part{"files", "run.sh", "mkdir -p out/deep && tr a-z A-Z < data.txt > out/data.txt && echo x > out/deep/x"}, part{"files", "data.txt", "hello\n"}, part{"user_id", "", "ann"})
	for _, name := range []string{"run.sh", "data.txt"} { // a directory of its own, before the answer
		if _, ok := d.Content(depot.InputKey(courier.ExecutionID(id), name)); !ok {
			t.Errorf("%s is not there", name)
		}
	}
	var status httpapi.Accepted
	w.get("v1/executions/"+id+"/results").want(http.StatusAccepted, &status)
	if string(status.ID) != id || status.Status != "queued" {
		t.Errorf("%+v", status)
	}
	client := w.worker(d, []string{"remote"}) // elsewhere: it shares the store and the depot
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer client.Stop(t.Context())
	if x := w.ended(id); x.State != courier.Completed || x.By != "ann" || x.Labels["by"] != "ann" {
		t.Errorf("%+v", x)
	}
	a := w.get("v1/executions/"+id+"/results").want(http.StatusOK, nil)
	if got := a.unzip(); !slices.Equal(got, []string{"data.txt: HELLO\n", "deep/x: x\n"}) || a.Header().Get("Content-Disposition") != `attachment; filename="results.zip"` {
		t.Errorf("%q %v", got, a.Header())
	}
	var list struct{ Items []httpapi.ClientExecution }
	w.get("v1/executions?by=ann").want(http.StatusOK, &list)
	if len(list.Items) != 1 {
		t.Errorf("%+v", list)
	}
}

// A script that fails makes the job fail, and what it has left can be downloaded.
func TestScriptThatFails(t *testing.T) {
	w := orchestrator(t, new(couriertest.Depot), runScript(""))
	id := w.submit(part{"files", "run.sh", "mkdir out; echo half > out/half; exit 7"})
	x := w.run(id)
	if x.State != courier.Failed || !strings.Contains(x.Failure.Message, "run.sh has returned 7") {
		t.Fatalf("%s %+v", x.State, x.Failure)
	}
	w.get("v1/executions/"+id+"/results").problem(http.StatusConflict, "not_completed", "failed")
	if got := w.get("v1/executions/"+id+"/results?partial=1").want(http.StatusOK, nil).unzip(); !slices.Equal(got, []string{"half: half\n"}) {
		t.Errorf("%q", got)
	}
	steps, err := w.engine.Executions().Steps(t.Context(), x.ID)
	if err != nil || !slices.ContainsFunc(steps, func(s courier.StepExecution) bool {
		return s.ID == "run" && strings.Contains(string(s.Outputs), `"exit_code":7`)
	}) {
		t.Errorf("%+v, %v", steps, err)
	}
}

// The request is validated: the service, the parameters, and the files that it needs.
func TestUploadIsValidated(t *testing.T) {
	d := new(couriertest.Depot)
	w := orchestrator(t, d, runScript(""))
	w.user = "admin"
	body, kind := form(part{"files", "a", "1"}, part{"nonsense", "", "1"})
	w.post("v1/jobs/jbo/executions", body, "Content-Type", kind).problem(http.StatusNotFound, "not_found")
	w.post("v1/jobs/job/executions", body, "Content-Type", kind).problem(http.StatusBadRequest, "invalid", "nonsense")
	mux := http.NewServeMux()
	mux.Handle("POST /upload", w.api.Async("job", &httpapi.AsyncOptions{Files: true, Require: []string{"run.sh"}}))
	e := &endpoint{w, mux}
	e.send("POST", "/upload", body, http.Header{"X-User": {"ann"}, "Content-Type": {kind}}).problem(http.StatusBadRequest, "missing_file", "run.sh")
	body, kind = form(part{"files", "run.sh", "exit"}, part{"user_id", "", "ben"})
	e.send("POST", "/upload", body, http.Header{"X-User": {"ann"}, "Content-Type": {kind}}).problem(http.StatusForbidden, "forbidden", "user_id")
	w.nothing(d)
}

// The quota of a user and service is exact, also for uploads at the same time. What exceeds
// it stays queued, and Explain says so.
func TestQuotaOfUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(couriertest.Depot)
		definition := courier.Job{Name: "job", Params: map[string]any{"request": nil}, Steps: []courier.StepSpec{{ID: "work", Type: "test.work", Config: map[string]any{"seconds": 10}}}}
		w := orchestrator(t, d, definition)
		a := clientOf("job")
		a.Quota = func(access.Principal, string) int { return 2 }
		w.api = httpapi.New(w.engine, &httpapi.Options{Access: a, URL: "/api/", Depot: d})
		mux := http.NewServeMux()
		mux.Handle("POST /upload", w.api.Async("job", &httpapi.AsyncOptions{Files: true}))
		e := &endpoint{w, mux}
		w.begin()
		defer w.engine.Stop(t.Context())
		running := func(by string) (n int) {
			all, err := w.engine.Executions().List(t.Context(), store.Filter{States: []courier.State{courier.Running}})
			if err != nil {
				t.Error(err)
			}
			for _, x := range all {
				if x.By == by {
					n++
				}
			}
			return n
		}
		body, kind := form(part{"f", "run.sh", "exit"})
		var all sync.WaitGroup
		for range 7 {
			for _, user := range []string{"ann", "admin"} {
				all.Go(func() {
					if a := e.send("POST", "/upload", body, http.Header{"X-User": {user}, "Content-Type": {kind}}); a.Code != http.StatusAccepted {
						t.Errorf("%d %s", a.Code, a.Body)
					}
				})
			}
		}
		all.Wait()
		explained := false
		for range 60 {
			time.Sleep(time.Second)
			if ann, admin := running("ann"), running("admin"); ann > 2 || admin > 2 {
				t.Fatalf("%d of ann and %d of admin run", ann, admin)
			}
			queued, err := w.engine.Executions().List(t.Context(), store.Filter{States: []courier.State{courier.Queued}})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range queued {
				why, err := w.engine.Executions().Explain(t.Context(), x.ID)
				explained = explained || err == nil && slices.ContainsFunc(why.Because, func(c advice.Cause) bool {
					return c.Kind == advice.Limit && c.Scope == "key:user:"+x.By+"/job" && c.Limit == 2
				})
			}
		}
		done, err := w.engine.Executions().List(t.Context(), store.Filter{States: []courier.State{courier.Completed}})
		if err != nil || len(done) != 14 || !explained {
			t.Errorf("%d are completed, %v; explained: %v", len(done), err, explained)
		}
	})
}

// A worker is lost: another one goes on, with the files.
func TestUploadOutlivesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(couriertest.Depot)
		w := orchestrator(t, d, courier.Job{Name: "job", Params: map[string]any{"files": nil}, Steps: []courier.StepSpec{
			{ID: "get", Type: "depot.fetch"},
			{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "${context:get.fetched_directory}/**"}},
		}})
		id := w.submit(part{"files", "a.txt", "1"})
		got, err := w.store.Claim(t.Context(), store.ClaimRequest{
			Worker: "dead", StepTypes: []string{"depot.fetch", "depot.keep"}, Queues: []string{"default"}, Max: 1, Lease: 15 * time.Second,
		})
		if err != nil || len(got.List) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		time.Sleep(16 * time.Second)
		if x := w.as("admin").see(id); x["status"] != "lost" {
			t.Errorf("%v", x)
		}
		var status httpapi.Accepted
		w.get("v1/executions/"+id+"/results").want(http.StatusAccepted, &status)
		if status.Status != "running" { // a client need not know
			t.Errorf("%+v", status)
		}
		w.begin()
		defer w.engine.Stop(t.Context())
		if x := w.ended(id); x.State != courier.Completed {
			t.Errorf("%+v", x)
		}
		w.get("v1/executions/"+id+"/results").want(http.StatusOK, nil)
	})
}

// The files of jobs that are older than MAX_AGE, which a service can have of its own, are
// removed while an engine is started, and never those of a job that has not ended. The record
// stays.
func TestFilesAreRemovedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(couriertest.Depot)
		w := orchestrator(t, d, courier.Job{Name: "job", Limit: 1, Params: map[string]any{"files": nil, "seconds": courier.Param{Type: "number", Default: 0}}, Steps: []courier.StepSpec{
			{ID: "get", Type: "depot.fetch"},
			{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "${context:get.fetched_directory}/**"}},
			{ID: "work", Type: "test.work", Timeout: new(time.Duration(0)), Config: map[string]any{"seconds": "context:params.seconds"}},
		}})
		w.begin()
		old := w.submit(part{"files", "a.txt", "1"})
		w.ended(old)
		running := w.submit(part{"files", "a.txt", "1"}, part{"seconds", "", "36000"})
		queued := w.submit(part{"files", "a.txt", "1"})
		time.Sleep(maxAge - time.Minute)
		w.get("v1/executions/"+old+"/results").want(http.StatusOK, nil)
		time.Sleep(3 * time.Minute)
		w.get("v1/executions/"+old+"/results").problem(http.StatusGone, "gone")
		if x := w.see(old); x["status"] != "completed" || x["files_removed_at"] == nil {
			t.Errorf("%v", x)
		}
		time.Sleep(3 * maxAge)
		for id, status := range map[string]string{running: "running", queued: "queued"} {
			if _, ok := d.Content(depot.InputKey(courier.ExecutionID(id), "a.txt")); !ok || w.see(id)["status"] != status {
				t.Errorf("the files of an execution that is %v, want %s, are there: %v", w.see(id)["status"], status, ok)
			}
		}
		if err := w.engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Of a failed execution Explain says until when its files are kept, and that they were
// removed; of one without files it says nothing of them.
func TestExplainSaysUntilWhenFilesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(couriertest.Depot)
		w := orchestrator(t, d, courier.Job{Name: "job", Params: map[string]any{"files": nil}, Steps: []courier.StepSpec{
			{Type: "depot.fetch"}, {Type: "test.work", Config: map[string]any{"fail": "no"}},
		}})
		w.begin()
		failed := w.submit(part{"files", "a.txt", "1"})
		ended := w.ended(failed).EndedAt
		files := func() (list []advice.Cause) {
			var e advice.Explanation
			w.as("admin").get("v1/executions/"+failed+"/explain").want(http.StatusOK, &e)
			for _, c := range e.Because {
				if c.Kind == advice.Files {
					list = append(list, c)
				}
			}
			return list
		}
		until := ended.Add(30 * 24 * time.Hour)
		if got := files(); len(got) != 1 || !got[0].Until.Equal(until) || !strings.Contains(got[0].Text, until.UTC().Format(time.RFC3339)) {
			t.Errorf("%+v, want %v", got, until)
		}
		if err := w.engine.Stop(t.Context()); err != nil { // it would look for work all the month
			t.Fatal(err)
		}
		time.Sleep(31 * 24 * time.Hour)
		if err := depot.CleanOnce(t.Context(), d, w.engine.Executions(), &depot.Retention{Log: w.logger()}); err != nil {
			t.Fatal(err)
		}
		if got := files(); len(got) != 1 || !got[0].Until.IsZero() || !strings.Contains(got[0].Text, "were removed") {
			t.Errorf("%+v", got)
		}
		if err := d.Remove(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
		if got := files(); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// Nobody sees the files of another user, or learns that there are any.
func TestFilesOfOthers(t *testing.T) {
	w, id := withResults(t, new(couriertest.Depot), nil)
	unknown := w.as("ben").get("v1/executions/00000000-0000-7000-8000-000000000000/results")
	unknown.problem(http.StatusNotFound, "not_found")
	for _, path := range []string{"/results", "/results?partial=1", "/results?list=1"} {
		if got := w.as("ben").get("v1/executions/" + id + path); got.Code != unknown.Code || got.Body.String() != unknown.Body.String() {
			t.Errorf("%s: %s; of an unknown one %s", path, got.Body, unknown.Body)
		}
	}
	w.as("ben").get("v1/executions/"+id+"/results/a.csv").problem(http.StatusNotFound, "not_found")
}
