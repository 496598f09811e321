package ticks

import (
	"time"

	"github.com/courierhq/courier/schedule"
)

// A ClockNote says what a change of the clocks means for a schedule.
type ClockNote struct {
	Schedule, Day, Text string // the day is as in 2027-03-28, in the zone of the schedule
}

// Clocks finds the effects on schedules of clock changes between two instants. Only one goroutine
// may use it at a time.
type Clocks struct {
	from, to time.Time
	tables   Tables
	change   map[string]bool // by zone: its clocks change between from and to
}

// NewClocks returns the Clocks for one instant up to, but not including, another. It calls tables
// only for schedules that use a calendar.
func NewClocks(tables Tables, from, to time.Time) *Clocks {
	return &Clocks{from, to, tables, make(map[string]bool)}
}

// First returns the effect of the first clock change on a schedule, and whether it moves, skips
// or repeats ticks. Clock changes do not affect schedules without a zone or with an interval.
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
			return ClockNote{}, false // the schedule itself reports it
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

// within returns the notes about clock changes between two instants.
func (t *ticking) within(from, to time.Time) (list []ClockNote) {
	for day, text := range t.notes {
		at, err := time.ParseInLocation(time.DateOnly, day, t.zone)
		if err == nil && at.AddDate(0, 0, 1).After(from) && at.Before(to) {
			list = append(list, ClockNote{t.Name, day, text})
		}
	}
	return list
}
