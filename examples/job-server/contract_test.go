package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// contract are the parts of the contract that are the same on each store.
var contract = []struct {
	name string
	of   func(c *client)
}{
	{"input is validated", inputIsValidated},
	{"the list is filtered and paged", listIsFilteredAndPaged},
	{"an idempotency key finds the job", keyFindsTheJob},
	{"what is over can't be cancelled", onlyUnfinishedIsCancelled},
	{"events are streamed and resumed", eventsAreResumed},
	{"a retry is scheduled", retryIsScheduled},
}

// The contract holds in memory, in virtual time.
func TestContractInMemory(t *testing.T) {
	for _, part := range contract {
		t.Run(part.name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.begin()
				part.of(&w.client)
			}, "-max-concurrent", "20")
		})
	}
}

// The contract holds on PostgreSQL, with jobs in processes.
func TestContractOnPostgreSQL(t *testing.T) {
	t.Parallel()
	p := launch(t, "-database", pgtest.URL(t), "-max-concurrent", "20")
	for _, part := range contract {
		t.Run(part.name, func(t *testing.T) {
			c := p.client
			c.T = t
			part.of(&c)
		})
	}
}

// What is wrong with a request is answered with a problem document, and nothing is started.
func inputIsValidated(c *client) {
	for body, want := range map[string]string{
		`{}`: "definitionKey",
		`{"definitionKey": "test.work", "definitionVersion": 0}`:            "definitionVersion",
		`{"definitionKey": "test.work", "maxAttempts": 0}`:                  "maxAttempts",
		`{"definitionKey": "test.work", "priority": "high"}`:                "priority",
		`{"definitionKey": "test.work", "priority": 40000}`:                 "priority",
		`{"definitionKey": "test.work", "piority": 4}`:                      "piority",
		`{"definitionKey": "test.work", "params": []}`:                      "params",
		`{"definitionKey": "test.work", "params": {"seconds": -1}}`:         "seconds",
		`{"definitionKey": "test.work", "params": {"seconds": "long"}}`:     "seconds",
		`{"definitionKey": "test.work", "params": {"second": 1}}`:           "second",
		`{"definitionKey": "transcode.video"}`:                              "url",
		`{"definitionKey": "transcode.video", "params": {"url": "file:x"}}`: "url",
		`{"definitionKey": "test.work"`:                                     "",
		`[]`:                                                                "",
	} {
		c.problem("POST", "/v1/jobs", body, http.StatusBadRequest, "invalid", want)
	}
	c.problem("POST", "/v1/jobs", `{"definitionKey": "test.wrok"}`, http.StatusNotFound, "not_found", "test.wrok@1")
	c.problem("POST", "/v1/jobs", `{"definitionKey": "test.work", "definitionVersion": 3}`, http.StatusNotFound, "not_found", "test.work@3")
	for _, path := range []string{"", "/events"} {
		c.problem("GET", "/v1/jobs/c3f8d6a0-9f8c-4b22-8b1c-5b0e2a9dc1e2"+path, "", http.StatusNotFound, "not_found")
	}
	c.problem("POST", "/v1/jobs/nothing/cancel", "", http.StatusNotFound, "not_found")
	for query, want := range map[string]string{"status=done": "status", "limit=0": "limit", "limit=x": "limit", "stat=queued": "stat"} {
		c.problem("GET", "/v1/jobs?"+query, "", http.StatusBadRequest, "invalid", want)
	}
	c.problem("PUT", "/v1/jobs", "", http.StatusMethodNotAllowed, "method_not_allowed", "GET")
	c.problem("GET", "/v1/schedules", "", http.StatusNotFound, "not_found")
	if n := len(c.items("")); n != 0 {
		c.Errorf("%d were started", n)
	}
}

// items returns the ids of a list, in its order.
func (c *client) items(query string) (ids []string) {
	c.Helper()
	got, _ := c.send("GET", "/v1/jobs?"+query, "", http.StatusOK)
	for _, j := range got["items"].([]any) {
		ids = append(ids, j.(object)["jobId"].(string))
	}
	return ids
}

// The list is filtered by status and definition, and paged.
func listIsFilteredAndPaged(c *client) {
	want := map[string]string{"succeeded": c.start("test.work", ""), "failed": c.start("test.limited", `{"fails": 1}`), "running": c.start("test.work", `{"seconds": 600}`)}
	want["cancelled"] = c.start("test.work", `{"seconds": 3600}`)
	c.await(want["failed"], "failed")
	busy := []string{c.start("test.limited", `{"seconds": 600}`), c.start("test.limited", `{"seconds": 600}`)}
	for _, id := range busy {
		c.await(id, "running")
	}
	want["queued"] = c.start("test.limited", "")
	c.cancel(want["cancelled"])
	for status, id := range want {
		c.await(id, status)
	}
	for status, id := range want {
		if ids := c.items("status=" + status); !slices.Contains(ids, id) || status != "running" && len(ids) != 1 || status == "running" && len(ids) != 3 {
			c.Errorf("%s: %v", status, ids)
		}
	}
	if ids := c.items("status=failed,queued"); len(ids) != 2 {
		c.Errorf("%v are failed or queued", ids)
	}
	for query, n := range map[string]int{
		"definitionKey=test.work": 3, "definitionKey=test.limited": 4, "definitionKey=test": 0, "definitionKey=none.at_all": 0, "definitionKey=test.limited&status=running": 2, "": 7,
	} {
		if ids := c.items(query); len(ids) != n {
			c.Errorf("%s: %v", query, ids)
		}
	}
	var all []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		got, _ := c.send("GET", "/v1/jobs?limit=3&cursor="+cursor, "", http.StatusOK)
		all = append(all, c.items("limit=3&cursor="+cursor)...)
		cursor, _ = got["next"].(string)
		if pages > 3 {
			c.Fatal("the pages have no end")
		}
	}
	if newestFirst := slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }); len(all) != 7 || !newestFirst {
		c.Errorf("%v", all)
	}
	for _, id := range append([]string{want["queued"], want["running"]}, busy...) {
		c.cancel(id)
		c.settled(id)
	}
}

// settled waits until a job has ended.
func (c *client) settled(id string) object {
	c.Helper()
	for {
		if j := c.get(id); j["finishedAt"] != nil {
			return j
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A key finds the job of the same definition and version, in flight or completed.
func keyFindsTheJob(c *client) {
	key := `"idempotencyKey": "upload-123"`
	first := c.start("test.work", `{"seconds": 0.5}`, key)
	if again := c.start("test.work", `{"seconds": 0.5}`, key); again != first {
		c.Errorf("queued: %s and %s", first, again)
	}
	c.await(first, "running")
	if again := c.start("test.work", `{"seconds": 0.5}`, key); again != first {
		c.Errorf("in flight: %s and %s", first, again)
	}
	c.await(first, "succeeded")
	if again := c.start("test.work", `{"seconds": 0.5}`, key); again != first {
		c.Errorf("completed: %s and %s", first, again)
	}
	for name, other := range map[string]string{
		"another version":    c.start("test.work", `{"seconds": 0.5}`, key, `"definitionVersion": 2`),
		"another definition": c.start("test.limited", `{"seconds": 0.5}`, key), "another key": c.start("test.work", "", `"idempotencyKey": "other"`),
		"no key": c.start("test.work", ""),
	} {
		if other == first {
			c.Errorf("%s has found the job", name)
		}
	}
	c.problem("POST", "/v1/jobs", `{"definitionKey": "test.work", "params": {"seconds": 6}, `+key+`}`, http.StatusUnprocessableEntity, "idempotency_key_reused")
}

// A job that has succeeded or failed stays so; one that is cancelled can be cancelled again.
func onlyUnfinishedIsCancelled(c *client) {
	succeeded, failed, running := c.start("test.work", ""), c.start("test.limited", `{"fails": 1}`), c.start("test.work", `{"seconds": 60}`)
	c.await(succeeded, "succeeded")
	c.await(failed, "failed")
	for id, status := range map[string]string{succeeded: "succeeded", failed: "failed"} {
		c.problem("POST", "/v1/jobs/"+id+"/cancel", "", http.StatusConflict, "transition")
		c.is(id, status)
	}
	c.await(running, "running")
	if status := c.cancel(running); status != "cancelling" && status != "cancelled" {
		c.Errorf("it is %s", status)
	}
	c.await(running, "cancelled")
	c.cancel(running)
	if j := c.is(running, "cancelled"); j["attempts"] != 1.0 || j["finishedAt"] == nil || j["heartbeatAt"] != nil || j["leaseExpiresAt"] != nil {
		c.Errorf("%v", j)
	}
	c.await(c.start("test.limited", ""), "succeeded") // the slot is free
}

// The stream has what becomes of a job, with what its function has emitted, and goes on behind
// the last event that a client has.
func eventsAreResumed(c *client) {
	id := c.start("test.work", `{"seconds": 1, "emit": 2}`)
	list := c.stream(id, "")
	if got := strings.Join(kinds(list), " "); got != "queued started progress progress succeeded" {
		c.Errorf("%s", got)
	}
	for i, e := range list {
		if n := e.data["payload"]; e.kind == "progress" && fmt.Sprint(n) != "map[n:1]" && fmt.Sprint(n) != "map[n:2]" {
			c.Errorf("%v", e)
		}
		if e.id != "" {
			if rest := c.stream(id, e.id); fmt.Sprint(kinds(rest)) != fmt.Sprint(kinds(list[i+1:])) {
				c.Errorf("after %s %s: %v, want %v", e.kind, e.id, kinds(rest), kinds(list[i+1:]))
			}
		}
	}
}

// While it waits for a retry, a job is queued, and says when it is due.
func retryIsScheduled(c *client) {
	id := c.start("test.work", `{"fails": 1}`)
	j := c.get(id)
	for j["scheduledAt"] == nil {
		time.Sleep(10 * time.Millisecond)
		j = c.get(id)
	}
	if d := c.instant(j, "scheduledAt").Sub(c.instant(j, "startedAt")); j["status"] != "queued" || d < 2*base || d > 5*base || j["attempts"] != 1.0 || j["errorSummary"] != "attempt 1 is to fail" {
		c.Errorf("%v: %v", d, j)
	}
	if j = c.settled(id); j["status"] != "succeeded" || j["attempts"] != 2.0 || j["errorSummary"] != nil || j["scheduledAt"] != nil {
		c.Errorf("%v", j)
	}
}
