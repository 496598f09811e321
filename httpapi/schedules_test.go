package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/ticks"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
)

// The calendar has the ticks of the enabled schedules that the user may see, in order, with
// the local time and what a change of the clocks means.
func TestCalendar(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.services()
		w.put("v1/schedules/hourly", `{"job": "other", "every_seconds": 43200}`).want(http.StatusCreated, nil)
		w.put("v1/schedules/off", `{"job": "report", "every_seconds": 60, "disabled": true}`).want(http.StatusCreated, nil)
		lines := func(c *ticks.TickList) (list []string) {
			for _, k := range c.Ticks {
				line := k.At.Format("02T15:04Z") + " " + k.Local.Format("15:04-07:00") + " " + k.Zone + " " + k.Schedule + " " + k.Job
				if k.Note != "" {
					line += " (" + k.Note + ")"
				}
				list = append(list, line)
			}
			return list
		}
		get := func(w *world, from, to string, want ...string) {
			t.Helper()
			var c ticks.TickList
			w.get("v1/ticks?from="+from+"&to="+to).want(http.StatusOK, &c)
			if got := lines(&c); !slices.Equal(got, want) || c.Cut {
				t.Errorf("%s:\n%s\nwant\n%s", w.user, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		vera := w.as("vera")
		get(vera, "2027-03-27", "2027-03-29",
			"27T01:30Z 02:30+01:00 Europe/Berlin nightly report",
			"28T01:30Z 03:30+02:00 Europe/Berlin nightly report (02:30 doesn't exist in Europe/Berlin; fires at 03:30)")
		get(vera, "2027-10-31", "2027-11-01", "31T00:30Z 02:30+02:00 Europe/Berlin nightly report (02:30 comes twice in Europe/Berlin; fires at the first only)")
		get(vera, "2027-10-30T00:30:00Z", "2027-10-30T00:30:01Z", "30T00:30Z 02:30+02:00 Europe/Berlin nightly report") // from is in it, to is not
		get(vera, "2027-10-30", "2027-10-30T00:30:00Z")
		get(w, "2027-06-01", "2027-06-02", "01T00:00Z 00:00+00:00 UTC hourly other", "01T00:30Z 02:30+02:00 Europe/Berlin nightly report",
			"01T00:30Z 02:30+02:00 Europe/Berlin nightly-hidden hidden", "01T12:00Z 12:00+00:00 UTC hourly other")
		get(w.as("ann"), "2027-06-01", "2027-06-02")

		var c ticks.TickList
		vera.get("v1/ticks").want(http.StatusOK, &c)
		if len(c.Ticks) != 7 || !c.From.Equal(time.Now()) || c.To.Sub(c.From) != 7*24*time.Hour {
			t.Errorf("%d ticks from %s to %s", len(c.Ticks), c.From, c.To)
		}
		w.put("v1/schedules/often", `{"job": "report", "every_seconds": 1}`).want(http.StatusCreated, nil)
		vera.get("v1/ticks").want(http.StatusOK, &c)
		if len(c.Ticks) != 5000 || !c.Cut {
			t.Errorf("%d ticks, cut %t", len(c.Ticks), c.Cut)
		}
		for _, q := range []string{"from=tomorrow", "from=2027-01-01&to=2027-01-01", "from=2027-01-01&to=2027-02-02", "from=2027-01-02&to=2027-01-01", "from=2201-01-01"} {
			w.get("v1/ticks?"+q).problem(http.StatusBadRequest, "invalid")
		}
	})
}

// Anybody who is known learns what a cron expression means.
func TestExplainCron(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w = w.as("ann")
		var x struct {
			Words string
			Next  []time.Time
			Notes []string
		}
		w.post("v1/cron/explain", `{"cron": "0 30 2 * * ?", "zone": "Europe/Berlin", "after": "2027-03-27T00:00:00Z", "count": 2}`).want(http.StatusOK, &x)
		if x.Words != "At 02:30:00 every day" || len(x.Next) != 2 || x.Next[0].Format(time.RFC3339) != "2027-03-27T02:30:00+01:00" || len(x.Notes) == 0 {
			t.Errorf("%+v", x)
		}
		x.Next = nil
		w.post("v1/cron/explain", `{"cron": "0 0 8 1 1 ? 1999"}`).want(http.StatusOK, &x)
		if x.Next == nil || len(x.Next) != 0 {
			t.Errorf("of one that never fires: %+v", x)
		}
		w.post("v1/cron/explain", `{"cron": "0 0 25 * * ?"}`).problem(http.StatusBadRequest, "invalid", "column 5", "hours are 0 to 23")
		w.post("v1/cron/explain", `{"cron": "0 0 2 * * ?", "zone": "Europe/Berlín"}`).problem(http.StatusBadRequest, "invalid", "time zone")
		w.post("v1/cron/explain", `{"count": 101}`).problem(http.StatusBadRequest, "invalid", "/cron", "/count")
		w.post("v1/cron/explain", `{"cron": "0 0 2 * * ?", "after": "9999-01-01T00:00:00Z"}`).problem(http.StatusBadRequest, "invalid", "/after")
	})
}

// A schedule is set as a whole, and switched off and on; the journal has who did it and why.
func TestSchedules(t *testing.T) {
	virtual(t, nil, func(w *world) {
		edna, otto := w.as("edna"), w.as("otto")
		body := `{"job": "report", "every_seconds": 3600, "params": {"text": "a"}}`
		var s schedule.Schedule
		edna.put("v1/schedules/hourly", body).want(http.StatusCreated, &s)
		if s.Name != "hourly" || s.Every != time.Hour || s.NextFire.IsZero() || s.Params["text"] != "a" {
			t.Errorf("%+v", s)
		}
		edna.put("v1/schedules/hourly", strings.Replace(body, "3600", "1800", 1)).want(http.StatusOK, &s)
		if s.Every != 30*time.Minute {
			t.Errorf("%+v", s)
		}
		otto.post("v1/schedules/hourly/disable", `{"reason": "the partner moves"}`).want(http.StatusOK, &s)
		if !s.Disabled || !strings.Contains(s.Reason, "otto") || !strings.Contains(s.Reason, "the partner moves") {
			t.Errorf("%+v", s)
		}
		w.get("v1/schedules/hourly").want(http.StatusOK, &s)
		if !s.Disabled {
			t.Errorf("%+v", s)
		}
		otto.post("v1/schedules/hourly/enable", "").want(http.StatusOK, &s)
		if s.Disabled || s.NextFire.IsZero() {
			t.Errorf("%+v", s)
		}
		edna.put("v1/schedules/hourly", `{"job": "report", "every_seconds": 3600, "params": {"txet": "a"}}`).problem(http.StatusUnprocessableEntity, "definition", "params.txet", "text")
		edna.put("v1/schedules/hourly", `{"job": "report", "every_seconds": "often", "cron": 1}`).problem(http.StatusUnprocessableEntity, "definition", "every_seconds", "cron")
		time.Sleep(time.Hour + time.Minute)
		var list struct{ Items []httpapi.ExecutionView }
		w.get("v1/executions?job=report").want(http.StatusOK, &list)
		if len(list.Items) != 2 {
			t.Errorf("%d executions within an hour", len(list.Items))
		}
		w.put("v1/schedules/once", `{"job": "report", "at": "`+time.Now().Add(time.Minute).Format(time.RFC3339)+`"}`).want(http.StatusCreated, nil)
		time.Sleep(2 * time.Minute)
		w.post("v1/schedules/once/enable", "").problem(http.StatusUnprocessableEntity, "definition", "at")
	})
}

// A monitor whose state does not permit something says so, without the reason of the state.
func TestMonitors(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.receive()
		var m monitor.Monitor
		w.put("v1/monitors/gone", `{"job": "inbox", "lister": "shelf", "path": "/gone", "max_failures": 2, "every_seconds": 1}`).want(http.StatusCreated, &m)
		time.Sleep(time.Minute)
		w.get("v1/monitors/gone").want(http.StatusOK, &m)
		if m.State != monitor.Failed {
			t.Fatalf("%+v", m)
		}
		mona := w.as("mona")
		mona.post("v1/monitors/gone/enable", "").problem(http.StatusConflict, "transition", "acknowledge")
		mona.post("v1/monitors/gone/pause", "").problem(http.StatusConflict, "transition", "acknowledge")
		mona.post("v1/monitors/gone/acknowledge", `{"reason": "it is back"}`).want(http.StatusOK, &m)
		if m.State != monitor.Active {
			t.Errorf("%+v", m)
		}
		mona.post("v1/monitors/gone/disable", "").want(http.StatusOK, nil)
		mona.post("v1/monitors/gone/pause", "").problem(http.StatusConflict, "transition", "disabled")
		mona.put("v1/monitors/there", `{"job": "inbox", "lister": "shelf", "path": "/in", "every_seconds": 1}`).want(http.StatusCreated, nil)
		mona.put("v1/monitors/there", `{"job": "inbox", "lister": "shlf", "path": "/in"}`).problem(http.StatusUnprocessableEntity, "definition", "lister", "shelf")
		time.Sleep(time.Minute)
		var files struct {
			Items []struct{ Name string }
			Next  string
		}
		mona.get("v1/monitors/there/files?limit=1").want(http.StatusOK, &files)
		if len(files.Items) != 1 || files.Items[0].Name != canaryParam || files.Next == "" {
			t.Errorf("%+v", files)
		}
		mona.get("v1/monitors/there/files?limit=1&cursor="+files.Next).want(http.StatusOK, &files)
		if len(files.Items) != 0 {
			t.Errorf("%+v", files)
		}
		w.as("vera").get("v1/monitors/there/files").problem(http.StatusNotFound, "not_found")
		list, err := w.engine.Journal(t.Context(), filterBy("mona"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range slices.Backward(list) {
			got = append(got, a.Verb+" "+a.Outcome)
		}
		want := []string{
			"enable asked", "enable refused", "pause asked", "pause refused", "acknowledge asked", "acknowledged done", "disable asked", "disabled done",
			"pause asked", "pause refused", "set asked", "set done", "set asked", "set refused",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	})
}
