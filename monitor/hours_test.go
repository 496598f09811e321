package monitor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/monitor"
)

// weekend makes a calendar of which weekends and further days are closed the one that there is.
func (w *world) weekend(zone string, closed ...string) {
	w.t.Helper()
	c := calendar.Calendar{Name: "week", Zone: zone, Weekend: []string{"saturday", "sunday"}}
	for _, day := range closed {
		c.Closed = append(c.Closed, calendar.Closing{Date: day})
	}
	days, err := calendar.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.change(func() { w.days = days })
}

// TestPollsOnOpenDays: a monitor that goes by a calendar polls on open days, between its times,
// and hands over then what came meanwhile. The virtual clock begins on Saturday, 1 January 2000.
func TestPollsOnOpenDays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.weekend("Europe/Berlin", "2000-01-04")
		w.dir.put(1, "a")
		w.set(monitor.Monitor{Calendar: "week", Between: monitor.Hours{From: "06:00", Until: "19:30"}, Every: time.Hour, Stable: time.Second})
		until := func(text string) {
			at, err := time.Parse("2006-01-02 15:04", text)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(at))
		}
		next := func(want string) {
			t.Helper()
			if got := w.get().NextPoll.Format("2006-01-02 15:04"); got != want {
				t.Errorf("it polls next at %s, want %s", got, want)
			}
		}
		until("2000-01-01 00:30")
		next("2000-01-03 05:00") // 06:00 in Berlin
		until("2000-01-03 04:59")
		if n := w.dir.listed(); n != 0 {
			t.Errorf("%d polls on closed days", n)
		}
		w.require()
		until("2000-01-03 18:00") // 19:00
		w.require("created a:1")
		until("2000-01-03 19:00")
		next("2000-01-05 05:00") // Tuesday is closed
		n := w.dir.listed()
		w.dir.put(1, "b")
		until("2000-01-05 04:00")
		if got := w.dir.listed(); got != n {
			t.Errorf("%d polls in the night and on a closed day", got-n)
		}
		// A change of the calendar holds for the next poll.
		w.weekend("UTC", "2000-01-05")
		if err := w.Follow(w.t.Context(), "week"); err != nil {
			t.Fatal(err)
		}
		until("2000-01-05 04:01")
		next("2000-01-06 06:00")
		w.weekend("UTC")
		if err := w.Follow(w.t.Context(), "week"); err != nil {
			t.Fatal(err)
		}
		until("2000-01-05 04:02")
		next("2000-01-05 06:00")
		if err := w.Follow(w.t.Context(), "another"); err != nil {
			t.Fatal(err)
		}
		if names, err := w.Using(w.t.Context(), "week"); err != nil || !slices.Equal(names, []string{"m"}) {
			t.Errorf("%q, %v", names, err)
		}
		until("2000-01-05 06:30")
		w.require("created b:1")
		// One whose calendar is gone says so. While the store fails it waits for the lease to end.
		w.change(func() { w.unread = errors.New("the store fails") })
		until("2000-01-05 07:30")
		if m := w.get(); m.State != monitor.Active || m.Health.Problem != "" {
			t.Errorf("it is %s: %s", m.State, m.Health.Problem)
		}
		w.change(func() { w.unread, w.days = nil, nil })
		until("2000-01-05 08:30")
		if m := w.get(); m.State != monitor.Degraded || !strings.Contains(m.Health.Problem, `there is no calendar "week"`) {
			t.Errorf("it is %s: %s", m.State, m.Health.Problem)
		}
	})
}

// TestBadHours: what is wrong with the calendar and the times is told at once.
func TestBadHours(t *testing.T) {
	inWorld(t, func(w *world) {
		for want, m := range map[string]monitor.Monitor{
			`calendar: there is no calendar "week"; there are none`:                                                    {Calendar: "week"},
			"between: it is for monitors with a calendar only, whose time zone its times are in; name one in calendar": {Between: monitor.Hours{From: "06:00"}},
			`between.from: "6" is not a time of day such as 06:00`:                                                     {Calendar: "week", Between: monitor.Hours{From: "6", Until: "25:00"}},
			`between.until: "25:00" is not a time of day such as 06:00`:                                                {Calendar: "week", Between: monitor.Hours{From: "6", Until: "25:00"}},
			`between.until: "06:00" is not after from, "19:00"; leave it out for the end of the day`:                   {Calendar: "week", Between: monitor.Hours{From: "19:00", Until: "06:00"}},
		} {
			m.Name, m.Path, m.Job = "m", "/in", "job"
			if _, err := w.Set(w.t.Context(), m, courier.By{}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		w.weekend("")
		w.change(func() { w.unread = errors.New("the store fails") })
		if _, err := w.Set(w.t.Context(), monitor.Monitor{Name: "m", Path: "/in", Job: "job", Calendar: "week"}, courier.By{}); !errors.Is(err, w.unread) {
			t.Errorf("%v", err)
		}
	})
}
