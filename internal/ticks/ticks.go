// Package ticks finds the instants at which schedules fire, by their current definitions: one
// after another as a [TickList], or counted by day as a [Week]. It also finds the effects of
// clock changes on schedules ([Clocks]). It reads no store: the caller passes the schedules.
package ticks

import (
	"strings"
	"time"

	"github.com/courierhq/courier/schedule"
)

// Tables returns the timetable of a schedule, like the function of [schedule.Service.Timetables].
// A schedule for which it fails has no ticks.
type Tables func(s *schedule.Schedule) (*schedule.Timetable, error)

// MaxTicks is the maximum number of ticks in a [TickList].
const MaxTicks = 5000

// A TickList has the ticks of schedules between two instants, the earliest first.
type TickList struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Ticks []Tick    `json:"ticks"`
	// Closed are the closed days on which a schedule would have ticks, at most [MaxClosed] of
	// each schedule.
	Closed []Closed `json:"closed,omitempty"`
	// Cut says that there are more ticks after the last one in the list. A caller that passes
	// only some schedules sets it too.
	Cut bool `json:"cut,omitempty"`
}

// MaxClosed is the maximum number of closed days of a schedule in a [TickList] or a [Week].
const MaxClosed = 31

// A Closed is a day on which the ticks of a schedule are skipped or moved, because its calendar
// closes the day.
type Closed struct {
	Schedule string `json:"schedule"`
	Day      string `json:"day"` // as in 2026-12-25, in the zone of the calendar
	// Note says why, and what happens to the ticks.
	Note string `json:"note"`
}

// closedOf returns the closed days of a schedule between two instants.
func closedOf(name string, table *schedule.Timetable, from, to time.Time) (list []Closed) {
	for _, day := range table.Closed(from, to, MaxClosed) {
		list = append(list, Closed{name, day.Date.String(), day.Text})
	}
	return list
}

// A Tick is an instant at which a schedule fires, by its current definition. An execution begins
// later by the jitter, and the policies for overlap and misfires may skip it.
type Tick struct {
	Schedule string    `json:"schedule"`
	Job      string    `json:"job,omitempty"`
	Chain    string    `json:"chain,omitempty"`
	At       time.Time `json:"at"`    // in UTC
	Local    time.Time `json:"local"` // the same in the zone of the schedule
	Zone     string    `json:"time_zone"`
	// Note describes the effect of a clock change on that day, for the first tick of the day, or
	// names the closed day from which the tick was moved.
	Note string `json:"note,omitempty"`
}

// Between returns the ticks of the schedules that are enabled and not paused, from one instant up
// to, but not including, another. It returns at most [MaxTicks].
func Between(tables Tables, list []schedule.Schedule, from, to time.Time) TickList {
	c := TickList{From: from.UTC(), To: to.UTC(), Ticks: []Tick{}}
	var all []*ticking
	for i := range list {
		s := &list[i]
		if s.Disabled || s.Paused {
			continue
		}
		table, err := tables(s)
		if err != nil {
			continue
		}
		t := newTicking(s, c.From, c.To)
		t.goBy(table)
		c.Closed = append(c.Closed, closedOf(s.Name, table, c.From, c.To)...)
		if t.at = table.Next(c.From.Add(-1)); !t.at.IsZero() {
			all = append(all, t)
		}
	}
	for len(all) > 0 {
		first := all[0]
		for _, t := range all[1:] {
			if t.at.Before(first.at) {
				first = t
			}
		}
		if !first.at.Before(c.To) {
			break
		}
		if len(c.Ticks) == MaxTicks {
			c.Cut = true
			break
		}
		c.Ticks = append(c.Ticks, first.tick())
		if first.at = first.table.Next(first.at); first.at.IsZero() {
			first.at = c.To
		}
	}
	return c
}

// A ticking is a schedule with its next tick.
type ticking struct {
	*schedule.Schedule
	at    time.Time
	table *schedule.Timetable
	zone  *time.Location
	notes map[string]string // by the day, as in 2027-03-28
}

func newTicking(s *schedule.Schedule, from, to time.Time) *ticking {
	t := &ticking{Schedule: s, zone: time.UTC}
	if zone, err := time.LoadLocation(s.Zone); err == nil {
		t.zone = zone
	}
	if s.Cron == "" || !changes(t.zone, from, to) {
		return t
	}
	x, err := schedule.ExplainCron(s.Cron, s.Zone, from, 1)
	if err != nil {
		return t
	}
	t.notes = make(map[string]string)
	for _, note := range x.Notes {
		day, text, _ := strings.Cut(note, ": ")
		t.notes[day] = text
	}
	return t
}

// goBy sets the timetable of a schedule. A clock change on a closed day does not affect the
// schedule.
func (t *ticking) goBy(table *schedule.Timetable) {
	t.table = table
	for day := range t.notes {
		date, err := time.ParseInLocation(time.DateOnly, day, t.zone)
		if err == nil && !table.Open(date.Add(12*time.Hour)) {
			delete(t.notes, day)
		}
	}
}

func (t *ticking) tick() Tick {
	local := t.at.In(t.zone)
	day := local.Format(time.DateOnly)
	note := t.notes[day]
	delete(t.notes, day)
	if moved := t.table.Moved(t.at); moved != "" {
		if note != "" {
			moved += "; " + note
		}
		note = moved
	}
	return Tick{Schedule: t.Name, Job: t.Job, Chain: t.Chain, At: t.at.UTC(), Local: local, Zone: t.zone.String(), Note: note}
}
