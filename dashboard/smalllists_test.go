package dashboard_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/schedule"
)

// The lists of the pages of calendars, schedules and bulks have the filter and the CSV that all lists
// have.
func TestListFilterOfSmallLists(t *testing.T) {
	virtual(t, nil, func(w *world) {
		days := calendar.Calendar{Name: "target2", Weekend: []string{"saturday", "sunday"}}
		for _, closed := range []string{"2000-05-01", "2000-12-25", "2000-12-26"} {
			days.Closed = append(days.Closed, calendar.Closing{Date: closed, Title: "Title of " + closed})
			if _, err := w.engine.Calendars().Set(w.Context(), days, courier.By{Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		w.schedule(schedule.Schedule{Name: "berlin", Job: "report", Cron: "0 0 7 * * ?", Zone: "Europe/Berlin"})
		w.schedule(schedule.Schedule{Name: "plain", Job: "report", Cron: "0 0 7 * * ?"})
		failed := w.ended("report", "ann", map[string]any{"fail": "no"})
		w.ended("other", "ann", map[string]any{"fail": "no"})
		preview := w.get("bulk?action=resume&where=" + url.QueryEscape("state:failed"))
		results := w.confirm(preview).has("2 done")
		bulk := "bulk" + results.tree.one(t, "form[role=search]").one(t, "a[download]").attrs["href"]
		bulk = strings.Replace(bulk, "csv=results&", "", 1)
		for at, want := range map[string]int{
			"calendars/target2": 6, "calendars/target2?text=monday": 2, "calendars/target2?text=-monday": 4, "calendars/target2?text=2000-12 -26": 1, "calendars/target2?text=ann -monday": 3,
			"schedules/berlin": 10, "schedules/berlin?text=Sun": 2, "schedules/berlin?text=-Sun -Sat": 6, "schedules/plain?text=2000-01-02": 1, "schedules/plain?text=none": 0,
			bulk: 2, bulk + "&text=" + string(failed.ID): 1, bulk + "&text=-done": 0,
		} {
			a := w.get(strings.ReplaceAll(at, " ", "+"))
			if rows := a.tree.all("tr[data-row]"); len(rows) != want {
				t.Errorf("%s: %d rows, and not %d: %s", at, len(rows), want, a.tree.one(t, "main").text())
			} else if want == 0 {
				a.has("No row matches.").lacks("closes no day")
			}
			if form := a.tree.one(t, "form[role=search]"); len(form.all("a[download]")) == 0 {
				t.Errorf("%s has no CSV", at)
			}
		}
		w.get("schedules/berlin?text=Sun").has("The next 10 ticks by its definition, of which 2 match")
		w.get("schedules/berlin").has("The next 10 ticks by its definition").lacks("of which")
		w.get("calendars/target2?text=Title").has("Title of 2000-05-01").has("No row matches.") // none of the versions
		// What the filter has left out is still there.
		w.get(bulk + "&text=-done")
		w.get(bulk).has(string(failed.ID))
	})
}

func TestListCSVOfSmallLists(t *testing.T) {
	virtual(t, nil, func(w *world) {
		closed := []calendar.Closing{{Date: "2000-05-01", Title: "=1+1"}, {Yearly: "12-25", Title: "Christmas Day"}}
		if _, err := w.engine.Calendars().Set(w.Context(), calendar.Calendar{Name: "target2", Weekend: []string{"sunday"}, Closed: closed}, courier.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		w.schedule(schedule.Schedule{Name: "berlin", Job: "report", Cron: "0 0 7 * * ?", Zone: "Europe/Berlin"})
		x := w.ended("report", "ann", map[string]any{"fail": "no"})
		w.ended("report", "ann", map[string]any{"fail": "no"})
		page := w.confirm(w.get("bulk?action=rerun&where=" + url.QueryEscape("state:failed")))
		bulk := "bulk" + page.tree.one(t, "form[role=search]").one(t, "a[download]").attrs["href"]
		for path, want := range map[string][2]string{
			"calendars/target2?csv=closed+days":           {"Title", "'=1+1"},
			"calendars/target2?csv=closed+days&text=-may": {"Day of the week", "Monday"},
			"calendars/target2?csv=versions":              {"By", "ann"},
			"schedules/berlin?csv=next+ticks":             {"At", "2000-01-01T06:00:00Z"},
			"schedules/berlin?csv=next+ticks&text=Mon":    {"In the time zone of the schedule", "Mon 2000-01-03 07:00:00 CET"},
			bulk:                    {"Execution", string(x.ID)},
			bulk + "&text=-skipped": {"Outcome", "done"},
		} {
			if cells := column(t, w.csv(path), want[0]); !strings.Contains("\n"+strings.Join(cells, "\n")+"\n", "\n"+want[1]+"\n") {
				t.Errorf("%s: the column %q has %q, and not %q", path, want[0], cells, want[1])
			}
		}
		if rows := w.csv("schedules/berlin?csv=next+ticks&text=-Mon"); len(rows) != 1+8 {
			t.Errorf("with a filter there are %d rows", len(rows))
		}
		w.user = "vera" // who did not do it
		w.fails(strings.Replace(bulk, "csv=results&", "", 1), 404)
	})
}
