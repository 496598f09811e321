package desk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/schedule"
)

// A week has the ticks of each day in the zone that was asked for, and counts many.
func TestWeek(t *testing.T) {
	in(t, func(w *world) {
		v := w.desk.Visitor(access.Principal{ID: "ann"})
		for _, s := range []schedule.Schedule{
			{Name: "night", Cron: "0 30 2 ? * *", Zone: "Europe/Berlin"},
			{Name: "seconds", Every: time.Second, Ends: time.Date(2027, 3, 28, 0, 0, 9, 0, time.UTC)},
			{Name: "uneven", Cron: "0 0 1,2,4,8,9 ? * *"},
			{Name: "always", Cron: "* * * ? * *"},
			{Name: "off", Every: time.Hour, Disabled: true},
		} {
			s.Job = "other"
			_, err := w.Engine.Schedules().Set(w.Context(), s, courier.By{})
			w.ok(err)
		}
		berlin, err := time.LoadLocation("Europe/Berlin")
		w.ok(err)
		week, err := v.Week(w.Context(), time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC), 3, berlin)
		w.ok(err)
		var got []string
		for _, d := range week.Days {
			got = append(got, d.Begin.Format("2006-01-02 15:04 MST"))
			for _, x := range d.Ticks {
				got = append(got, fmt.Sprintf("%s %s %d %v %v %s", x.Schedule, x.First[0].In(berlin).Format("15:04:05"), x.Count, x.More, x.Every, x.Last.In(berlin).Format("15:04:05")))
			}
		}
		want := []string{
			"2027-03-27 00:00 CET", "always 00:00:00 1440 true 1s 00:23:59", "seconds 00:00:00 86400 false 1s 23:59:59", "uneven 02:00:00 5 false 0s 10:00:00", "night 02:30:00 1 false 0s 02:30:00",
			"2027-03-28 00:00 CET", "always 00:00:00 1440 true 1s 00:23:59", "seconds 00:00:00 3610 false 1s 01:00:09", "uneven 03:00:00 5 false 0s 11:00:00", "night 03:30:00 1 false 0s 03:30:00",
			"2027-03-29 00:00 CEST", "always 00:00:00 1440 true 1s 00:23:59", "night 02:30:00 1 false 0s 02:30:00", "uneven 03:00:00 5 false 0s 11:00:00",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the days are\n%q\nand not\n%q", got, want)
		}
		if len(week.Notes) != 1 || week.Notes[0].Schedule != "night" || week.Notes[0].Day != "2027-03-28" {
			t.Errorf("the notes are %v", week.Notes)
		}
	})
}

// However many schedules fire however often, a week is made in bounded time.
func TestWeekBounded(t *testing.T) {
	in(t, func(w *world) {
		for i := range 300 {
			_, err := w.Engine.Schedules().Set(w.Context(), schedule.Schedule{Name: fmt.Sprint("s", i), Job: "other", Cron: "* * * ? * *"}, courier.By{})
			w.ok(err)
		}
		week, err := w.desk.Visitor(access.Principal{ID: "ann"}).Week(w.Context(), time.Now(), 7, time.UTC)
		w.ok(err)
		ticks := 0
		for _, d := range week.Days {
			if len(d.Ticks) != 300 {
				t.Fatalf("%d schedules", len(d.Ticks))
			}
			for _, x := range d.Ticks {
				if ticks += x.Count; !x.More {
					t.Fatalf("%s: all %d", x.Schedule, x.Count)
				}
			}
		}
		if ticks > 70_000 {
			t.Errorf("%d ticks were counted", ticks)
		}
	})
}
