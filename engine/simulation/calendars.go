package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// calendars are those of a world, of which the first day ends in its middle: steady, which nobody
// changes, and restless, which people change.
type calendars struct {
	days     [4]string // the first, and those that follow it
	midnight time.Time // when the second begins

	mu     sync.Mutex
	closed []string        // in steady
	was    map[string]bool // the days that restless has or may have left open
}

func newCalendars() *calendars {
	const day = 24 * time.Hour
	c := &calendars{was: make(map[string]bool), midnight: time.Now().UTC().Truncate(day).Add(day)}
	for i := range c.days {
		c.days[i] = time.Now().UTC().AddDate(0, 0, i).Format(time.DateOnly)
	}
	return c
}

// draw returns closed days.
func (c *calendars) draw(r *rand.Rand) []string {
	return [][]string{nil, c.days[:1], c.days[1:2], c.days[1:3]}[r.IntN(4)]
}

// definition returns a calendar with closed days.
func (c *calendars) definition(name string, closed []string) calendar.Calendar {
	x := calendar.Calendar{Name: name}
	for _, day := range closed {
		x.Closed = append(x.Closed, calendar.Closing{Date: day})
	}
	return x
}

// note notes that a calendar is about to be set.
func (c *calendars) note(name string, closed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "steady" {
		c.closed = closed
	} else {
		for _, day := range c.days {
			c.was[day] = c.was[day] || !slices.Contains(closed, day)
		}
	}
}

// setCalendars sets both calendars before there is anything else.
func (w *world) setCalendars(r *rand.Rand, s store.Store) {
	c, e := w.plans.calendars, engine.New(s, nil, nil)
	for _, name := range []string{"steady", "restless"} {
		closed := c.draw(r)
		c.note(name, closed)
		if _, err := e.Calendars().Set(context.Background(), c.definition(name, closed), courier.By{}); err != nil {
			w.wrong("set calendar %q: %v", name, err)
		}
	}
}

// changeCalendar changes the restless calendar until calm comes.
func (w *world) changeCalendar(r *rand.Rand) {
	for w.wait(spread(r, w.mix.trouble/8) + time.Millisecond) {
		select {
		case <-w.calmed:
			return
		default:
		}
		c := w.plans.calendars
		closed := c.draw(r)
		c.note("restless", closed) // whether the call is lost or not
		err := w.through(w.client.process.Load(), func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Calendars().Set(ctx, c.definition("restless", closed), courier.By{Actor: "operator"})
			return err
		})
		if err == nil {
			w.note("operator", "calendar", int64(len(closed)))
		}
	}
}

// choose gives most schedules a calendar, and has them end after the end of the day; one that is
// kept goes by the calendar that nobody changes.
func (c *calendars) choose(r *rand.Rand, s *schedule.Schedule, kept bool) {
	if c == nil || !s.At.IsZero() || r.IntN(5) == 0 {
		return
	}
	s.Calendar, s.OnClosed = "restless", []schedule.OnClosed{"", schedule.ClosedSkip, schedule.ClosedNext, schedule.ClosedPrevious}[r.IntN(4)]
	if kept || r.IntN(2) == 0 {
		s.Calendar = "steady"
	}
	s.Ends = c.midnight.Add(time.Duration(5+r.IntN(30)) * time.Second)
}

// isTick works out, without package schedule, whether a schedule has a tick: by the steady calendar,
// or by some version of the restless one.
func (c *calendars) isTick(s *schedule.Schedule, at time.Time) bool {
	if c == nil || s.Calendar == "" {
		return isTick(s, at)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	day := func(at time.Time) string { return at.UTC().Format(time.DateOnly) }
	shifted := func(n int) bool { return within(s, at) && isTick(s, at.AddDate(0, 0, n)) }
	if s.Calendar == "restless" {
		if !c.was[day(at)] {
			return false
		}
		for n := -3; n <= 3; n++ {
			if n == 0 || s.OnClosed == schedule.ClosedNext && n < 0 || s.OnClosed == schedule.ClosedPrevious {
				if shifted(n) {
					return true
				}
			}
		}
		return false
	}
	closed := func(at time.Time) bool { return slices.Contains(c.closed, day(at)) }
	if closed(at) {
		return false
	}
	step := map[schedule.OnClosed]int{schedule.ClosedNext: -1, schedule.ClosedPrevious: 1}[s.OnClosed]
	for n := 0; n == 0 || step != 0 && closed(at.AddDate(0, 0, n)); n += step {
		if shifted(n) {
			return true
		}
		if step == 0 {
			break
		}
	}
	return false
}

// within reports whether an instant is between the bounds of a schedule.
func within(s *schedule.Schedule, at time.Time) bool {
	return (s.Starts.IsZero() || !at.Before(s.Starts)) && (s.Ends.IsZero() || !at.After(s.Ends))
}
