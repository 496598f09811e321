package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
)

// keepDays writes records of days of an expectation as an engine does.
func (w *world) keepDays(name string, days ...expectation.Arrival) {
	w.Helper()
	list, err := w.store.Expectations(w.Context(), expectation.Filter{Name: name})
	if err != nil || len(list.List) != 1 {
		w.Fatalf("%+v, %v", list, err)
	}
	r := &list.List[0]
	look := expectation.Look{Expectation: name, Revision: r.Revision, Progress: r.Progress, After: -1}
	for i := range days {
		a := &days[i]
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -i)
		a.ID, a.Expectation, a.Date, a.Zone, a.DecidedAt = fmt.Sprintf("0193a000-0000-7000-8000-%012d", i), name, day.Format(time.DateOnly), "UTC", day
		a.Opens, a.Until, a.Ends = day.Add(6*time.Hour), day.Add(8*time.Hour), day.Add(8*time.Hour+15*time.Minute)
		if a.State == expectation.Arrived || a.State == expectation.Late {
			a.ArrivedAt = day.Add(7 * time.Hour)
			a.Files = []expectation.File{{Name: "rates.csv", Size: 7, SeenAt: a.ArrivedAt, At: a.ArrivedAt}}
		}
		look.Arrivals = append(look.Arrivals, a.Kept())
	}
	if done, err := w.store.RecordLooks(w.Context(), []expectation.Look{look}); err != nil || !done[0] {
		w.Fatal(done, err)
	}
}

// An expectation is made by a form; the page of today says what is missing, since when, and whether
// it was late before; its own page says who is told; and a day is excused there.
func TestExpectations(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.inbox()
		w.get("expectations").has("There are no expectations.").has("New expectation")
		w.monitor(monitor.Monitor{Name: "in", Path: "/in", Job: "inbox"})
		sent := w.get("new/expectation").fields("set")
		sent["f.name"], sent["f.from.monitor"], sent["f.pattern"], sent["f.window.grace"] = "rates", "inn", "rates*.csv", "15"
		bad := w.post("new/expectation", sent)
		if text := bad.tree.one(t, "#wrong-window.grace").text(); bad.Code != http.StatusUnprocessableEntity || !strings.Contains(text, "not a duration such as 20m") {
			t.Errorf("%d %q", bad.Code, text)
		}
		bad.has(`there is no monitor "inn"; did you mean "in"?`)
		sent = bad.fields("set")
		sent["f.from.monitor"], sent["f.window.grace"], sent["f.label"] = "in", "15m", `{"partner": "globex"}`
		w.post("new/expectation", sent).done("set").has("nobody is told if a file does not come").has("nobody: no subscription has the event file missing")
		w.subscribe(notify.Subscription{Name: "ops", Kind: notify.KindFunc, Func: "tell", Events: []courier.EventType{courier.EventFileMissing}, Expectations: []string{"rates"}})
		synctest.Wait() // until the engine has looked
		w.keepDays("rates",
			expectation.Arrival{State: expectation.Missing, Note: "nobody could look since 07:00"},
			expectation.Arrival{State: expectation.Late, LateSeconds: 3600}, expectation.Arrival{State: expectation.Arrived}, expectation.Arrival{State: expectation.Arrived})
		row := w.get("expectations").has("missing 1").tree.one(t, "tr[data-row]").text()
		for _, text := range []string{"rates", "partner=globex", "06:00 to 08:00 UTC", "missing since 08:15; nobody could look since 07:00", "before the end, 95 of 100"} {
			if !strings.Contains(row, text) {
				t.Errorf("%q has no %q", row, text)
			}
		}
		w.get("expectations?state=missing").has("rates").has("partner=globex")
		w.get("expectations?state=late").has("No expectation is late on this day.")
		w.get("expectations?date=1999-12-31").has("late by 1h")
		w.fails("expectations?date=yesterday", http.StatusBadRequest)
		page := w.get("expectations/rates").has("subscription ops").has("monitor in").has("2 on time, 1 late, 1 missing or incomplete").has("rates.csv")
		w.get("").has(`The files of "rates" for 1 January 2000 are missing.`).has("on earlier days: the 31 at 07:00 (late), the 30 at 07:00").has("Excuse the day")
		w.post("expectations/rates", page.with("do", "excuse", "date", "2000-01-01", "reason", "closed today")).done("excuse").has("excused by admin: closed today")
		refused := w.post("expectations/rates", w.get("expectations/rates").with("do", "excuse", "date", "1999-12-31", "reason", "closed", "key", "7"))
		if refused.Code != http.StatusConflict {
			t.Errorf("%d", refused.Code)
		}
		w.get("").lacks("are missing")
		w.post("expectations/rates?tab=remove", w.get("expectations/rates?tab=remove").with("do", "remove", "confirm", "rates", "key", "9")).done("remove").has("There are no expectations.")
		w.user = "vicky" // who sees one job
		w.fails("expectations", http.StatusForbidden)
	})
}

// An expectation of the files of a directory has a monitor, whose page says so and does not remove it.
func TestLookOfAnExpectation(t *testing.T) {
	virtual(t, nil, func(w *world) {
		sent := w.get("new/expectation").fields("set")
		sent["f.name"], sent["f.from.path"], sent["f.pattern"], sent["f.from.every"] = "rates", "/in/rates", "rates*.csv", "2m"
		w.post("new/expectation", sent).has(`this engine has no lister "file"`)
		sent["f.from.lister"] = "shelf"
		w.post("new/expectation", sent).done("set").has("directory /in/rates").has("monitor expectation:rates")
		w.get("expectations").has("it is today in UTC")
		w.get("monitors").has("expectation:rates").has("expectation rates")
		w.get("monitors/expectation:rates").has("Looks for").has("which changes and removes it").has("rates*.csv")
		gone := w.post("monitors/expectation:rates?tab=remove", w.get("monitors/expectation:rates?tab=remove").with("do", "remove", "confirm", "expectation:rates", "key", "9"))
		if gone.Code != http.StatusConflict {
			t.Errorf("%d", gone.Code)
		}
		w.post("expectations/rates?tab=remove", w.get("expectations/rates?tab=remove").with("do", "remove", "confirm", "rates", "key", "10")).done("remove")
		w.get("monitors").lacks("expectation:rates")
	})
}
