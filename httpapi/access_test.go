package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// names are values of {name} by the part of the path before it.
var names = map[string]string{"jobs": "report", "schedules": "nightly", "monitors": "incoming", "subscriptions": "failures", "calendars": "week", "expectations": "payroll"}

// fill returns the path of a route with values in the place of its wildcards.
func fill(path, id string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		switch {
		case !strings.HasPrefix(p, "{"):
		case p == "{id}" && (parts[i-1] == "executions" || parts[i-1] == "kept-files"):
			parts[i] = id
		case p == "{seq}":
			parts[i] = "1"
		case names[parts[i-1]] != "":
			parts[i] = names[parts[i-1]]
		default:
			parts[i] = "x"
		}
	}
	return strings.Join(parts, "/")
}

// Each route asks for its rights: for each user, and for executions that are the user's own
// and those of somebody else. The table of routes says what is expected, so that a new
// route is in this test.
func TestAccess(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.services()
	w.put("v1/calendars/week", `{"weekend": ["sunday"]}`).want(http.StatusCreated, nil)
	owners := map[string]string{} // executions of report, by who has started them
	for _, user := range []string{"ann", "admin"} {
		owners[user] = w.as(user).start("report", "")
	}
	cases := 0
	for _, r := range httpapi.Table() {
		for user, roles := range people {
			for owner, id := range owners {
				if !strings.Contains(r.Path, "{id}") && owner != "ann" {
					continue
				}
				cases++
				a := w.as(user).send(r.Method, fill(r.Path, id), "")
				all, job := roles[""], roles[""]|roles["report"]
				own := owner == user
				want := 0 // any that neither refuses nor hides
				switch r.Scope {
				case "job":
					want = refusal(job, r, false)
				case "execution":
					if want = refusal(job, r, own); job&access.RightSee == 0 && !(job&access.RightOwn != 0 && own) {
						want = http.StatusNotFound
					}
				case "all":
					if all&r.Rights != r.Rights {
						want = http.StatusForbidden
					}
				case "body": // the tests of these routes have the rest
					if job == access.None {
						want = http.StatusForbidden
					}
				}
				switch refused := a.Code == http.StatusForbidden || a.Code == http.StatusUnauthorized; {
				case r.Scope == "body" && (user != "nobody" && user != "admin" || a.Code == http.StatusNotFound):
				case want == 0 && refused, want != 0 && a.Code != want:
					t.Errorf("%s %s as %s, execution of %s: %d %s; want %d", r.Method, r.Path, user, owner, a.Code, a.Body, want)
				}
				if want != 0 && strings.Contains(a.Body.String(), id) {
					t.Errorf("%s %s as %s names what it refuses: %s", r.Method, r.Path, user, a.Body)
				}
			}
		}
		a := w.as("stranger").send(r.Method, fill(r.Path, owners["ann"]), "")
		if got := a.Code == http.StatusUnauthorized; got == r.Open || got && a.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s as a stranger: %d %s", r.Method, r.Path, a.Code, a.Body)
		}
	}
	t.Logf("%d cases", cases)
}

// refusal is the status of a route about a job; 0 if the rights suffice.
func refusal(has access.Role, r httpapi.Route, own bool) int {
	switch {
	case has&r.Rights == r.Rights, own && r.Own && has&access.RightOwn != 0:
		return 0
	case has == access.None:
		return http.StatusNotFound
	}
	return http.StatusForbidden
}

// A filter does not tell what its visitor may not see: labels are values, and who, the
// queue, the chain and lost workers are for viewers. It is refused, or selects only what the
// visitor sees all of. Bulk takes the same filters.
func TestAskingForWhatIsHidden(t *testing.T) {
	a := valuesFor(access.Operator)
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: a})
	w.as("ann").start("report", `{"labels": {"partner": "acme"}, "hold": true}`)
	w.as("ben").start("report", `{"labels": {"partner": "acme"}, "hold": true}`)
	w.start("hidden", `{"labels": {"partner": "acme"}, "hold": true}`)
	for query, want := range map[string]map[string]int{ // how many are found, or the status
		"":                              {"nobody": 0, "ann": 1, "vera": 2, "otto": 2, "watcher": 3, "operator": 3},
		"label=partner=acme":            {"nobody": 0, "ann": 0, "vera": 0, "otto": 2, "watcher": 403, "operator": 3},
		"label=partner=acme&job=report": {"nobody": 404, "ann": 403, "vera": 403, "otto": 2, "watcher": 403, "operator": 2},
		"label=partner=acme&job=rep*":   {"ann": 0, "vera": 0, "otto": 2, "operator": 2},
		"label=partner=acme&job=hidden": {"ann": 404, "vera": 404, "otto": 404, "watcher": 403, "operator": 1},
		"label=by=ann":                  {"ann": 1, "ben": 0, "vera": 0, "otto": 1, "watcher": 403, "operator": 1},
		"label=by=ann&job=report":       {"ann": 1, "ben": 403, "vera": 403, "otto": 1, "watcher": 403, "operator": 1},
		"by=ann":                        {"ann": 1, "ben": 0, "vera": 1, "otto": 1, "watcher": 1},
		"by=ben&job=report":             {"ann": 403, "ben": 1, "vera": 1, "watcher": 1},
		"queue=default&job=report":      {"ann": 403, "vera": 2, "watcher": 2},
		"state=lost&job=report":         {"ann": 403, "vera": 0},
		"state=created&job=report":      {"ann": 1, "vera": 2},
		"chain=daily":                   {"ann": 403, "vera": 403, "watcher": 404},
		"job=hidden":                    {"ann": 404, "otto": 404, "watcher": 1},
		"job=hiden":                     {"ann": 404, "otto": 404, "watcher": 404},
	} {
		for user, n := range want {
			var list struct{ Items []struct{ ID string } }
			if got := w.as(user).get("v1/executions?" + query); n >= 400 {
				got.want(n, nil)
				if told := strings.Contains(got.Body.String(), "did you mean"); told && user != "watcher" {
					t.Errorf("%s learns names by %q: %s", user, query, got.Body)
				}
			} else if got.want(http.StatusOK, &list); len(list.Items) != n {
				t.Errorf("%s finds %d by %q, not %d", user, len(list.Items), query, n)
			}
		}
	}
	var out struct{ Matched int }
	w.as("otto").post("v1/bulk", `{"action": "cancel", "where": "label:partner=acme", "dry_run": true}`).want(http.StatusOK, &out)
	if out.Matched != 2 {
		t.Errorf("otto: %+v", out)
	}
	w.as("otto").post("v1/bulk", `{"action": "cancel", "where": "job:hiden"}`).problem(http.StatusNotFound, "not_found")
	a = valuesFor(access.Editor)
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: a})
	w.as("otto").post("v1/bulk", `{"action": "cancel", "where": "label:partner=acme job:report"}`).problem(http.StatusForbidden, "forbidden", "label", "values")
	w.as("otto").post("v1/bulk", `{"action": "cancel", "where": "label:partner=acme"}`).want(http.StatusOK, &out)
	if out.Matched != 0 {
		t.Errorf("otto, below the role for values: %+v", out)
	}
}

// Unknown, foreign and malformed ids have the same answer, byte by byte.
func TestUnknownIDs(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	foreign := w.start("report", "")
	w = w.as("ann")
	want := w.get("v1/executions/" + foreign)
	want.problem(http.StatusNotFound, "not_found")
	for _, id := range []string{"00000000-0000-7000-8000-000000000000", "x", foreign + "0", strings.ToUpper(foreign), "%F0%9F%98%80"} {
		if got := w.get("v1/executions/" + id); got.Body.String() != want.Body.String() || got.Code != want.Code {
			t.Errorf("%s: %s; of a foreign one: %s", id, got.Body, want.Body)
		}
	}
}

// Requests that nobody permits do not fill the journal: there are 60 entries a minute of each
// principal, and those of one keep out none of another.
func TestRefusalsAreBounded(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", "")
		for range 100 {
			w.as("vera").post("v1/executions/"+id+"/cancel", "").want(http.StatusForbidden, nil)
		}
		list, err := w.engine.Journal(t.Context(), filterBy("vera"))
		if err != nil || len(list) != 60 {
			t.Errorf("%d entries, %v", len(list), err)
		}
		if a := list[0]; a.Outcome != "refused" || a.Job != "report" || string(a.Execution) != id || a.Via != "api" {
			t.Errorf("%+v", a)
		}
		if n := strings.Count(w.log.String(), "there are too many"); n != 40 {
			t.Errorf("%d lines in the log", n)
		}
		w.as("ann").post("v1/executions/"+id+"/pause", "").want(http.StatusNotFound, nil)
		w.as("stan").post("v1/executions/"+id+"/cancel", "").want(http.StatusForbidden, nil) // the refusals of another one
		if list, err := w.engine.Journal(t.Context(), filterBy("stan")); err != nil || len(list) != 1 {
			t.Errorf("%d entries of another one, %v", len(list), err)
		}
	})
}

// A client cancels its own executions and is told why they wait, in short: nothing of others,
// of workers and of keys. A viewer starts nothing, and a starter does.
func TestClientAndViewer(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	if err := w.engine.Limits().Set(t.Context(), "key:acme-secret", 1, courier.By{Actor: "admin"}); err != nil {
		t.Fatal(err)
	}
	own := w.as("ann").start("report", "")
	other := w.as("ben").start("report", "")
	ann := w.as("ann")
	var e advice.Explanation
	ann.get("v1/executions/"+own+"/explain").want(http.StatusOK, &e)
	if len(e.Because) != 1 || e.Because[0] != (advice.Cause{Kind: advice.NoWorker, Text: "No worker can execute it now.", Do: "Wait, or cancel it."}) {
		t.Errorf("%+v", e)
	}
	ann.get("v1/executions/"+other+"/explain").problem(http.StatusNotFound, "not_found")
	ann.post("v1/executions/"+other+"/cancel", "").problem(http.StatusNotFound, "not_found")
	ann.post("v1/executions/"+own+"/pause", "").problem(http.StatusForbidden, "forbidden", "operate")
	var x httpapi.ClientExecution
	if text := ann.post("v1/executions/"+own+"/cancel", `{"reason": "wrong file"}`).want(http.StatusAccepted, &x).Body.String(); x.Status != "cancelled" || strings.Contains(text, "queue") {
		t.Error(text)
	}
	list, err := w.engine.Journal(t.Context(), filterBy("ann"))
	if err != nil || len(list) == 0 || list[0].Verb == "" {
		t.Errorf("%v, %v", list, err)
	}
	w.as("vera").post("v1/jobs/report/executions", "").problem(http.StatusForbidden, "forbidden", "start")
	w.as("vera").post("v1/jobs/report/dry-run", "").problem(http.StatusForbidden, "forbidden", "dry-run", "starter")
	w.as("stan").post("v1/jobs/report/dry-run", "").want(http.StatusOK, nil)
	w.as("stan").post("v1/executions/"+w.as("stan").start("report", "")+"/cancel", "").problem(http.StatusForbidden, "forbidden", "operate")
}
