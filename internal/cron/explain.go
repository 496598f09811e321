package cron

import (
	"fmt"
	"strings"
	"time"
)

// An Explanation describes an expression for people.
type Explanation struct {
	Words string      // such as "At 06:00:00 on weekdays (Monday to Friday)"
	Next  []time.Time // the next times at which it fires; none if it never does again
	Notes []Note      // the effects of clock changes within the next 400 days, if they affect the schedule
}

// A Note describes the effect of a clock change on the schedule.
type Note struct {
	At   time.Time // when the clocks change
	Text string    // such as "2027-03-28: 02:30 doesn't exist in Europe/Berlin; fires at 03:30"
}

// String returns the explanation as lines of text.
func (x Explanation) String() string {
	var b strings.Builder
	b.WriteString(x.Words)
	for _, at := range x.Next {
		b.WriteString("\n  " + at.Format("Mon 2006-01-02 15:04:05 MST"))
	}
	if len(x.Next) == 0 {
		b.WriteString("\n  never fires again")
	}
	for _, n := range x.Notes {
		b.WriteString("\n  " + n.Text)
	}
	return b.String()
}

// notedDays is the number of days in which Explain looks for clock changes: a little more than a
// year, so that it finds each of them.
const notedDays = 400

// Explain describes the expression, its next times after a given time, at least one and at most
// most, and the effects of coming clock changes in a zone. A nil zone is UTC.
func (e *Expression) Explain(after time.Time, zone *Zone, most int) Explanation {
	if zone == nil {
		zone = &utc
	}
	x := Explanation{Words: e.Words()}
	for at := after; len(x.Next) < max(most, 1); {
		next, ok := e.Next(at, zone)
		if !ok {
			break
		}
		x.Next = append(x.Next, next)
		at = next
	}
	for i := zone.period(after.Unix()) + 1; i < len(zone.changes) && zone.changes[i].at < after.Unix()+notedDays*daySeconds; i++ {
		if text := e.note(zone, i); text != "" {
			x.Notes = append(x.Notes, Note{time.Unix(zone.changes[i].at, 0).In(zone.location), text})
		}
	}
	return x
}

// note describes the effect of the clock change that begins period i of a zone, or returns "".
func (e *Expression) note(z *Zone, i int) string {
	at, before, after := z.changes[i].at, z.changes[i-1].offset, z.changes[i].offset
	from, to := at+min(before, after), at+max(before, after)
	first := e.local(from)
	if first >= to {
		return ""
	}
	date := clockText(first, "2006-01-02")
	switch {
	case before < after:
		return e.skipped(z, date, from, to)
	case e.interval:
		return fmt.Sprintf("%s: the time from %s to %s comes twice in %s; fires both times", date, timeText(from), timeText(to), z)
	}
	repeated, one := e.span(from, to)
	if one {
		return fmt.Sprintf("%s: %s comes twice in %s; fires at the first only", date, repeated, z)
	}
	return fmt.Sprintf("%s: %s come twice in %s; fires at the first only", date, repeated, z)
}

// skipped describes what happens to the times that a clock change skips. It leaves out a schedule
// that keeps its pace because all its skipped times coincide with others.
func (e *Expression) skipped(z *Zone, date string, from, to int64) string {
	later, alone := to-from, false
	for local, n := e.local(from), 0; local < to && n < maxCounted; local, n = e.local(local+1), n+1 {
		alone = alone || e.local(local+later) != local+later
	}
	if e.interval && !alone {
		return ""
	}
	verb := "don't"
	moved, one := e.span(from, to)
	if one {
		verb = "doesn't"
	}
	first, last := e.ends(from, to)
	text := spanText(first+later, last+later)
	if d := clockText(first+later, "2006-01-02"); d != date {
		text = d + " " + text
	}
	s := fmt.Sprintf("%s: %s %s exist in %s; fires at %s", date, moved, verb, z, text)
	if !alone {
		s += ", once with what is due then"
	}
	return s
}

// maxCounted is the maximum number of times around a clock change that are examined.
const maxCounted = 100_000

// span returns the first and the last time between two local times as text. One reports that they
// are the same.
func (e *Expression) span(from, to int64) (text string, one bool) {
	first, last := e.ends(from, to)
	return spanText(first, last), first == last
}

// ends returns the first and the last time of the expression between two local times. There must
// be at least one.
func (e *Expression) ends(from, to int64) (first, last int64) {
	first = e.local(from)
	last = first
	for next, n := first, 0; next < to && n < maxCounted; next, n = e.local(next+1), n+1 {
		last = next
	}
	return first, last
}

func spanText(first, last int64) string {
	if first == last {
		return timeText(first)
	}
	return timeText(first) + " to " + timeText(last)
}

// timeText returns the text of a local time, with seconds if they are not zero.
func timeText(local int64) string {
	if local%60 == 0 {
		return clockText(local, "15:04")
	}
	return clockText(local, "15:04:05")
}

func clockText(local int64, layout string) string { return time.Unix(local, 0).UTC().Format(layout) }
