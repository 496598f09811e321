package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// great are values of the greatest sizes that the API takes, shared by all rows.
var great = struct {
	object  json.RawMessage
	labels  map[string]string
	message string
	log     string
}{
	object: json.RawMessage(`{"text":"` + strings.Repeat("a", 1<<20) + `"}`), labels: make(map[string]string),
	message: strings.Repeat("é", 4<<10), log: strings.Repeat("level=INFO msg=a\n", 960),
}

// fillGreat puts a thousand executions into the store of a world, with a thousand records and
// a thousand entries in the journal, all of the greatest sizes.
func fillGreat(w *world) (id courier.ExecutionID) {
	w.Helper()
	must := func(err error) {
		if err != nil {
			w.Helper()
			w.Fatal(err)
		}
	}
	for i := range 15 {
		great.labels[fmt.Sprintf("l%d", i)] = strings.Repeat("é", 200)
	}
	great.labels["by"] = "ann"
	s, ctx := w.store, w.Context()
	must(s.Set(ctx, store.LimitSetting(""), "0"))
	const rows = 1000
	var ids uuid7.Source
	list := make([]store.NewExecution, rows)
	for i := range list {
		list[i] = store.NewExecution{ID: courier.ExecutionID(ids.New()), Job: "report", Version: 1, StepTypes: []string{"test.work"}, Queue: "q", Params: great.object, Labels: great.labels}
	}
	_, err := s.Enqueue(ctx, list)
	must(err)
	held, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", Workspace: "here", StepTypes: []string{"test.work"}, Queues: []string{"q"}, Max: rows, Lease: time.Hour})
	must(err)
	step := func(attempt int) courier.StepExecution {
		return courier.StepExecution{
			Type: "test.work", ID: "work", Attempt: attempt, State: courier.StepFailed, Reason: courier.ReasonError, Error: great.message, Log: great.log, Stack: great.log,
			Outputs: great.object, Files: []courier.File{{Path: great.message}}, Events: []courier.StepEvent{{Name: "e", Payload: json.RawMessage(`"` + great.log[:15<<10] + `"`)}},
		}
	}
	for i := range held.List {
		c := &held.List[i]
		t := store.Transition{Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed, Result: great.object}
		if i%2 == 1 {
			t.To, t.Result, t.Failure = courier.Failed, nil, &courier.Failure{Reason: courier.ReasonError, Message: great.message, Type: "test.work"}
		}
		if i == 0 {
			t.To, t.Result, id = courier.Running, nil, c.Execution.ID
			for n := range rows {
				begun := courier.StepExecution{Type: "test.work", ID: "work", Attempt: n + 1}
				t.Start = &begun
				must(s.Apply(ctx, t))
				x, err := s.Execution(ctx, id)
				must(err)
				t.Ended, t.Seq = []courier.StepExecution{step(n + 1)}, x.Seq+1
			}
			t.Start = nil
		}
		must(s.Apply(ctx, t))
	}
	for range rows {
		_, err := s.Note(ctx, store.Action{Verb: "set", Kind: "schedule", Name: "s", Was: great.object, Now: great.object, Reason: great.message})
		must(err)
	}
	for i := range 50 {
		name := fmt.Sprintf("big-%d", i)
		body := fmt.Sprintf(`{"name":%q,"params":%s,"steps":[{"id":"work","type":"test.work","config":{}}]}`, name, great.object)
		_, err := s.Save(ctx, store.Definition{Kind: store.Job, Name: name, Body: json.RawMessage(body)})
		must(err)
	}
	return id
}

// A list costs what it answers with, whatever the rows have: a thousand executions, records
// and entries of the greatest values are behind every list, page and search of the API.
func TestListsCostTheirAnswers(t *testing.T) {
	if raced.On {
		return // it measures memory, one request after the other, which the run without the race detector has
	}
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy()})
	id := string(fillGreat(w))
	paths := map[string]string{
		"listExecutions": "v1/executions?limit=1", "search": "v1/search?q=by%3Dann", "listJournal": "v1/journal?limit=1000",
		"listJobs": "v1/jobs?limit=1000", "listChainExecutions": "v1/chain-executions?limit=1000",
	}
	text, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{
		"v1/executions?limit=1000&state=failed": true, "v1/executions?limit=1&by=nobody": true, "v1/executions/" + id + "/steps?limit=1000": true,
		"v1/executions/" + id + "/steps?limit=1000&state=failed": true, "v1/executions/" + id + "/files?limit=1000": true, "v1/executions/" + id + "/audit?limit=1000": true,
		"v1/executions/" + id + "/log": true, "v1/executions/" + id + "/outline": true, "v1/executions/" + id + "/explain": true, "v1/executions/" + id + "/failed-items": true,
		"v1/executions/" + id + "/events": true, "v1/jobs/big-1/versions": true,
	}
	for _, p := range paths {
		all[p] = p != ""
	}
	for path, methods := range document.Paths {
		if methods["get"] != nil && !strings.Contains(path, "{") {
			all[strings.TrimPrefix(path, "/")] = true
		}
	}
	for path, is := range all {
		if !is {
			continue
		}
		for _, user := range []string{"admin", "ann"} {
			before := allocated()
			a := quiet(w.as(user), "GET", path, "")
			check(t, user+" GET "+path, a, before)
		}
	}
	for _, body := range []string{
		`{"action": "rerun", "dry_run": true, "where": "job:report"}`, `{"action": "rerun", "dry_run": true, "where": "by:nobody"}`, `{"action": "cancel", "where": "state:failed", "dry_run": true}`,
	} {
		before := allocated()
		check(t, "bulk "+body, quiet(w.as("otto"), "POST", "v1/bulk", body), before)
	}
}

// check fails the test if an answer has taken more than memory in proportion to it.
func check(t *testing.T, what string, a *httptest.ResponseRecorder, before uint64) {
	t.Helper()
	took, most := allocated()-before, uint64(12*a.Body.Len()+(16<<20))
	if strings.Contains(what, "v1/jobs") || strings.Contains(what, "v1/search") {
		most += 50 * (8 << 20) // definitions are read as wholes, 16 at a time, and not kept
	}
	if took > most || a.Body.Len() > 48<<20 || a.Code >= 500 {
		t.Errorf("%s: %d, %d KiB, and %d KiB were allocated", what, a.Code, a.Body.Len()>>10, took>>10)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// quiet sends a request without a look at the document, and takes the first part of a stream.
func quiet(w *world, method, path, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/"+path, strings.NewReader(body))
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	r.Header.Set("X-User", w.user)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w.api.ServeHTTP(&leaver{rec, cancel}, r.WithContext(ctx))
	return rec
}
