package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
)

// in returns a page as a browser gets it that has named its time zone, in UTC if utc is "1".
func (w *world) in(path, zone, utc string) answer {
	w.Helper()
	r := get(path)
	r.AddCookie(&http.Cookie{Name: "courier-zone", Value: zone})
	r.AddCookie(&http.Cookie{Name: "courier-utc", Value: utc})
	a := w.send(r)
	if a.Code != http.StatusOK {
		w.Fatalf("%s in %s: %d", path, zone, a.Code)
	}
	return a
}

// Instants are those of the zone that the browser has named, with UTC in their titles; the other
// way round for who wants UTC; and in UTC without a zone, or with one that is none.
func TestZones(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.ended("report", "ann", map[string]any{"seconds": 90})
		at := "executions/" + string(x.ID)
		begun := func(a answer) (text, title string) {
			n := a.tree.one(t, "#summary").all("time")[0]
			if n.attrs["datetime"] != "2000-01-01T00:00:00.000Z" {
				t.Errorf("%s: the instant for machines is %q", a.at, n.attrs["datetime"])
			}
			return n.text(), n.attrs["title"]
		}
		const utc = "2000-01-01 00:00:00 UTC"
		for _, c := range []struct{ zone, utc, head, text, title string }{
			{"America/New_York", "", "Times in America/New_York Show UTC", "1999-12-31 19:00:00 EST", utc},
			{"Asia/Kolkata", "0", "Times in Asia/Kolkata Show UTC", "2000-01-01 05:30:00 IST", utc},
			{"Asia/Kolkata", "1", "Times in UTC Show Asia/Kolkata", utc, "2000-01-01 05:30:00 IST"},
			{"UTC", "", "Times in UTC", utc, ""}, {"UTC", "1", "Times in UTC", utc, ""}, {"", "", "Times in UTC", utc, ""},
			{"Mars/Olympus", "", "Times in UTC", utc, ""}, {"Local", "", "Times in UTC", utc, ""}, {"../../../etc/passwd", "", "Times in UTC", utc, ""},
			{strings.Repeat("Europe/", 200), "", "Times in UTC", utc, ""},
		} {
			a := w.in(at, c.zone, c.utc)
			if text, title := begun(a); text != c.text || title != c.title {
				t.Errorf("%s: the begin is %q with the title %q, and not %q with %q", c.zone, text, title, c.text, c.title)
			}
			if head := a.tree.one(t, ".clock").text(); head != c.head {
				t.Errorf("%s: the head says %q, and not %q", c.zone, head, c.head)
			}
		}
		if text, title := begun(w.get(at)); text != utc || title != "" {
			t.Errorf("without a cookie the begin is %q with the title %q", text, title)
		}
		if head := w.get(at).tree.one(t, ".clock"); head.text() != "Times in UTC" || head.attrs["data-clock"] != "UTC" {
			t.Errorf("without a cookie the head says %q", head.text())
		}
		// What answers a form can't be asked for again, so it has no switch.
		r := w.form("new/schedule", map[string]string{"do": "check"})
		r.AddCookie(&http.Cookie{Name: "courier-zone", Value: "Europe/Berlin"})
		if head := w.send(r).tree.one(t, ".clock"); head.text() != "Times in Europe/Berlin" || head.attrs["data-clock"] != "" {
			t.Errorf("the answer to a form says %q, %v", head.text(), head.attrs)
		}
	})
}

// The parts of a page that are kept up to date are in the same zone.
func TestZonesLive(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.ended("report", "ann", nil)
		at := "executions/" + string(x.ID)
		page := w.in(at, "Asia/Kolkata", "")
		for zone, changed := range map[string]bool{"Asia/Kolkata": false, "UTC": true} {
			r := httptest.NewRequest("GET", page.liveURL(at), nil)
			r.AddCookie(&http.Cookie{Name: "courier-zone", Value: zone})
			if body := w.send(r).Body.String(); strings.Contains(body, " UTC") != changed || strings.Contains(body, " IST") {
				t.Errorf("%s: the parts that have changed are %s", zone, body)
			}
		}
	})
}

// The calendar begins in the zone of the visitor, and a tick has the columns of the visitor and of
// the schedule.
func TestZonesOfSchedules(t *testing.T) {
	virtual(t, nil, func(w *world) {
		if _, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{Name: "nightly", Job: "report", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin"}, courier.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		w.in("schedules", "Asia/Kolkata", "").has("in the time zone Asia/Kolkata").has("07:00 nightly 02:30 Europe/Berlin")
		w.in("schedules", "Asia/Kolkata", "1").has("in the time zone UTC").has("01:30 nightly")
		w.in("schedules?zone=Europe/Berlin", "Asia/Kolkata", "").has("in the time zone Europe/Berlin").has("02:30 nightly")
		heads := func(zone string) string { return w.in("schedules/nightly", zone, "").tree.one(t, "thead").text() }
		for zone, want := range map[string]string{"Asia/Kolkata": "In Europe/Berlin In Asia/Kolkata", "UTC": "In Europe/Berlin In UTC", "Europe/Berlin": "In Europe/Berlin"} {
			if is := heads(zone); is != want {
				t.Errorf("%s: the ticks have the columns %q, and not %q", zone, is, want)
			}
		}
		time.Sleep(2 * time.Hour)
		w.in("schedules/nightly", "Asia/Kolkata", "").has("It fires next at 2000-01-02 07:00:00 IST")
	})
}

// Today is the day by the clock of the visitor.
func TestZonesOfToday(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.inbox()
		w.monitor(monitor.Monitor{Name: "in", Path: "/in", Job: "inbox"})
		x := expectation.Expectation{Name: "rates", From: expectation.From{Monitor: "in"}, Pattern: "rates*.csv", Window: expectation.Window{From: "06:00", Until: "08:00"}}
		if _, err := w.engine.Expectations().Set(w.Context(), x, courier.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		w.in("expectations", "America/New_York", "").has("31 December 1999")
		w.in("expectations", "America/New_York", "1").has("1 January 2000")
		w.in("expectations", "Asia/Kolkata", "").has("1 January 2000").lacks(">Today</a> <a")
		w.get("expectations").has("1 January 2000")
	})
}
