package calendar

import (
	"fmt"
	"time"
)

// A Date is a day, without a time and a zone: the number of days since 1970-01-01. Dates can be
// compared and used as map keys.
type Date int

// NewDate returns the date of a year, a month and a day. Days beyond the end of the month fall in
// the following months.
func NewDate(year int, month time.Month, day int) Date {
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds)
}

const daySeconds = 24 * 60 * 60

// ParseDate reads a date such as 2026-12-25.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a date such as 2026-12-25", text)
	}
	return DateOf(t), nil
}

// DateOf returns the date of an instant, in its location.
func DateOf(t time.Time) Date {
	year, month, day := t.Date()
	return NewDate(year, month, day)
}

// utc returns the beginning of the date in UTC.
func (d Date) utc() time.Time { return time.Unix(int64(d)*daySeconds, 0).UTC() }

// Begin returns the first instant of the date in a location: midnight, unless the clocks skip
// it.
func (d Date) Begin(zone *time.Location) time.Time {
	year, month, day := d.utc().Date()
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	start, end := t.ZoneBounds()
	switch {
	case DateOf(t) < d && !end.IsZero(): // midnight was skipped
		return end.In(zone)
	case t.Hour()+t.Minute()+t.Second() != 0 && DateOf(start.In(zone)) == d:
		return start.In(zone)
	}
	return t
}

// Weekday returns the day of the week.
func (d Date) Weekday() time.Weekday { return d.utc().Weekday() }

// String returns the date as in 2026-12-25.
func (d Date) String() string { return d.utc().Format(time.DateOnly) }

// Number returns the day of the month.
func (d Date) Number() int { return d.utc().Day() }

// Words returns the date as people write it in a sentence, as in 25 December 2026.
func (d Date) Words() string { return d.utc().Format("2 January 2006") }

// At returns the first instant of the date at which the clocks in a location show a time. If they
// skip it, At returns the instant of the clock change.
func (d Date) At(hour, minute int, zone *time.Location) time.Time {
	begin := d.Begin(zone)
	year, month, date := begin.Date()
	at := time.Date(year, month, date, hour, minute, 0, 0, zone)
	start, end := at.ZoneBounds()
	if at.Hour() != hour || at.Minute() != minute { // the clocks skip it
		if !start.Before(begin) && at.Sub(start) < 3*time.Hour {
			return start.In(zone)
		}
		return end.In(zone)
	}
	if !start.IsZero() { // perhaps they have shown it before
		_, now := at.Zone()
		_, before := start.Add(-time.Nanosecond).In(zone).Zone()
		if first := at.Add(-time.Duration(before-now) * time.Second); before > now && first.Before(start) {
			return first
		}
	}
	return at
}
