package dashboard_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// csv returns the rows of a text of CSV, the columns first.
func (w *world) csv(path string) [][]string {
	w.Helper()
	a := w.send(get(path))
	if a.Code != http.StatusOK || a.Header().Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(a.Header().Get("Content-Disposition"), `attachment; filename="`) {
		w.Fatalf("%s: %d %v %s", path, a.Code, a.Header(), a.Body)
	}
	rows, err := csv.NewReader(a.Body).ReadAll()
	if err != nil {
		w.Fatalf("%s: %v", path, err)
	}
	return rows
}

// column returns the cells of a column, without its name.
func column(t *testing.T, rows [][]string, name string) (cells []string) {
	t.Helper()
	for i, n := range rows[0] {
		if n == name {
			for _, r := range rows[1:] {
				cells = append(cells, r[i])
			}
			return cells
		}
	}
	t.Fatalf("there is no column %q among %q", name, rows[0])
	return nil
}

// A list has a filter with words that a row must have, and must not have. It reads on where few
// rows of a page match, and its CSV has what the filter selects of all pages.
func TestListFilter(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for i := range 120 {
			name := fmt.Sprintf("job-%03d", i)
			if i%10 == 0 {
				name = fmt.Sprintf("heartbeat-%03d", i)
			}
			w.define(courier.Job{Name: name, Queue: map[bool]string{true: "night"}[i >= 100], Steps: []courier.StepSpec{{Type: "test.flaky"}}})
		}
		rows := func(at string) (n int, text string) {
			a := w.get(at)
			return len(a.tree.all("tr[data-row]")), a.tree.one(t, "main").text()
		}
		for at, want := range map[string]int{"jobs": 50, "jobs?text=heartbeat": 12, "jobs?text=HEARTBEAT+-050": 11, "jobs?q=job-&text=night": 18, "jobs?text=nothing-has-this": 0} {
			if n, text := rows(at); n != want {
				t.Errorf("%s: %d rows, and not %d: %.200s", at, n, want, text)
			}
		}
		if n, text := rows("jobs?text=-heartbeat"); n < 25 || strings.Contains(text, "heartbeat-") {
			t.Errorf("without heartbeats: %d rows: %.300s", n, text)
		}
		w.get("jobs?text=nothing-has-this").has("No row matches.").has("Show all rows")
		// The references keep the filter, and lead through all rows.
		seen := 0
		for at, pages := "jobs?text=-heartbeat", 0; at != ""; pages++ {
			a := w.get(at)
			seen, at = seen+len(a.tree.all("tr[data-row]")), ""
			for _, next := range a.tree.all("a[rel=next]") {
				at = "jobs" + next.attrs["href"]
			}
			if pages > 10 {
				t.Fatal("the pages have no end")
			}
		}
		if seen != 108+len(jobs()) {
			t.Errorf("%d rows on all pages", seen)
		}
		all, some := w.csv("jobs?csv=jobs"), w.csv("jobs?csv=jobs&text=heartbeat+-050")
		if len(all) != 1+120+len(jobs()) || len(some) != 12 {
			t.Errorf("the CSV has %d and %d rows", len(all), len(some))
		}
		if names := column(t, some, "Job"); names[0] != "heartbeat-000" || names[5] != "heartbeat-060" {
			t.Errorf("the CSV has the jobs %q", names)
		}
		a := w.get("jobs?q=job-&text=night")
		if form := a.tree.one(t, "form[role=search]"); form.one(t, "#words").attrs["value"] != "night" || form.all("a")[0].attrs["href"] != "?csv=jobs&q=job-&text=night" {
			t.Errorf("the form is %s", form.text())
		}
		w.fails("jobs?csv=none", http.StatusBadRequest)
		w.fails("help?csv=jobs", http.StatusBadRequest)
		w.fails("jobs?text="+strings.Repeat("a+", 101), http.StatusBadRequest)
		if head := w.send(get("jobs?csv=jobs")).Header().Get("Content-Disposition"); head != `attachment; filename="jobs.csv"` {
			t.Errorf("the file is %q", head)
		}
	})
}

// Each list has a CSV with the values that the visitor may see, in a form for programs, and without
// formulas.
func TestListCSV(t *testing.T) {
	const formula = `=cmd|' /C calc'!A0`
	opt := options()
	opt.Connections = connections(formula)
	virtual(t, opt, func(w *world) {
		job := courier.Job{Name: formula, Steps: []courier.StepSpec{{ID: "list", Type: "test.list", Config: map[string]any{"connection_id": "down"}}}}
		w.define(job)
		x := w.ended(formula, "+ann", nil)
		w.fileJob("files", map[string]any{"path": "/out/a.csv", "size": 7}, map[string]any{"path": "/out/=b.csv", "size": 8})
		w.defineChain(daily())
		run := w.startChain("ann", map[string]any{"seconds": 1})
		by := courier.By{Actor: "@ann", Reason: "-1"}
		if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "-nightly", Job: "report", Every: time.Hour}, by); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Calendars().Set(w.Context(), calendar.Calendar{Name: "@days", Weekend: []string{"sunday"}}, by); err != nil {
			t.Fatal(err)
		}
		w.subscribe(notify.Subscription{Name: "=told", Kind: notify.KindFunc, Func: "tell", Events: []courier.EventType{courier.EventJobFailed}})
		if err := w.engine.Limits().Set(w.Context(), "job:"+formula, 2, by); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		at := "executions/" + string(x.ID)
		for path, want := range map[string][2]string{
			"executions?csv=executions":                    {"Job", "'" + formula},
			"executions?csv=executions&where=state:failed": {"Execution", string(x.ID)},
			"chain-executions?csv=executions+of+chains":    {"Execution", string(run.ID)},
			"jobs?csv=jobs":                                          {"Newest execution", "failed"},
			"chains?csv=chains":                                      {"Chain", "daily"},
			"schedules?tab=list&csv=schedules":                       {"Schedule", "'-nightly"},
			"calendars?csv=calendars":                                {"Calendar", "'@days"},
			"connections?csv=connections":                            {"Connection", "'" + formula},
			"limits?csv=limits":                                      {"Scope", "job:" + formula},
			"limits?csv=workers":                                     {"Stopping", "false"},
			"notifications?csv=subscriptions":                        {"Subscription", "'=told"},
			"journal?csv=journal&text=schedule":                      {"Who", "'@ann"},
			"search?q=a.csv&csv=files":                               {"Bytes", "7"},
			at + "?tab=attempts&csv=attempts":                        {"State", "failed"},
			at + "?tab=audit&csv=audit":                              {"To", "failed"},
			at + "?tab=log&csv=log":                                  {"Step", `step 0 "list" (test.list)`},
			"expectations?csv=expectations":                          {"Expectation", ""},
			"monitors?csv=monitors":                                  {"Monitor", ""},
			"kept-files?csv=kept+files":                              {"Job", ""},
			"limits?csv=queues":                                      {"Queue", ""},
			"notifications?csv=failed+notifications":                 {"Event", ""},
			"executions?csv=executions&text=-failed+-" + run.Chain:   {"Status", "completed"},
			"chain-executions/" + string(run.ID) + "?csv=members":    {"Member", "fetch"},
			"chains/daily?csv=members":                               {"Starts when", "check has completed or failed"},
			"chains/daily?csv=executions+of+chains":                  {"Execution", string(run.ID)},
			"jobs/report?tab=versions&csv=versions":                  {"Version", "1"},
			"notifications/=told?csv=notifications":                  {"State", ""},
			"executions?csv=executions&where=state:failed&text=none": {"Status", ""},
		} {
			cells := column(t, w.csv(path), want[0])
			if want[1] == "" && len(cells) > 0 || want[1] != "" && !strings.Contains("\n"+strings.Join(cells, "\n")+"\n", "\n"+want[1]+"\n") {
				t.Errorf("%s: the column %q has %q, and not %q", path, want[0], cells, want[1])
			}
		}
		begun := column(t, w.csv("executions?csv=executions&where=state:failed"), "Started or due")
		if len(begun) != 1 || begun[0] != "2000-01-01T00:00:00Z" {
			t.Errorf("instants are %q", begun)
		}
		// What a visitor may not see is in no text.
		w.user = "watcher"
		if text := w.send(get("executions?csv=executions")).Body.String(); !strings.Contains(text, "hidden") || strings.Contains(text, canary) {
			t.Errorf("who may not see values gets %s", text)
		}
		w.user = "vera"
		if text := w.send(get("executions?csv=executions")).Body.String(); strings.Contains(text, "calc") {
			t.Errorf("who may see one job gets %s", text)
		}
		w.fails("journal?csv=journal", http.StatusForbidden)
	})
}

// A text has ten thousand rows at most, and says so.
func TestListCSVBound(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for i := range 10_001 {
			if err := w.engine.Limits().Set(w.Context(), fmt.Sprintf("key:%05d", i), 1, courier.By{Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		rows := w.csv("limits?csv=limits")
		if last := rows[len(rows)-1]; len(rows) != 1+10_000+1 || !strings.HasPrefix(last[0], "There are more rows than the first 10,000") {
			t.Errorf("%d rows, the last is %q", len(rows), last)
		}
		if one := w.csv("limits?csv=limits&text=key:09999"); len(one) != 2 {
			t.Errorf("with a filter the text has %d rows", len(one))
		}
		w.get("limits?text=key:10000").has("Few of the searched rows match.")
	})
}

// Lists within the page of a thing have the filter too.
func TestListFilterOfParts(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		run := w.startChain("ann", map[string]any{"seconds": 1, "fail": "broken"})
		time.Sleep(time.Minute)
		x := w.ended("report", "ann", map[string]any{"fail": "no route"})
		for at, want := range map[string]int{
			"chain-executions/" + string(run.ID): 4, "chain-executions/" + string(run.ID) + "?text=tidy": 1, "chain-executions/" + string(run.ID) + "?text=-fetch": 1,
			"executions/" + string(x.ID) + "?tab=audit": 5, "executions/" + string(x.ID) + "?tab=audit&text=%22no+route%22": 2, "executions/" + string(x.ID) + "?tab=attempts&text=-failed": 0,
		} {
			a := w.get(at)
			if rows := a.tree.all("tr[data-row]"); len(rows) != want {
				t.Errorf("%s: %d rows, and not %d: %s", at, len(rows), want, a.tree.one(t, "main").text())
			} else if want == 0 {
				a.has("No row matches.")
			}
		}
	})
}

// What a job that runs again and again has completed is folded into its newest execution.
func TestFold(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(courier.Job{Name: "heartbeat", Steps: []courier.StepSpec{{Type: "test.flaky"}}})
		for range 5 {
			w.ended("heartbeat", "ann", nil)
			w.ended("report", "ann", map[string]any{"fail": "broken"})
		}
		w.ended("report", "ann", nil)
		if rows := w.get("executions").tree.all("tr[data-row]"); len(rows) != 11 {
			t.Errorf("%d rows", len(rows))
		}
		a := w.get("executions?fold=1").has("and 4 more that completed")
		if rows := a.tree.all("tr[data-row]"); len(rows) != 7 {
			t.Errorf("%d rows are left: %s", len(rows), a.tree.one(t, "main").text())
		}
		if on := a.tree.one(t, "nav[aria-label=Filters]").all("a[aria-current=true]"); len(on) != 1 || on[0].text() != "Fold repeats" || on[0].attrs["href"] != "?" {
			t.Error("the switch is not marked")
		}
		if link := a.tree.one(t, "a[download]").attrs["href"]; link != "?csv=executions" {
			t.Errorf("the CSV, which folds nothing, is at %q", link)
		}
		for _, more := range a.tree.all("a[class=note]") {
			if rows := w.get(strings.TrimPrefix(more.attrs["href"], "./")).tree.all("tr[data-row]"); len(rows) != 5 {
				t.Errorf("%q leads to %d rows", more.text(), len(rows))
			}
		}
	})
}
