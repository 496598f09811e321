package schedule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// change changes the calendar week, and has the schedules follow it, as the service of calendars
// does.
func (w *world) change(c calendar.Calendar) {
	w.t.Helper()
	var was *calendar.Days
	if old, ok := w.calendars[c.Name]; ok {
		was, _ = calendar.New(old)
	}
	if w.calendars == nil {
		w.calendars = make(map[string]calendar.Calendar)
	}
	w.calendars[c.Name] = c
	if err := w.Follow(w.t.Context(), c.Name, was, courier.By{Actor: "ann"}); err != nil {
		w.t.Fatal(err)
	}
}

// fires returns the ticks that have led to executions, by their idempotency keys.
func (w *world) fires() (list []string) {
	w.t.Helper()
	all, err := w.store.Executions(w.t.Context(), store.Filter{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range all {
		_, tick, _ := strings.Cut(all[i].IdempotencyKey, ":s:")
		at, err := time.Parse(time.RFC3339, tick)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, at.Format("Mon 02 15:04"))
	}
	slices.Reverse(list)
	return list
}

// runUntil fires schedules until a time, as two engines do.
func (w *world) runUntil(until time.Time) {
	w.t.Helper()
	ctx, cancel := context.WithDeadline(w.t.Context(), until)
	defer cancel()
	go w.Run(ctx)
	w.Run(ctx)
	synctest.Wait()
}

// weekend is a calendar with further closed days.
func weekend(closed ...string) calendar.Calendar {
	c := calendar.Calendar{Name: "week", Weekend: []string{"saturday", "sunday"}}
	for _, day := range closed {
		c.Closed = append(c.Closed, calendar.Closing{Date: day})
	}
	return c
}

// The virtual clock begins on Saturday, 1 January 2000.

// TestFireOnOpenDays: on any number of engines each tick that the calendar leaves or moves leads
// to one execution, and no closed day fires.
func TestFireOnOpenDays(t *testing.T) {
	for policy, want := range map[schedule.OnClosed]string{
		"skip":     "Mon 03 06:00,Tue 04 06:00,Fri 07 06:00,Mon 10 06:00",
		"next":     "Mon 03 06:00,Tue 04 06:00,Fri 07 06:00,Fri 07 07:00,Mon 10 06:00",
		"previous": "Mon 03 06:00,Tue 04 06:00,Tue 04 07:00,Fri 07 06:00,Mon 10 06:00",
	} {
		inWorld(t, func(w *world, start time.Time) {
			w.change(weekend("2000-01-05", "2000-01-06"))
			w.set(schedule.Schedule{Name: "s", Cron: "0 0 6 * * ?", Calendar: "week", OnClosed: policy})
			w.set(schedule.Schedule{Name: "t:s", Cron: "0 0 7 ? * THU", Calendar: "week", OnClosed: policy})
			w.runUntil(start.AddDate(0, 0, 10))
			got := w.fires()
			if strings.Join(got, ",") != want {
				t.Errorf("%s: %q", policy, got)
			}
		})
	}
}

// TestCalendarChanges: a change of a calendar applies from the next tick on: a day that is closed
// does not fire, and one that is opened does. What has come is left alone.
func TestCalendarChanges(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.change(weekend())
		w.set(schedule.Schedule{Name: "s", Cron: "0 0 6 * * ?", Calendar: "week"})
		w.set(schedule.Schedule{Name: "off", Cron: "0 0 6 * * ?", Calendar: "week", Disabled: true})
		w.set(schedule.Schedule{Name: "other", Cron: "0 0 6 * * ?"})
		next := func(want string) {
			t.Helper()
			if got := w.get("s").NextFire.Format("2006-01-02 15:04"); got != want {
				t.Errorf("the next tick is %s, want %s", got, want)
			}
		}
		next("2000-01-03 06:00")
		w.change(weekend("2000-01-03"))
		next("2000-01-04 06:00")
		open := weekend("2000-01-03")
		open.OpenDays = []string{"2000-01-02"}
		w.change(open)
		next("2000-01-02 06:00")
		w.change(calendar.Calendar{Name: "week", Weekend: open.Weekend, Zone: "America/New_York"})
		next("2000-01-03 06:00") // which is in the night from Sunday to Monday there
		w.change(weekend())
		if !w.get("off").NextFire.IsZero() || w.get("other").NextFire.Format(time.DateOnly) != "2000-01-01" {
			t.Errorf("others are %v and %v", w.get("off").NextFire, w.get("other").NextFire)
		}
		if got, err := w.Using(w.t.Context(), "week"); err != nil || !slices.Equal(got, []string{"off", "s"}) {
			t.Errorf("the calendar is used by %q, %v", got, err)
		}
		// A process that ends before schedules follow leaves the tick of a day that is closed
		// now. It does not fire.
		w.calendars["week"] = weekend("2000-01-03")
		if err := w.Remove(w.t.Context(), "other", courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.runUntil(start.Add(80 * time.Hour))
		if got := w.fires(); !slices.Equal(got, []string{"Tue 04 06:00"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestCalendarGone: a schedule whose calendar is gone does not fire, says why, and goes on with
// the calendar. While the store fails, it is tried again soon.
func TestCalendarGone(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.change(weekend())
		w.set(schedule.Schedule{Name: "s", Every: time.Hour, Starts: start.AddDate(0, 0, 2), Calendar: "week"})
		delete(w.calendars, "week")
		w.runUntil(start.Add(50 * time.Hour))
		if s := w.get("s"); !strings.Contains(s.Problem, `calendar: there is no calendar "week"`) || len(w.fires()) != 0 {
			t.Errorf("%q, %q", s.Problem, w.fires())
		}
		w.change(weekend("2000-01-05"))
		if s := w.get("s"); s.Problem != "" {
			t.Errorf("then it says %q", s.Problem)
		}
		w.unread = errors.New("the store fails")
		w.runUntil(start.Add(55 * time.Hour))
		if s := w.get("s"); !strings.Contains(s.Problem, "the store fails") {
			t.Errorf("while the store fails it says %q", s.Problem)
		}
		w.unread = nil
		w.runUntil(start.Add(55*time.Hour + time.Minute))
		if s := w.get("s"); s.Problem != "" || len(w.fires()) == 0 {
			t.Errorf("then it says %q and has fired %q", s.Problem, w.fires())
		}
	})
}

// TestPreviousNotInThePast: a tick that could only be moved to a time that has passed is noted in
// the journal, and fires on the next open day, once, whatever changes afterwards. One that has
// fired on the open day before does not fire again.
func TestPreviousNotInThePast(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		const s = "s"
		w.change(weekend())
		w.set(schedule.Schedule{Name: s, Cron: "0 0 6 ? * WED", Calendar: "week", OnClosed: "previous"})
		w.runUntil(start.Add(82 * time.Hour)) // Tuesday, 10:00
		w.changes = nil
		w.change(weekend("2000-01-05"))
		want := []string{`moved s by ann ["5 January: closed in week; moved to 6 January, since its time on 4 January has passed"]`}
		if !slices.Equal(w.changes, want) {
			t.Errorf("the journal has %q", w.changes)
		}
		if got := w.get(s).NextFire.Format(time.DateTime); got != "2000-01-06 06:00:00" {
			t.Errorf("the next tick is %s", got)
		}
		def := w.get(s)
		table, err := w.Timetables(w.t.Context())(&def)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Moved(def.NextFire); got != "moved from 5 January: closed in week; its time on the open day before had passed" {
			t.Errorf("it says %q", got)
		}
		if got := table.Closed(time.Now(), time.Now().Add(48*time.Hour), 5); len(got) != 1 || got[0].Text != "5 January: closed in week; moved to 6 January" {
			t.Errorf("the closed days are %+v", got)
		}
		w.change(weekend("2000-01-05", "2000-02-01")) // which changes nothing of this
		if got := w.get(s).NextFire.Format(time.DateTime); got != "2000-01-06 06:00:00" {
			t.Errorf("then the next tick is %s", got)
		}
		// The next Wednesday is closed in time, and fires on Tuesday.
		w.change(weekend("2000-01-05", "2000-01-12"))
		w.runUntil(start.AddDate(0, 0, 10).Add(12 * time.Hour)) // Tuesday, 11 January, 12:00
		w.changes = nil
		w.change(weekend("2000-01-05", "2000-01-12", "2000-03-01"))
		w.set(schedule.Schedule{Name: s, Cron: "0 0 6 ? * WED", Calendar: "week", OnClosed: "previous", Jitter: time.Second})
		w.runUntil(start.AddDate(0, 0, 20))
		if got := w.fires(); !slices.Equal(got, []string{"Thu 06 06:00", "Tue 11 06:00", "Wed 19 06:00"}) {
			t.Errorf("it has fired on %q", got)
		}
		if !slices.Equal(w.changes, []string{"set s"}) {
			t.Errorf("then the journal has %q", w.changes)
		}
	})
}

// TestPreviousOfNew: a schedule that is set on a closed day or right before one treats its ticks
// alike. Hours of a day are told from each other.
func TestPreviousOfNew(t *testing.T) {
	for hours, want := range map[int]string{
		-1: "Mon 03 06:00,Mon 03 18:00,Tue 04 06:00,Tue 04 18:00", // Sunday, 23:00
		10: "Mon 03 18:00,Tue 04 06:00,Tue 04 18:00",              // Monday, 10:00, when nothing is closed
		34: "Tue 04 18:00,Thu 06 06:00,Thu 06 18:00",              // Tuesday, 10:00
		50: "Thu 06 06:00,Thu 06 18:00,Fri 07 06:00",              // Wednesday, 02:00
		60: "Thu 06 06:00,Thu 06 18:00,Fri 07 06:00,Fri 07 18:00", // Wednesday, 12:00
	} {
		inWorld(t, func(w *world, start time.Time) {
			w.change(weekend("2000-01-05"))
			time.Sleep(48*time.Hour + time.Duration(hours)*time.Hour)
			w.set(schedule.Schedule{Name: "s", Cron: "0 0 6,18 * * ?", Calendar: "week", OnClosed: "previous"})
			w.runUntil(start.AddDate(0, 0, 7))
			got := w.fires()
			if list := strings.Split(want, ","); !slices.Equal(got[:min(len(got), len(list))], list) {
				t.Errorf("set %d hours after Monday began: %q, want %s", hours, got, want)
			}
		})
	}
}

// TestEnableWithCalendar: a schedule that is enabled goes by its calendar.
func TestEnableWithCalendar(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.change(weekend())
		w.set(schedule.Schedule{Name: "s", Cron: "0 0 6 * * ?", Calendar: "week", OnClosed: "previous", Disabled: true})
		if len(w.changes) != 1 || !w.get("s").MovesFrom.IsZero() {
			t.Errorf("of one that is disabled it is noted: %q", w.changes)
		}
		s, err := w.Enable(w.t.Context(), "s", courier.By{})
		if err != nil || s.NextFire.Format(time.DateOnly) != "2000-01-03" {
			t.Errorf("%v, %v", s.NextFire, err)
		}
	})
}

// TestReportOfCalendar: a report says which days are left out or moved, and why.
func TestReportOfCalendar(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.change(weekend("2000-01-05"))
		w.set(schedule.Schedule{Name: "s", Cron: "0 0 6 ? * WED", Calendar: "week", OnClosed: "next"})
		list, _, err := w.Reports(w.t.Context(), store.Job, "job", 10, 2, nil)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		want := []string{`ticks of days that the calendar "week" closes are moved to the next open day`, "5 January: closed in week; moved to 6 January"}
		if got := fmt.Sprint(list[0].Next); got != "[2000-01-06 06:00:00 +0000 UTC 2000-01-12 06:00:00 +0000 UTC]" || !slices.Equal(list[0].Notes, want) {
			t.Errorf("%s, %q", got, list[0].Notes)
		}
		delete(w.calendars, "week")
		list, _, err = w.Reports(w.t.Context(), store.Job, "job", 10, 2, nil)
		if err != nil || !strings.Contains(list[0].Problem, `there is no calendar "week"`) {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestPlanAfterChange: what is no tick any more, since the calendar was changed, does not fire.
func TestPlanAfterChange(t *testing.T) {
	noon := time.Date(2026, 12, 25, 12, 0, 0, 0, time.UTC)
	later := func(after time.Time) time.Time { // every day from the 28th on
		if first := noon.AddDate(0, 0, 3); after.Before(first) {
			return first
		}
		return after.AddDate(0, 0, 1)
	}
	d := &schedule.Due{Record: schedule.Record{Name: "s", Body: json.RawMessage("{}"), Status: schedule.Status{Next: noon}}}
	p := schedule.PlanTicks(d, &schedule.Schedule{Calendar: "c"}, later, noon)
	if len(p.Ticks) != 0 || !p.Status.Next.Equal(noon.AddDate(0, 0, 3)) || !p.Status.Due.Equal(p.Status.Next) {
		t.Errorf("%+v", p)
	}
	if p = schedule.PlanTicks(d, &schedule.Schedule{}, later, noon); len(p.Ticks) != 1 {
		t.Errorf("without a calendar: %+v", p)
	}
}
