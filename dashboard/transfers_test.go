package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// lists are steps that list connections, one after the other.
func lists(connections ...string) (steps []courier.StepSpec) {
	for _, id := range connections {
		steps = append(steps, courier.StepSpec{ID: "list-" + id, Type: "test.list", Config: map[string]any{"connection_id": id}})
	}
	return steps
}

// bars counts the bars of a page that have a class.
func (a answer) bars(class string) int {
	a.world.Helper()
	return len(a.tree.one(a.world, ".bars").all("." + class))
}

// What has failed in a step with another connection, or with none, says nothing of a connection.
func TestTransfersAreOfTheConnection(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down")
	virtual(t, opt, func(w *world) {
		w.define(courier.Job{Name: "two", Steps: lists("acme", "down")})
		x := w.ended("two", "ann", nil)
		w.define(courier.Job{Name: "three", Steps: append(lists("acme"), courier.StepSpec{Type: "test.work", Config: map[string]any{"fail": "broken"}})})
		w.ended("three", "ann", nil)
		page := w.get("connections/acme").has("works Last success: ").has("Last 2 transfers").has("Of 2 that completed").lacks("broken")
		if page.bars("good") != 2 || page.bars("bad") != 0 {
			t.Errorf("acme has %d completed and %d failed transfers", page.bars("good"), page.bars("bad"))
		}
		page = w.get("connections/down").has("down since ").has("Last 1 transfer").has("None of the transfers below has succeeded.")
		if page.bars("good") != 0 || page.bars("bad") != 1 {
			t.Errorf("down has %d completed and %d failed transfers", page.bars("good"), page.bars("bad"))
		}
		link := page.tree.one(t, ".bars").one(t, "a")
		if title := link.one(t, "title").text(); !strings.HasPrefix(title, "failed: ") || !strings.Contains(title, "login refused: "+canary) {
			t.Errorf("the title is %q", title)
		}
		if want := "../executions/" + string(x.ID) + "?step=1&tab=attempts"; link.attrs["href"] != want {
			t.Errorf("the bar leads to %q, want %q", link.attrs["href"], want)
		}
		w.user = "watcher"
		w.get("connections/down").lacks(canary)
	})
}

// A store need not list transfers. Then the page says so, and shows the rest.
func TestTransfersThatAreNotListed(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme")
	virtualOn(t, struct{ store.Store }{memstore.New()}, opt, func(w *world) {
		w.define(courier.Job{Name: "one", Steps: lists("acme")})
		w.ended("one", "ann", nil)
		w.get("connections/acme").has("This store does not list transfers.").has("Used by job one").lacks("Last success")
	})
}

// Each attempt in an item of a loop is a transfer of its own, and so is each try.
func TestTransfersOfLoops(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down")
	virtual(t, opt, func(w *world) {
		w.define(courier.Job{Name: "many", Params: map[string]any{"items": []any{1, 2, 3, 4}}, Steps: append(append([]courier.StepSpec{
			{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items", "on_item_failure": "continue"}},
			{Type: "test.work", Config: map[string]any{"seconds": 1}},
		}, lists("acme")...), courier.StepSpec{Type: "flow.end"})})
		w.ended("many", "ann", nil)
		page := w.get("connections/acme").has("Last 4 transfers")
		links := page.tree.one(t, ".bars").all("a")
		attempt := w.get(strings.TrimPrefix(links[2].attrs["href"], "../"))
		if rows := attempt.tree.one(t, "tbody").all("tr"); len(rows) != 2 || !strings.Contains(rows[0].text(), "2") {
			t.Errorf("the third bar leads to %d attempts: %s", len(rows), attempt.tree.one(t, "tbody").text())
		}
		for range 12 {
			w.ended("many", "ann", nil)
		}
		w.get("connections/acme").has("Last 30 transfers").lacks("Not all were looked at")
	})
}

// The attempts with an earlier version of a job are of the connection that this version names.
func TestTransfersOfEarlierVersions(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down", "slow")
	virtual(t, opt, func(w *world) {
		w.define(courier.Job{Name: "fetch", Steps: lists("down")})
		x := w.ended("fetch", "ann", nil)
		time.Sleep(time.Minute)
		fixed, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: "fetch", Steps: []courier.StepSpec{{ID: "list-down", Type: "test.list", Config: map[string]any{"connection_id": "acme"}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.get("connections/acme").has("unknown Nothing was transferred lately.")
		if _, err := w.engine.Resume(w.Context(), x.ID, &courier.ResumeOptions{Version: fixed.Job.Version}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Wait(w.Context(), x.ID); err != nil {
			t.Fatal(err)
		}
		if page := w.get("connections/acme").has("works").has("Last 1 transfer"); page.bars("bad") != 0 {
			t.Error("the failure at the connection of the version before is taken for its own")
		}
		w.define(courier.Job{Name: "fetch", Steps: append(lists("acme"), lists("down")...)})
		// What has completed was at the connection of another version.
		w.get("connections/down").has("unknown Nothing was transferred lately.").lacks(`class="bars"`)
	})
}

// A page that has looked at only so many executions says so.
func TestTransfersAreBounded(t *testing.T) {
	opt := options()
	opt.Connections = connections("acme", "down")
	virtual(t, opt, func(w *world) {
		w.define(courier.Job{Name: "rare", Params: map[string]any{"skip": true}, Steps: []courier.StepSpec{
			{Type: "flow.if", Config: map[string]any{"left": "context:params.skip", "operator": "equals", "right": false}},
			lists("acme")[0], {Type: "flow.end"},
		}})
		w.ended("rare", "ann", map[string]any{"skip": false})
		w.get("connections/acme").has("works").has("Last 1 transfer").lacks("Not all were looked at")
		for range 100 {
			w.ended("rare", "ann", nil)
		}
		w.get("connections/acme").has("unknown").has("Not all were looked at: only 100 executions of the jobs that use it, the newest,")
	})
}

// TestTransfersOnPostgres counts the statements of the page of a connection: they are the same few
// with a large history, and one of them reads the transfers of all executions.
func TestTransfersOnPostgres(t *testing.T) {
	url := pgtest.URL(t)
	s, pool, statements := openPostgres(t, url)
	var reg courier.Registry
	courier.Register(&reg, "test.list", partner{}, nil)
	e := engine.New(s, &reg, &engine.Options{Workspace: t.TempDir()})
	for _, j := range []courier.Job{{Name: "other", Steps: lists("down")}, {Name: "fetch", Steps: lists("acme")}, {Name: "report", Steps: lists("acme", "down")}} {
		if _, err := e.Jobs().Define(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
	}
	pages := dashboard.New(e, &dashboard.Options{Access: policy(), Connections: connections("acme", "down")})
	defer pages.Close()
	took := make(map[string]int)
	for _, history := range []struct{ name, executions, bars string }{
		{"none", "", "Nothing was transferred lately."},
		{"a small one", `('other', 'completed', 5), ('fetch', 'completed', 3), ('report', 'failed', 3)`, "Last 6 transfers"},
		{"a large one", `('fetch', 'completed', 2000 * $1), ('report', 'failed', 20), ('other', 'completed', 20000 * $1)`, "Last 30 transfers"},
	} {
		if history.executions != "" {
			fill(t, pool, history.executions)
			if _, err := pool.Exec(t.Context(), `insert into courier.execution_history (execution_id, seq, started_at, at, bytes, execution_attempt, step, attempt, state, step_type, worker)
				select e.id, 1, e.created_at, e.created_at, 0, 1, 0, 1, case when e.state = 'failed' then 'failed' end, 'test.list', 'w' from courier.job_executions e
				on conflict do nothing`); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // what the process knows after the first request
			r := httptest.NewRequest("GET", "/connections/acme", nil)
			r.Header.Set("X-User", "admin")
			w := httptest.NewRecorder()
			statements.take()
			began := time.Now()
			pages.ServeHTTP(w, r)
			duration := time.Since(began)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), history.bars) {
				t.Fatalf("%s: %d, no %q in %s", history.name, w.Code, history.bars, w.Body)
			}
			list := statements.take()
			if took[history.name] = len(list); len(list) > 7 {
				t.Errorf("%s: %d statements:\n%s", history.name, len(list), strings.Join(list, "\n"))
			}
			t.Logf("%s: %d statements in %v", history.name, len(list), duration)
		}
	}
	if took["a small one"] != took["a large one"] {
		t.Errorf("with the histories the page takes %v statements", took)
	}
}
