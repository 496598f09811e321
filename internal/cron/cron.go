// Package cron parses cron expressions in Quartz format, and computes when they fire.
//
// An expression has six fields, or seven with the year, seconds first:
//
//	field          values           besides * , - and /
//	second         0-59
//	minute         0-59
//	hour           0-23
//	day of month   1-31             ?  L  L-3  LW  L-3W  15W
//	month          1-12 or JAN-DEC
//	day of week    1-7 or SUN-SAT   ?  L  6L  FRIL  6#3  FRI#3
//	year           1970-2099
//
// Sunday is day 1 of the week, so that 6 is Friday: crontab counts differently.
// Of day of month and day of week, one says which days, and the other is "?".
//
//	0 0 3 ? * TUE          at 03:00 on Tuesdays
//	0 0/15 8-17 * * ?      every 15 minutes from 08:00 to 17:45
//	0 30 23 LW * ?         at 23:30 on the last weekday of the month
//	0 0 12 ? * FRI#3 2027  at noon on the third Fridays of 2027
//
// "*" is every value, "a-b" a range, "a-b/n" every n-th value of it, "a/n" the same from a to the
// end of the field, and "*/n" from its beginning. A range may wrap: 22-2 is 22, 23, 0, 1, 2. In
// the day of month, L is the last day, L-3 the third day before it, 15W the weekday (Monday to
// Friday) nearest to the 15th in the same month, and LW the last weekday. In the day of week, 6L
// is the last Friday of the month, 6#3 the third, and L alone is Saturday. A day that a month
// does not have is skipped in that month, also with W. Letter case is ignored.
//
// # Crontab
//
// The word crontab followed by five fields is an expression in the format of POSIX and Vixie's
// cron: minute, hour, day of month, month, and day of week, which is 0-7 or SUN-SAT, where 0 and
// 7 are Sunday.
//
//	crontab 30 2 * * 1-5     at 02:30 from Monday to Friday
//	crontab 0 12 13 * FRI    at noon on each 13th, and on each Friday
//
// "?", L, W and # do not exist there. If both day fields name days, a day needs to match only one
// of them; but if a field begins with "*", such as "*/2", a day must match both.
//
// # Daylight saving time
//
// A schedule follows local time in its [Zone], whose clocks change. Three rules say what happens
// then.
//
//   - A time that the clock skips is moved by as much as the clock: 02:30 fires
//     at 03:30 on the day on which 02:00 is followed by 03:00. So no run is lost,
//     and whatever fires every so often goes on at its pace. If that is a time at
//     which the schedule fires anyway, it fires once.
//   - A time that the clock shows twice fires at the first, so a daily job runs
//     once a day.
//   - But a schedule that has "*", "-" or "/" in its seconds, minutes or hours
//     says how often something happens and not when, and fires at both.
//
// # Differences from Quartz
//
// Quartz 2.3.2 answers in the same way for all that it documents. It is silent
// or contradicts itself about some expressions; here they have one meaning or
// are refused:
//
//   - 29W, 30W and 31W are left out in months that don't have the day, as 31 is,
//     and so is L-30 in months of 30 days. Quartz mostly does so, and sometimes
//     goes to another day or month, depending on where it starts.
//   - Lists may hold L, W and # (1W,15W or 2#1,2#3). Quartz refuses some and
//     takes one element of others.
//   - A step after names counts (MON-FRI/2). Quartz ignores it.
//   - What Quartz reads and ignores is an error: a word of which only the first
//     three letters are a name, a character too many, an eighth field, a step of
//     0, a year out of range. Full English names of days and months are names.
//   - No schedule fires after 2099.
package cron

import "time"

// The years in which schedules fire.
const (
	MinYear = 1970
	MaxYear = 2099
)

// An Expression says at which times of which days a schedule fires. [Parse] makes it. It never
// changes, and may be used by several goroutines at once.
type Expression struct {
	text   string
	fields [numFields]field // as written, for [Expression.Explain]

	seconds, minutes, hours, months uint64 // bit n is value n
	years                           [3]uint64
	days                            [4][7]uint32 // by length of the month - 28 and day of the week of its first

	interval bool // repeats in a repeated hour
	bothDays bool // of crontab: a day must match both day fields, not one of them
}

// Parse parses an expression in Quartz format, or in crontab format after the word "crontab". The
// error is a *[ParseError].
//
// A valid expression may never fire, such as one for 30 February; see [Expression.Next].
func Parse(expression string) (*Expression, error) {
	e, err := parse(expression)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// String returns the expression as it was written.
func (e *Expression) String() string { return e.text }

// Next returns the first time after the given one at which the schedule fires on
// the clocks of a zone, and false if it never does again. The time is strictly
// later, in whole seconds, and in the zone's location. A nil zone is UTC.
//
// Next does not allocate, and looks no further than [MaxYear].
func (e *Expression) Next(after time.Time, zone *Zone) (time.Time, bool) {
	if zone == nil {
		zone = &utc
	}
	at, ok := e.next(after.Unix(), zone)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(at, 0).In(zone.location), true
}
