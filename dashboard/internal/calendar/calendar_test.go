package calendar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/calendar"
	"github.com/courierhq/courier/internal/ticks"
)

// zone returns a time zone.
func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// week returns some days from 2026-11-16 on, in a zone.
func week(z *time.Location, days int) *ticks.Week {
	w := &ticks.Week{Zone: z}
	for i := range days {
		w.Days = append(w.Days, ticks.Day{Begin: time.Date(2026, 11, 16+i, 0, 0, 0, 0, z)})
	}
	return w
}

var links = calendar.Links{Day: func(date string) string { return "/day/" + date }, Schedule: func(name string) string { return "/s/" + name }}

// TestCalendar: a tick stands in the hour of the calendar's zone, with the clock of its own zone if
// that is another. There are rows only for hours in which something fires.
func TestCalendar(t *testing.T) {
	berlin, tokyo := zone(t, "Europe/Berlin"), zone(t, "Asia/Tokyo")
	w := week(berlin, 7)
	at := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 11, day, hour, minute, second, 0, berlin)
	}
	w.Days[1].Ticks = []ticks.DayTicks{
		{Schedule: "late", Zone: berlin, Count: 1, First: []time.Time{at(17, 8, 45, 30)}},
		{Schedule: "tokyo", Zone: tokyo, Count: 2, First: []time.Time{at(17, 8, 0, 0), at(17, 23, 0, 0)}},
	}
	c := calendar.New(w, at(17, 8, 30, 0), links)
	if c.Caption != "What fires from Monday, 16 November 2026 on, in the time zone Europe/Berlin" || !slices.Equal(c.Zones, []string{"Asia/Tokyo", "Europe/Berlin", "UTC"}) || c.Often != nil {
		t.Errorf("%q, %q, %v", c.Caption, c.Zones, c.Often)
	}
	if d := c.Days[1]; d != (calendar.Day{Name: "Tue", Date: "17 Nov", Href: "/day/2026-11-17", Today: true}) || c.Days[0].Today {
		t.Errorf("%+v", d)
	}
	var got []string
	for _, h := range c.Hours {
		if len(h.Cells) != 7 || len(h.Cells[0].Marks) > 0 || h.Cells[6].Href != "/day/2026-11-22" {
			t.Errorf("%+v", h)
		}
		for _, m := range h.Cells[1].Marks {
			got = append(got, fmt.Sprint(h.Name, " ", m.Name, " ", m.Clock, " ", m.Own, " ", m.Past, " ", m.Href))
		}
	}
	if want := []string{"08:00 tokyo 08:00 16:00 Asia/Tokyo true /s/tokyo", "08:00 late 08:45:30  false /s/late", "23:00 tokyo 23:00 07:00 Asia/Tokyo false /s/tokyo"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestDay: a cell shows five marks in a calendar of several days and a hundred of one day, and how
// many more there are.
func TestDay(t *testing.T) {
	for days, shown := range map[int]int{7: 5, 1: 100} {
		w := week(time.UTC, days)
		for i := range 107 {
			w.Days[0].Ticks = append(w.Days[0].Ticks, ticks.DayTicks{Schedule: fmt.Sprint(i), Zone: time.UTC, Count: 1, First: []time.Time{time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)}})
		}
		c := calendar.New(w, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), links)
		cell := c.Hours[0].Cells[0]
		if len(c.Hours) != 1 || len(cell.Marks) != shown || cell.More != 107-shown || strings.Contains(c.Caption, " on, in") != (days > 1) {
			t.Errorf("%d days: %d marks, %d more, %q", days, len(cell.Marks), cell.More, c.Caption)
		}
	}
}

// TestOften: what fires often on a day is one mark of the day, which says how often.
func TestOften(t *testing.T) {
	first := time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC)
	for want, d := range map[string]ticks.DayTicks{
		"every 5 min, 288":             {Count: 288, Every: 5 * time.Minute},
		"every 1 s, 1,000 or more":     {Count: 1000, Every: time.Second, More: true},
		"every 1 h, 5, 08:00 to 12:00": {Count: 5, Every: time.Hour, Last: first.Add(4 * time.Hour)},
		"7 times, 08:00 to 17:30:15":   {Count: 7, Last: first.Add(9*time.Hour + 30*time.Minute + 15*time.Second)},
	} {
		w := week(time.UTC, 2)
		d.Zone, d.First = time.UTC, []time.Time{first}
		w.Days[0].Ticks = []ticks.DayTicks{d}
		c := calendar.New(w, first, links)
		if len(c.Hours) > 0 || len(c.Often) != 2 || len(c.Often[0].Marks) != 1 || c.Often[0].Marks[0].Often != want {
			t.Errorf("%+v, want %q", c.Often, want)
		}
	}
}
