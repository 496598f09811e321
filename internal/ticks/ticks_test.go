package ticks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/ticks"
	"github.com/courierhq/courier/schedule"
)

// tables are those of a service without a store: ticks come from the definition alone.
var tables = schedule.New(schedule.Options{Calendar: holiday}).Timetables(context.Background())

// holiday is a calendar in which Saturday is closed; in sundays Sunday is.
func holiday(_ context.Context, name string) (*calendar.Days, error) {
	c := calendar.Calendar{Name: name, Zone: "Europe/Berlin", Weekend: []string{"saturday"}}
	if name == "sundays" {
		c.Weekend = []string{"sunday"}
	}
	return calendar.New(c)
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// A week has the ticks of each day in the zone that was asked for, and counts many.
func TestWeek(t *testing.T) {
	zone := berlin(t)
	week, err := ticks.OfDays(t.Context(), tables, []schedule.Schedule{
		{Name: "always", Cron: "* * * ? * *"},
		{Name: "night", Cron: "0 30 2 ? * *", Zone: "Europe/Berlin"},
		{Name: "seconds", Every: time.Second, Starts: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), Ends: time.Date(2027, 3, 28, 0, 0, 9, 0, time.UTC)},
		{Name: "uneven", Cron: "0 0 1,2,4,8,9 ? * *"},
		{Name: "off", Cron: "* * * ? * *", Disabled: true},
		{Name: "paused", Cron: "* * * ? * *", Paused: true},
		{Name: "wrong", Cron: "none"},
	}, time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC), 3, zone)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range week.Days {
		got = append(got, d.Begin.Format("2006-01-02 15:04 MST"))
		for _, x := range d.Ticks {
			got = append(got, fmt.Sprintf("%s %s %d %v %v %s", x.Schedule, x.First[0].In(zone).Format("15:04:05"), x.Count, x.More, x.Every, x.Last.In(zone).Format("15:04:05")))
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
}

// However many schedules fire however often, a week is made in bounded time.
func TestWeekBounded(t *testing.T) {
	var list []schedule.Schedule
	for i := range 300 {
		list = append(list, schedule.Schedule{Name: fmt.Sprint("s", i), Cron: "* * * ? * *"})
	}
	week, err := ticks.OfDays(t.Context(), tables, list, time.Now(), 7, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range week.Days {
		if len(d.Ticks) != 300 {
			t.Fatalf("%d schedules", len(d.Ticks))
		}
		for _, x := range d.Ticks {
			if n += x.Count; !x.More {
				t.Fatalf("%s: all %d", x.Schedule, x.Count)
			}
		}
	}
	if n > 70_000 {
		t.Errorf("%d ticks were counted", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ticks.OfDays(ended, tables, list, time.Now(), 7, time.UTC); !errors.Is(err, context.Canceled) {
		t.Errorf("for nobody who waits: %v", err)
	}
}

// A calendar has the ticks of all schedules in their order, each also in the zone of its
// schedule, and ends with the last one that it has room for.
func TestBetween(t *testing.T) {
	from := time.Date(2027, 3, 27, 12, 0, 0, 0, time.UTC)
	c := ticks.Between(tables, []schedule.Schedule{
		{Name: "closing", Job: "j", Cron: "0 30 2,5 ? * *", Zone: "Europe/Berlin"},
		{Name: "noon", Chain: "c", Cron: "0 0 12 ? * *"},
		{Name: "off", Cron: "* * * ? * *", Disabled: true},
	}, from, from.Add(24*time.Hour))
	var got []string
	for _, x := range c.Ticks {
		got = append(got, fmt.Sprintf("%s %s %s%s %v", x.Schedule, x.Local.Format(time.DateTime), x.Job, x.Chain, x.Note != ""))
	}
	want := []string{"noon 2027-03-27 12:00:00 c false", "closing 2027-03-28 03:30:00 j true", "closing 2027-03-28 05:30:00 j false"}
	if fmt.Sprint(got) != fmt.Sprint(want) || c.Cut {
		t.Errorf("the ticks are\n%q\nand not\n%q", got, want)
	}
	c = ticks.Between(tables, []schedule.Schedule{{Name: "always", Cron: "* * * ? * *"}}, from, from.Add(24*time.Hour))
	if len(c.Ticks) != ticks.MaxTicks || !c.Cut {
		t.Errorf("of many: %d, cut %v", len(c.Ticks), c.Cut)
	}
}

// A change of the clocks is told of the schedules whose ticks it moves.
func TestClocks(t *testing.T) {
	change := time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		days       int // before the change, from when 14 days are looked at
		cron, zone string
		want       string
		calendar   string
	}{
		{13, "0 30 2 * * ?", "Europe/Berlin", "", "sundays"}, // which are closed, as that of the change
		{13, "0 30 2 * * ?", "Europe/Berlin", "2027-03-28: 02:30 doesn't exist in Europe/Berlin; fires at 03:30", "holiday"},
		{13, "0 30 2 * * ?", "Europe/Berlin", "2027-03-28: 02:30 doesn't exist in Europe/Berlin; fires at 03:30", ""},
		{16, "0 30 2 * * ?", "Europe/Berlin", "", ""},
		{-1, "0 30 2 * * ?", "Europe/Berlin", "", ""},
		{13, "0 30 1 * * ?", "Europe/Berlin", "", ""},
		{13, "0 30 2 * * ?", "", "", ""},
		{13, "", "Europe/Berlin", "", ""},
		{13, "0 30 2 * * ?", "Mars/Base", "", ""},
	} {
		from := change.AddDate(0, 0, -c.days)
		note, found := ticks.NewClocks(tables, from, from.AddDate(0, 0, 14)).First(&schedule.Schedule{Name: "s", Cron: c.cron, Zone: c.zone, Calendar: c.calendar})
		if got := note.Day + ": " + note.Text; found != (c.want != "") || found && (!strings.HasPrefix(got, c.want) || note.Schedule != "s") {
			t.Errorf("%q in %q, %d days before: %v %q", c.cron, c.zone, c.days, found, got)
		}
	}
}

// The closed days of a calendar are told with what becomes of their ticks, and so is where a tick
// that was moved comes from.
func TestClosedDays(t *testing.T) {
	zone := berlin(t)
	friday := time.Date(2026, 11, 27, 0, 0, 0, 0, zone)
	list := []schedule.Schedule{
		{Name: "moved", Cron: "0 30 5 * * ?", Zone: "Europe/Berlin", Calendar: "holiday", OnClosed: schedule.ClosedPrevious},
		{Name: "late", Cron: "0 0 6 ? * SAT", Zone: "Europe/Berlin", Calendar: "holiday", OnClosed: schedule.ClosedNext},
		{Name: "skipped", Cron: "0 0 7 * * ?", Zone: "Europe/Berlin", Calendar: "holiday"},
	}
	c := ticks.Between(tables, list, friday, friday.AddDate(0, 0, 3))
	var got []string
	for _, x := range c.Ticks {
		got = append(got, x.Schedule+" "+x.Local.Format("Mon 15:04")+" "+x.Note)
	}
	want := []string{
		"moved Fri 05:30 ", "skipped Fri 07:00 ", "moved Sun 05:30 ", "late Sun 06:00 moved from 28 November: closed in holiday (Saturday)", "skipped Sun 07:00 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the ticks are\n%q\nand not\n%q", got, want)
	}
	closed := []ticks.Closed{
		{"moved", "2026-11-28", "28 November: closed in holiday (Saturday); moved to 27 November"},
		{"late", "2026-11-28", "28 November: closed in holiday (Saturday); moved to 29 November"},
		{"skipped", "2026-11-28", "28 November: closed in holiday (Saturday); left out"},
	}
	if !slices.Equal(c.Closed, closed) {
		t.Errorf("the closed days are %q", c.Closed)
	}
	week, err := ticks.OfDays(t.Context(), tables, list, friday, 3, zone)
	if err != nil || !slices.Equal(week.Closed, closed) || len(week.Days[0].Ticks) != 2 || len(week.Days[1].Ticks) != 0 || len(week.Days[2].Ticks) != 3 {
		t.Errorf("the week is %+v, %v", week, err)
	}
	if moved := week.Days[2].Ticks[1].Moved; len(moved) != 1 || moved[0] != "moved from 28 November: closed in holiday (Saturday)" {
		t.Errorf("on Sunday it says %q", moved)
	}
}
