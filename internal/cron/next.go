package cron

import "math/bits"

const (
	daySeconds = 24 * 60 * 60

	// farthest is more than the maximum difference between two clocks on earth, in seconds.
	farthest = 2 * daySeconds

	firstDay = 0     // 1 January of MinYear, in days since 1970
	lastDay  = 47481 // 31 December of MaxYear

	// Below and above these instants no clock shows a day of those years.
	earliest = firstDay*daySeconds - farthest
	latest   = lastDay*daySeconds + farthest
)

// next is Next in seconds since 1970.
//
// It goes through periods of the zone, each from one clock change to the next, and uses local
// time, which is continuous within a period.
func (e *Expression) next(after int64, z *Zone) (int64, bool) {
	if after >= latest {
		return 0, false
	}
	from := max(after, earliest) + 1
	for i := z.period(from); ; {
		at, local, ok := e.within(z, i, from)
		if ok {
			return at, true
		}
		end := z.end(i)
		switch {
		case end == never:
			return 0, false
		case e.interval && from+z.changes[i].offset > end+z.changes[i+1].offset:
			// The clock is put back to before from, and repeats times that were not examined.
			i, from = i+1, end
		case local == never:
			return 0, false
		default:
			from = max(end, local-farthest)
			i = z.period(from)
		}
	}
}

// never is later than all times.
const never = 1<<63 - 1

// within returns the first instant in period i of a zone, not before from, at which the schedule
// fires. If there is none, local is the first local time that fires after the end of the period,
// or never.
func (e *Expression) within(z *Zone, i int, from int64) (at, local int64, ok bool) {
	offset, end := z.changes[i].offset, z.end(i)
	shown := from + offset
	moved := int64(never)
	if i > 0 {
		start, before := z.changes[i].at, z.changes[i-1].offset
		if before > offset && !e.interval {
			shown = max(shown, start+before) // earlier times were shown already
		}
		if before < offset && from < start+offset-before {
			// The clock skipped the times from start+before to start+offset.
			if skipped := e.local(from + before); skipped < start+offset {
				moved = skipped - before
			}
		}
	}
	local = e.local(shown)
	at = moved
	if local != never {
		at = min(at, local-offset)
	}
	return at, local, at < end
}

// local returns the first local time of the expression, starting with the given one, or never.
// Local times are seconds since 1970 on a clock that never changes.
func (e *Expression) local(from int64) int64 {
	from = max(from, firstDay*daySeconds)
	today, time := from/daySeconds, from%daySeconds
	day, ok := e.day(today)
	if ok && day == today {
		if t, ok := e.time(int(time)); ok {
			return day*daySeconds + int64(t)
		}
		day, ok = e.day(today + 1)
	}
	if !ok {
		return never
	}
	return day*daySeconds + int64(clock(lowest(e.hours), lowest(e.minutes), lowest(e.seconds)))
}

// time returns the first time of a day, in seconds, from the given one on.
func (e *Expression) time(from int) (int, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if e.hours>>h&1 != 0 {
		if e.minutes>>m&1 != 0 {
			if later := e.seconds >> s; later != 0 {
				return clock(h, m, s+lowest(later)), true
			}
		}
		if later := e.minutes >> (m + 1); later != 0 {
			return clock(h, m+1+lowest(later), lowest(e.seconds)), true
		}
	}
	if later := e.hours >> (h + 1); later != 0 {
		return clock(h+1+lowest(later), lowest(e.minutes), lowest(e.seconds)), true
	}
	return 0, false
}

func clock(h, m, s int) int { return (h*60+m)*60 + s }

func lowest(set uint64) int { return bits.TrailingZeros64(set) }

// day returns the first day from the given one on, in days since 1970.
func (e *Expression) day(from int64) (int64, bool) {
	if from > lastDay {
		return 0, false
	}
	y, m, d := civil(from)
	for {
		if e.years[(y-MinYear)/64]>>((y-MinYear)%64)&1 == 0 {
			m = 13
		} else if later := e.months >> m; later == 0 {
			m = 13
		} else if skip := lowest(later); skip > 0 {
			m, d = m+skip, 1
		}
		if m > 12 {
			if y, m, d = y+1, 1, 1; y > MaxYear {
				return 0, false
			}
			continue
		}
		first := dayNumber(y, m)
		if days := e.month(y, m, first) >> d << d; days != 0 {
			return first + int64(bits.TrailingZeros32(days)) - 1, true
		}
		m, d = m+1, 1
	}
}

// month returns the days of a month on which the schedule fires; bit 1 is the
// first. The month begins on day number first.
func (e *Expression) month(y, m int, first int64) uint32 {
	return e.days[monthLength(y, m)-28][weekday(first)]
}

// weekday returns the day of the week of a day, 0 for Sunday.
func weekday(day int64) int { return int((day + 4) % 7) } // 1970 began on a Thursday

func monthLength(y, m int) int {
	if m == 2 {
		if y%4 == 0 {
			return 29
		}
		return 28
	}
	return 30 + (m+m/8)&1
}

// From 1901 to 2099 every fourth year is a leap year, so days form cycles of four years. Here a
// cycle begins in March, so that a leap day is its last day, and the lengths of months repeat as
// 31, 30, 31, 30, 31.
const (
	cycleDays = 4*365 + 1
	baseYear  = 1968
	baseDay   = 306 + 365 // days from 1 March of baseYear to 1 January 1970
)

// civil returns the date of a day, given in days since 1970.
func civil(day int64) (y, m, d int) {
	n := int(day) + baseDay
	cycle, n := n/cycleDays, n%cycleDays
	year := min(n/365, 3)
	n -= year * 365
	month := (5*n + 2) / 153 // 0 is March
	y, m, d = baseYear+4*cycle+year, month+3, n-(153*month+2)/5+1
	if m > 12 {
		y, m = y+1, m-12
	}
	return y, m, d
}

// dayNumber returns the first day of a month, in days since 1970.
func dayNumber(y, m int) int64 {
	if m < 3 {
		y, m = y-1, m+12
	}
	year := y - baseYear
	return int64(year*365 + year/4 + (153*(m-3)+2)/5 - baseDay)
}
