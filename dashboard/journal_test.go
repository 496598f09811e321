package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// note writes an entry of the journal.
func (w *world) note(a store.Action) {
	w.Helper()
	if _, err := w.engine.Note(w.Context(), a); err != nil {
		w.Fatal(err)
	}
}

// The journal says who did what, and what was changed by it.
func TestJournal(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("journal").has("The journal is empty.")
		w.note(store.Action{By: "ann", Via: "api", Verb: "set", Kind: "schedule", Name: "nightly", Job: "report", Outcome: "done", Reason: "moved", Was: []byte(`{"cron": "0 1 * * *", "job": "report"}`), Now: []byte(`{"cron": "0 2 * * *", "job": "report"}`)})
		w.note(store.Action{By: "ben", Verb: "set", Kind: "limit", Name: "job:report", Outcome: "done", Was: []byte("5"), Now: []byte("8")})
		w.note(store.Action{By: "ben", Verb: "remove", Kind: "monitor", Name: "inbox", Outcome: "refused", Was: []byte(`{"name": "inbox"}`)})
		w.note(store.Action{By: "ben", Verb: "defined", Kind: "job", Name: "report", Outcome: "done",
			Was: []byte(`{"steps": [{"id": "a", "type": "x"}, {"type": "y"}]}`), Now: []byte(`{"steps": [{"type": "y"}, {"id": "a", "type": "z"}, {"id": "b", "type": "x"}]}`)})
		page := w.get("journal")
		rows := page.tree.all("tr[data-row]")
		for i, want := range []string{
			`defined job report|step a /type was "x" , now "z"|step b, added`,
			"remove monitor inbox|What it was|refused",
			"set limit job:report was 5 , now 8",
			`set schedule nightly of job report|reason: moved|/cron was "0 1 * * *" , now "0 2 * * *"|done`,
		} {
			for part := range strings.SplitSeq(want, "|") {
				if !strings.Contains(rows[i].text(), part) {
					t.Errorf("row %d is %q, without %q", i, rows[i].text(), part)
				}
			}
		}
		if href := rows[3].one(t, "th").all("a")[0].attrs["href"]; href != "./schedules/nightly" {
			t.Errorf("the schedule is at %q", href)
		}
		for query, n := range map[string]int{"kind=limit": 1, "by=ben": 3, "name=nightly": 1, "by=nobody": 0, "kind=other": 0} {
			page := w.get("journal?" + query)
			if got := len(page.tree.all("tr[data-row]")); got != n {
				t.Errorf("%s: %d rows, and not %d", query, got, n)
			}
			if n == 0 {
				page.has("No entry matches.").has("Show all entries")
			}
		}
		w.fails("journal?before=x", http.StatusBadRequest)
	})
}

// A journal of 10,000 entries is pages of 50, and hostile texts are texts.
func TestJournalPages(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for i := range 10_000 {
		evil := hostile[i%len(hostile)]
		w.note(store.Action{By: evil, Verb: "set", Kind: "schedule", Name: evil, Job: evil, Reason: evil, Outcome: "done", Was: []byte(`{"a": 1}`), Now: fmt.Appendf(nil, `{"a": %q}`, "x")})
	}
	page := w.get("journal").lacks("\u202e").lacks("<img")
	if n := len(page.tree.all("tr[data-row]")); n != 50 {
		t.Errorf("%d rows", n)
	}
	next := w.get("journal" + page.tree.one(t, "a[rel=next]").attrs["href"])
	if n := len(next.tree.all("tr[data-row]")); n != 50 || !strings.Contains(next.tree.one(t, ".pager").text(), "Newest") {
		t.Errorf("the next page has %d rows", n)
	}
	for _, evil := range hostile {
		if strings.Contains(evil, "\x1b") {
			continue // the field has it as it is, which XML can't have
		}
		if a := w.send(httptest.NewRequest("GET", "/courier/journal?by="+url.QueryEscape(evil), nil)); a.Code != http.StatusOK {
			t.Errorf("by %.40q: %d", evil, a.Code)
		}
	}
}

// The journal is for admins, health for viewers of all jobs, help for all; links at the top
// lead to none that is refused.
func TestOverviewRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		for user, want := range map[string][3]int{
			"nobody": {403, 403, 200}, "ann": {403, 403, 200}, "otto": {403, 403, 200}, "watcher": {403, 200, 200}, "editor": {403, 200, 200}, "admin": {200, 200, 200},
		} {
			w.user = user
			for i, at := range []string{"journal", "health", "help"} {
				if a := w.send(httptest.NewRequest("GET", "/courier/"+at, nil)); a.Code != want[i] {
					t.Errorf("%s gets %s: %d", user, at, a.Code)
				}
			}
			for _, a := range w.get("help").tree.one(t, "nav[aria-label=Pages]").all("a") {
				at := strings.TrimPrefix(a.attrs["href"], "./")
				if got := w.send(httptest.NewRequest("GET", "/courier/"+at, nil)); got.Code != http.StatusOK && got.Code != http.StatusSeeOther {
					t.Errorf("%s has a link to %s, which answers with %d", user, at, got.Code)
				}
			}
		}
	})
}

// A page of health says how engine and store stand.
func TestHealth(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.ended("report", "ann", nil)
		page := w.get("health").has("ok").has("nothing to report").has("Active workers 1").has("Set Options.Health")
		if rows := page.tree.all("tr[data-row]"); len(rows) != 7 {
			t.Errorf("%d things are looked at", len(rows))
		}
		for _, row := range page.tree.all("tr[data-row]") {
			if row.all("td")[0].text() != "ok" || row.all("td")[2].text() != "nothing" {
				t.Errorf("of a healthy engine: %s", row.text())
			}
		}
		if raw := page.tree.one(t, "main").all("details"); len(raw) != 1 || raw[0].attrs["open"] != "" || !strings.Contains(raw[0].text(), "Active workers 1") || !strings.Contains(raw[0].text(), "Store") {
			t.Error("the raw figures are not folded away")
		}
	})
	o := options()
	o.Health = func(context.Context) (any, error) {
		return map[string]any{"schema": "courier", "pool": map[string]any{"idle": 3}, "held": []any{map[string]any{"worker": "w1\u202e", "leases": 2}}, "none": nil}, nil
	}
	virtual(t, o, func(w *world) {
		w.get("health").has("held · 1 · leases 2").has("pool · idle 3").has("schema courier").lacks("\u202e")
	})
	for name, health := range map[string]func(context.Context) (any, error){
		"an error": func(context.Context) (any, error) { return nil, errors.New("password authentication failed") },
		"no JSON":  func(context.Context) (any, error) { return math.NaN(), nil },
	} {
		o := options()
		o.Health = health
		w := newWorld(t, memstore.New(), o)
		a := w.get("health").has("The store does not answer.").lacks("password")
		if incident := a.tree.one(t, "div[role=alert]").one(t, "code").text(); !strings.Contains(w.log.String(), incident) {
			t.Errorf("%s: the log has no incident %q: %s", name, incident, w.log)
		}
	}
}

// What a store does not take, and what no worker can take, is on the page of health.
func TestHealthTroubles(t *testing.T) {
	broken := storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if c.Method == "Apply" || c.Method == "Complete" {
			return courier.Errorf(courier.ErrInvalid, "permission denied for table %s", canary)
		}
		return do(ctx)
	})
	virtualOn(t, broken, options(), func(w *world) {
		x := w.enqueue("report", "ann", nil)
		time.Sleep(time.Minute)
		page := w.get("health").has("error").has("The store refuses the progress of 1 execution.").has(string(x.ID)).has(canary)
		if len(page.tree.all("tr[data-failed]")) != 1 {
			t.Errorf("the page has %d rows of troubles", len(page.tree.all("tr[data-failed]")))
		}
		w.user = "watcher"
		w.get("health").has("hidden").lacks(canary)
	})
	virtual(t, nil, func(w *world) {
		lonely := jobs()[0]
		lonely.Name, lonely.Queue = "lonely", "nights"
		w.define(lonely)
		x := w.enqueue("lonely", "ann", nil)
		time.Sleep(5 * time.Minute)
		page := w.get("health").has("warning").has("No worker can take 1 waiting execution. Workers and queues").has("Executions that no worker can take").has("no worker serves the queue").has("Options.Queues")
		if a := page.tree.one(t, "tr[data-failed]").one(t, "a"); a.text() != "nights" || a.attrs["href"] != "./executions/"+string(x.ID) {
			t.Errorf("the group is %q at %q", a.text(), a.attrs["href"])
		}
	})
	w := newWorld(t, memstore.New(), nil)
	w.get("health").has("No worker is active").has("Start an engine on the store.")
}

// A broken maintainer fails.
type broken struct{}

func (broken) Maintain(context.Context, courier.Maintenance) error {
	return errors.New("no such mount " + canary)
}

// Failing maintenance is on the page of health.
func TestHealthOfMaintenance(t *testing.T) {
	virtual(t, options(), func(w *world) {
		courier.RegisterFunc(w.engine.Registry(), "test.kept", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
			return struct{}{}, nil
		}, &courier.TypeOptions{Maintainer: broken{}})
		if err := errors.Join(w.engine.Stop(w.Context()), w.engine.Start(w.Context())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.get("health").has("warning").has("The maintenance of 1 step type fails.").has("test.kept").has("no such mount " + canary)
		w.user = "watcher"
		w.get("health").has("test.kept").has("hidden").lacks(canary)
	})
}

func TestHealthOfSpace(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	e := engine.New(w.store, w.engine.Registry(), &engine.Options{Workspace: t.TempDir(), MinFree: 1 << 61})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.Background())
	w.get("health").lacks("little space left").lacks("Free for workspaces")
	w.mux = http.NewServeMux()
	w.mux.Handle("/courier/", dashboard.New(e, &dashboard.Options{Access: policy()}))
	w.get("health").has("warning").has("The disk of the workspaces has little space left").has("Free for workspaces").has("2.3 EB")
}

// Help has all states with their marks, the keys of all pages, and the visitor's own role.
func TestHelp(t *testing.T) {
	virtual(t, nil, func(w *world) {
		page := w.get("help")
		for _, state := range []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Completed, courier.Failed, courier.Cancelled} {
			page.has(string(state))
		}
		for _, state := range []string{"scheduled", "waiting", "lost", "pausing", "cancelling"} {
			page.has(state)
		}
		for _, key := range []string{"g e open Executions", "g c open Chains", "g f open Search", "j next row", "? this page"} {
			page.has(key)
		}
		if _, off := page.tree.one(t, "[data-keys-switch]").attrs["hidden"]; !off {
			t.Error("the switch is there without scripts")
		}
		for user, role := range map[string]string{"ann": "", "watcher": "viewer", "admin": "admin"} {
			w.user = user
			for _, row := range w.get("help").tree.all("tr") {
				if cells := row.all("td"); len(cells) == 2 && (cells[1].text() == "yours") != (row.one(t, "th").text() == role) {
					t.Errorf("%s sees the role %q", user, row.text())
				}
			}
		}
	})
}

// An act of a page is one row, whoever writes what came of it.
func TestActsAreOneRow(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.enqueue("other", "ann", map[string]any{"seconds": 600})
		w.act("executions/"+string(x.ID), map[string]string{"do": "pause", "key": "1", "reason": "maintenance"})
		w.act("limits", map[string]string{"do": "set", "key": "2", "scope": "job:other", "running": "3"})
		rows := w.get("journal").tree.all("tr[data-row]")
		if len(rows) != 2 || !strings.Contains(rows[0].text(), "limit job:other") || !strings.Contains(rows[0].text(), "done") || !strings.Contains(rows[1].text(), "maintenance") {
			t.Errorf("%d rows: %s", len(rows), w.get("journal").tree.one(t, "main").text())
		}
		if list, err := w.engine.Journal(w.Context(), store.ActionFilter{}); err != nil || len(list) != 4 || list[0].Of != list[1].ID || list[2].Of != list[3].ID || list[1].Outcome != "asked" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
