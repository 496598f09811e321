package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/schedule"
)

// bank is a calendar that closes weekends and some days around the turn of the year 2026.
var bank = calendar.Calendar{
	Name: "bank", Zone: "Europe/Berlin", Weekend: []string{"saturday", "sunday"},
	Closed: []calendar.Closing{{Yearly: "12-25", Title: "Christmas Day"}, {Yearly: "01-01"}},
}

// tableOf returns the timetable of a schedule that goes by a calendar.
func tableOf(t *testing.T, c calendar.Calendar, s schedule.Schedule) *schedule.Timetable {
	t.Helper()
	v := schedule.New(schedule.Options{Calendar: func(context.Context, string) (*calendar.Days, error) { return calendar.New(c) }})
	table, err := v.Timetables(t.Context())(&s)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ticksOf returns the first n ticks after an instant, in a zone.
func ticksOf(table *schedule.Timetable, after time.Time, n int, zone string) (list []string) {
	l, _ := time.LoadLocation(zone)
	for len(list) < n {
		if after = table.Next(after); after.IsZero() {
			return append(list, "none")
		}
		list = append(list, after.In(l).Format("Mon 01-02 15:04"))
	}
	return list
}

// TestOnClosed: ticks of closed days are left out, or keep their local time on an open day, and
// those that fall together fire once. That holds over the turn of the year and changes of the
// clocks.
func TestOnClosed(t *testing.T) {
	week := calendar.Calendar{Name: "week", Weekend: []string{"saturday", "sunday"}}
	in := func(zone string) calendar.Calendar { c := week; c.Zone = zone; return c }
	at := func(text string) time.Time {
		got, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, c := range []struct {
		name     string
		calendar calendar.Calendar
		s        schedule.Schedule
		after    string
		want     []string
	}{
		{"daily, left out", bank, schedule.Schedule{Cron: "0 30 5 * * ?", Zone: "Europe/Berlin"}, "2026-12-23 12:00", []string{"Thu 12-24 05:30", "Mon 12-28 05:30", "Tue 12-29 05:30"}},
		{"daily, next", bank, schedule.Schedule{Cron: "0 30 5 * * ?", Zone: "Europe/Berlin", OnClosed: "next"}, "2026-12-23 12:00", []string{"Thu 12-24 05:30", "Mon 12-28 05:30", "Tue 12-29 05:30"}},
		{"weekly, left out", bank, schedule.Schedule{Cron: "0 0 7 ? * FRI", Zone: "Europe/Berlin"}, "2026-12-18 12:00", []string{"Fri 01-08 07:00", "Fri 01-15 07:00"}},
		{"weekly, next", bank, schedule.Schedule{Cron: "0 0 7 ? * FRI", Zone: "Europe/Berlin", OnClosed: "next"}, "2026-12-18 12:00", []string{"Mon 12-28 07:00", "Mon 01-04 07:00", "Fri 01-08 07:00"}},
		{"weekly, previous", bank, schedule.Schedule{Cron: "0 0 7 ? * FRI", Zone: "Europe/Berlin", OnClosed: "previous"}, "2026-12-18 12:00", []string{"Thu 12-24 07:00", "Thu 12-31 07:00", "Fri 01-08 07:00"}},
		{"one of its own between", bank, schedule.Schedule{Cron: "0 0 7,9 ? * SAT,MON", Zone: "Europe/Berlin", OnClosed: "next"}, "2026-12-24 12:00", []string{"Mon 12-28 07:00", "Mon 12-28 09:00", "Mon 01-04 07:00"}},
		{"of several days", week, schedule.Schedule{Cron: "0 0 6 ? * SAT,7", OnClosed: "next"}, "2026-12-04 12:00", []string{"Mon 12-07 06:00", "Mon 12-14 06:00"}},
		{"end of the month, previous", bank, schedule.Schedule{Cron: "0 0 18 L * ?", Zone: "Europe/Berlin", OnClosed: "previous"}, "2027-01-15 12:00", []string{"Fri 01-29 18:00", "Fri 02-26 18:00", "Wed 03-31 18:00"}},
		{"within the gap on a closed day", in("Europe/Berlin"), schedule.Schedule{Cron: "0 30 2 * * ?", Zone: "Europe/Berlin", OnClosed: "next"}, "2027-03-26 12:00", []string{"Mon 03-29 02:30", "Tue 03-30 02:30"}},
		{"into the gap", calendar.Calendar{Name: "c", Zone: "Europe/Berlin", Weekend: []string{"saturday"}}, schedule.Schedule{Cron: "0 30 2 ? * SAT", Zone: "Europe/Berlin", OnClosed: "next"}, "2027-03-26 12:00", []string{"Sun 03-28 03:30", "Sun 04-04 02:30"}},
		{"into the gap, from both sides", calendar.Calendar{Name: "c", Zone: "Europe/Berlin", Weekend: []string{"saturday"}}, schedule.Schedule{Cron: "0 30 2,3 ? * SAT", Zone: "Europe/Berlin", OnClosed: "next"}, "2027-03-26 12:00", []string{"Sun 03-28 03:30", "Sun 04-04 02:30", "Sun 04-04 03:30"}},
		{"before what the gap moves", calendar.Calendar{Name: "c", Zone: "Europe/Berlin", Weekend: []string{"saturday"}}, schedule.Schedule{Cron: "0 10/20 2,3 ? * SAT", Zone: "Europe/Berlin", OnClosed: "next"}, "2027-03-26 12:00", []string{"Sun 03-28 03:10", "Sun 03-28 03:30", "Sun 03-28 03:50", "Sun 04-04 02:10"}},
		{"into the hour that comes twice", calendar.Calendar{Name: "c", Zone: "Europe/Berlin", Weekend: []string{"saturday"}}, schedule.Schedule{Cron: "0 30 2,3 ? * SAT", Zone: "Europe/Berlin", OnClosed: "next"}, "2026-10-23 12:00", []string{"Sun 10-25 02:30", "Sun 10-25 03:30", "Sun 11-01 02:30"}},
		{"an interval", week, schedule.Schedule{Every: 12 * time.Hour, OnClosed: "next"}, "2026-12-04 01:00", []string{"Fri 12-04 12:00", "Mon 12-07 00:00", "Mon 12-07 12:00", "Tue 12-08 00:00"}},
		{"an interval of half a week", week, schedule.Schedule{Every: 84 * time.Hour, OnClosed: "previous"}, "2026-12-03 00:00", []string{"Fri 12-04 12:00", "Thu 12-10 00:00", "Fri 12-11 12:00"}},
		{"the day of the calendar's zone", in("Asia/Tokyo"), schedule.Schedule{Cron: "0 0 18 ? * FRI", Zone: "UTC"}, "2026-12-03 00:00", []string{"none"}},
		{"starts on a closed day", week, schedule.Schedule{Cron: "0 0 6 * * ?", OnClosed: "next", Starts: at("2026-12-06 07:00")}, "2026-12-01 00:00", []string{"Mon 12-07 06:00", "Tue 12-08 06:00"}},
		{"starts behind its tick", week, schedule.Schedule{Cron: "0 0 6 ? * SUN", OnClosed: "next", Starts: at("2026-12-06 07:00")}, "2026-12-01 00:00", []string{"Mon 12-14 06:00"}},
		{"ends before it is moved to", week, schedule.Schedule{Cron: "0 0 6 ? * SAT", OnClosed: "next", Ends: at("2026-12-12 12:00")}, "2026-12-01 00:00", []string{"Mon 12-07 06:00", "none"}},
		{"ends before its tick", week, schedule.Schedule{Cron: "0 0 6 ? * SAT", OnClosed: "previous", Ends: at("2026-12-11 12:00")}, "2026-12-01 00:00", []string{"Fri 12-04 06:00", "none"}},
		{"on closed days alone", week, schedule.Schedule{Cron: "0 0 6 ? * SAT"}, "2026-12-01 00:00", []string{"none"}},
		{"an open Saturday", calendar.Calendar{Name: "c", Weekend: []string{"saturday", "sunday"}, OpenDays: []string{"2026-11-28"}}, schedule.Schedule{Cron: "0 0 6 ? * SAT", OnClosed: "previous"}, "2026-11-27 12:00", []string{"Sat 11-28 06:00", "Fri 12-04 06:00"}},
	} {
		c.s.Name, c.s.Calendar = "s", c.calendar.Name
		zone := c.calendar.Zone
		got := ticksOf(tableOf(t, c.calendar, c.s), at(c.after), len(c.want), zone)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A model has the ticks of a schedule of cron that goes by a calendar in the same zone: it goes
// over all days and writes down what fires, which package schedule does not.
func model(t *testing.T, c calendar.Calendar, s schedule.Schedule, from, to calendar.Date) (list []time.Time) {
	t.Helper()
	days, err := calendar.New(c)
	if err != nil {
		t.Fatal(err)
	}
	every := func(s schedule.Schedule, date calendar.Date, zone *time.Location) (list []time.Time) {
		s.Calendar, s.OnClosed = "", ""
		raw := tableOf(t, c, s)
		for at := raw.Next(date.Begin(zone).Add(-1)); !at.IsZero() && at.Before((date + 1).Begin(zone)); at = raw.Next(at) {
			list = append(list, at)
		}
		return list
	}
	// shift is the instant at which the clocks of a day show a time, as a cron expression of that
	// time alone has it.
	shift := func(date calendar.Date, clock time.Time) time.Time {
		one := schedule.Schedule{Name: "s", Zone: c.Zone, Cron: fmt.Sprintf("%d %d %d %d %d ? %d", clock.Second(), clock.Minute(), clock.Hour(), date.Begin(time.UTC).Day(), date.Begin(time.UTC).Month(), date.Begin(time.UTC).Year())}
		return tableOf(t, c, one).Next(date.Begin(days.Zone()).Add(-1))
	}
	wall := s
	wall.Zone = ""
	for date := from; date < to; date++ {
		if days.Open(date) {
			list = append(list, every(s, date, days.Zone())...)
			continue
		}
		target := days.Next(date)
		if s.OnClosed == schedule.ClosedPrevious {
			target = days.Previous(date)
		}
		if s.OnClosed == schedule.ClosedSkip || s.OnClosed == "" {
			continue
		}
		for _, clock := range every(wall, date, time.UTC) {
			list = append(list, shift(target, clock))
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	list = slices.CompactFunc(list, time.Time.Equal)
	return list
}

// TestModel: the ticks of random schedules, calendars and zones are those of the model.
func TestModel(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	changes := []struct{ zone, day string }{ // of the clocks, but for the last two
		{"Europe/Berlin", "2026-03-29"}, {"Europe/Berlin", "2026-10-25"}, {"America/New_York", "2026-03-08"}, {"America/New_York", "2026-11-01"},
		{"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2018-02-18"}, {"Australia/Lord_Howe", "2026-04-05"}, {"Australia/Lord_Howe", "2026-10-04"},
		{"America/Havana", "2026-03-08"}, {"America/Havana", "2026-11-01"}, {"UTC", "2026-10-25"}, {"Asia/Tokyo", "2026-06-10"},
	}
	for n := range 200 {
		change := changes[r.IntN(len(changes))]
		c := calendar.Calendar{Name: "c", Zone: change.zone, Weekend: [][]string{nil, {"saturday", "sunday"}, {"sunday"}, {"friday", "saturday", "sunday", "monday"}, {"saturday"}, {"monday"}}[r.IntN(6)]}
		middle, err := calendar.ParseDate(change.day)
		if err != nil {
			t.Fatal(err)
		}
		from, to := middle-8, middle+8
		for date := from; date < to; date++ {
			if r.IntN(4) == 0 {
				c.Closed = append(c.Closed, calendar.Closing{Date: date.String()})
			}
		}
		s := schedule.Schedule{
			Name: "s", Zone: c.Zone, Calendar: "c", OnClosed: []schedule.OnClosed{"", "skip", "next", "previous"}[r.IntN(4)],
			Cron: []string{"0 30 2 * * ?", "0 10/25 0-3 * * ?", "0 0,30 0,1,2,3,23 ? * SAT,SUN,MON", "0 15 2,12 ? * FRI", "30 59 23 * * ?", "0 0 0 * * ?", "0 */40 * * * ?"}[r.IntN(7)],
		}
		days, err := calendar.New(c)
		if err != nil {
			t.Fatal(err)
		}
		// The days at the ends get ticks of others, which the model has not looked at.
		first, last := days.Next(days.Next(from)), days.Previous(days.Previous(to))
		begin, end := first.Begin(days.Zone()), last.Begin(days.Zone())
		if !begin.Before(end) {
			continue
		}
		var want, got []string
		for _, at := range model(t, c, s, from, to) {
			if !at.Before(begin) && at.Before(end) {
				want = append(want, at.UTC().Format(time.RFC3339))
			}
		}
		table := tableOf(t, c, s)
		for at := table.Next(begin.Add(-1)); !at.IsZero() && at.Before(end); at = table.Next(at) {
			got = append(got, at.UTC().Format(time.RFC3339))
			if len(got) > 20_000 {
				t.Fatalf("case %d does not end", n)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("case %d: %+v\n%+v\n got %q\nwant %q", n, c, s, got, want)
		}
		// From any instant the next tick is the same as from the one before.
		for range 20 {
			after := begin.Add(time.Duration(r.Int64N(int64(end.Sub(begin)))))
			next := table.Next(after).UTC().Format(time.RFC3339)
			i, _ := slices.BinarySearch(got, after.UTC().Add(time.Second).Truncate(time.Second).Format(time.RFC3339))
			if i < len(got) && got[i] != next {
				t.Fatalf("case %d: after %v comes %s, and not %s", n, after, next, got[i])
			}
		}
	}
}

// TestWhy: what is moved or left out says why.
func TestWhy(t *testing.T) {
	after := time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
	daily := schedule.Schedule{Name: "s", Cron: "0 0 7 ? * FRI,SAT", Zone: "Europe/Berlin", Calendar: "bank", OnClosed: "next"}
	table := tableOf(t, bank, daily)
	at := table.Next(after)
	if got, want := table.Moved(at), "moved from 25 December: closed in bank (Christmas Day), and from another day"; got != want {
		t.Errorf("%v: %q, want %q", at, got, want)
	}
	own := schedule.Schedule{Name: "s", Cron: "0 0 7 * * ?", Zone: "Europe/Berlin", Calendar: "bank", OnClosed: "next"}
	if got := tableOf(t, bank, own).Moved(at); got != "" {
		t.Errorf("a tick of the day itself: %q", got)
	}
	for policy, want := range map[schedule.OnClosed]string{
		"skip":     "25 December: closed in bank (Christmas Day); left out|26 December: closed in bank (Saturday); left out",
		"next":     "25 December: closed in bank (Christmas Day); moved to 28 December|26 December: closed in bank (Saturday); moved to 28 December",
		"previous": "25 December: closed in bank (Christmas Day); moved to 24 December|26 December: closed in bank (Saturday); moved to 24 December",
	} {
		daily.OnClosed = policy
		var got []string
		for _, day := range tableOf(t, bank, daily).Closed(after, after.AddDate(0, 0, 7), 10) {
			got = append(got, day.Text)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: %q", policy, got)
		}
	}
	if got := tableOf(t, bank, daily).Closed(after, after.AddDate(1, 0, 0), 3); len(got) != 3 {
		t.Errorf("%d closed days", len(got))
	}
}

// TestCalendarProblems: an unknown calendar, a policy without one and the like are told.
func TestCalendarProblems(t *testing.T) {
	inWorld(t, func(w *world, start time.Time) {
		w.calendars = map[string]calendar.Calendar{"week": {Name: "week", Weekend: []string{"saturday", "sunday"}}, "bank": bank}
		for want, s := range map[string]schedule.Schedule{
			`calendar: there is no calendar "wek"; there are none`:                           {Name: "s", Cron: "0 0 6 * * ?", Calendar: "wek"},
			`on_closed: unknown policy "nxt"; did you mean "next"?`:                          {Name: "s", Cron: "0 0 6 * * ?", Calendar: "week", OnClosed: "nxt"},
			"on_closed: it is for schedules with a calendar only; name one in calendar":      {Name: "s", Cron: "0 0 6 * * ?", OnClosed: "next"},
			"calendar: it is for cron and every_seconds only; a single instant is not moved": {Name: "s", At: start.Add(time.Hour), Calendar: "week"},
			`calendar: it never fires: all its ticks are on days that "week" closes`:         {Name: "s", Cron: "0 0 6 ? * SAT", Calendar: "week"},
		} {
			s.Job = "job"
			if _, err := w.Set(w.t.Context(), s, courier.By{}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			problems, _, err := w.Check(w.t.Context(), s)
			if err != nil || len(problems) != 1 || problems[0].Field+": "+problems[0].Message != want {
				t.Errorf("the check: %q, %v, want %s", problems, err, want)
			}
		}
		_, warnings, err := w.Check(w.t.Context(), schedule.Schedule{Name: "s", Job: "job", Cron: "0 0 6 * * ?", Calendar: "bank"})
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Message, "those of Europe/Berlin, and the times of cron are those of UTC") {
			t.Errorf("%q, %v", warnings, err)
		}
		w.unread = errors.New("the store fails")
		if _, err := w.Set(w.t.Context(), schedule.Schedule{Name: "s", Job: "job", Cron: "0 0 6 * * ?", Calendar: "bank"}, courier.By{}); !errors.Is(err, w.unread) {
			t.Errorf("%v", err)
		}
	})
}

// TestExplainOnOpenDays: an explanation has the times that a calendar leaves, and says which days it
// closes until the last of them.
func TestExplainOnOpenDays(t *testing.T) {
	w := newWorld(t)
	w.calendars = map[string]calendar.Calendar{"bank": bank}
	after := time.Date(2026, 12, 18, 12, 0, 0, 0, time.UTC)
	x, err := w.ExplainOnOpenDays(t.Context(), "0 0 7 ? * FRI", "Europe/Berlin", "bank", schedule.ClosedPrevious, after, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := "At 07:00:00 on Friday\nnext: Thu 2026-12-24 07:00:00 CET\nnext: Thu 2026-12-31 07:00:00 CET\n" +
		"note: 25 December: closed in bank (Christmas Day); moved to 24 December\nnote: 1 January: closed in bank; moved to 31 December\n"
	if x.String() != want {
		t.Errorf("%s", x)
	}
	after = time.Date(2027, 3, 20, 12, 0, 0, 0, time.UTC)
	for _, cron := range []string{"0 30 2 * * ?", "0 30 2 ? * SUN"} { // the clocks change on Sundays, which are closed
		x, err := w.ExplainOnOpenDays(t.Context(), cron, "Europe/Berlin", "bank", schedule.ClosedNext, after, 1)
		if err != nil || slices.ContainsFunc(x.Notes, func(s string) bool { return strings.Contains(s, "doesn't exist") }) {
			t.Errorf("%s: %q, %v", cron, x.Notes, err)
		}
	}
	if plain, err := schedule.ExplainCron("0 30 2 * * ?", "Europe/Berlin", after, 1); err != nil || len(plain.Notes) == 0 {
		t.Errorf("%q, %v", plain.Notes, err)
	}
	for want, ask := range map[string][3]string{
		`explain cron: calendar: there is no calendar "bnk"`:                  {"0 0 7 ? * FRI", "bnk", ""},
		`explain cron: on_closed: unknown policy "nxt"; did you mean "next"?`: {"0 0 7 ? * FRI", "bank", "nxt"},
		"explain cron: on_closed: it is for schedules with a calendar only":   {"0 0 7 ? * FRI", "", "next"},
		"explain cron: ": {"0 0 25 ? * FRI", "bank", ""},
	} {
		if _, err := w.ExplainOnOpenDays(t.Context(), ask[0], "", ask[1], schedule.OnClosed(ask[2]), after, 2); !errors.Is(err, courier.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.unread = errors.New("the store fails")
	if _, err := w.ExplainOnOpenDays(t.Context(), "0 0 7 ? * FRI", "", "bank", "", after, 2); !errors.Is(err, w.unread) {
		t.Errorf("%v", err)
	}
}
