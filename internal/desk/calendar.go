package desk

import (
	"context"
	"strings"
	"time"

	"github.com/courierhq/courier/schedule"
)

// Bounds of [Visit.Calendar].
const (
	MaxCalendar = 31 * 24 * time.Hour
	MaxTicks    = 5000
)

// A Calendar has the ticks of schedules between two instants, the earliest first.
type Calendar struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Ticks []Tick    `json:"ticks"`
	// Cut says that there are more: the calendar ends with the last tick that it has, or
	// there are more schedules than were read.
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

// Calendar returns the ticks of the enabled schedules that the visitor may see, from an
// instant on and before another, at most [MaxTicks].
func (v *Visit) Calendar(ctx context.Context, from, to time.Time) (Calendar, error) {
	c := Calendar{From: from.UTC(), To: to.UTC(), Ticks: []Tick{}}
	list, next, err := v.Schedules(ctx, "", most)
	if err != nil {
		return c, err
	}
	c.Cut = next != ""
	var all []*ticking
	for i := range list {
		s := &list[i]
		if s.Disabled || s.Paused {
			continue
		}
		t := newTicking(s, c.From, c.To)
		if t.at = v.d.tickAfter(s, c.From.Add(-1)); !t.at.IsZero() {
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
		if first.at = v.d.tickAfter(first.Schedule, first.at); first.at.IsZero() {
			first.at = c.To
		}
	}
	return c, ctx.Err()
}

// tickAfter returns the next tick of a schedule; zero if there is none, or none can be
// found out: [Desk.Attention] has those that can't fire.
func (d *Desk) tickAfter(s *schedule.Schedule, after time.Time) time.Time {
	at, err := d.e.Schedules().Next(*s, after)
	if err != nil {
		return time.Time{}
	}
	return at
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

func (t *ticking) tick() Tick {
	local := t.at.In(t.zone)
	day := local.Format(time.DateOnly)
	note := t.notes[day]
	delete(t.notes, day)
	return Tick{Schedule: t.Name, Job: t.Job, Chain: t.Chain, At: t.at.UTC(), Local: local, Zone: t.zone.String(), Note: note}
}

// noticed is how long before it a change of the clocks is an entry of [Attention].
const noticed = 14 * 24 * time.Hour

// clocks finds what changes of the clocks mean for schedules soon.
type clocks struct {
	from, to time.Time
	change   map[string]bool // by zone: its clocks change between from and to
}

func newClocks(at time.Time) *clocks {
	return &clocks{at, at.Add(noticed), make(map[string]bool)}
}

// next returns what the first change of the clocks means for a schedule, if ticks are moved,
// left out or repeated by it; otherwise "".
func (c *clocks) next(s *schedule.Schedule) string {
	if s.Cron == "" || s.Zone == "" {
		return ""
	}
	soon, known := c.change[s.Zone]
	if !known {
		zone, err := time.LoadLocation(s.Zone)
		soon = err == nil && changes(zone, c.from, c.to)
		c.change[s.Zone] = soon
	}
	if !soon {
		return ""
	}
	t := newTicking(s, c.from, c.to)
	var first ClockNote
	for _, n := range t.within(c.from, c.to) {
		if first.Day == "" || n.Day < first.Day {
			first = n
		}
	}
	if first.Day == "" {
		return ""
	}
	return first.Day + ": " + first.Text
}
