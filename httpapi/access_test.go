package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// names are values of {name} by the part of the path before it.
var names = map[string]string{"jobs": "report", "schedules": "nightly", "monitors": "incoming", "subscriptions": "failures"}

// fill returns the path of a route with values in the place of its wildcards.
func fill(path, id string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		switch {
		case !strings.HasPrefix(p, "{"):
		case p == "{id}" && parts[i-1] == "executions":
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

// Each route asks for its role: for each user, and for executions that are the user's own
// and those of somebody else. The table of routes says what is expected, so that a new
// route is in this test.
func TestAccess(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.services()
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
				all, job := roles[""], max(roles[""], roles["report"])
				own := owner == user
				want := 0 // any that neither refuses nor hides
				switch r.Scope {
				case "job":
					want = refusal(job, r.Role)
				case "execution":
					if want = refusal(job, r.Role); job < httpapi.Viewer && !(job == httpapi.Client && own) {
						want = http.StatusNotFound
					}
				case "all":
					if all < r.Role {
						want = http.StatusForbidden
					}
				case "body": // the tests of these routes have the rest
					if job < httpapi.Client {
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
		if got := a.Code == http.StatusUnauthorized; got == (r.Role == httpapi.OpenRole) || got && a.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s as a stranger: %d %s", r.Method, r.Path, a.Code, a.Body)
		}
	}
	t.Logf("%d cases", cases)
}

// refusal is the status of a route about a job; 0 if the role suffices.
func refusal(has, needs httpapi.Role) int {
	switch {
	case has >= needs:
		return 0
	case has == httpapi.None:
		return http.StatusNotFound
	}
	return http.StatusForbidden
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

// Requests that nobody permits do not fill the journal: there are 60 entries a minute.
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
	})
}
