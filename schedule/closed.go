package schedule

import (
	"fmt"
	"time"

	"github.com/courierhq/courier/calendar"
)

// A ClosedDay is a closed day on which a schedule would have ticks.
type ClosedDay struct {
	Date calendar.Date
	At   time.Time // the first of the ticks that are skipped or moved
	// Text says why the day is closed and what happens to its ticks, such as "25 December: closed
	// in target2 (Christmas Day); moved to 24 December".
	Text string
}

// maxLooks limits how many days without a tick are examined to find the next tick. A weekly
// schedule that finds no open day in that many weeks never fires.
const maxLooks = 1000

// begin returns the first instant of a date in the zone of the calendar.
func (t *Timetable) begin(date calendar.Date) time.Time { return date.Begin(t.days.Zone()) }

// open returns the first tick after an instant that is on an open day.
func (t *Timetable) open(after time.Time) time.Time {
	for range maxLooks {
		at := t.raw(after)
		if at.IsZero() || t.days.Open(t.days.On(at)) {
			return at
		}
		after = t.begin(t.days.Next(t.days.On(at))).Add(-time.Nanosecond)
	}
	return time.Time{}
}

// moved returns the first tick after an instant if ticks of closed days are moved to open days.
// An open day has its own ticks and the ticks moved to it, each at its local time. Ticks at the
// same time fire once.
func (t *Timetable) moved(after time.Time) time.Time {
	day := t.days.On(after)
	if !t.days.Open(day) {
		day = t.days.Next(day)
	}
	for range maxLooks {
		if at := t.onDay(day, after); !at.IsZero() {
			return at
		}
		next := t.days.Next(day)
		if t.late(next) {
			day = next
			continue
		}
		// No tick is before this one. The next ticks are searched from here.
		end := day + 1
		if t.def.onClosed() == ClosedPrevious {
			end = next
		}
		at := t.raw(t.begin(end).Add(-time.Nanosecond))
		if at.IsZero() {
			return at
		}
		target := t.days.On(at)
		switch {
		case t.days.Open(target):
		case t.def.onClosed() == ClosedPrevious:
			target = t.days.Previous(target)
		default:
			target = t.days.Next(target)
		}
		day = max(target, next)
	}
	return time.Time{}
}

// late reports whether an open day may have ticks that should have moved to the open day before
// it, but whose time there had passed.
func (t *Timetable) late(day calendar.Date) bool {
	if t.from.IsZero() || t.def.onClosed() != ClosedPrevious {
		return false
	}
	from := t.days.On(t.from)
	return from < day && t.days.Previous(day) <= from
}

// A group is a range of closed days whose ticks are moved to an open day.
type group struct {
	first, last calendar.Date
	late        bool // only the ticks whose time on the open day before had passed
}

// groups returns the groups of closed days whose ticks are moved to an open day.
func (t *Timetable) groups(day calendar.Date) []group {
	if t.def.onClosed() == ClosedNext {
		return []group{{first: t.days.Previous(day) + 1, last: day - 1}}
	}
	list := []group{{first: day + 1, last: t.days.Next(day) - 1}}
	if t.late(day) {
		list = append(list, group{first: max(t.days.Previous(day)+1, t.days.On(t.from)), last: day - 1, late: true})
	}
	return list
}

// onDay returns the first tick of an open day after an instant; zero if there is none. It
// examines the day itself once, and each closed day whose ticks are moved to it once.
func (t *Timetable) onDay(day calendar.Date, after time.Time) time.Time {
	if begin := t.begin(day); after.Before(begin) {
		after = begin.Add(-time.Nanosecond)
	}
	first := t.raw(after)
	if !first.Before(t.begin(day + 1)) {
		first = time.Time{}
	}
	for _, g := range t.groups(day) {
		for closed := g.first; closed <= g.last; closed++ {
			at := t.shifted(closed, day, after, g.late)
			if !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}

// shifted returns the first instant of an open day after an instant that has the local time of a
// tick of a closed day; zero if there is none. With late, it considers only ticks whose time on
// the open day before had passed at the instant from, and whose own time had not.
func (t *Timetable) shifted(closed, day calendar.Date, after time.Time, late bool) time.Time {
	parts := t.parts(day)
	from, to := time.Duration(-1), 48*time.Hour // of local times
	if late {
		on := t.days.On(t.from)
		if on == t.days.Previous(day) {
			to = t.local(t.from, on) + 1
		}
		if on == closed {
			from = t.local(t.from, on)
		}
	}
	first := time.Time{}
	for _, p := range parts {
		begin := max(after.Sub(p.zero), p.from-1, from)
		clock, ok := t.clockAfter(closed, begin)
		if at := p.zero.Add(clock); ok && clock < min(p.to, to) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// A part is a part of a day without a change of the clocks. Its local times begin at from and end
// before to. The instant of a local time is zero plus that local time.
type part struct {
	zero     time.Time
	from, to time.Duration
	// begin and end are the instants of the part.
	begin, end time.Time
}

// parts returns the parts of a day, at most two. A time that the clocks skip belongs to the first
// part, so it is moved by as much as the clocks are. A time that the clocks show twice also
// belongs to the first part.
func (t *Timetable) parts(date calendar.Date) []part {
	begin, end := t.begin(date), t.begin(date+1)
	plain := time.Unix(int64(date)*24*60*60, 0) // midnight, if it were in UTC
	zero := func(offset int) time.Time { return plain.Add(-time.Duration(offset) * time.Second) }
	_, offset := begin.Zone()
	_, before := begin.Add(-time.Nanosecond).Zone()
	change := begin
	if before == offset { // the clocks do not change at midnight
		_, change = begin.ZoneBounds()
		if change.IsZero() || !change.Before(end) {
			return []part{{zero: zero(offset), to: 24 * time.Hour, begin: begin, end: end}}
		}
		before = offset
		_, offset = change.In(t.days.Zone()).Zone()
	}
	until := change.Sub(zero(max(before, offset)))
	return []part{
		{zero: zero(before), to: until, begin: begin, end: change},
		{zero: zero(offset), from: until, to: 24 * time.Hour, begin: change, end: end},
	}
}

// local returns the local time of an instant on a date.
func (t *Timetable) local(at time.Time, date calendar.Date) time.Duration {
	_, offset := at.In(t.days.Zone()).Zone()
	return at.Sub(time.Unix(int64(date)*24*60*60, 0)) + time.Duration(offset)*time.Second
}

// clockAfter returns the first local time after the given one at which the clocks show a tick on
// a closed day. It also reports whether there is one.
func (t *Timetable) clockAfter(closed calendar.Date, after time.Duration) (time.Duration, bool) {
	after = max(after, -1)
	if t.wall == nil {
		return t.shownAfter(closed, after)
	}
	s := &t.def
	if !s.Starts.IsZero() {
		switch on := t.days.On(s.Starts); {
		case on > closed:
			return 0, false
		case on == closed:
			after = max(after, t.local(s.Starts, closed)-1)
		}
	}
	midnight := time.Unix(int64(closed)*24*60*60, 0).UTC()
	at := t.wall(midnight.Add(after))
	if at.IsZero() || !at.Before(midnight.Add(24*time.Hour)) {
		return 0, false
	}
	clock := at.Sub(midnight)
	if !s.Ends.IsZero() {
		if on := t.days.On(s.Ends); on < closed || on == closed && clock > t.local(s.Ends, closed) {
			return 0, false
		}
	}
	return clock, true
}

// shownAfter is like clockAfter, for ticks that do not follow local time in the zone of the
// calendar.
func (t *Timetable) shownAfter(closed calendar.Date, after time.Duration) (first time.Duration, found bool) {
	for _, p := range t.parts(closed) {
		from := p.zero.Add(after)
		if from.Before(p.begin) {
			from = p.begin.Add(-time.Nanosecond)
		}
		at := t.raw(from)
		if at.IsZero() || !at.Before(p.end) {
			continue
		}
		if clock := at.Sub(p.zero); !found || clock < first {
			first, found = clock, true
		}
	}
	return first, found
}

// Open reports whether an instant is on an open day of the schedule's calendar. Without a
// calendar, all days are open.
func (t *Timetable) Open(at time.Time) bool { return t.days == nil || t.days.Open(t.days.On(at)) }

// Moved says from which closed day a tick was moved, such as "moved from 25 December: closed in
// target2 (Christmas Day)". It is empty if the tick was not moved.
func (t *Timetable) Moved(tick time.Time) string {
	before := tick.Add(-time.Nanosecond)
	if t.days == nil || t.def.onClosed() == ClosedSkip || t.raw(before).Equal(tick) {
		return ""
	}
	day := t.days.On(tick)
	more, why := 0, ""
	for _, g := range t.groups(day) {
		for closed := g.first; closed <= g.last; closed++ {
			switch at := t.shifted(closed, day, before, g.late); {
			case !at.Equal(tick):
			case why != "":
				more++
			default:
				why = "moved from " + t.days.Why(closed)
				if g.late {
					why += "; its time on the open day before had passed"
				}
			}
		}
	}
	switch {
	case more == 1:
		why += ", and from another day"
	case more > 1:
		why += fmt.Sprintf(", and from %d more days", more)
	}
	return why
}

// Closed returns the closed days between two instants on which the schedule would have ticks. The
// second instant is excluded. The list has at most most days.
func (t *Timetable) Closed(from, to time.Time, most int) (list []ClosedDay) {
	if t.days == nil {
		return nil
	}
	for at := t.raw(from.Add(-time.Nanosecond)); !at.IsZero() && at.Before(to) && len(list) < most; {
		date := t.days.On(at)
		next := date + 1
		if t.days.Open(date) {
			for t.begin(next).Before(to) && t.days.Open(next) {
				next++
			}
		} else {
			list = append(list, ClosedDay{date, at, t.days.Why(date) + "; " + t.fate(date, at)})
		}
		at = t.raw(t.begin(next).Add(-time.Nanosecond))
	}
	return list
}

// fate says what happens to the ticks of a closed date; at is the first of them.
func (t *Timetable) fate(date calendar.Date, at time.Time) string {
	var day calendar.Date
	switch t.def.onClosed() {
	case ClosedSkip:
		return "left out"
	case ClosedPrevious:
		day = t.days.Previous(date)
		if next := t.days.Next(date); t.late(next) && at.After(t.from) && !t.shifted(date, next, t.begin(next).Add(-time.Nanosecond), true).IsZero() {
			day = next
		}
	default:
		day = t.days.Next(date)
	}
	return "moved to " + dayMonth(day)
}

func dayMonth(date calendar.Date) string { return date.Begin(time.UTC).Format("2 January") }

// missed returns the closed days whose ticks should have moved to an open day before, at a time
// that has passed, while the ticks' own time has not come. Days whose ticks have fired by the
// timetable was, which may be nil, are left out.
func (t *Timetable) missed(was *Timetable, now time.Time) (list []ClosedDay) {
	if t.days == nil || t.def.onClosed() != ClosedPrevious {
		return nil
	}
	today := t.days.On(now)
	first := today + 1 // of the closed days after the last open one
	if !t.days.Open(today) {
		first = today
	}
	next := t.days.Next(first - 1)
	open := t.days.Previous(next)
	for closed := first; closed < next; closed++ {
		// These local times have passed on the open day, but not on the closed day.
		from, to := time.Duration(-1), 48*time.Hour
		if open == today {
			to = t.local(now, today) + 1
		}
		if closed == today {
			from = t.local(now, today)
		}
		clock, ok := t.clockAfter(closed, from)
		if !ok || clock >= to {
			continue
		}
		if was != nil && was.fired(closed, clock, now) {
			continue
		}
		list = append(list, ClosedDay{closed, t.at(closed, clock), t.days.Why(closed) + "; moved to " + dayMonth(next) + ", since its time on " + dayMonth(open) + " has passed"})
	}
	return list
}

// at returns the instant of a local time on a date.
func (t *Timetable) at(date calendar.Date, clock time.Duration) time.Time {
	parts := t.parts(date)
	for _, p := range parts {
		if clock < p.to {
			return p.zero.Add(clock)
		}
	}
	return parts[len(parts)-1].zero.Add(clock)
}

// fired reports whether the tick of a closed date at a local time was moved to a time up to an
// instant.
func (t *Timetable) fired(closed calendar.Date, clock time.Duration, now time.Time) bool {
	if t.days == nil || t.def.onClosed() != ClosedPrevious || t.days.Open(closed) {
		return false
	}
	if own, ok := t.clockAfter(closed, clock-1); !ok || own != clock {
		return false
	}
	at := t.at(t.days.Previous(closed), clock)
	return !at.After(now) && (t.from.IsZero() || at.After(t.from))
}
