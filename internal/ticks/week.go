package ticks

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/schedule"
)

// A Week has the ticks of schedules on some days. Each day begins at midnight in Zone.
type Week struct {
	Zone *time.Location
	Days []Day
	// Notes describe the effects of clock changes on these days.
	Notes []ClockNote
	// Closed are the closed days on which a schedule would have ticks, at most [MaxClosed] of
	// each schedule.
	Closed []Closed
	// Cut says that there are more schedules. A caller that passes only some sets it.
	Cut bool
}

// A Day has the schedules that fire on a day, in the order of their first ticks.
type Day struct {
	Begin time.Time // midnight, or the first instant of a day that has no midnight
	Ticks []DayTicks
}

// DayTicks are the ticks of a schedule on a day, by its current definition.
type DayTicks struct {
	Schedule, Job, Chain string
	Zone                 *time.Location // of the schedule
	// First are the first ticks, at most [MaxDayTicks]. Last is the last tick that was counted.
	First []time.Time
	Last  time.Time
	// Count is the number of ticks, or the minimum number if More is set.
	Count int
	More  bool
	// Every is the time between two ticks; 0 if it varies.
	Every time.Duration
	// Moved says from which closed days the first ticks were moved.
	Moved []string
}

// Limits of a [Week].
const (
	MaxDayTicks = 4
	maxCounted  = 1440   // ticks of a schedule on a day
	maxWeek     = 40_000 // ticks of all schedules; beyond that only the first of each day are counted
)

// OfDays returns the ticks of the schedules that are enabled and not paused, for a number of days
// starting with the day of an instant. If a schedule has many ticks they are only counted, so
// that a schedule that fires every second leaves room for the others. The error is the error of
// ctx.
func OfDays(ctx context.Context, tables Tables, list []schedule.Schedule, from time.Time, days int, zone *time.Location) (Week, error) {
	w := Week{Zone: zone, Days: make([]Day, days)}
	year, month, day := from.In(zone).Date()
	midnight := func(i int) time.Time { return time.Date(year, month, day+i, 0, 0, 0, 0, zone) }
	counted := 0
	for i := range w.Days {
		w.Days[i].Begin = midnight(i)
	}
	for i := range list {
		s := &list[i]
		if s.Disabled || s.Paused {
			continue
		}
		table, err := tables(s)
		if err != nil {
			if err := ctx.Err(); err != nil {
				return w, err
			}
			continue
		}
		t := newTicking(s, midnight(0).Add(-24*time.Hour), midnight(days).Add(24*time.Hour))
		t.goBy(table)
		w.Closed = append(w.Closed, closedOf(s.Name, table, midnight(0), midnight(days))...)
		for d := range w.Days {
			bound := maxCounted
			if counted > maxWeek {
				bound = MaxDayTicks + 1
			}
			ticks := t.day(midnight(d), midnight(d+1), bound)
			if ticks.Count > 0 {
				w.Days[d].Ticks = append(w.Days[d].Ticks, ticks)
			}
			if s.Every == 0 || s.Calendar != "" {
				counted += ticks.Count
			}
		}
		w.Notes = append(w.Notes, t.within(midnight(0), midnight(days))...)
		if err := ctx.Err(); err != nil {
			return w, err
		}
	}
	for i := range w.Days {
		slices.SortStableFunc(w.Days[i].Ticks, func(x, y DayTicks) int { return x.First[0].Compare(y.First[0]) })
	}
	slices.SortStableFunc(w.Notes, func(x, y ClockNote) int { return strings.Compare(x.Day, y.Day) })
	return w, nil
}

// day returns the ticks of a schedule from one instant up to, but not including, another. It
// examines at most most ticks.
func (t *ticking) day(from, to time.Time, most int) DayTicks {
	ticks := DayTicks{Schedule: t.Name, Job: t.Job, Chain: t.Chain, Zone: t.zone}
	even := true
	for at := t.table.Next(from.Add(-1)); !at.IsZero() && at.Before(to); at = t.table.Next(at) {
		if ticks.Count == most {
			ticks.More = true
			break
		}
		switch gap := at.Sub(ticks.Last); {
		case ticks.Count == 1:
			ticks.Every = gap
		case ticks.Count > 1 && gap != ticks.Every:
			even = false
		}
		if ticks.Count++; ticks.Count <= MaxDayTicks {
			ticks.First = append(ticks.First, at)
			if moved := t.table.Moved(at); moved != "" && !slices.Contains(ticks.Moved, moved) {
				ticks.Moved = append(ticks.Moved, moved)
			}
		}
		ticks.Last = at
		if t.Every > 0 && t.Calendar == "" && ticks.Count == MaxDayTicks {
			return ticks.rest(t.Schedule, to)
		}
	}
	if !even {
		ticks.Every = 0
	}
	return ticks
}

// rest adds the ticks of an interval up to the end of the day.
func (ticks DayTicks) rest(s *schedule.Schedule, to time.Time) DayTicks {
	to = to.Add(-1)
	if !s.Ends.IsZero() && s.Ends.Before(to) {
		to = s.Ends
	}
	more := to.Sub(ticks.Last) / s.Every
	ticks.Count += int(more)
	ticks.Last = ticks.Last.Add(more * s.Every)
	ticks.Every = s.Every
	return ticks
}
