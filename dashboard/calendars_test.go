package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
)

// A calendar is made by a form, shows what it closes and what goes by it, and can't be removed
// before nothing does. Pages of schedules say what is moved or left out, and why.
func TestCalendars(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.inbox()
		w.get("calendars").has("There are no calendars.").has("New calendar")
		monday := time.Now()
		for monday.Weekday() != time.Monday {
			monday = monday.AddDate(0, 0, 1)
		}
		day := monday.AddDate(0, 0, 1) // a Tuesday
		sent := w.get("new/calendar").fields("set")
		sent["f.name"], sent["f.closed"], sent["f.open"], sent["f.weekend"] = "target2", `["`+day.Format(time.DateOnly)+`", {"yearly": "12-25", "title": "Christmas Day"}]`, "2027-02-30", "saturday\r\nsonday"
		bad := w.post("new/calendar", sent)
		if text := bad.tree.one(t, "#wrong-weekend").text(); bad.Code != http.StatusUnprocessableEntity || !strings.Contains(text, "sunday") {
			t.Errorf("%d %q", bad.Code, text)
		}
		sent = bad.fields("set")
		sent["f.open"], sent["f.weekend"] = "", "saturday\r\nsunday"
		w.post("new/calendar", bad.with("do", "check", "f.name", "target2", "f.weekend", "saturday", "f.open", "", "key", "1")).has("The check found no problems.").has("Christmas Day")
		w.post("new/calendar", sent).done("set").has("Christmas Day").has("nothing")
		row := w.get("calendars").tree.one(t, "tr[data-row]").text()
		for _, text := range []string{"target2", "saturday, sunday", "UTC"} {
			if !strings.Contains(row, text) {
				t.Errorf("%q has no %q", row, text)
			}
		}

		w.schedule(schedule.Schedule{Name: "weekly", Job: "report", Cron: "0 0 7 ? * TUE", Calendar: "target2", OnClosed: "next"})
		w.schedule(schedule.Schedule{Name: "daily", Job: "report", Cron: "0 0 8 * * ?", Calendar: "target2"})
		why := day.Format("2 January") + ": closed in target2"
		w.get("schedules/weekly").has(why + "; moved to " + day.AddDate(0, 0, 1).Format("2 January")).has("moved from " + why).has("target2")
		w.get("schedules/daily").has(why + "; left out")
		w.get("schedules?from=" + day.Format(time.DateOnly)).has("Days that calendars close").has(why + "; left out").has("moved from " + why).has("Calendars")

		w.monitor(monitor.Monitor{Name: "in", Path: "/in", Job: "inbox", Calendar: "target2", Between: monitor.Hours{From: "06:00", Until: "19:30"}})
		if page := w.get("monitors/in").has("on open days of target2").has("from 06:00, until 19:30"); !strings.Contains(page.Body.String(), "calendars/target2") {
			t.Error("the page does not lead to the calendar")
		}
		form := w.get("monitors/in?tab=edit").fields("set")
		if form["f.calendar"] != "target2" || form["f.between.from"] != "06:00" || form["f.between.until"] != "19:30" {
			t.Errorf("the form has %q", form)
		}
		w.user = "vicky"
		if page := w.get("schedules/weekly").has("target2"); strings.Contains(page.Body.String(), "calendars/target2") {
			t.Error("the page leads to the calendar")
		}
		w.user = "admin"
		if err := w.engine.Monitors().Remove(w.Context(), "in", courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.get("calendars/target2").has("schedule weekly").has("schedule daily")
		refused := w.post("calendars/target2?tab=remove", w.get("calendars/target2?tab=remove").with("do", "remove", "confirm", "target2"))
		if refused.Code != http.StatusUnprocessableEntity {
			t.Errorf("%d", refused.Code)
		}
		refused.has(`is used by schedule "daily", schedule "weekly"`)
		for _, name := range []string{"weekly", "daily"} {
			w.post("schedules/"+name+"?tab=remove", w.get("schedules/"+name+"?tab=remove").with("do", "remove", "confirm", name)).done("remove")
		}
		w.post("calendars/target2?tab=remove", w.get("calendars/target2?tab=remove").with("do", "remove", "confirm", "target2", "key", "9")).done("remove").has("There are no calendars.")
		w.user = "vicky" // who sees one job
		w.fails("calendars", http.StatusForbidden)
		w.get("schedules").lacks("Calendars")
	})
}
