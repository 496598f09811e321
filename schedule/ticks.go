package schedule

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
)

// Ticks returns the first tick after an instant; zero if there is none.
type Ticks func(after time.Time) time.Time

// Limits and intervals of [PlanTicks].
const (
	// MisfireAfter is the maximum delay of a tick that does not count as missed.
	MisfireAfter = time.Minute
	// WaitAgain is the time after which a schedule whose tick waits for an execution is due
	// again.
	WaitAgain = 5 * time.Second
	maxTicks  = 100 // ticks of one plan; if there are more, the schedule is due again at once
	maxOpen   = 100 // executions in Status.Open
)

// A TickPlan is the decision on a due schedule.
type TickPlan struct {
	Ticks  []time.Time           // the ticks that fire, in order
	Cancel []courier.ExecutionID // the executions that are cancelled to make room
	// Status is the status of the schedule afterwards, without the executions of Ticks. The
	// caller adds them to Open, and sets LastExecution to the last of them.
	Status Status
	After  time.Duration // see [Firing]
}

// PlanTicks decides which ticks of a schedule fire at an instant of the store's clock. Ticks
// returns the ticks of the definition, and the policies of the definition decide about them.
// PlanTicks has no clock of its own and does no I/O. If a tick no longer exists because the
// calendar has changed, it does not fire.
//
// A tick that is up to a minute late fires. If the first tick is later than that, the misfire
// policy decides which ticks fire: the last one (fire_once), all within the window (fire_all), or
// the last one if it is not late itself (skip).
//
// While an execution of the schedule has not ended, the overlap policy decides: every
// tick fires (allow), none fires (skip), the first waits for the end (queue_one), or
// the last fires and the running execution is cancelled (cancel_running). If nothing
// runs and several ticks are due at once, the policy holds between them: with skip
// and cancel_running the last one fires, and with queue_one the first fires and the
// second waits.
//
// A failed execution increments the count of failures; a completed one resets it. If the count
// has reached PauseAfter, the schedule is paused before anything fires.
func PlanTicks(s *Due, def *Schedule, ticks Ticks, now time.Time) TickPlan {
	p := TickPlan{Status: s.Status}
	st := &p.Status
	st.Problem = ""
	st.Open, st.Failures = settleOpen(s)
	if st.Disabled || st.Paused || st.Next.IsZero() {
		st.Due = time.Time{}
		return p
	}
	if def.PauseAfter > 0 && st.Failures >= def.PauseAfter {
		st.Paused, st.Waiting, st.Next, st.Due = true, false, time.Time{}, time.Time{}
		st.Reason = fmt.Sprintf("%d executions in a row have failed", st.Failures)
		if st.Failures == 1 {
			st.Reason = "an execution has failed"
		}
		return p
	}
	busy := slices.Clone(st.Open)
	if last := s.Outcomes[st.LastExecution]; last != "" && !last.Ended() && !slices.Contains(busy, st.LastExecution) {
		busy = append(busy, st.LastExecution) // it was resumed
	}
	t := ticker{name: s.Name, def: def, next: ticks, now: now}
	var next time.Time
	if st.Waiting { // ticks that were due meanwhile do not fire
		p.Ticks, next = []time.Time{st.Next}, t.next(t.last(st.Next))
	} else {
		first := st.Next
		if def.Calendar != "" {
			first = ticks(first.Add(-time.Nanosecond))
		}
		p.Ticks, next = t.due(first)
	}
	if wait := p.overlap(def.Overlap, busy); !wait.IsZero() {
		st.Waiting, st.Next, p.After = true, wait, WaitAgain
		return p
	}
	st.Waiting, st.Next, st.Due = false, next, time.Time{}
	switch {
	case !next.IsZero():
		st.Due = t.at(next)
	case !def.At.IsZero() && len(p.Ticks) > 0:
		st.Disabled, st.Reason = true, "it has fired"
	case !def.At.IsZero():
		st.Disabled, st.Reason = true, "its time has passed, and it did not fire"
	}
	if n := len(p.Ticks); n > 0 {
		st.Last = p.Ticks[n-1]
	}
	return p
}

// overlap removes the ticks that the overlap policy does not allow to fire. It returns the tick
// that waits, if any.
func (p *TickPlan) overlap(policy Overlap, busy []courier.ExecutionID) (wait time.Time) {
	n := len(p.Ticks)
	switch {
	case n == 0:
	case policy == OverlapSkip && len(busy) > 0:
		p.Ticks = nil
	case policy == OverlapSkip:
		p.Ticks = p.Ticks[n-1:]
	case policy == OverlapCancel:
		p.Ticks, p.Cancel = p.Ticks[n-1:], busy
	case policy == OverlapQueue && len(busy) > 0:
		wait, p.Ticks = p.Ticks[0], nil
	case policy == OverlapQueue && n > 1:
		wait, p.Ticks = p.Ticks[1], p.Ticks[:1]
		p.Status.Last = p.Ticks[0]
	}
	return wait
}

// settleOpen returns the open executions that have not ended, and the number of consecutive
// failures.
func settleOpen(s *Due) (open []courier.ExecutionID, failures int) {
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

// A ticker iterates over the ticks of a schedule.
type ticker struct {
	name string
	def  *Schedule
	next Ticks
	now  time.Time
}

// at returns the instant at which a tick fires: the tick plus the schedule's jitter.
func (t *ticker) at(tick time.Time) time.Time { return TickAt(t.name, tick, t.def.Jitter) }

// FiresAt returns the instant at which the next tick fires: NextFire plus the delay by Jitter. It
// is zero if there is no next tick.
func (s Schedule) FiresAt() time.Time { return TickAt(s.Name, s.NextFire, s.Jitter) }

// TickAt returns the instant at which a tick of a schedule fires: the tick plus a
// delay of at most jitter. The delay is the same in all engines.
func TickAt(schedule string, tick time.Time, jitter time.Duration) time.Time {
	if jitter <= 0 || tick.IsZero() {
		return tick
	}
	h := fnv.New64a()
	h.Write([]byte(schedule))
	h.Write(strconv.AppendInt(nil, tick.UnixMicro(), 10))
	x := h.Sum64() // FNV mixes the last bytes badly
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return tick.Add(time.Duration(x % uint64(jitter)).Truncate(time.Microsecond))
}

// isDue reports whether a tick is not zero and its instant has come.
func (t *ticker) isDue(tick time.Time) bool { return !tick.IsZero() && !t.at(tick).After(t.now) }

// due returns the ticks that fire by the misfire policy, starting with first, and the next tick.
func (t *ticker) due(first time.Time) (ticks []time.Time, next time.Time) {
	if !t.isDue(first) {
		return nil, first
	}
	if t.now.Sub(t.at(first)) <= MisfireAfter {
		return t.from(first)
	}
	if t.def.Misfire == MisfireAll {
		if begin := t.now.Add(-cmp.Or(t.def.Window, DefaultWindow)); first.Before(begin) {
			first = t.next(begin.Add(-time.Nanosecond))
		}
		return t.from(first)
	}
	last := t.last(first)
	next = t.next(last)
	if t.def.Misfire == MisfireSkip && t.now.Sub(t.at(last)) > MisfireAfter {
		return nil, next
	}
	return []time.Time{last}, next
}

// from returns the due ticks from tick on, at most maxTicks, and the next tick.
func (t *ticker) from(tick time.Time) (ticks []time.Time, next time.Time) {
	for ; t.isDue(tick) && len(ticks) < maxTicks; tick = t.next(tick) {
		ticks = append(ticks, tick)
	}
	return ticks, tick
}

// last returns the last due tick, given a due tick. It bisects, so it computes few ticks.
func (t *ticker) last(tick time.Time) time.Time {
	// All ticks up to the end are due. After that the jitter of each decides.
	for end := t.now.Add(-t.def.Jitter); ; {
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
