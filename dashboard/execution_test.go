package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// branching is a job with a branch, a loop that goes on after failures, and a step behind it.
func branching(items []any) courier.Job {
	return courier.Job{Name: "branching", Params: map[string]any{"limit": 3, "fail": ""}, Steps: []courier.StepSpec{
		{ID: "list", Type: "test.work", Config: map[string]any{"text": "abcdefgh"}},
		{Type: "flow.if", Config: map[string]any{"left": "context:list.size", "operator": "greater_than", "right": "context:params.limit"}},
		{ID: "large", Type: "test.work"},
		{Type: "flow.else"},
		{ID: "small", Type: "test.work"},
		{Type: "flow.end"},
		{Type: "flow.foreach", Config: map[string]any{"source": items, "on_item_failure": "continue"}},
		{ID: "get", Type: "test.work", Config: map[string]any{"text": "context:loop.current_item", "seconds": 1}},
		{ID: "put", Type: "test.work", Config: map[string]any{"fail": "context:loop.current_item"}},
		{Type: "flow.end"},
		{ID: "close", Type: "test.work", Config: map[string]any{"fail": "context:params.fail"}},
	}}
}

// row is the row of an entry in the outline.
func (a answer) row(step int) *node {
	a.world.Helper()
	return a.tree.one(a.world, fmt.Sprintf("#s-%d", step))
}

// post sends a form to the page of an execution, and follows it to the result.
func (w *world) act(path string, fields map[string]string) answer {
	w.Helper()
	a := w.post(path, fields)
	to, err := url.Parse(a.Header().Get("Location"))
	if a.Code != http.StatusSeeOther || err != nil || !to.Query().Has("done") {
		w.Fatalf("%s: %d to %q: %s", a.at, a.Code, to, a.Body)
	}
	base, _ := url.Parse("/courier/" + path)
	return w.get(strings.TrimPrefix(base.ResolveReference(to).String(), "/courier/"))
}

// The page of an execution says how it stands, and shows its outline: the branch that was not
// taken with the values that decided it, and the items of the loop.
func TestExecution(t *testing.T) {
	virtual(t, &dashboard.Options{Access: policy(), Links: func(x courier.Execution) []dashboard.Link {
		return []dashboard.Link{{Text: "Trace", URL: "https://traces.example.com/" + string(x.ID)}, {Text: "Bad", URL: "javascript:alert(1)"}}
	}}, func(w *world) {
		w.define(branching([]any{"", "disk full", ""}))
		x := w.ended("branching", "ann", nil)
		page := w.get("executions/" + string(x.ID))
		page.has("It has failed. Resume or cancel it.").has(`1 item failed: item "disk full" (index 1): disk full; a resume executes the failed items again`).has("resume it: each failed item continues at the step that failed").has("Started by ann").has("Failed items 1")
		if page.tree.one(t, "h1").text() != "branching" {
			t.Error("the heading is", page.tree.one(t, "h1").text())
		}
		if links := page.tree.all("a[rel]"); len(links) != 1 || links[0].attrs["href"] != "https://traces.example.com/"+string(x.ID) {
			t.Errorf("%d links of the host", len(links))
		}
		for step, want := range map[int][]string{
			0: {"list", "completed"}, 1: {"if list.size greater than params.limit", "8 greater than 3 is true"}, 2: {"large", "completed"}, 3: {"else", "not taken"},
			4: {"small", "not taken"}, 6: {"2 of 3 items done, 1 failed", "first failed", "index 1", "› 1 failed"}, 7: {"get", "1.0 s"}, 10: {"close", "completed"},
		} {
			for _, text := range want {
				if got := page.row(step).text(); !strings.Contains(got, text) {
					t.Errorf("entry %d is %q, without %q", step, got, text)
				}
			}
		}
		if page.row(4).attrs["class"] != "dim" || page.row(2).attrs["class"] == "dim" {
			t.Error("the branch that was not taken is not dimmed")
		}
		if ticks := page.row(6).one(t, ".ticks"); len(ticks.all("a")) != 3 || ticks.all("path")[0].attrs["class"] != "bad" {
			t.Errorf("the ticks are %d links", len(ticks.all("a")))
		}
		if len(page.row(7).all("rect")) != 1 || len(page.row(4).all("rect")) != 0 {
			t.Error("the timeline has other bars")
		}
		w.get("executions/" + string(x.ID) + "?axis=work").has("By work")

		if got := page.row(8).text(); !strings.Contains(got, "failed") || !strings.Contains(got, "disk full") {
			t.Errorf("the item that has failed is shown as %q", got)
		}
		if mark := page.row(6).all(".badge")[0]; mark.attrs["class"] != "badge wait" || page.row(6).attrs["data-failed"] != "" && page.row(6).attrs["data-failed"] != "data-failed" {
			t.Errorf("the loop looks like %q", mark.attrs["class"])
		}
		next := w.get("executions/" + string(x.ID) + "?" + strings.TrimPrefix(page.row(6).all("a[data-next]")[0].attrs["href"], "?"))
		if got := next.row(8).text(); !strings.Contains(got, "completed") || strings.Contains(next.row(6).text(), "present item") {
			t.Errorf("the item behind it is shown as %q, the loop as %q", got, next.row(6).text())
		}
		for _, bad := range []string{"?loop=0&item=1", "?loop=99&item=1", "?loop=6&item=x", "?loop=6&item=1.2", "?loop=6", "?loop=x", "?axis=work&loop=6&item=-1"} {
			w.fails("executions/"+string(x.ID)+bad, http.StatusBadRequest)
		}
		w.fails("executions/"+string(x.ID)+"?tab=none", http.StatusNotFound)
		w.fails("executions/none", http.StatusNotFound)
	})
}

// Each part of the page is an address, and has what it says.
func TestExecutionTabs(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(branching([]any{"", "disk full", ""}))
		x := w.ended("branching", "ann", map[string]any{"limit": 3})
		tab := func(query string) answer { return w.get("executions/" + string(x.ID) + "?tab=" + query) }
		if n := len(tab("attempts").tree.all("tr[data-row]")); n != 9 {
			t.Errorf("%d attempts", n)
		}
		if n := len(tab("attempts&state=failed").has("disk full").tree.all("tr[data-row]")); n != 1 {
			t.Errorf("%d failed attempts", n)
		}
		tab("attempts&step=7").has(`Attempts of step 7 "get" (test.work)`)
		tab("values").has("params.limit 3 parameter").has(`list.size 8 step 0 "list" (test.work) step 1 (flow.if)`).lacks("0.size")
		tab("files").has("No step has reported a file.")
		tab("log").has("msg=working").has("disk full")
		if rows := tab("audit").tree.all("tr[data-row]"); len(rows) < 10 || !strings.Contains(rows[0].text(), "ann") {
			t.Errorf("%d entries", len(rows))
		}
		tab("definition").has(`"flow.foreach"`)
		w.fails("executions/"+string(x.ID)+"?tab=attempts&state=odd", http.StatusBadRequest)
	})
}

// Buttons do what they say, once, and the page says the result.
func TestExecutionActions(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.user = "otto"
		x := w.enqueue("report", "ann", map[string]any{"seconds": 60})
		at := "executions/" + string(x.ID)
		time.Sleep(time.Second)
		page := w.get(at)
		key := page.tree.all("input[name=key]")[0].attrs["value"]
		w.act(at, map[string]string{"do": "pause", "key": key, "reason": "maintenance"}).has("pause report").has("reason: maintenance").has("pausing")
		w.act(at, map[string]string{"do": "pause", "key": key, "reason": "maintenance"}).has("pause report") // a second click
		time.Sleep(2 * time.Minute)
		if list, err := w.engine.Journal(w.Context(), store.ActionFilter{}); err != nil || len(list) != 2 || list[0].Via != "page" || list[0].By != "otto" || list[0].Outcome != "done" || list[0].Reason != "maintenance" {
			t.Errorf("the journal has %+v (%v)", list, err)
		}
		again := w.post(at, map[string]string{"do": "pause", "key": "other"})
		if again.Code != http.StatusConflict {
			t.Errorf("a pause of what has ended: %d", again.Code)
		}
		again.has("Its state does not permit this")
		w.act("executions/"+string(x.ID)+"/rerun", map[string]string{"do": "rerun", "key": "k", "params": `{"seconds": 0}`}).has("rerun report").has("again " + string(x.ID))
		if bad := w.post(at, map[string]string{"do": "explode"}); bad.Code != http.StatusBadRequest {
			t.Errorf("an action that is none: %d", bad.Code)
		}
		w.user = "vera"
		if no := w.post(at, map[string]string{"do": "cancel"}); no.Code != http.StatusForbidden {
			t.Errorf("a viewer cancels: %d", no.Code)
		}
		if len(w.get(at).tree.all("button")) != 0 {
			t.Error("a viewer has buttons")
		}
	})
}

// A page says what a request does to the step that runs, before it is made and until it is
// carried out.
func TestExecutionRequests(t *testing.T) {
	virtual(t, nil, func(w *world) {
		const none = "There is no step after this one, so a pause does nothing unless the step fails."
		work := courier.StepSpec{Type: "test.work", Config: map[string]any{"seconds": 60}}
		each := courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": []any{1, 2}}}
		end := courier.StepSpec{Type: "flow.end"}
		for _, c := range []struct {
			name  string
			steps []courier.StepSpec
			last  bool
		}{
			{"one", []courier.StepSpec{work}, true},
			{"two", []courier.StepSpec{work, work}, false},
			{"branch", []courier.StepSpec{{Type: "flow.if", Config: map[string]any{"left": "a", "operator": "equals", "right": "a"}}, work, end}, true},
			{"loop", []courier.StepSpec{each, work, end}, false},
		} {
			w.define(courier.Job{Name: c.name, Steps: c.steps})
			x := w.enqueue(c.name, "ann", nil)
			time.Sleep(time.Second)
			at := "executions/" + string(x.ID)
			page := w.get(at).has("It ends for good and can't be resumed. You can start it again from the beginning.")
			if got := strings.Contains(page.Body.String(), none); got != c.last {
				t.Errorf("%s: the page says that a pause does nothing: %v", c.name, got)
			}
			page = w.act(at, map[string]string{"do": "pause", "key": "p"})
			if c.last {
				page.has("There is no next step to stop at: it completes, unless this step fails.").lacks(none)
			} else {
				page.has("It stops before its next step.")
			}
			if _, err := w.engine.Cancel(w.Context(), x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		w.define(courier.Job{Name: "elsewhere", Queue: "night", Steps: []courier.StepSpec{work}})
		x := w.enqueue("elsewhere", "ann", nil)
		got, err := w.store.Claim(w.Context(), store.ClaimRequest{Worker: "w2", StepTypes: []string{"test.work"}, Queues: []string{"night"}, Max: 1, Lease: 15 * time.Second})
		if err != nil || len(got.List) != 1 {
			t.Fatalf("%d, %v", len(got.List), err)
		}
		w.act("executions/"+string(x.ID), map[string]string{"do": "cancel", "key": "c"}).has("cancelling").has("Its step is interrupted and rolled back.").lacks("next step")
	})
}

// A form that is sent twice starts one execution; a form that was refused, or is another
// one by now, is carried out.
func TestFormOnce(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.ended("report", "ann", nil)
		at := "executions/" + string(x.ID) + "/rerun"
		started := func() int {
			list, err := w.engine.Executions().List(w.Context(), store.Filter{RerunOf: x.ID})
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		form := map[string]string{"do": "rerun", "key": "k", "params": "{"}
		if a := w.post(at, form); a.Code != http.StatusBadRequest {
			t.Errorf("%d", a.Code)
		}
		form["params"] = `{"text": "a"}`
		first, second := w.post(at, form), w.post(at, form)
		if a, b := first.Header().Get("Location"), second.Header().Get("Location"); a != b || a == "" || started() != 1 {
			t.Errorf("sent twice: %q and %q, %d executions", a, b, started())
		}
		time.Sleep(5 * time.Minute)
		if w.post(at, form); started() != 1 {
			t.Errorf("sent much later: %d executions", started())
		}
		form["params"] = `{"text": "b"}`
		if w.post(at, form); started() != 2 {
			t.Errorf("another form: %d executions", started())
		}
	})
}

// A form that a page of another site may have sent does nothing, and the page that says so does
// not blame anybody. It has what somebody has written, apart from secrets.
func TestCrossOrigin(t *testing.T) {
	virtual(t, nil, func(w *world) {
		edit := w.form("jobs/report/edit?version=1", map[string]string{"do": "check", "key": "k1", "text": "{<typed>", "reason": "asked", "p.password": canary})
		edit.Header.Set("Sec-Fetch-Site", "cross-site")
		edit.Header.Set("Origin", "null")
		a := w.send(edit).has("The form was refused").has("{<typed>").has("asked").lacks(canary).lacks("k1").lacks("another site").lacks("elsewhere")
		if n := len(a.tree.all("a[href=?version=1]")); a.Code != http.StatusForbidden || n != 1 {
			t.Errorf("%d with %d links to the form", a.Code, n)
		}
		x := w.enqueue("report", "ann", map[string]any{"seconds": 60})
		r := w.form("executions/"+string(x.ID), map[string]string{"do": "cancel"})
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if a := w.send(r); a.Code != http.StatusForbidden {
			t.Errorf("%d", a.Code)
		}
		if x, err := w.engine.Executions().Get(w.Context(), x.ID); err != nil || x.Request != "" {
			t.Errorf("it was asked to %q (%v)", x.Request, err)
		}
	})
}

// The version is chosen from a list, in a resume with changes and when an execution is started
// again. The list has the one that the execution had, however old it is, and is there if there is
// no other one.
func TestVersionChoice(t *testing.T) {
	virtual(t, nil, func(w *world) {
		options := func(at string) (list []string) {
			for _, o := range w.get(at).tree.one(t, "#version").all("option") {
				list = append(list, o.text())
			}
			return list
		}
		x := w.ended("report", "ann", map[string]any{"fail": "no room"})
		at := "executions/" + string(x.ID)
		if got := options(at + "/resume"); !slices.Equal(got, []string{"1, as now"}) {
			t.Errorf("one version: resume with %q", got)
		}
		if got := options(at + "/rerun"); !slices.Equal(got, []string{"1, the latest"}) {
			t.Errorf("one version: start again with %q", got)
		}
		job := jobs()[0]
		for version := 2; version <= 25; version++ {
			job.Params["text"] = fmt.Sprint("version ", version)
			w.define(job)
		}
		if got := options(at + "/resume"); len(got) != 21 || got[0] != "1, as now" || got[1] != "25" || got[20] != "6" {
			t.Errorf("many versions: resume with %q", got)
		}
		got := options(at + "/rerun")
		if len(got) != 21 || got[0] != "25, the latest" || got[1] != "24" || got[20] != "1, as the original" {
			t.Errorf("many versions: start again with %q", got)
		}
		for sent, want := range map[string]int{"": 25, "24": 24, "1": 1} {
			a := w.post(at+"/rerun", map[string]string{"do": "rerun", "version": sent})
			_, id, _ := strings.Cut(a.Header().Get("Location"), "executions/")
			id, _, _ = strings.Cut(id, "?")
			if again, err := w.engine.Executions().Get(w.Context(), courier.ExecutionID(id)); err != nil || again.Version != want {
				t.Errorf("version %q: %d %d %v", sent, a.Code, again.Version, err)
			}
		}
	})
}

// A resume with changes says first what it would do, and which completed steps run again.
func TestSurgery(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(branching([]any{""}))
		x := w.ended("branching", "ann", map[string]any{"fail": "no room"})
		at := "executions/" + string(x.ID) + "/resume"
		w.get(at).has(`step 10 "close" (test.work), where it stopped`).has("Skip step 10")
		form := map[string]string{"do": "try", "from": "list", "set": `{"params.fail": ""}`}
		tried := w.post(at, form)
		if tried.Code != http.StatusOK {
			t.Fatalf("%d %s", tried.Code, tried.Body)
		}
		tried.has("Continues at step 0 \"list\"").has("Completed steps that run again: step 0 \"list\" (test.work)").has("Resume like this")
		if v := tried.tree.one(t, "#set").text(); v != form["set"] {
			t.Errorf("the form has lost what was written: %q", v)
		}
		if list, err := w.engine.Journal(w.Context(), store.ActionFilter{}); err != nil || len(list) != 0 {
			t.Errorf("the journal has %d entries (%v)", len(list), err)
		}
		for fields, want := range map[[2]string]string{
			{"set", "[1]"}: "must be a JSON object", {"set", `{"params.none": 1}`}: "none", {"version", "x"}: "must be a whole number", {"from", "close2"}: "close2", {"item", "a:b"}: "An item does not belong",
		} {
			bad := w.post(at, map[string]string{"do": "resume with changes", fields[0]: fields[1]})
			if bad.Code != http.StatusBadRequest {
				t.Errorf("%v: %d", fields, bad.Code)
			}
			bad.has(want)
		}
		if field := fmt.Sprintf(`name="seq" value="%d"`, x.Seq); !strings.Contains(tried.Body.String(), field) {
			t.Errorf("the form lacks %s", field)
		}
		old := w.post(at, map[string]string{"do": "resume with changes", "seq": fmt.Sprint(x.Seq - 1)})
		if old.has("has changed since it was read"); old.Code != http.StatusConflict {
			t.Errorf("a form of an earlier state: %d", old.Code)
		}
		form["do"], form["reason"] = "resume with changes", "the disk is larger now"
		w.act(at, form).has("resume with changes branching")
		x, err := w.engine.Wait(w.Context(), x.ID)
		if err != nil || x.State != courier.Completed {
			t.Errorf("it is %s (%v)", x.State, err)
		}
		w.fails("executions/"+string(x.ID)+"?tab=none", http.StatusNotFound)
	})
}

// Who may not see values sees neither them nor what may have them in it.
func TestExecutionRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.define(courier.Job{Name: "branching", Params: map[string]any{"text": ""}, Steps: []courier.StepSpec{
			{ID: "a", Type: "test.work", Config: map[string]any{"text": "context:params.text"}},
			{Type: "flow.if", Config: map[string]any{"left": "context:a.text", "operator": "equals", "right": "context:params.text"}},
			{ID: "b", Type: "test.work", Config: map[string]any{"fail": "context:params.text"}},
			{Type: "flow.end"},
		}})
		x := w.ended("branching", "ann", map[string]any{"text": canary})
		own := w.ended("report", "ann", map[string]any{"fail": canary})
		at := "executions/" + string(x.ID)
		for _, user := range []string{"watcher", "operator", "editor"} {
			w.user = user
			for _, tab := range []string{"", "?tab=attempts", "?tab=audit", "?tab=definition"} {
				w.get(at + tab).lacks(canary)
			}
			for _, tab := range []string{"?tab=values", "?tab=files", "?tab=log"} {
				w.fails(at+tab, http.StatusForbidden).lacks(canary)
			}
			if user != "watcher" {
				w.get(at + "/resume").lacks(canary)
				w.get(at + "/rerun").lacks(canary)
				if tried := w.post(at+"/resume", map[string]string{"do": "try", "from": "a"}); tried.Code != http.StatusOK {
					t.Errorf("%s tries: %d", user, tried.Code)
				} else {
					tried.lacks(canary)
				}
			}
		}
		w.user = "admin"
		w.get(at).has(canary)
		w.get(at + "?tab=values").has(canary)
		w.user = "ann"
		w.fails(at, http.StatusNotFound)
		page := w.get("executions/" + string(own.ID)).lacks(canary).has("failed").lacks("step 0")
		if b := page.tree.all("button"); len(b) != 1 || b[0].attrs["value"] != "cancel" || len(page.tree.all("nav[aria-label=Parts]")) != 0 {
			t.Error("a client has parts, or other buttons than that which cancels its own")
		}
		w.fails("executions/"+string(own.ID)+"/resume", http.StatusForbidden)
		for do, status := range map[string]int{"resume": http.StatusForbidden, "cancel": http.StatusSeeOther} {
			if a := w.post("executions/"+string(own.ID), map[string]string{"do": do, "key": do}); a.Code != status {
				t.Errorf("a client's %s: %d", do, a.Code)
			}
		}
		if a := w.post(at, map[string]string{"do": "cancel", "key": "other"}); a.Code != http.StatusNotFound {
			t.Errorf("a client cancels that of nobody: %d", a.Code)
		}
	})
}

// A loop of many items is 200 ticks at most, and any item can be shown.
func TestManyItems(t *testing.T) {
	virtual(t, nil, func(w *world) {
		items := make([]any, 1000)
		for i := range items {
			if items[i] = ""; i%250 == 100 {
				items[i] = fmt.Sprintf("item %d is poison", i)
			}
		}
		w.define(branching(items))
		x := w.ended("branching", "ann", nil)
		at := "executions/" + string(x.ID)
		page := w.get(at)
		ticks := page.row(6).one(t, ".ticks")
		if ticks.attrs["width"] != "1000" || len(ticks.all("path")) != 24 { // 200 ticks: 4 that failed, and 20 runs
			t.Errorf("the ticks are %s wide, with %d paths", ticks.attrs["width"], len(ticks.all("path")))
		}
		page.row(6).text()
		if got := page.row(6).text(); !strings.Contains(got, "996 of 1,000 items done, 4 failed") {
			t.Errorf("the loop is %q", got)
		}
		for item, want := range map[int]string{0: "completed", 100: "item 100 is poison", 101: "completed", 600: "item 600 is poison", 999: "completed"} {
			got := w.get(fmt.Sprintf("%s?loop=6&item=%d", at, item)).row(8).text()
			if !strings.Contains(got, want) {
				t.Errorf("item %d is %q", item, got)
			}
		}
	})
}

// What others have written is text wherever it is shown.
func TestExecutionHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for i, evil := range hostile {
			job := branching([]any{evil})
			job.Name, job.Queue = jobName(evil), ""
			job.Steps[0].Name = "name " + jobName(evil)
			job.Steps[1].Config = map[string]any{"left": evil, "operator": "equals", "right": "x"}
			job.Params = map[string]any{"limit": evil, "fail": ""}
			if strings.Contains(evil, "${") {
				continue // no reference
			}
			w.define(job)
			x := w.ended(job.Name, "ann", nil)
			for _, tab := range []string{"", "?tab=attempts", "?tab=values", "?tab=log", "?tab=audit", "?tab=definition", "/resume", "/rerun"} {
				page := w.get("executions/" + string(x.ID) + tab).lacks("\u202e").lacks("\x1b").lacks("<img")
				if n := len(page.tree.all("script")); n > 3 {
					t.Errorf("%d: %d scripts", i, n)
				}
			}
		}
	})
}

// The attempts that have failed before the last one are in the timeline, also while it waits
// for the next one, and the page says so.
func TestRetries(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.fail = func() bool { return true }
		pause := 10 * time.Second
		w.define(courier.Job{
			Name: "retried", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: new(3), BackoffBase: &pause, Jitter: courier.JitterNone},
			Steps: []courier.StepSpec{{ID: "try", Type: "test.flaky"}},
		})
		w.soft = true
		x := w.enqueue("retried", "ann", nil)
		time.Sleep(15 * time.Second) // between the second attempt and the third
		page := w.get("executions/" + string(x.ID)).has("An attempt has failed. It waits for the next one.").has("waits for attempt 3").has("The next attempt starts at 2000-01-01 00:00:30 UTC . Wait")
		if n := len(page.row(0).all("rect")); n != 2 {
			t.Errorf("after two attempts there are %d bars: %s", n, page.row(0).text())
		}
		w.fail = func() bool { return false }
		if _, err := w.engine.Wait(w.Context(), x.ID); err != nil {
			t.Error(err)
		}
		page = w.get("executions/" + string(x.ID)).has("Took ").has("attempt 3")
		bars := page.row(0).all("rect")
		if len(bars) != 3 || bars[0].attrs["class"] != "bad" || bars[2].attrs["class"] != "good" {
			t.Errorf("at the end there are %d bars", len(bars))
		}
	})
}

// The condition of an item that is over has the item that it has seen.
func TestConditionOfItem(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(courier.Job{Name: "choosy", Steps: []courier.StepSpec{
			{Type: "flow.foreach", Config: map[string]any{"source": []any{"a", "b", "c"}}},
			{ID: "get", Type: "test.work", Config: map[string]any{"text": "context:loop.current_item"}},
			{Type: "flow.if", Config: map[string]any{"left": "context:loop.current_item", "operator": "equals", "right": "b"}},
			{ID: "large", Type: "test.work"},
			{Type: "flow.end"},
			{Type: "flow.if", Config: map[string]any{"left": "context:get.text", "operator": "not_equals", "right": "a"}},
			{ID: "small", Type: "test.work"},
			{Type: "flow.end"},
			{Type: "flow.end"},
		}})
		x := w.ended("choosy", "ann", nil)
		for query, want := range map[string][2]string{
			"": {`"c" equals "b" is false`, `"c" not equals "a" is true`}, "?loop=0&item=0": {`"a" equals "b" is false`, `"a" not equals "a" is false`}, "?loop=0&item=1": {`"b" equals "b" is true`, `"b" not equals "a" is true`},
		} {
			page := w.get("executions/" + string(x.ID) + query)
			for i, step := range []int{2, 5} {
				if got := page.row(step).text(); !strings.Contains(got, want[i]) {
					t.Errorf("%q: the condition is %q, without %q", query, got, want[i])
				}
			}
		}
	})
}

// An item of a loop within a loop is shown from its own records, also if a repair has executed
// it again much later.
func TestNestedItems(t *testing.T) {
	virtual(t, nil, func(w *world) {
		var broken atomic.Bool
		broken.Store(true)
		w.fail = func() bool { return broken.Load() }
		inner := []any{"a", "b", "poison", "d"}
		w.define(courier.Job{Name: "nested", Steps: []courier.StepSpec{
			{Type: "flow.foreach", Config: map[string]any{"source": []any{"x", "y", "z"}, "on_item_failure": "continue"}},
			{ID: "open", Type: "test.work", Config: map[string]any{"text": "context:loop.current_item"}},
			{Type: "flow.foreach", Config: map[string]any{"source": inner}},
			{Type: "flow.if", Config: map[string]any{"left": "context:loop.current_item", "operator": "equals", "right": "poison"}},
			{ID: "risky", Type: "test.flaky"},
			{Type: "flow.else"},
			{ID: "safe", Type: "test.work"},
			{Type: "flow.end"},
			{Type: "flow.end"},
			{ID: "shut", Type: "test.work"},
			{Type: "flow.end"},
		}})
		x := w.ended("nested", "ann", nil)
		at := "executions/" + string(x.ID)
		states := func(query string) (list []string) {
			page := w.get(at + query)
			for _, step := range []int{1, 4, 6, 9} {
				list = append(list, page.row(step).one(t, ".badge").text())
			}
			return list
		}
		check := func(query string, want ...string) {
			t.Helper()
			if got := states(query); !slices.Equal(got, want) {
				t.Errorf("%s: %q, and not %q", query, got, want)
			}
		}
		page := w.get(at)
		if got := page.row(0).text(); !strings.Contains(got, "0 of 3 items done, 3 failed") {
			t.Errorf("the loop is %q", got)
		}
		check("", "completed", "failed", "not taken", "not run")
		check("?loop=2&item=0.0", "completed", "not taken", "completed", "not run")
		check("?loop=2&item=1.2", "completed", "failed", "not taken", "not run")
		check("?loop=2&item=1.3", "completed", "not run", "not run", "not run")
		check("?loop=0&item=1", "completed", "failed", "not taken", "not run")

		broken.Store(false)
		if _, err := w.engine.Resume(w.Context(), x.ID, nil); err != nil {
			t.Error(err)
		}
		if x, err := w.engine.Wait(w.Context(), x.ID); err != nil || x.State != courier.Completed {
			t.Errorf("%s (%v)", x.State, err)
		}
		check("?loop=2&item=0.1", "completed", "not taken", "completed", "completed")
		check("?loop=2&item=1.2", "completed", "completed", "not taken", "completed")
		check("?loop=2&item=2.3", "completed", "not taken", "completed", "completed")
	})
}

// The page of an execution with failed items begins with their names, each with what can be done
// about it.
func TestFailedItemsByName(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(branching([]any{"", "disk full", ""}))
		x := w.ended("branching", "ann", nil)
		at := "executions/" + string(x.ID)
		page := w.get(at)
		page.has(`disk full (index 1) at step 8 "put" (test.work) : disk full`)
		var accept string
		for _, a := range page.tree.one(t, ".found").all("a") {
			if a.text() == "Accept…" {
				accept = a.attrs["href"]
			}
		}
		if found := page.tree.one(t, ".found"); !strings.Contains(found.text(), "Skip…") || strings.Contains(found.text(), "Rescue…") {
			t.Errorf("the item has %q", found.text())
		}
		if want := "resume?accept=6%3A1"; !strings.HasSuffix(accept, want) {
			t.Fatalf("the item is accepted at %q, want %q", accept, want)
		}
		form := w.get(at + "/resume?accept=6%3A1")
		form.has("disk full (index 1), at step 8")
		if !strings.Contains(form.Body.String(), `name="accept" value="6:1" checked`) {
			t.Error("the item is not chosen")
		}
		if row := w.find("disk f").tree.one(t, "tr[data-row]"); !strings.Contains(row.text(), "failed") || row.all("a")[0].attrs["href"] != "./"+at {
			t.Errorf("a search for the item finds %s", row.text())
		}
		if page := w.get(at + "?loop=6&item=1"); !strings.Contains(page.row(6).text(), "disk full, index 1") {
			t.Errorf("the loop is %q", page.row(6).text())
		}
		w.act(at+"/resume", map[string]string{"do": "resume with changes", "accept": "6:1", "reason": "sent by mail", "seq": fmt.Sprint(x.Seq)})
		now, err := w.engine.Wait(w.Context(), x.ID)
		if err != nil || now.State != courier.Completed || now.FailedItems != 0 {
			t.Errorf("it is %s with %d failed items, %v", now.State, now.FailedItems, err)
		}
	})
}

// An operator rescues a failed item by its name, from the page, and has a rescued one run again.
// The step of an item leads to the attempts in it, and no others.
func TestItemsAreRescuedByName(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := branching([]any{"", "disk full", "paper jam"})
		end := slices.IndexFunc(job.Steps[7:], func(s courier.StepSpec) bool { return s.Type == flow.TypeEnd }) + 7
		job.Steps = slices.Insert(job.Steps, end,
			courier.StepSpec{Type: flow.TypeRescue, Config: map[string]any{"no_rescue_on": []any{"error"}, "rescued": "fail"}},
			courier.StepSpec{ID: "aside", Type: "test.work", Config: map[string]any{}})
		w.define(job)
		x := w.ended("branching", "ann", nil)
		at := "executions/" + string(x.ID)
		links := make(map[string]string)
		for _, a := range w.get(at).tree.one(t, ".found").all("a") {
			if links[a.text()] == "" {
				links[a.text()] = a.attrs["href"]
			}
		}
		if want := "resume?rescue=6%3A1"; !strings.HasSuffix(links["Rescue…"], want) {
			t.Fatalf("the item is rescued at %q, want %q", links["Rescue…"], want)
		}
		attempts := w.get(at + "?tab=attempts&loop=6&item=1")
		attempts.has("Attempts of all steps in disk full (index 1) only")
		if text := attempts.tree.one(t, "tbody").text(); strings.Contains(text, "paper jam") || !strings.Contains(text, "disk full") {
			t.Errorf("the attempts are %s", text)
		}
		if row := w.get(at + "?loop=6&item=1").row(8); !strings.Contains(row.one(t, "a").attrs["href"], "item=1") {
			t.Errorf("the step of the item leads to %q", row.one(t, "a").attrs["href"])
		}
		w.fails(at+"?tab=attempts&loop=5&item=1", http.StatusBadRequest)
		form := w.get(at + "/resume?rescue=6%3A1").Body.String()
		if !strings.Contains(form, `name="rescue" value="6:1" checked`) {
			t.Errorf("the item is not chosen: %s", form[strings.Index(form, "Failed items"):])
		}
		w.act(at+"/resume", map[string]string{"do": "resume with changes", "rescue": "6:1", "skip-item": "6:2", "reason": "it is bad", "seq": fmt.Sprint(x.Seq)})
		now, err := w.engine.Wait(w.Context(), x.ID)
		if err != nil || now.State != courier.Failed || now.FailedItems != 0 || now.RescuedItems != 1 {
			t.Fatalf("it is %s with %d failed and %d rescued items, %v", now.State, now.FailedItems, now.RescuedItems, err)
		}
		page := w.get(at)
		page.has("Rescued items")
		page.has(`disk full (index 1) at step 8 "put" (test.work) : disk full`)
		w.get(at + "/resume?item=6%3A1").has("Rescued items to run again")
		w.act(at+"/resume", map[string]string{"do": "resume with changes", "item": "6:1", "seq": fmt.Sprint(now.Seq)})
		if now, err = w.engine.Wait(w.Context(), x.ID); err != nil || now.FailedItems != 1 || now.RescuedItems != 0 {
			t.Errorf("%d items have failed and %d were rescued, %v", now.FailedItems, now.RescuedItems, err)
		}
	})
}

// The page of an execution with a finally part says that a cancel leads into it, and has a
// cancel without it; in it the page says the outcome, and what can be given up.
func TestExecutionFinally(t *testing.T) {
	virtual(t, nil, func(w *world) {
		step := func(id string) courier.StepSpec {
			return courier.StepSpec{ID: id, Type: "test.work", Config: map[string]any{"seconds": 50}}
		}
		w.define(courier.Job{Name: "report", Steps: []courier.StepSpec{step("work"), {Type: "flow.finally"}, step("tidy")}})
		w.user = "otto"
		at := "executions/" + string(w.enqueue("report", "ann", nil).ID)
		time.Sleep(10 * time.Second)
		w.get(at).has("Its finally part runs first.").has("Cancel without the finally part")
		w.act(at, map[string]string{"do": "cancel", "key": "1", "reason": "wrong file"})
		time.Sleep(10 * time.Second)
		w.get(at).has("finishing").has("Its outcome is decided: cancelled.").has("You can skip its finally part.").lacks("Cancel it for good")
		w.act(at, map[string]string{"do": "abort", "key": "2"})
		time.Sleep(time.Second)
		w.get(at).has("cancelled").lacks("Its outcome is decided").lacks("Cancel without the finally part")
		at = "executions/" + string(w.enqueue("report", "ann", nil).ID)
		time.Sleep(10 * time.Second)
		w.act(at, map[string]string{"do": "abort", "key": "3"})
		time.Sleep(time.Second)
		w.get(at).has("cancelled")
	})
}

// A bulk that cancels has a box for leaving the finally parts out, and the filter finally:failed
// finds those whose finally part has failed.
func TestBulkWithoutFinally(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(courier.Job{Name: "report", Steps: []courier.StepSpec{
			{ID: "work", Type: "test.work", Config: map[string]any{"seconds": 50}}, {Type: "flow.finally"},
			{ID: "tidy", Type: "test.work", Config: map[string]any{"seconds": 50}},
		}})
		w.user = "otto"
		for _, c := range []struct {
			ticked []string
			after  courier.State
			status string
		}{{nil, courier.Running, "finishing"}, {[]string{"without_finally"}, courier.Cancelled, "cancelled"}} {
			id := w.enqueue("report", "ann", nil).ID
			time.Sleep(10 * time.Second)
			preview := w.get("bulk?action=cancel&all=1&where=" + url.QueryEscape("job:report state:running"))
			box := preview.tree.one(t, "#without_finally")
			if _, checked := box.attrs["checked"]; checked || box.attrs["type"] != "checkbox" {
				t.Errorf("the box is %v", box.attrs)
			}
			w.confirm(preview, c.ticked...).has("done bulk cancel state:running job:report").has("Execution " + string(id))
			time.Sleep(10 * time.Second)
			x, err := w.engine.Executions().Get(w.Context(), id)
			if err != nil || x.State != c.after || x.Status(time.Now()) != c.status {
				t.Errorf("ticked %q: it is %s, want %s, %v", c.ticked, x.Status(time.Now()), c.status, err)
			}
			if x.State == courier.Running {
				w.act("executions/"+string(id), map[string]string{"do": "abort", "key": "abort"})
				time.Sleep(10 * time.Second)
			}
		}
		rows := w.get("executions?where=" + url.QueryEscape("finally:failed")).tree.all("tr[data-row]")
		if len(rows) != 1 {
			t.Errorf("%d executions have a finally part that failed", len(rows))
		}
	})
}

// What a step logs is on the page while it runs, for those who see values.
func TestLogOfARunningStep(t *testing.T) {
	virtual(t, options(), func(w *world) {
		x := w.enqueue("report", "ann", map[string]any{"seconds": 600, "text": canary})
		at := "executions/" + string(x.ID)
		time.Sleep(time.Second)
		s, stop := w.stream(w.get(at).lacks("last lines of log").liveURL(at))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		w.get(at).has("Last log lines").has(`msg=working text=` + canary)
		if _, patches := s.take(t); !strings.Contains(patches["summary"], canary) {
			t.Errorf("the open page has %q", patches["summary"])
		}
		w.user = "otto"
		w.get(at).lacks(canary).lacks("last lines of log")
		w.user = "admin"
		time.Sleep(10 * time.Minute)
		w.get(at).lacks("last lines of log")
		w.get(at + "?tab=log").has(canary)
	})
}

// A queued execution says that its job has a newer version.
func TestQueuedWithAnOlderVersion(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	x := w.enqueue("report", "ann", nil)
	at := "executions/" + string(x.ID)
	w.get(at).lacks("was changed since")
	job := jobs()[0]
	job.Result = "context:work.size"
	w.define(job)
	w.get(at).has("The job has changed since: it starts with version 1, and the latest is 2. To use the latest, cancel it and start it again.")
	w.user = "watcher"
	w.get(at).has("the latest is 2").lacks("Resume with version")
}
