package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/definitiondiff"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// entryNames returns the names, or with versions the versions, in an answer with a list.
func (a answer) entries() (names []string, versions []int, next string) {
	a.Helper()
	var p struct {
		Items []httpapi.DefinitionEntry
		Next  string
	}
	a.want(http.StatusOK, &p)
	for _, e := range p.Items {
		names = append(names, e.Name)
		versions = append(versions, e.Version)
	}
	return names, versions, p.Next
}

// A job is created, read, changed and read in its earlier version.
func TestPutJob(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w = w.as("editor")
		body := `{"steps": [{"id": "a", "type": "test.work"}]}`
		var v httpapi.DefinitionView
		a := w.put("v1/jobs/new", body, "If-None-Match", "*").want(http.StatusCreated, &v)
		if v.Job == nil || v.Job.Name != "new" || v.Job.Version != 1 || v.SavedBy != "editor" || v.SavedAt.IsZero() || a.Header().Get("ETag") != `"v1"` {
			t.Errorf("%s with %s", a.Body, a.Header())
		}
		w.put("v1/jobs/new", body, "If-None-Match", "*").want(http.StatusCreated, nil) // as the first time
		again := w.put("v1/jobs/new", body, "If-Match", `"v1"`).want(http.StatusOK, nil)
		if again.Header().Get("ETag") != `"v1"` {
			t.Errorf("%s", again.Header())
		}

		var got httpapi.DefinitionView
		a = w.get("v1/jobs/new").want(http.StatusOK, &got)
		got.Job.Queue = "night"
		changed, err := json.Marshal(got.Job) // what was read can be sent back
		if err != nil {
			t.Fatal(err)
		}
		w.put("v1/jobs/new", string(changed), "If-Match", "W/"+a.Header().Get("ETag")).want(http.StatusCreated, &v)
		if v.Job.Version != 2 || v.Job.Queue != "night" {
			t.Errorf("%+v", v.Job)
		}
		w.get("v1/jobs/new", "If-None-Match", `"v1"`).want(http.StatusOK, nil)
		w.get("v1/jobs/new", "If-None-Match", `"v2"`).want(http.StatusNotModified, nil)
		w.get("v1/jobs/new?version=1").want(http.StatusOK, &v)
		if v.Job.Version != 1 || v.Job.Queue != "" || v.SavedBy != "editor" {
			t.Errorf("%+v", v)
		}
		w.get("v1/jobs/new?version=3").problem(http.StatusNotFound, "not_found", "the latest is 2")
		w.get("v1/jobs/nwe").problem(http.StatusNotFound, "not_found", "new")

		doubtful := w.put("v1/jobs/doubtful", `{"steps": [{"type": "test.work", "config": {"text": "context:params.x"}}]}`, "If-None-Match", "*").want(http.StatusCreated, nil)
		if text := doubtful.Body.String(); !strings.Contains(text, `"warnings":[{"pointer":"/steps/0/config/text","step":0`) || !strings.Contains(text, `"line":1,"column":53`) {
			t.Errorf("%s", text)
		}

		list, err := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "job", Name: "new"})
		if err != nil || len(list) != 8 || list[0].Outcome != "done" || list[0].By != "editor" || list[0].Verb != "define" || string(list[0].Was) != "1" {
			t.Errorf("%d entries, %v: %+v", len(list), err, list)
		}
	})
}

// What can't be saved is refused with all that is wrong, and saves nothing.
func TestPutJobRefused(t *testing.T) {
	w := newWorld(t, memstore.New(), nil).as("editor")
	good := `{"steps": [{"id": "a", "type": "test.work"}]}`
	w.put("v1/jobs/report", good, "If-Match", `"v1"`).want(http.StatusCreated, nil)
	for _, c := range []struct {
		body   string
		status int
		code   string
		header []string
		texts  []string
	}{
		{good, 428, "precondition_required", nil, []string{"If-Match"}},
		{good, 400, "invalid", []string{"If-Match", "v1"}, []string{`"v7"`}},
		{good, 400, "invalid", []string{"If-Match", "*"}, []string{"one ETag"}},
		{good, 400, "invalid", []string{"If-None-Match", `"v1"`}, []string{"*"}},
		{good, 400, "invalid", []string{"If-Match", `"v1"`, "If-None-Match", "*"}, nil},
		{`{"queue": "x", "steps": [{"type": "test.work"}]}`, 412, "precondition_failed", []string{"If-Match", `"v1"`}, []string{"version 1", "read it again"}},
		{`{"queue": "x", "steps": [{"type": "test.work"}]}`, 412, "precondition_failed", []string{"If-Match", `"v3"`}, nil},
		{`{"queue": "x", "steps": [{"type": "test.work"}]}`, 412, "precondition_failed", []string{"If-None-Match", "*"}, nil},
		{`{"steps": [}`, 400, "invalid", []string{"If-Match", `"v2"`}, []string{"line 1"}},
		{``, 400, "invalid", []string{"If-Match", `"v2"`}, nil},
		{`{"name": "other", "steps": [{"type": "test.work"}]}`, 422, "definition", []string{"If-Match", `"v2"`}, []string{"name in the path"}},
		{`{"steps": []}`, 422, "definition", []string{"If-Match", `"v2"`}, []string{"at least one"}},
	} {
		w.put("v1/jobs/report", c.body, c.header...).problem(c.status, c.code, c.texts...)
	}
	w.put("v1/jobs/none", `{"steps": [{"type": "test.work"}]}`, "If-Match", `"v1"`).problem(http.StatusPreconditionFailed, "precondition_failed")
	w.put("v1/jobs/report", "steps: []", "If-Match", `"v2"`, "Content-Type", "text/yaml").problem(http.StatusUnsupportedMediaType, "media_type")
	if _, versions, _ := w.get("v1/jobs/report/versions").entries(); !slices.Equal(versions, []int{2, 1}) {
		t.Errorf("versions %v", versions)
	}
	for user, status := range map[string]int{"otto": 403, "ann": 403, "nobody": 404, "edna": 200} {
		w.as(user).put("v1/jobs/report", good, "If-Match", `"v2"`).want(status, nil)
	}
	w.as("edna").put("v1/jobs/other", good, "If-None-Match", "*").problem(http.StatusNotFound, "not_found")
	w.as("edna").put("v1/jobs/%00", good, "If-None-Match", "*").problem(http.StatusNotFound, "not_found")
	w.put("v1/jobs/%00", good, "If-None-Match", "*").problem(http.StatusNotFound, "not_found")
}

// Mistakes of form and of content are found together, each with its place.
func TestPutJobProblems(t *testing.T) {
	w := newWorld(t, memstore.New(), nil).as("editor")
	body := "{\"queue\": 5,\n \"steps\": [\n  {\"id\": \"a\", \"type\": \"test.wrok\"},\n  {\"id\": \"b\", \"type\": \"test.work\", \"config\": {\"txet\": \"x\"}, \"nmae\": 1}]}"
	var p struct {
		Code     string
		Problems []struct {
			Pointer, Field, Message string
			Step                    *int
			Line, Column            int
		}
	}
	w.put("v1/jobs/new", body, "If-None-Match", "*").want(http.StatusUnprocessableEntity, &p)
	var got []string
	for _, x := range p.Problems {
		got = append(got, fmt.Sprintf("%s %d:%d", x.Pointer, x.Line, x.Column))
	}
	want := []string{"/queue 1:11", "/steps/0/type 3:23", "/steps/1/config 4:46", "/steps/1 4:69"}
	if p.Code != "definition" || !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", p.Code, got, want)
	}
	w.put("v1/jobs/new", strings.NewReplacer("5,", `"x",`, `, "nmae": 1`, "").Replace(body), "If-None-Match", "*").want(http.StatusUnprocessableEntity, &p)
	if len(p.Problems) != 2 || p.Problems[0].Line != 3 || p.Problems[1].Pointer != "/steps/1/config" {
		t.Errorf("%+v", p.Problems)
	}
}

// A definition with more mistakes than anybody reads is refused in time, with some of them.
func TestPutManyProblems(t *testing.T) {
	w := newWorld(t, memstore.New(), nil).as("editor")
	for _, step := range []string{`{"type": "test.wrok"}`, `{"type": 1, "x": 2}`, `{"type": "flow.if"}`} {
		body := `{"steps": [` + strings.Repeat(step+",", 100_000/(len(step)+1)) + step + `]}`
		var p struct{ Problems []any }
		w.put("v1/jobs/new", body, "If-None-Match", "*").want(http.StatusUnprocessableEntity, &p)
		if n := len(p.Problems); n < 20 || n > 1000 {
			t.Errorf("%s: %d problems", step, n)
		}
	}
}

// An editor of one job does not learn of others by what its job depends on.
func TestHiddenDependency(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	body := func(job string) string {
		return `{"name": "report", "steps": [{"type": "test.work"}], "depends_on": ["` + job + `"]}`
	}
	edna := w.as("edna")
	there := edna.put("v1/jobs/report", body("hidden"), "If-Match", `"v1"`)
	there.problem(http.StatusUnprocessableEntity, "definition", "may not see it")
	if none := edna.put("v1/jobs/report", body("hiddne"), "If-Match", `"v1"`); none.Body.String() != there.Body.String() {
		t.Errorf("%s, and of one that is not there: %s", there.Body, none.Body)
	}
	there = edna.post("v1/check/job", body("hidden")).want(http.StatusOK, nil)
	if none := edna.post("v1/check/job", body("hiddne")); none.Body.String() != there.Body.String() || !strings.Contains(none.Body.String(), "may not see it") {
		t.Errorf("%s, and of one that is not there: %s", there.Body, none.Body)
	}
	w.put("v1/jobs/report", body("hidden"), "If-Match", `"v1"`).want(http.StatusCreated, nil)
	edna.put("v1/jobs/report", strings.Replace(body("hidden"), `"name"`, `"queue": "q", "name"`, 1), "If-Match", `"v2"`).want(http.StatusCreated, nil)
}

// Lists have what the visitor may see, page by page.
func TestListJobs(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for i := range 5 {
		job := courier.Job{Name: fmt.Sprintf("daily-%d", i), Steps: []courier.StepSpec{{Type: "test.work"}}}
		if _, err := w.engine.Jobs().Define(w.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"daily-0", "daily-1", "daily-2", "daily-3", "daily-4", "hidden", "other", "report"}
	for _, c := range []struct {
		user, query string
		want        []string
	}{
		{"watcher", "", all},
		{"vera", "", []string{"report"}},
		{"ann", "", nil}, // a client
		{"nobody", "", nil},
		{"watcher", "&q=daily-", all[:5]},
		{"watcher", "&q=daily-3", all[3:4]},
		{"watcher", "&q=rep", all[7:]},
		{"watcher", "&q=x", nil},
		{"vera", "&q=hidden", nil},
	} {
		for _, limit := range []int{1, 2, 3, 5, 8, 100} {
			var got []string
			for cursor, pages := "", 0; ; pages++ {
				names, _, next := w.as(c.user).get(fmt.Sprintf("v1/jobs?limit=%d%s&cursor=%s", limit, c.query, cursor)).entries()
				if got = append(got, names...); len(names) > limit || pages > 10 {
					t.Fatalf("%v of %v on page %d", names, limit, pages)
				}
				if cursor = next; next == "" {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s%s by %d: %v, want %v", c.user, c.query, limit, got, c.want)
			}
		}
	}
	_, _, next := w.get("v1/jobs?limit=1").entries()
	w.get("v1/jobs?limit=1&q=d&cursor="+next).problem(http.StatusBadRequest, "invalid", "start from the first page")
	w.as("watcher").get("v1/jobs/report").want(http.StatusOK, nil)
	w.as("ann").get("v1/jobs/report").problem(http.StatusForbidden, "forbidden")
	w.as("vera").get("v1/jobs/other").problem(http.StatusNotFound, "not_found")
}

// Versions and what differs between them.
func TestVersions(t *testing.T) {
	w := newWorld(t, memstore.New(), nil).as("editor")
	for i := 1; i < 5; i++ {
		w.put("v1/jobs/report", fmt.Sprintf(`{"limit": %d, "steps": [{"id": "s%d", "type": "test.work"}]}`, i, i/2), "If-Match", fmt.Sprintf(`"v%d"`, i)).want(http.StatusCreated, nil)
	}
	var got []int
	for cursor := ""; ; {
		_, versions, next := w.as("vera").get("v1/jobs/report/versions?limit=2&cursor=" + cursor).entries()
		if got = append(got, versions...); next == "" {
			break
		}
		cursor = next
	}
	if !slices.Equal(got, []int{5, 4, 3, 2, 1}) {
		t.Errorf("%v", got)
	}
	var d definitiondiff.Diff
	w.as("vera").get("v1/jobs/report/diff").want(http.StatusOK, &d)
	if got := d.String(); d.From != 4 || d.To != 5 || got != "/limit 3>4; added s2test.work>0; removed s1test.work 0" {
		t.Errorf("%+v: %s", d, got)
	}
	d = definitiondiff.Diff{}
	w.get("v1/jobs/report/diff?from=3&to=4").want(http.StatusOK, &d)
	if got := d.String(); got != "/limit 2>3" {
		t.Errorf("%+v: %s", d, got)
	}
	w.get("v1/jobs/report/diff?to=1").problem(http.StatusBadRequest, "invalid", "version 1")
	w.get("v1/jobs/report/diff?to=9").problem(http.StatusNotFound, "not_found", "latest is 5")
	w.get("v1/jobs/report/versions?cursor=x").problem(http.StatusBadRequest, "invalid")
	w.get("v1/jobs/none/versions").problem(http.StatusNotFound, "not_found")
}

// A dry run reports on the saved job, and for editors on another definition of it.
func TestDryRunJob(t *testing.T) {
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: valuesFor(access.Operator)})
	var r struct {
		dryrun.Report
		OK bool `json:"ok"`
	}
	at := "v1/jobs/report/dry-run"
	otto := w.as("otto")
	otto.post(at, `{"params": {"seconds": 1}}`).want(http.StatusOK, &r.Report)
	otto.post(at, "").want(http.StatusOK, nil)
	if r.Job != "report" || r.Version != 1 || len(r.Steps) != 1 || r.Err() != nil {
		t.Errorf("%+v", r.Report)
	}
	otto.post(at, `{"params": {"secnods": 1}}`).want(http.StatusOK, &r.Report)
	if r.Err() == nil || !strings.Contains(r.Err().Error(), "secnods") {
		t.Errorf("%+v", r.Report)
	}
	definition := `{"definition": {"steps": [{"type": "test.wrok"}], "nmae": 1}}`
	otto.post(at, definition).problem(http.StatusForbidden, "forbidden", "editor")
	w.as("edna").post(at, definition).want(http.StatusOK, &r.Report)
	if len(r.Problems) != 2 {
		t.Errorf("%+v", r.Report)
	}
	w.as("edna").post(at, `{"definition": {"steps": [{"type": "test.work", "config": {"text": "x"}}]}}`).want(http.StatusOK, &r.Report)
	w.as("editor").post("v1/jobs/new/dry-run", `{"definition": {"steps": [{"type": "test.work"}]}}`).want(http.StatusOK, &r.Report)
	w.as("editor").post("v1/jobs/new/dry-run", "").problem(http.StatusNotFound, "not_found")
	w.as("vera").post(at, "").problem(http.StatusForbidden, "forbidden")

	w = newWorld(t, memstore.New(), &httpapi.Options{Access: valuesFor(access.Editor)})
	w.as("otto").post(at, "").problem(http.StatusForbidden, "forbidden", "values")
	list, err := w.engine.Journal(w.Context(), store.ActionFilter{})
	if err != nil || len(list) != 1 || list[0].Outcome != "refused" {
		t.Errorf("%v: %+v", err, list) // the refusal alone
	}
}

// valuesFor is access with values for those alone who have all rights of a role.
func valuesFor(r access.Role) access.Policy {
	a := policy()
	role := a.Role
	a.Role = func(ctx context.Context, p access.Principal, job string) access.Role {
		has := role(ctx, p, job)
		if has&r != r {
			has &^= access.RightValues
		}
		return has
	}
	return a
}

// A check finds everything that is wrong, and saves nothing.
func TestCheck(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	step := `"steps": [{"type": "test.work"}]`
	for _, c := range []struct {
		user, kind, body string
		status           int
		pointers         []string // of the problems
	}{
		{"edna", "job", `{"name": "report", ` + step + `}`, 200, nil},
		{"edna", "job", `{"name": "report", "nmae": 1, "steps": [{"type": "test.wrok"}]}`, 200, []string{"", "/steps/0/type"}},
		{"edna", "job", `{"name": "other", ` + step + `}`, 404, nil},
		{"edna", "job", `{"nam`, 403, nil},
		{"edna", "job?job=report", `{"nam`, 200, []string{""}},
		{"edna", "job?job=report", `{"name": "other", "x": 1, ` + step + `}`, 200, []string{""}},
		{"edna", "job?job=report", `{"name": "other", ` + step + `}`, 404, nil},
		{"edna", "job?job=other", `{"nam`, 403, nil},
		{"otto", "job", `{"name": "report", ` + step + `}`, 403, nil},
		{"editor", "job", `{"name": "x"}`, 200, []string{""}},
		{"editor", "job", `[{"name": "x", ` + step + `}]`, 200, []string{""}},
		{"editor", "job", `{"name": "x", "members": []}`, 200, []string{""}},
		{"editor", "chain", `{"name": "x", "members": [{"job": "report"}, {"job": "reprot", "depends_on": ["y"]}]}`, 200, []string{"/members/1/job", "/members/1/depends_on/0/member"}},
		{"edna", "chain", `{"name": "x", "members": [{"job": "report"}]}`, 403, nil},
		{"edna", "schedule", `{"name": "x", "job": "report", "every_seconds": 60}`, 200, nil},
		{"edna", "schedule", `{"name": "x", "job": "report", "cron": "0 0 25 * * ?"}`, 200, []string{"/cron"}},
		{"edna", "schedule", `{"name": "x", "job": "hidden", "every_seconds": 60}`, 404, nil},
		{"edna", "schedule", `{"name": "x", "chain": "c", "every_seconds": 60}`, 403, nil},
		{"edna", "schedule", `{"name": "x", "job": "report", "chain": "c", "every_seconds": 60}`, 403, nil},
		{"mona", "schedule", `{"name": "x", "job": "inbox", "every_seconds": 60}`, 404, nil}, // it is not there, and others have like names
		{"mona", "job", `{"name": "inbox", ` + step + `}`, 200, nil},
		{"editor", "schedule", `{"name": "x", "job": "inbox", "every_seconds": 60}`, 200, []string{"/job"}},
		{"edna", "monitor", `{"name": "x", "job": "report", "chain": "c", "path": "/in", "lister": "shelf"}`, 403, nil},
		{"edna", "monitor", `{"name": "x", "job": "report", "path": "/in", "lister": "shelf"}`, 200, []string{"/job"}},
		{"edna", "monitor", `{"name": "x", "job": "hidden", "path": "/in"}`, 404, nil},
		{"edna", "subscription", `{"name": "x", "kind": "webhook", "events": ["JobFailed"], "jobs": ["report"], "webhook": {"url": "https://example.com/x", "secrets": ["secret:s"]}}`, 200, nil},
		{"edna", "subscription", `{"name": "x", "kind": "webhook", "events": ["JobFailed"], "jobs": ["report", "hidden"], "webhook": {"url": "https://example.com/x"}}`, 404, nil},
		{"edna", "subscription", `{"name": "x", "kind": "job", "events": ["JobFailed"], "jobs": ["report"], "job": {"name": "hidden"}}`, 404, nil},
		{"edna", "subscription", `{"name": "x", "kind": "webhook", "events": ["JobFailed"], "webhook": {"url": "https://example.com/x"}}`, 403, nil},
		{"editor", "subscription", `{"name": "x", "kind": "webhok", "events": ["JobFaild"]}`, 200, []string{"/kind", "/events"}},
	} {
		a := w.as(c.user).post("v1/check/"+c.kind, c.body)
		var r struct {
			OK       bool
			Problems []struct{ Pointer, Message string }
		}
		a.want(c.status, &r)
		if c.status != http.StatusOK {
			continue
		}
		var got []string
		for _, p := range r.Problems {
			got = append(got, p.Pointer)
		}
		if !slices.Equal(got, c.pointers) || r.OK != (len(c.pointers) == 0) {
			t.Errorf("%s %s: %s", c.kind, c.body, a.Body)
		}
	}
	if names, _, _ := w.get("v1/jobs").entries(); len(names) != 3 {
		t.Errorf("saved: %v", names)
	}
}

// A queue that no present worker serves is doubtful, when a job is checked and when it is
// saved. A check of a job says what it has not looked at.
func TestCheckQueue(t *testing.T) {
	virtual(t, nil, func(w *world) {
		synctest.Wait() // the worker has claimed
		const doubt = `no worker serves the queue "defualt"; did you mean "default"?`
		body := `{"name": "report", "queue": "defualt", "steps": [{"type": "test.work"}]}`
		var r httpapi.CheckResult
		w.post("v1/check/job", body).want(http.StatusOK, &r)
		if !r.OK || len(r.Warnings) != 1 || r.Warnings[0].Message != doubt || r.Warnings[0].Pointer != "/queue" || r.NotChecked != "Connections and secrets are looked at by a dry run." {
			t.Errorf("%+v", r)
		}
		var v httpapi.DefinitionView
		w.put("v1/jobs/report", body, "If-Match", `"v1"`).want(http.StatusCreated, &v)
		if len(v.Warnings) != 1 || v.Warnings[0].Message != doubt {
			t.Errorf("%+v", v)
		}
	})
}

// The journal says of a definition that is saved again that nothing was changed.
func TestDefineAgain(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for kind, body := range map[string]string{"jobs": `{"steps": [{"type": "test.work"}]}`, "chains": `{"members": [{"job": "report"}]}`} {
		at := "v1/" + kind + "/again"
		w.put(at, body, "If-None-Match", "*").want(http.StatusCreated, nil)
		w.put(at, body, "If-Match", `"v1"`).want(http.StatusOK, nil)
		var journal struct{ Items []store.Action }
		w.get("v1/journal?asked=yes&name=again&kind="+strings.TrimSuffix(kind, "s")).want(http.StatusOK, &journal)
		var outcomes []string
		for _, a := range journal.Items {
			outcomes = append(outcomes, a.Outcome)
		}
		if !slices.Equal(outcomes, []string{"unchanged", "asked", "done", "asked"}) {
			t.Errorf("%s: %q", kind, outcomes)
		}
	}
}

// A job or a chain is removed if nothing uses it and no execution is open. Its versions stay,
// and it can be made again.
func TestRemoveDefinition(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	bodies := map[string]string{"jobs": `{"steps": [{"type": "test.work"}]}`, "chains": `{"members": [{"job": "report"}]}`}
	for kind, body := range bodies {
		at := "v1/" + kind + "/old"
		w.send("DELETE", at, "").problem(http.StatusNotFound, "not_found")
		w.put(at, body, "If-None-Match", "*").want(http.StatusCreated, nil)
		w.as("vera").send("DELETE", at, "").problem(map[string]int{"jobs": http.StatusNotFound, "chains": http.StatusForbidden}[kind], map[string]string{"jobs": "not_found", "chains": "forbidden"}[kind])
		target := strings.TrimSuffix(kind, "s")
		w.put("v1/schedules/uses", `{"`+target+`": "old", "every_seconds": 3600}`).want(http.StatusCreated, nil)
		w.send("DELETE", at, "").problem(http.StatusConflict, "conflict", `is used by schedule`, "uses")
		w.send("DELETE", "v1/schedules/uses", "").want(http.StatusNoContent, nil)
		var started struct{ ID string }
		w.post(at+"/executions", "").want(http.StatusAccepted, &started)
		w.send("DELETE", at, "").problem(http.StatusConflict, "conflict", started.ID)
		w.post(map[string]string{"jobs": "v1/executions/", "chains": "v1/chain-executions/"}[kind]+started.ID+"/cancel", "").want(http.StatusAccepted, nil)
		w.send("DELETE", at, "").want(http.StatusNoContent, nil)
		w.send("DELETE", at, "").problem(http.StatusNotFound, "not_found", "was removed")
		w.get(at).problem(http.StatusNotFound, "not_found", "was removed")
		w.post(at+"/executions", "").problem(http.StatusNotFound, "not_found", "was removed")
		w.get(at+"?version=1").want(http.StatusOK, nil)
		var p struct{ Items []httpapi.DefinitionEntry }
		w.get(at+"/versions").want(http.StatusOK, &p)
		if len(p.Items) != 1 || p.Items[0].Version != 1 {
			t.Errorf("%+v", p.Items)
		}
		for _, query := range []string{"", "?q=old"} {
			if list := w.get("v1/"+kind+query).want(http.StatusOK, &p); len(p.Items) > 0 && strings.Contains(list.Body.String(), `"old"`) {
				t.Errorf("%s lists %+v", kind, p.Items)
			}
		}
		w.put(at, body, "If-None-Match", "*").want(http.StatusOK, nil)
		if tag := w.get(at).Header().Get("ETag"); tag != `"v3"` {
			t.Errorf("made again as %s", tag)
		}
	}
}

// The types of steps and the schemas are for viewers.
func TestTypes(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	var p struct{ Items []httpapi.StepTypeView }
	w.as("watcher").get("v1/step-types").want(http.StatusOK, &p)
	if len(p.Items) != 1 || p.Items[0].Key != "test.work" || len(p.Items[0].Config.Properties) != 4 || p.Items[0].Output == nil || p.Items[0].TimeoutSeconds != 300 {
		t.Errorf("%+v", p.Items)
	}
	w.as("vera").get("v1/step-types?job=report").want(http.StatusOK, nil)
	w.as("vera").get("v1/step-types").problem(http.StatusForbidden, "forbidden")
	w.as("vera").get("v1/step-types?job=other").problem(http.StatusNotFound, "not_found")
	for _, kind := range []string{"job", "chain", "schedule", "monitor", "subscription"} {
		a := w.as("watcher").get("v1/schema/"+kind+".json").want(http.StatusOK, &map[string]any{})
		w.as("watcher").get("v1/schema/"+kind+".json", "If-None-Match", a.Header().Get("ETag")).want(http.StatusNotModified, nil)
		if a.Header().Get("Content-Type") != "application/schema+json" {
			t.Errorf("%s", a.Header())
		}
		w.as("ann").get("v1/schema/"+kind+".json?job=report").problem(http.StatusForbidden, "forbidden")
	}
	w.put("v1/chains/hidden-chain", `{"members": [{"job": "report"}]}`, "If-None-Match", "*").want(http.StatusCreated, nil)
	if a := w.as("watcher").get("v1/schema/schedule.json").Body.String(); !strings.Contains(a, `"hidden"`) || !strings.Contains(a, `"hidden-chain"`) {
		t.Errorf("the schema lacks names: %s", a)
	}
	if a := w.as("vera").get("v1/schema/schedule.json?job=report"); strings.Contains(a.Body.String(), `"hidden`) || !strings.Contains(a.Body.String(), `"report"`) {
		t.Errorf("the schema names a hidden job: %s", a.Body)
	}
	w.get("v1/schema/nope.json").problem(http.StatusNotFound, "not_found")
}
