package store

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
)

// A Calendar returns the first tick after an instant, zero if there is none.
type Calendar func(after time.Time) time.Time

// A TickRule is what [PlanTicks] needs of a schedule's definition.
type TickRule struct {
	Overlap    courier.Overlap
	Misfire    courier.Misfire
	Window     time.Duration // for fire_all
	Jitter     time.Duration
	PauseAfter int
	Once       bool // the calendar has one tick, after which the schedule is disabled
}

// What governs when ticks fire.
const (
	// MisfireAfter is how late a tick may be seen without having been missed.
	MisfireAfter = time.Minute
	// DefaultWindow is that of fire_all where none is given.
	DefaultWindow = 24 * time.Hour
	// WaitAgain is how often a schedule is looked at whose tick waits for an
	// execution to end.
	WaitAgain = 5 * time.Second
	maxTicks  = 100 // that fire at one look; the others follow at once
	maxOpen   = 100 // executions that are watched
)

// A TickPlan is what a schedule does when it was looked at.
type TickPlan struct {
	Ticks  []time.Time           // those that fire, in order
	Cancel []courier.ExecutionID // what has to make room
	// State is the schedule's afterwards, but for the executions of Ticks: the
	// caller adds them to Open, and the last of them is LastExecution.
	State ScheduleState
	After time.Duration // see [Firing]
}

// PlanTicks says what a schedule does that is looked at at an instant, by the
// store's clock. Which ticks there are, the calendar says; the rest follows from
// the rule:
//
// Ticks that come up to a minute late fire each. Where the first is later, the
// misfire policy says which of them do: the last one (fire_once), all within
// the window (fire_all), or the last one if that itself is not late (skip).
//
// While an execution has not ended, the overlap policy says what becomes of
// them: each fires (allow), none does (skip), the first waits for the end
// (queue_one), or the last fires, and what runs is cancelled (cancel_running).
// Where nothing runs and several ticks fire at once, it goes by the same: skip
// and cancel_running let the last one fire, and with queue_one the first fires
// and the second waits.
//
// Executions that have ended count as failures or reset their count. A schedule
// that reaches PauseAfter is paused before anything fires.
func PlanTicks(s *DueSchedule, r TickRule, c Calendar, now time.Time) TickPlan {
	p := TickPlan{State: s.ScheduleState}
	st := &p.State
	st.Problem = ""
	st.Open, st.Failures = settleOpen(s)
	if st.Disabled || st.Paused || st.Next.IsZero() {
		st.Due = time.Time{}
		return p
	}
	if r.PauseAfter > 0 && st.Failures >= r.PauseAfter {
		st.Paused, st.Waiting, st.Next, st.Due = true, false, time.Time{}, time.Time{}
		st.Reason = fmt.Sprintf("%d executions in a row have failed", st.Failures)
		return p
	}
	busy := slices.Clone(st.Open)
	if last := s.Outcomes[st.LastExecution]; last != "" && !last.Ended() && !slices.Contains(busy, st.LastExecution) {
		busy = append(busy, st.LastExecution) // somebody has resumed it
	}
	t := ticker{name: s.Name, rule: r, next: c, now: now}
	var next time.Time
	if st.Waiting { // those that came meanwhile are left out
		p.Ticks, next = []time.Time{st.Next}, t.next(t.last(st.Next))
	} else {
		p.Ticks, next = t.due(st.Next)
	}
	if wait := p.overlap(r.Overlap, busy); !wait.IsZero() {
		st.Waiting, st.Next, p.After = true, wait, WaitAgain
		return p
	}
	st.Waiting, st.Next, st.Due = false, next, time.Time{}
	switch {
	case !next.IsZero():
		st.Due = t.at(next)
	case r.Once && len(p.Ticks) > 0:
		st.Disabled, st.Reason = true, "it has fired"
	case r.Once:
		st.Disabled, st.Reason = true, "its time has passed, and it did not fire"
	}
	if n := len(p.Ticks); n > 0 {
		st.Last = p.Ticks[n-1]
	}
	return p
}

// overlap drops ticks that do not fire because others run, or will. It returns
// the one that waits, if any.
func (p *TickPlan) overlap(policy courier.Overlap, busy []courier.ExecutionID) (wait time.Time) {
	n := len(p.Ticks)
	switch {
	case n == 0:
	case policy == courier.OverlapSkip && len(busy) > 0:
		p.Ticks = nil
	case policy == courier.OverlapSkip:
		p.Ticks = p.Ticks[n-1:]
	case policy == courier.OverlapCancel:
		p.Ticks, p.Cancel = p.Ticks[n-1:], busy
	case policy == courier.OverlapQueue && len(busy) > 0:
		wait, p.Ticks = p.Ticks[0], nil
	case policy == courier.OverlapQueue && n > 1:
		wait, p.Ticks = p.Ticks[1], p.Ticks[:1]
		p.State.Last = p.Ticks[0]
	}
	return wait
}

// settleOpen returns the executions that have not ended, and how many of those
// before them failed in a row.
func settleOpen(s *DueSchedule) (open []courier.ExecutionID, failures int) {
	failures = s.Failures
	for _, id := range s.Open {
		switch state := s.Outcomes[id]; {
		case state == courier.Completed:
			failures = 0
		case state == courier.Failed:
			failures++
		case state != "" && !state.Ended():
			open = append(open, id)
		}
	}
	return open[max(0, len(open)-maxOpen):], failures
}

// A ticker looks at the ticks of a schedule.
type ticker struct {
	name string
	rule TickRule
	next Calendar
	now  time.Time
}

// at is when a tick fires: it and the schedule's jitter.
func (t *ticker) at(tick time.Time) time.Time { return TickAt(t.name, tick, t.rule.Jitter) }

// TickAt is when a tick of a schedule fires, with up to so much jitter: all
// engines come to the same instant.
func TickAt(schedule string, tick time.Time, jitter time.Duration) time.Time {
	if jitter <= 0 || tick.IsZero() {
		return tick
	}
	h := fnv.New64a()
	h.Write([]byte(schedule))
	h.Write(strconv.AppendInt(nil, tick.UnixMicro(), 10))
	x := h.Sum64() // whose last step mixes badly
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return tick.Add(time.Duration(x % uint64(jitter)).Truncate(time.Microsecond))
}

// isDue reports whether a tick is there and has come.
func (t *ticker) isDue(tick time.Time) bool { return !tick.IsZero() && !t.at(tick).After(t.now) }

// due returns the ticks that fire, beginning with the first that has not yet,
// and the next one.
func (t *ticker) due(first time.Time) (ticks []time.Time, next time.Time) {
	if !t.isDue(first) {
		return nil, first
	}
	if t.now.Sub(t.at(first)) <= MisfireAfter {
		return t.from(first)
	}
	if t.rule.Misfire == courier.MisfireAll {
		window := t.rule.Window
		if window <= 0 {
			window = DefaultWindow
		}
		if begin := t.now.Add(-window); first.Before(begin) {
			first = t.next(begin.Add(-time.Nanosecond))
		}
		return t.from(first)
	}
	last := t.last(first)
	next = t.next(last)
	if t.rule.Misfire == courier.MisfireSkip && t.now.Sub(t.at(last)) > MisfireAfter {
		return nil, next
	}
	return []time.Time{last}, next
}

// from returns the ticks that are due, as many as fire at one look, and the next
// one.
func (t *ticker) from(tick time.Time) (ticks []time.Time, next time.Time) {
	for ; t.isDue(tick) && len(ticks) < maxTicks; tick = t.next(tick) {
		ticks = append(ticks, tick)
	}
	return ticks, tick
}

// last returns the last tick that is due, given one that is. However many there
// are, it looks at few of them.
func (t *ticker) last(tick time.Time) time.Time {
	// All up to the end are due; after that, it depends on the jitter of each.
	for end := t.now.Add(-t.rule.Jitter); ; {
		next := t.next(tick)
		if next.IsZero() || next.After(end) {
			break
		}
		tick = next
		middle := tick.Add(end.Sub(tick) / 2)
		if next = t.next(middle); !next.IsZero() && !next.After(end) {
			tick = next
		} else {
			end = middle
		}
	}
	for next := t.next(tick); t.isDue(next); next = t.next(next) {
		tick = next
	}
	return tick
}
