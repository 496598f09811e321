package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A client sets only what the service names for the job, and nobody names the key of a user:
// not in the request, and not by a parameter that a key of the job is made of.
func TestClientSettings(t *testing.T) {
	a := policy()
	a.ClientMay = func(job string) []string {
		return map[string][]string{"report": {"max_attempts"}, "other": {"priority", "limit_keys", "version", "timeout_seconds", "max_attempts"}}[job]
	}
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: a})
	people["cleo"] = map[string]access.Role{"report": access.Client, "other": access.Client, "missing": access.Client, "keyed": access.Client}
	t.Cleanup(func() { delete(people, "cleo") })
	if _, err := w.engine.Jobs().Define(t.Context(), courier.Job{Name: "keyed", Params: map[string]any{"partner": ""}, LimitKeys: []string{"context:params.partner"}, Steps: []courier.StepSpec{{Type: "test.work"}}}, nil); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"priority": `{"priority": 32767}`, "limit_keys": `{"limit_keys": ["acme"]}`, "version": `{"version": 1}`, "timeout_seconds": `{"timeout_seconds": 0}`,
	} {
		w.as("cleo").post("v1/jobs/report/executions", body).problem(http.StatusForbidden, "forbidden", name, "override", "Access.ClientMay")
		w.as("cleo").post("v1/jobs/other/executions", body).want(http.StatusAccepted, nil)
		w.as("stan").post("v1/jobs/report/executions", body).want(http.StatusAccepted, nil)
	}
	w.as("cleo").post("v1/jobs/report/executions", `{"max_attempts": 1, "labels": {"partner": "acme"}, "delay_seconds": 1}`).want(http.StatusAccepted, nil)
	w.as("cleo").post("v1/jobs/missing/executions", "").problem(http.StatusNotFound, "not_found")
	if a := w.as("cleo").post("v1/jobs/missing/executions", ""); strings.Contains(a.Body.String(), "hidden") {
		t.Errorf("a client learns the names of jobs: %s", a.Body)
	}
	for _, user := range []string{"cleo", "admin"} {
		w.as(user).post("v1/jobs/other/executions", `{"limit_keys": ["user:ben/report"], "priority": 32767}`).problem(http.StatusBadRequest, "invalid", "user:")
		w.as(user).post("v1/jobs/keyed/executions", `{"params": {"partner": "user:ben/report"}}`).problem(http.StatusBadRequest, "invalid", "user:")
		w.as(user).post("v1/jobs/keyed/executions", `{"params": {"partner": "acme"}}`).want(http.StatusAccepted, nil)
	}
}

// The quota of a principal and a job holds on each route that starts executions.
func TestQuotaOnAllRoutes(t *testing.T) {
	a := policy()
	a.Quota = func(p access.Principal, job string) int {
		return map[string]int{"otto report": 1, "ben report": 2}[p.ID+" "+job]
	}
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		if err := w.engine.Limits().Set(w.Context(), "global", 0, courier.By{}); err != nil {
			t.Fatal(err)
		}
		otto := w.as("otto")
		for range 3 {
			otto.start("report", `{"params": {"seconds": 60}}`)
		}
		first := otto.start("report", `{"params": {"seconds": 60}}`)
		otto.post("v1/executions/"+first+"/rerun", "").want(http.StatusAccepted, nil)
		otto.post("v1/bulk", fmt.Sprintf(`{"action": "rerun", "ids": [%q], "key": "k"}`, first)).want(http.StatusOK, nil)
		w.as("ben").start("report", `{"params": {"seconds": 60}}`)
		time.Sleep(time.Second)
		list, err := w.engine.Executions().List(w.Context(), store.Filter{States: []courier.State{courier.Running}})
		if err != nil || len(list) != 2 {
			t.Fatalf("%d run, %v", len(list), err)
		}
		all, err := w.engine.Executions().List(w.Context(), store.Filter{})
		if err != nil || len(all) != 7 {
			t.Errorf("%d executions, %v", len(all), err)
		}
		for i := range all {
			if x := &all[i]; len(x.LimitKeys) != 1 || x.LimitKeys[0] != "user:"+x.By+"/report" {
				t.Errorf("%s: %v", x.By, x.LimitKeys)
			}
		}
	})
}

// A principal has a limited number of executions that have not begun, held ones among them;
// others start theirs nevertheless. There is room again when some are cancelled.
func TestUnbegun(t *testing.T) {
	a := policy()
	a.MaxUnbegun = 5
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		ann, id := w.as("ann"), ""
		for range 5 {
			id = ann.start("report", `{"hold": true}`)
		}
		ann.post("v1/jobs/report/executions", "").problem(http.StatusTooManyRequests, "too_many", "5", "Access.MaxUnbegun")
		w.as("ben").start("report", "")
		ann.post("v1/executions/"+id+"/cancel", "").want(http.StatusAccepted, nil)
		time.Sleep(2 * time.Second)
		ann.start("report", `{"hold": true}`)
		ann.post("v1/jobs/report/executions", "").problem(http.StatusTooManyRequests, "too_many")
	})
}

// Two principals with the same key of a bulk rerun have executions of their own.
func TestBulkKeys(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	id := w.start("report", "")
	w.post("v1/executions/"+id+"/cancel", "").want(http.StatusAccepted, nil)
	started := map[string]string{}
	for _, user := range []string{"otto", "operator", "otto"} {
		var out struct {
			Results []struct {
				Started string `json:"started_id"`
			}
		}
		w.as(user).post("v1/bulk", fmt.Sprintf(`{"action": "rerun", "ids": [%q], "key": "k"}`, id)).want(http.StatusOK, &out)
		if len(out.Results) != 1 || started[user] != "" && started[user] != out.Results[0].Started {
			t.Fatalf("%s: %+v", user, out)
		}
		started[user] = out.Results[0].Started
	}
	if started["otto"] == started["operator"] || started["otto"] == "" {
		t.Errorf("%v", started)
	}
}

// A list that is watched is that of its viewer's rights. When those of the first viewer are
// taken away, the others are told nothing of it, and it is told that all is gone.
func TestFeedsByRights(t *testing.T) {
	people["first"] = map[string]access.Role{}
	t.Cleanup(func() { delete(people, "first") })
	var revoked atomic.Bool
	a := policy()
	role := a.Role
	a.Role = func(ctx context.Context, p access.Principal, job string) access.Role {
		if p.ID == "first" && !revoked.Load() {
			return access.Viewer
		}
		return role(ctx, p, job)
	}
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.start("report", `{"hold": true}`)
		first := w.as("first").watch("v1/events")
		defer first.close()
		time.Sleep(3 * time.Second)
		other := w.as("watcher").watch("v1/events")
		defer other.close()
		time.Sleep(3 * time.Second)
		revoked.Store(true)
		time.Sleep(10 * time.Second)
		if n := len(other.got("removed")); n > 0 || len(other.got("execution")) != 1 {
			t.Errorf("another viewer is told of %d removed ones: %s", n, other.body())
		}
		if len(first.got("execution")) != 1 || len(first.got("removed")) != 1 {
			t.Errorf("who may see nothing any more: %s", first.body())
		}
	})
}

// TestClientsStartNoOldVersion sends a version to each route whose body has one, as a client
// of all jobs, for an execution and a chain execution of its own.
func TestClientsStartNoOldVersion(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	people["cleo"] = map[string]access.Role{"": access.Client, "report": access.Client}
	t.Cleanup(func() { delete(people, "cleo") })
	for _, def := range []string{"night", "day"} { // each a version
		if _, err := w.engine.Jobs().Define(t.Context(), courier.Job{Name: "report", Queue: def, Steps: []courier.StepSpec{{Type: "test.work"}}}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Chains().Define(t.Context(), chain.Chain{Name: "all", Members: []chain.Member{{Job: "report", Name: def}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	cleo := w.as("cleo")
	one := cleo.start("report", "{}")
	var chained struct{ ID string }
	cleo.post("v1/chains/all/executions", "{}").want(http.StatusAccepted, &chained)
	before, err := w.engine.Executions().List(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, o := range operations(t) {
		if !o.hasBodyField("version") {
			continue
		}
		tried++
		id := one
		if strings.Contains(o.path, "chain") {
			id = chained.ID
		}
		name := "report"
		if strings.Contains(o.path, "chains") {
			name = "all"
		}
		a := cleo.send(o.method, strings.NewReplacer("{id}", id, "{name}", name).Replace(o.path), `{"version": 1}`, "If-None-Match", "*")
		if a.Code != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", o.method, o.path, a.Code, a.Body)
		}
	}
	after, err := w.engine.Executions().List(t.Context(), store.Filter{})
	if err != nil || len(after) != len(before) || tried < 8 {
		t.Errorf("%d executions, and %d before, by %d routes, %v", len(after), len(before), tried, err)
	}
}
