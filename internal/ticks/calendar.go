// Package ticks finds the instants at which schedules fire, by their definitions of today:
// one after another as a [Calendar], or counted by day as a [Week]. It also has what changes of
// the clocks mean for schedules ([Clocks]). It reads no store: the caller
// passes the schedules.
package ticks

import (
	"strings"
	"time"

	"github.com/courierhq/courier/schedule"
)

// A Next returns the first tick of a schedule after an instant, and the zero time if there is
// none: [schedule.Service.Next]. A schedule for which it fails has no ticks.
type Next func(s schedule.Schedule, after time.Time) (time.Time, error)

// after returns the next tick of a schedule; zero if there is none, or none can be found out.
func (next Next) after(s *schedule.Schedule, after time.Time) time.Time {
	at, err := next(*s, after)
	if err != nil {
		return time.Time{}
	}
	return at
}

// MaxTicks is how many ticks a [Calendar] has at most.
const MaxTicks = 5000

// A Calendar has the ticks of schedules between two instants, the earliest first.
type Calendar struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Ticks []Tick    `json:"ticks"`
	// Cut says that there are more: the calendar ends with the last tick that it has. A
	// caller that passes some schedules only sets it too.
	Cut bool `json:"cut,omitempty"`
}

// A Tick is an instant at which a schedule fires, by its definition of today. An execution
// begins later by the jitter, and the policies for overlap and misfires may skip it.
type Tick struct {
	Schedule string    `json:"schedule"`
	Job      string    `json:"job,omitempty"`
	Chain    string    `json:"chain,omitempty"`
	At       time.Time `json:"at"`    // in UTC
	Local    time.Time `json:"local"` // the same in the zone of the schedule
	Zone     string    `json:"time_zone"`
	// Note says what a change of the clocks on that day means for the schedule. The first
	// tick of the day has it.
	Note string `json:"note,omitempty"`
}

// Between returns the ticks of the schedules that are enabled and not paused, from an instant
// on and before another, at most [MaxTicks].
func Between(next Next, list []schedule.Schedule, from, to time.Time) Calendar {
	c := Calendar{From: from.UTC(), To: to.UTC(), Ticks: []Tick{}}
	var all []*ticking
	for i := range list {
		s := &list[i]
		if s.Disabled || s.Paused {
			continue
		}
		t := newTicking(s, c.From, c.To)
		if t.at = next.after(s, c.From.Add(-1)); !t.at.IsZero() {
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
		if first.at = next.after(first.Schedule, first.at); first.at.IsZero() {
			first.at = c.To
		}
	}
	return c
}

// A ticking is a schedule with its next tick.
type ticking struct {
	*schedule.Schedule
	at    time.Time
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

func (t *ticking) tick() Tick {
	local := t.at.In(t.zone)
	day := local.Format(time.DateOnly)
	note := t.notes[day]
	delete(t.notes, day)
	return Tick{Schedule: t.Name, Job: t.Job, Chain: t.Chain, At: t.at.UTC(), Local: local, Zone: t.zone.String(), Note: note}
}
