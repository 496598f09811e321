package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An oracle decides whether an expression names a local time, by asking the
// question for each field, of the text. It is written to be obviously right, and
// has nothing in common with the code that it judges.
type oracle struct {
	fields   [7]string
	repeats  bool
	ofDay    [daySeconds / 60]bool // whether minute and hour match, for speed
	ofMinute [60]bool
	dates    map[int64]bool
}

func newOracle(text string) *oracle {
	o := &oracle{dates: map[int64]bool{}}
	copy(o.fields[:], append(strings.Fields(strings.ToUpper(text)), "*"))
	o.repeats = strings.ContainsAny(o.fields[0]+o.fields[1]+o.fields[2], "*-/")
	for m := range o.ofDay {
		o.ofDay[m] = inList(o.fields[1], m%60, 0, 59, "") && inList(o.fields[2], m/60, 0, 23, "")
	}
	for s := range o.ofMinute {
		o.ofMinute[s] = inList(o.fields[0], s, 0, 59, "")
	}
	return o
}

// names reports whether the expression names a local time, which is given as what
// UTC would be if it showed the same.
func (o *oracle) names(local int64) bool {
	if !o.ofDay[local%daySeconds/60] || !o.ofMinute[local%60] {
		return false
	}
	return o.day(local)
}

// day reports whether the expression names the day of a local time.
func (o *oracle) day(local int64) bool {
	is, known := o.dates[local/daySeconds]
	if !known {
		is = o.date(time.Unix(local, 0).UTC())
		o.dates[local/daySeconds] = is
	}
	return is
}

func (o *oracle) date(t time.Time) bool {
	if !inList(o.fields[4], int(t.Month()), 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC") || !inList(o.fields[6], t.Year(), 1970, 2099, "") {
		return false
	}
	if o.fields[5] == "?" {
		return slices.ContainsFunc(strings.Split(o.fields[3], ","), func(s string) bool { return isDay(s, t) })
	}
	return slices.ContainsFunc(strings.Split(o.fields[5], ","), func(s string) bool { return isWeekday(s, t) })
}

func isDay(s string, t time.Time) bool {
	end := time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	s, toWeekday := strings.CutSuffix(s, "W")
	if s == "L" {
		s = "L-0"
	}
	day, fromEnd := strings.CutPrefix(s, "L-")
	if !toWeekday && !fromEnd {
		return inList(s, t.Day(), 1, 31, "")
	}
	wanted := number(day, "")
	if fromEnd {
		wanted = end - wanted
	}
	if wanted < 1 || wanted > end {
		return false
	}
	if toWeekday {
		for _, far := range []int{0, -1, 1, -2, 2} {
			at := time.Date(t.Year(), t.Month(), wanted+far, 0, 0, 0, 0, time.UTC)
			if at.Month() == t.Month() && at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
				wanted += far
				break
			}
		}
	}
	return t.Day() == wanted
}

const weekNames = "SUNMONTUEWEDTHUFRISAT"

func isWeekday(s string, t time.Time) bool {
	today := int(t.Weekday()) + 1
	if day, n, ok := strings.Cut(s, "#"); ok {
		return today == number(day, weekNames) && strconv.Itoa((t.Day()+6)/7) == n
	}
	if day, ok := strings.CutSuffix(s, "L"); ok && day != "" {
		return today == number(day, weekNames) && t.AddDate(0, 0, 7).Month() != t.Month()
	}
	if s == "L" {
		s = "SAT"
	}
	return inList(s, today, 1, 7, weekNames)
}

// inList reports whether a list of values, ranges and steps has v.
func inList(list string, v, low, high int, names string) bool {
	if v < low || v > high {
		return false
	}
	for _, s := range strings.Split(list, ",") {
		s, step, stepped := strings.Cut(s, "/")
		from, to, ranged := strings.Cut(s, "-")
		a, b, n := low, high, 1
		if from != "*" && from != "" {
			a = number(from, names)
			if b = a; stepped {
				b = high
			}
		}
		if ranged {
			b = number(to, names)
		}
		if stepped {
			n = number(step, "")
		}
		size := high - low + 1
		beyond := (v - a + size) % size
		if beyond <= (b-a+size)%size && beyond%n == 0 {
			return true
		}
	}
	return false
}

// number reads a number or a name of three letters in a row of such.
func number(s, names string) int {
	if len(s) >= 3 && names != "" && s[0] >= 'A' {
		for i := 0; i < len(names); i += 3 {
			if names[i:i+3] == s[:3] {
				return i/3 + 1
			}
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("the oracle does not understand %q", s))
	}
	return n
}

// A reading is what a clock showed at an instant, as UTC would if it showed the
// same.
type reading struct {
	at, local int64
	again     bool // the clock had shown it before
}

// readings watches the clock of a location, from one instant to another. Last
// come the times that it skipped, with the instants at which it would have shown
// them, had it gone on.
func readings(location *time.Location, from, to, every int64) (clock, skipped []reading) {
	shown := map[int64]bool{}
	for at := from; at <= to; at += every {
		t := time.Unix(at, 0).In(location)
		y, mo, d := t.Date()
		h, mi, s := t.Clock()
		local := time.Date(y, mo, d, h, mi, s, 0, time.UTC).Unix()
		clock = append(clock, reading{at, local, shown[local]})
		shown[local] = true
	}
	for i, r := range clock[1:] {
		for late, local := every, clock[i].local+every; local < r.local; late, local = late+every, local+every {
			if !shown[local] {
				skipped = append(skipped, reading{at: clock[i].at + late, local: local})
			}
		}
	}
	return clock, skipped
}

// fires returns when the schedule fires, by readings of a clock that include all
// times that the schedule names.
func (o *oracle) fires(clock, skipped []reading) (fires []int64) {
	for _, r := range clock {
		if o.names(r.local) && (o.repeats || !r.again) {
			fires = append(fires, r.at)
		}
	}
	for _, r := range skipped {
		if o.names(r.local) {
			fires = append(fires, r.at)
		}
	}
	slices.Sort(fires)
	return slices.Compact(fires)
}
