package ticks

import (
	"time"

	"github.com/courierhq/courier/schedule"
)

// A ClockNote says what a change of the clocks means for a schedule.
type ClockNote struct {
	Schedule, Day, Text string // the day is as in 2027-03-28, in the zone of the schedule
}

// Clocks finds what changes of the clocks between two instants mean for schedules. Only one
// goroutine may use it at a time.
type Clocks struct {
	from, to time.Time
	tables   Tables
	change   map[string]bool // by zone: its clocks change between from and to
}

// NewClocks returns the changes of the clocks from an instant on and before another. It asks tables
// for schedules that go by a calendar only.
func NewClocks(tables Tables, from, to time.Time) *Clocks {
	return &Clocks{from, to, tables, make(map[string]bool)}
}

// First returns what the first change of the clocks means for a schedule, and whether ticks
// are moved, left out or repeated by one. Schedules without a zone, and those of an interval,
// meet none.
func (c *Clocks) First(s *schedule.Schedule) (first ClockNote, found bool) {
	if s.Cron == "" || s.Zone == "" {
		return ClockNote{}, false
	}
	soon, known := c.change[s.Zone]
	if !known {
		zone, err := time.LoadLocation(s.Zone)
		soon = err == nil && changes(zone, c.from, c.to)
		c.change[s.Zone] = soon
	}
	if !soon {
		return ClockNote{}, false
	}
	t := newTicking(s, c.from, c.to)
	if s.Calendar != "" {
		table, err := c.tables(s)
		if err != nil {
			return ClockNote{}, false // which the schedule itself says
		}
		t.goBy(table)
	}
	for _, n := range t.within(c.from, c.to) {
		if first.Day == "" || n.Day < first.Day {
			first = n
		}
	}
	return first, first.Day != ""
}

// changes reports whether the clocks change between two instants.
func changes(zone *time.Location, from, to time.Time) bool {
	_, was := from.In(zone).Zone()
	for at := from; at.Before(to); at = at.Add(24 * time.Hour) {
		if _, now := at.Add(24 * time.Hour).In(zone).Zone(); now != was {
			return true
		}
	}
	return false
}

// within returns the notes on changes of the clocks between two instants.
func (t *ticking) within(from, to time.Time) (list []ClockNote) {
	for day, text := range t.notes {
		at, err := time.ParseInLocation(time.DateOnly, day, t.zone)
		if err == nil && at.AddDate(0, 0, 1).After(from) && at.Before(to) {
			list = append(list, ClockNote{t.Name, day, text})
		}
	}
	return list
}
