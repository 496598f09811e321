// Package calendar lays out the ticks of schedules in a week: a column for each day, and a row for
// each hour with ticks.
package calendar

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/ticks"
)

// A Calendar is a table with a column for each day, and a row for each hour with ticks.
type Calendar struct {
	Zone    string
	Zones   []string // to choose from: UTC, the zone of the calendar, and the zones of the schedules
	Caption string
	Days    []Day
	Often   []Cell // schedules that fire often on a day; nil if there are none
	Hours   []Hour
	Notes   []ticks.ClockNote
	Closed  []ticks.Closed // the first days that calendars close
	Cut     bool           // there are more schedules than were read
}

// A Day is the head of a column.
type Day struct {
	Name, Date, Href string
	Today            bool
}

// An Hour is a row.
type Hour struct {
	Name  string
	Cells []Cell
}

// A Cell has the ticks of a day, or of an hour of a day.
type Cell struct {
	Marks []Mark
	More  int // number of marks that are not shown
	Href  string
}

// A Mark is a tick, or all ticks of a schedule on a day.
type Mark struct {
	Name, Href string
	At         time.Time
	Clock      string // in the zone of the calendar
	Own        string // in the zone of the schedule, if it is another zone
	Past       bool
	Moved      string // the closed days from which it was moved
	Often      string // such as "every 5 min, 288"; empty for a tick
}

// Links are the references in a calendar.
type Links struct {
	Day      func(date string) string // to a day alone, such as 2026-11-20
	Schedule func(name string) string
}

// The number of marks in a cell.
const (
	weekMarks = 5
	dayMarks  = 100 // of a calendar of one day
	maxClosed = 50  // closed days of schedules that are listed
)

// New lays out the ticks of one day or more by the clock of w.Zone. Now is the present instant.
func New(w *ticks.Week, now time.Time, links Links) *Calendar {
	b := &builder{zone: w.Zone, now: now, links: links, most: weekMarks, hours: make([]Hour, 24), often: make([]Cell, len(w.Days))}
	c := &Calendar{Zone: w.Zone.String(), Notes: w.Notes, Closed: w.Closed[:min(len(w.Closed), maxClosed)], Cut: w.Cut}
	first := w.Days[0].Begin.Format("Monday, 2 January 2006")
	c.Caption = fmt.Sprintf("What fires from %s on, in the time zone %s", first, c.Zone)
	if len(w.Days) == 1 {
		c.Caption = fmt.Sprintf("What fires on %s, in the time zone %s", first, c.Zone)
		b.most = dayMarks
	}
	today := now.In(w.Zone).Format(time.DateOnly)
	zones := map[string]bool{"UTC": true, c.Zone: true}
	for i := range w.Days {
		d := &w.Days[i]
		date := d.Begin.Format(time.DateOnly)
		head := Day{d.Begin.Format("Mon"), d.Begin.Format("2 Jan"), links.Day(date), date == today}
		c.Days = append(c.Days, head)
		b.often[i].Href = head.Href
		for j := range d.Ticks {
			zones[d.Ticks[j].Zone.String()] = true
			b.place(&d.Ticks[j], i)
		}
	}
	for h := range b.hours {
		if b.hours[h].Cells == nil {
			continue
		}
		for i := range b.hours[h].Cells {
			b.hours[h].Cells[i].Href = c.Days[i].Href
			slices.SortStableFunc(b.hours[h].Cells[i].Marks, func(x, y Mark) int { return x.At.Compare(y.At) })
		}
		b.hours[h].Name = fmt.Sprintf("%02d:00", h)
		c.Hours = append(c.Hours, b.hours[h])
	}
	if slices.ContainsFunc(b.often, func(c Cell) bool { return len(c.Marks) > 0 }) {
		c.Often = b.often
	}
	c.Zones = slices.Sorted(maps.Keys(zones))
	return c
}

// A builder puts ticks into cells.
type builder struct {
	zone  *time.Location
	now   time.Time
	links Links
	most  int    // the number of marks in a cell
	hours []Hour // all 24; hours without ticks have no cells
	often []Cell // of the days
}

// place puts the ticks of a schedule on a day into cells. Many ticks become one mark for the day.
func (b *builder) place(t *ticks.DayTicks, day int) {
	m := Mark{Name: t.Schedule, Href: b.links.Schedule(t.Schedule), At: t.First[0], Clock: t.First[0].In(b.zone).Format("15:04")}
	m.Moved = strings.Join(t.Moved, "; ")
	own := t.Zone.String() != b.zone.String()
	if t.Count > ticks.MaxDayTicks {
		m.Often = oftenText(t, b.zone)
		b.often[day].add(m, b.most)
		return
	}
	for _, at := range t.First {
		if m.At, m.Clock, m.Past = at, clock(at, b.zone), at.Before(b.now); own {
			m.Own = clock(at, t.Zone) + " " + t.Zone.String()
		}
		h := &b.hours[at.In(b.zone).Hour()]
		if h.Cells == nil {
			h.Cells = make([]Cell, len(b.often))
		}
		h.Cells[day].add(m, b.most)
	}
}

func (c *Cell) add(m Mark, most int) {
	if len(c.Marks) < most {
		c.Marks = append(c.Marks, m)
	} else {
		c.More++
	}
}

// clock returns the time of a clock in a zone, with seconds unless they are zero.
func clock(t time.Time, zone *time.Location) string {
	if t = t.In(zone); t.Second() != 0 {
		return t.Format("15:04:05")
	}
	return t.Format("15:04")
}

// oftenText says how often a schedule fires on a day, such as "every 5 min, 288".
func oftenText(t *ticks.DayTicks, zone *time.Location) string {
	n := format.Count(t.Count)
	if t.More {
		n += " or more"
	}
	if t.Every == 0 {
		return n + " times, " + clock(t.First[0], zone) + " to " + clock(t.Last, zone)
	}
	text := "every " + format.Span(t.Every) + ", " + n
	if time.Duration(t.Count)*t.Every < 23*time.Hour && !t.More {
		text += ", " + clock(t.First[0], zone) + " to " + clock(t.Last, zone)
	}
	return text
}
