package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/ticks"
	"github.com/courierhq/courier/schedule"
)

// A calendar is saved, listed with its versions, and removed unless something goes by it. The
// list of ticks says which days it closes.
func TestCalendars(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.services()
		const week = `{"time_zone": "Europe/Berlin", "weekend": ["saturday", "sunday"], "closed": ["2027-03-26", {"yearly": "12-25", "title": "Christmas Day"}]}`
		var x calendar.Calendar
		w.put("v1/calendars/week", `{"weekend": ["saturday"]}`).want(http.StatusCreated, &x)
		w.put("v1/calendars/week", week).want(http.StatusOK, &x)
		if x.Name != "week" || x.Version != 2 || x.SavedBy == "" || len(x.Closed) != 2 {
			t.Errorf("%+v", x)
		}
		w.put("v1/calendars/week", week).want(http.StatusOK, &x)
		w.put("v1/calendars/other", `{"weekend": ["saterday"], "closed": ["2027-02-30"]}`).problem(http.StatusUnprocessableEntity, "definition")
		w.post("v1/check/calendar", `{"name": "other", "weekend": []}`).want(http.StatusOK, nil)
		var list struct{ Items []calendar.Calendar }
		w.get("v1/calendars").want(http.StatusOK, &list)
		if len(list.Items) != 1 || list.Items[0].Version != 2 {
			t.Errorf("%+v", list)
		}
		w.get("v1/calendars/week/versions?limit=1").want(http.StatusOK, &list)
		if len(list.Items) != 1 || list.Items[0].Version != 2 {
			t.Errorf("%+v", list)
		}
		w.get("v1/calendars/none").problem(http.StatusNotFound, "not_found")
		w.as("vera").get("v1/calendars/week").problem(http.StatusNotFound, "not_found") // she sees one job

		w.put("v1/schedules/closing", `{"job": "report", "cron": "0 0 18 ? * FRI", "time_zone": "Europe/Berlin", "calendar": "week", "on_closed": "previous"}`).want(http.StatusCreated, nil)
		w.put("v1/schedules/wrong", `{"job": "report", "cron": "0 0 18 ? * FRI", "calendar": "wek"}`).problem(http.StatusUnprocessableEntity, "definition")
		var c ticks.TickList
		w.as("vera").get("v1/ticks?from=2027-03-25&to=2027-03-27").want(http.StatusOK, &c)
		want := ticks.Closed{Schedule: "closing", Day: "2027-03-26", Note: "26 March: closed in week; moved to 25 March"}
		if len(c.Closed) != 1 || c.Closed[0] != want {
			t.Errorf("%+v", c.Closed)
		}
		var x2 schedule.CronExplanation
		const ask = `{"cron": "0 0 18 ? * FRI", "zone": "Europe/Berlin", "after": "2027-03-20T00:00:00Z", "count": 1, "calendar": "week", "on_closed": "next"}`
		w.post("v1/cron/explain", ask).want(http.StatusOK, &x2)
		if len(x2.Next) != 1 || x2.Next[0].Format("2006-01-02 15:04") != "2027-03-29 18:00" || len(x2.Notes) == 0 {
			t.Errorf("%+v", x2)
		}
		w.as("vera").post("v1/cron/explain", ask).problem(http.StatusForbidden, "forbidden")
		w.post("v1/cron/explain", `{"cron": "0 0 18 ? * FRI", "calendar": "wek"}`).problem(http.StatusBadRequest, "invalid")
		moved := ""
		for _, tick := range c.Ticks {
			if tick.Schedule == "closing" {
				moved += tick.Local.Format("2006-01-02 15:04 ") + tick.Note
			}
		}
		if moved != "2027-03-25 18:00 moved from 26 March: closed in week" {
			t.Errorf("%q", moved)
		}
		w.send("DELETE", "v1/calendars/week", "").problem(http.StatusConflict, "conflict")
		w.send("DELETE", "v1/schedules/closing", "").want(http.StatusNoContent, nil)
		w.send("DELETE", "v1/calendars/week", "").want(http.StatusNoContent, nil)
		w.get("v1/calendars/week").problem(http.StatusNotFound, "not_found")
	})
}
