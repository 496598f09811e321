package expectation

import (
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/cron"
)

// A Timetable has the days that count for an expectation, and their windows. It never changes,
// has no clock, does no I/O, and may be used by several goroutines. [New] makes it.
type Timetable struct {
	def      Expectation
	days     *calendar.Days // nil if there is no calendar
	zone     *time.Location
	cron     *cron.Expression // nil for each day
	cronZone *cron.Zone
	pattern  *pattern

	from, until           int // minutes after midnight
	grace, dueSoon, early time.Duration
	timed                 bool          // the times could be read
	every                 time.Duration // between two polls of the expectation's own monitor; 0 for the default
}

// New returns the timetable of an expectation with the days of its calendar; nil if it names
// none. If the expectation is invalid, the error is an *[Error], which lists all problems.
func New(e Expectation, days *calendar.Days) (*Timetable, error) {
	t, found := e.read(days)
	if len(found) == 0 && t.days == nil && e.Calendar != "" {
		found = append(found, courier.Problem{Step: -1, Field: "calendar", Message: fmt.Sprintf("the days of calendar %q are missing", e.Calendar)})
	}
	if len(found) > 0 {
		return nil, &Error{Expectation: e.Name, Problems: found}
	}
	return t, nil
}

// Zone returns the time zone in which days begin and windows open.
func (t *Timetable) Zone() *time.Location { return t.zone }

// Counts reports whether files are expected on a date.
func (t *Timetable) Counts(date calendar.Date) bool {
	if t.days != nil && !t.days.Open(date) {
		return false
	}
	if t.cron == nil {
		return true
	}
	tick, ok := t.cron.Next(date.Begin(t.zone).Add(-time.Second), t.cronZone)
	return ok && tick.Before((date + 1).Begin(t.zone))
}

// Why says why a date does not count; empty if it does.
func (t *Timetable) Why(date calendar.Date) string {
	switch {
	case t.Counts(date):
		return ""
	case t.days != nil && !t.days.Open(date):
		return t.days.Why(date)
	}
	return date.Words() + ": no day of cron " + t.def.Cron
}

// furthest is the maximum number of days ahead in which a counting day is searched. The rarest
// one is each 29 February, with up to eight years between two.
const furthest = 9 * 366

// Next returns the first counting date after the given one; false if there is none in nine years.
func (t *Timetable) Next(date calendar.Date) (calendar.Date, bool) {
	for n := 0; n < furthest; n++ {
		if date++; t.Counts(date) {
			return date, true
		}
	}
	return 0, false
}

// Times are the instants of a counting day.
type Times struct {
	Open    time.Time // when the window opens
	DueSoon time.Time // when it becomes due soon; Until if it never does
	Until   time.Time // when the files must be there
	End     time.Time // when the grace ends
}

// At returns the instants of a date. If the clocks skip a time on that day, the instant is that
// of the clock change. If they show a time twice, it is the first.
func (t *Timetable) At(date calendar.Date) Times {
	var w Times
	w.Open = date.At(t.from/60, t.from%60, t.zone)
	if t.until <= t.from {
		date++
	}
	w.Until = date.At(t.until/60, t.until%60, t.zone)
	w.DueSoon, w.End = w.Until.Add(-t.dueSoon), w.Until.Add(t.grace)
	return w
}

// begin returns the instant from which there is a record of a date.
func (t *Timetable) begin(date calendar.Date) time.Time {
	at := t.At(date)
	first := date.Begin(t.zone)
	for _, other := range []time.Time{at.Open.Add(-t.early), at.DueSoon} {
		if other.Before(first) {
			first = other
		}
	}
	return first
}

// checkDays returns the problems and the warnings about the days of a year from a date on: no day
// at all, windows that overlap, and times that the clocks skip.
func (t *Timetable) checkDays(from calendar.Date) (problems, warnings []courier.Problem) {
	problem := func(list *[]courier.Problem, field, format string, args ...any) {
		*list = append(*list, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	last, any := from-1, false
	for {
		date, ok := t.Next(last)
		if !ok || date > from+366 {
			break
		}
		at := t.At(date)
		if any {
			if before := t.At(last); at.Open.Add(-t.early).Before(before.End) {
				problem(&problems, "window", "the window of %s, which ends at %s, overlaps that of %s, which begins at %s%s", last.Words(), t.clock(before.End), date.Words(), t.clock(at.Open.Add(-t.early)), earlyText(t.early))
				return problems, nil
			}
		}
		for _, c := range []struct {
			field string
			at    time.Time
			clock int
		}{{"window.from", at.Open, t.from}, {"window.until", at.Until, t.until}} {
			if local := c.at.In(t.zone); local.Hour()*60+local.Minute() != c.clock {
				problem(&warnings, c.field, "%s does not exist on %s, when the clocks in %s change; it is %s then", clockText(c.clock), calendar.DateOf(local).Words(), t.zone, local.Format("15:04"))
			}
		}
		last, any = date, true
	}
	if !any {
		field, message := "cron", "no day of a year counts; look at the days of the expression"
		if t.cron != nil && t.days != nil {
			message = fmt.Sprintf("no day of a year counts: calendar %q closes all days of the expression", t.def.Calendar)
		}
		problem(&problems, field, "%s", message)
	}
	return problems, warnings
}

// clock returns the text of an instant in the zone of the expectation.
func (t *Timetable) clock(at time.Time) string { return at.In(t.zone).Format("15:04") }
