package cron

import "strings"

// The fields of an expression, in their order.
const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
	year
	numFields
)

// A unit is what a field counts.
type unit struct {
	name     string // in messages, such as "hours are 0 to 23"
	one      string
	min, max int
	most     int      // the maximum step, as in Quartz
	names    []string // of the values from min on, in full; their first three letters are names too
}

var units = [numFields]unit{
	second:     {"seconds", "second", 0, 59, 59, nil},
	minute:     {"minutes", "minute", 0, 59, 59, nil},
	hour:       {"hours", "hour", 0, 23, 23, nil},
	dayOfMonth: {"days of the month", "day of month", 1, 31, 31, nil},
	month: {"months", "month", 1, 12, 12, []string{"January", "February", "March", "April", "May", "June", "July",
		"August", "September", "October", "November", "December"}},
	dayOfWeek: {"days of the week", "day of week", 1, 7, 7, []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday",
		"Friday", "Saturday"}},
	year: {"years", "year", MinYear, MaxYear, MaxYear - MinYear, nil},
}

// value returns the value of a name. Letter case is ignored.
func (u *unit) value(name string) (int, bool) {
	for i, full := range u.names {
		if strings.EqualFold(name, full) || strings.EqualFold(name, full[:3]) {
			return u.min + i, true
		}
	}
	return 0, false
}

// short returns the name of a value in the form of expressions.
func (u *unit) short(value int) string { return strings.ToUpper(u.names[value-u.min][:3]) }

// A kind is one of the forms of an element of a field.
type kind int

const (
	unspecified kind = iota // ?
	every                   // *, or */step
	values                  // low, low-high, low/step, low-high/step
	last                    // L, or L-low
	lastWeekday             // LW, or L-lowW
	nearestDay              // lowW
	nth                     // low#step
	lastOf                  // lowL
)

// A term is one element of the list in a field.
type term struct {
	kind      kind
	low, high int // high is below low in a range that wraps
	step      int // 1 if none is written
	ranged    bool
}

// A field is a list of terms.
type field struct {
	terms []term
	at    int // where it begins in the expression
}

// is reports whether the field is one term of a kind.
func (f *field) is(k kind) bool { return len(f.terms) == 1 && f.terms[0].kind == k }

// all reports whether the field is "*", or "*/1".
func (f *field) all() bool { return f.is(every) && f.terms[0].step == 1 }

// repeats reports whether the field says how often, not when.
func (f *field) repeats() bool {
	for _, t := range f.terms {
		if t.kind == every || t.ranged || t.step > 1 {
			return true
		}
	}
	return false
}

// each calls f for every value of a term, in the order in which it is written.
func (t *term) each(u *unit, f func(int)) {
	low, high := t.low, t.high
	size := u.max - u.min + 1
	if high < low {
		high += size
	}
	for v := low; v <= high; v += t.step {
		f((v-u.min)%size + u.min)
	}
}

// set returns the values of a field that fit into 64 bits.
func (f *field) set(u *unit) (set uint64) {
	for i := range f.terms {
		f.terms[i].each(u, func(v int) { set |= 1 << v })
	}
	return set
}

// years returns the values of the field of years.
func (f *field) years() (set [3]uint64) {
	for i := range f.terms {
		f.terms[i].each(&units[year], func(y int) { set[(y-MinYear)/64] |= 1 << ((y - MinYear) % 64) })
	}
	return set
}

// daysOfMonth returns the days that terms name in a month with the given length whose first day
// is the given day of the week, 0 for Sunday.
func (f *field) daysOfMonth(length, first int) (days uint32) {
	for i := range f.terms {
		switch t := &f.terms[i]; t.kind {
		case every, values:
			t.each(&units[dayOfMonth], func(d int) { days |= 1 << d })
		case last:
			days |= dayBit(length-t.low, length)
		case lastWeekday:
			days |= nearestWeekday(length-t.low, length, first)
		case nearestDay:
			days |= nearestWeekday(t.low, length, first)
		}
	}
	return days & (1<<(length+1) - 1)
}

// daysOfWeek does the same for the day of the week.
func (f *field) daysOfWeek(length, first int) (days uint32) {
	for i := range f.terms {
		switch t := &f.terms[i]; t.kind {
		case every, values:
			t.each(&units[dayOfWeek], func(w int) {
				for d := firstOn(w, first); d <= length; d += 7 {
					days |= 1 << d
				}
			})
		case nth:
			days |= dayBit(firstOn(t.low, first)+7*(t.step-1), length)
		case lastOf:
			d := firstOn(t.low, first) + 4*7
			if d > length {
				d -= 7
			}
			days |= 1 << d
		}
	}
	return days
}

// firstOn returns the first day of a month, from 1, that is on day w of the week.
func firstOn(w, first int) int { return (w-1-first+7)%7 + 1 }

// nearestWeekday returns the day from Monday to Friday that is nearest to a day,
// in the same month.
func nearestWeekday(day, length, first int) uint32 {
	if dayBit(day, length) == 0 {
		return 0
	}
	switch (first + day - 1) % 7 {
	case 6: // Saturday
		if day == 1 {
			return dayBit(3, length)
		}
		return dayBit(day-1, length)
	case 0:
		if day == length {
			return dayBit(day-2, length)
		}
		return dayBit(day+1, length)
	}
	return dayBit(day, length)
}

func dayBit(day, length int) uint32 {
	if day < 1 || day > length {
		return 0
	}
	return 1 << day
}
