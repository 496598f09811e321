package cron

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/raced"
)

// TestDaylightSaving has the changes that other schedulers get wrong, one by one,
// with what is expected written down by hand.
func TestDaylightSaving(t *testing.T) {
	for _, c := range []struct{ zone, expression, after, want string }{
		// 02:00 is followed by 03:00.
		{"America/New_York", "0 30 2 * * ?", "2027-03-13 12:00 EST", "2027-03-14 03:30 EDT, 2027-03-15 02:30 EDT"},
		{"America/New_York", "0 0 2 * * ?", "2027-03-13 12:00 EST", "2027-03-14 03:00 EDT, 2027-03-15 02:00 EDT"},
		{"America/New_York", "0 0 3 * * ?", "2027-03-13 12:00 EST", "2027-03-14 03:00 EDT, 2027-03-15 03:00 EDT"},
		{"America/New_York", "0 30 2,3 * * ?", "2027-03-14 00:00 EST", "2027-03-14 03:30 EDT, 2027-03-15 02:30 EDT"},
		{"America/New_York", "0 0/30 * * * ?", "2027-03-14 01:00 EST", "2027-03-14 01:30 EST, 2027-03-14 03:00 EDT, 2027-03-14 03:30 EDT, 2027-03-14 04:00 EDT"},
		{"America/New_York", "0 0/30 2 * * ?", "2027-03-14 01:00 EST", "2027-03-14 03:00 EDT, 2027-03-14 03:30 EDT, 2027-03-15 02:00 EDT"},
		{"America/New_York", "0 0 2/6 * * ?", "2027-03-13 19:00 EST", "2027-03-13 20:00 EST, 2027-03-14 03:00 EDT, 2027-03-14 08:00 EDT"},
		{"Europe/Berlin", "0 30 2 28 3 ?", "2027-01-01 00:00 CET", "2027-03-28 03:30 CEST, 2028-03-28 02:30 CEST"},
		{"Europe/Warsaw", "0 15 2 ? * SUN", "2027-03-27 00:00 CET", "2027-03-28 03:15 CEST, 2027-04-04 02:15 CEST"},
		{"Australia/Lord_Howe", "0 15 2 * * ?", "2027-10-02 12:00 +1030", "2027-10-03 02:45 +11, 2027-10-04 02:15 +11"},
		{"Australia/Lord_Howe", "0 0 * * * ?", "2027-10-03 00:30 +1030", "2027-10-03 01:00 +1030, 2027-10-03 02:30 +11, 2027-10-03 03:00 +11"},
		{"America/Santiago", "0 0 0 * * ?", "2027-09-04 12:00 -04", "2027-09-05 01:00 -03, 2027-09-06 00:00 -03"},

		// 01:59 is followed by 01:00, or 02:59 by 02:00.
		{"America/New_York", "0 30 1 * * ?", "2027-11-06 12:00 EDT", "2027-11-07 01:30 EDT, 2027-11-08 01:30 EST"},
		{"America/New_York", "0 30 1 * * ?", "2027-11-07 01:45 EDT", "2027-11-08 01:30 EST"},
		{"America/New_York", "0 0 2 * * ?", "2027-11-07 00:00 EDT", "2027-11-07 02:00 EST, 2027-11-08 02:00 EST"},
		{"America/New_York", "0 0,30 1 * * ?", "2027-11-07 00:00 EDT", "2027-11-07 01:00 EDT, 2027-11-07 01:30 EDT, 2027-11-08 01:00 EST"},
		{"America/New_York", "0 0/30 * * * ?", "2027-11-07 00:40 EDT", "2027-11-07 01:00 EDT, 2027-11-07 01:30 EDT, 2027-11-07 01:00 EST, 2027-11-07 01:30 EST, 2027-11-07 02:00 EST"},
		{"America/New_York", "0 30 * * * ?", "2027-11-07 01:40 EDT", "2027-11-07 01:30 EST, 2027-11-07 02:30 EST"},
		{"America/New_York", "0 30 1-2 * * ?", "2027-11-07 00:40 EDT", "2027-11-07 01:30 EDT, 2027-11-07 01:30 EST, 2027-11-07 02:30 EST"},
		{"Europe/Berlin", "0 0/20 2 * * ?", "2027-10-31 02:30 CEST", "2027-10-31 02:40 CEST, 2027-10-31 02:00 CET, 2027-10-31 02:20 CET, 2027-10-31 02:40 CET, 2027-11-01 02:00 CET"},
		{"Australia/Sydney", "0 30 2 * * ?", "2027-04-03 12:00 AEDT", "2027-04-04 02:30 AEDT, 2027-04-05 02:30 AEST"},
		{"Australia/Lord_Howe", "0 45 1 * * ?", "2027-04-03 12:00 +11", "2027-04-04 01:45 +11, 2027-04-05 01:45 +1030"},
		{"Australia/Lord_Howe", "0 0/15 1 * * ?", "2027-04-04 01:20 +11", "2027-04-04 01:30 +11, 2027-04-04 01:45 +11, 2027-04-04 01:30 +1030, 2027-04-04 01:45 +1030, 2027-04-05 01:00 +1030"},
		{"America/Santiago", "0 30 23 * * ?", "2027-04-03 12:00 -03", "2027-04-03 23:30 -03, 2027-04-04 23:30 -04"},
		{"America/Santiago", "0 * 23 3 4 ? 2027", "2027-04-03 23:58 -03", "2027-04-03 23:59 -03, 2027-04-03 23:00 -04"},

		// A day that never was, and clocks that never change.
		{"Pacific/Apia", "0 30 2 * * ?", "2011-12-29 00:00 -10", "2011-12-29 02:30 -10, 2011-12-31 02:30 +14, 2012-01-01 02:30 +14"},
		{"Pacific/Apia", "0 0 12 30 12 ?", "2011-12-01 00:00 -10", "2011-12-31 12:00 +14, 2012-12-30 12:00 +14"},
		{"Asia/Kolkata", "0 30 2 * * ?", "2027-03-28 12:00 IST", "2027-03-29 02:30 IST"},
	} {
		zone := mustLoad(t, c.zone)
		const layout = "2006-01-02 15:04 MST"
		after := parseIn(t, layout, c.after, zone)
		e := mustParse(t, c.expression)
		for _, want := range strings.Split(c.want, ", ") {
			next, ok := e.Next(after, zone)
			if got := next.Format(layout); !ok || got != want {
				t.Errorf("%s in %s fires at %s after %s; want %s", c.expression, c.zone, got, after.Format(layout), want)
				break
			}
			after = next
		}
	}
}

// parseIn reads a local time with the abbreviation of its offset, which says
// which of two is meant.
func parseIn(t *testing.T, layout, text string, zone *Zone) time.Time {
	t.Helper()
	clock := text[:len("2006-01-02 15:04")]
	at, err := time.ParseInLocation(layout[:len(clock)], clock, zone.Location())
	if err != nil {
		t.Fatal(err)
	}
	for _, shift := range []time.Duration{0, -time.Hour, time.Hour, -30 * time.Minute, 30 * time.Minute} {
		if other := at.Add(shift); other.Format(layout) == text {
			return other
		}
	}
	t.Fatalf("%q is no time in %s", text, zone)
	return at
}

// TestWholeDays counts the fires of a schedule by the minute.
func TestWholeDays(t *testing.T) {
	zone := mustLoad(t, "America/New_York")
	e := mustParse(t, "0 * * * * ?")
	for day, want := range map[string]int{"2027-03-14": 23 * 60, "2027-03-15": 24 * 60, "2027-11-07": 25 * 60} {
		from, err := time.ParseInLocation(time.DateOnly, day, zone.Location())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for at, ok := e.Next(from.Add(-1), zone); ok && at.Before(from.AddDate(0, 0, 1)); at, ok = e.Next(at, zone) {
			n++
		}
		if n != want {
			t.Errorf("%s: fires %d times, want %d", day, n, want)
		}
	}
}

// TestDifferences has what Quartz 2.3.2 contradicts itself about, or reads and
// ignores. (Its own answers in testdata have no such case.)
func TestDifferences(t *testing.T) {
	for _, c := range []struct{ expression, want, why string }{
		{"0 0 0 31W * ?", "2027-01-29 2027-03-31 2027-05-31 2027-07-30", "Quartz takes the 30th in months of 30 days, or skips them, depending on the start"},
		{"0 0 0 30W * ?", "2027-01-29 2027-03-30 2027-04-30 2027-05-31", "the same in February"},
		{"0 0 0 29W 2 ?", "2028-02-29 2032-02-27 2036-02-29", "the same in February of 28 days"},
		{"0 0 0 L-30 * ?", "2027-01-01 2027-03-01 2027-05-01", "Quartz goes to day 0, which is in the month before"},
		{"0 0 0 L-30W * ?", "2027-01-01 2027-03-01 2027-05-03", "the same"},
		{"0 0 0 1W,15W * ?", "2027-01-01 2027-01-15 2027-02-01 2027-02-15", "Quartz takes the first of a list with W"},
		{"0 0 0 1,LW * ?", "2027-01-01 2027-01-29 2027-02-01 2027-02-26", "Quartz refuses it"},
		{"0 0 0 ? * 2#1,6#3", "2027-01-04 2027-01-15 2027-02-01 2027-02-19", "Quartz refuses it"},
		{"0 0 0 ? * MON-FRI/2", "2027-01-01 2027-01-04 2027-01-06", "Quartz ignores the step after names"},
		{"0 0 0 1 JAN/6 ?", "2027-01-01 2027-07-01 2028-01-01", "Quartz ignores the step after names"},
	} {
		at, e := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC), mustParse(t, c.expression)
		for _, want := range strings.Fields(c.want) {
			next, ok := e.Next(at, nil)
			if got := next.Format(time.DateOnly); !ok || got != want {
				t.Errorf("%s fires on %s after %s; want %s (%s)", c.expression, got, at, want, c.why)
				break
			}
			at = next
		}
	}
}

func TestNextAtTheEnds(t *testing.T) {
	day := func(y int, m time.Month, d, h, min, s int) time.Time {
		return time.Date(y, m, d, h, min, s, 0, time.UTC)
	}
	first := day(1970, 1, 1, 0, 0, 0)
	for _, c := range []struct {
		expression string
		after      time.Time
		want       time.Time // zero for never
	}{
		{"* * * * * ?", time.Time{}, first},
		{"* * * * * ?", time.Unix(math.MinInt64, 0), first},
		{"* * * * * ?", time.Unix(-1, 0), first},
		{"* * * * * ?", time.Unix(0, 0), first.Add(time.Second)},
		{"* * * * * ?", time.Unix(-1, 999_999_999), first},
		{"* * * * * ?", time.Unix(10, 1), time.Unix(11, 0)},
		{"* * * * * ?", time.Unix(10, 999_999_999), time.Unix(11, 0)},
		{"* * * * * ?", day(2099, 12, 31, 23, 59, 58), day(2099, 12, 31, 23, 59, 59)},
		{"* * * * * ?", day(2099, 12, 31, 23, 59, 59), time.Time{}},
		{"* * * * * ?", day(2500, 1, 1, 0, 0, 0), time.Time{}},
		{"* * * * * ?", time.Unix(math.MaxInt64, 0), time.Time{}},
		{"0 0 0 1 1 ? 1970", day(1969, 1, 1, 0, 0, 0), first},
		{"0 0 0 1 1 ? 1970", first, time.Time{}},
		{"0 0 0 29 2 ?", day(2096, 3, 1, 0, 0, 0), time.Time{}},
		{"0 0 0 29 2 ?", day(2026, 11, 22, 0, 0, 0), day(2028, 2, 29, 0, 0, 0)},
		{"0 0 0 29 2 ? 2027-2035/1", day(2028, 2, 29, 0, 0, 0), day(2032, 2, 29, 0, 0, 0)},
		{"0 0 0 ? 2 1#5", day(2026, 11, 22, 0, 0, 0), day(2032, 2, 29, 0, 0, 0)},
		{"0 0 0 30 2 ?", time.Time{}, time.Time{}},
		{"0 0 0 31 4,6,9,11 ?", time.Time{}, time.Time{}},
		{"59 59 23 31 12 ? 2099", time.Time{}, day(2099, 12, 31, 23, 59, 59)},
	} {
		got, ok := mustParse(t, c.expression).Next(c.after, nil)
		if ok == c.want.IsZero() || !got.Equal(c.want) {
			t.Errorf("%s after %d s: %v, %v; want %v", c.expression, c.after.Unix(), got, ok, c.want)
		}
	}
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin", "America/New_York"} {
		z := mustLoad(t, zone)
		last := time.Date(2099, 12, 31, 23, 59, 59, 0, z.Location())
		e := mustParse(t, "* * * * * ?")
		if at, ok := e.Next(last.Add(-1), z); !ok || !at.Equal(last) || at.Location() != z.Location() {
			t.Errorf("%s: %v, %v; want %v", zone, at, ok, last)
		}
		if at, ok := e.Next(last, z); ok {
			t.Errorf("%s: fires at %v", zone, at)
		}
		first := time.Date(1970, 1, 1, 0, 0, 0, 0, z.Location())
		if at, ok := e.Next(time.Time{}, z); !ok || !at.Equal(first) {
			t.Errorf("%s: %v, %v; want %v", zone, at, ok, first)
		}
	}
}

// TestCalendar compares the arithmetic of dates with the time package, for every
// day.
func TestCalendar(t *testing.T) {
	for day := int64(firstDay); day <= lastDay; day++ {
		at := time.Unix(day*daySeconds, 0).UTC()
		y, m, d := civil(day)
		if y != at.Year() || m != int(at.Month()) || d != at.Day() || weekday(day) != int(at.Weekday()) {
			t.Fatalf("day %d is %d-%d-%d, weekday %d; want %v", day, y, m, d, weekday(day), at)
		}
		if n := dayNumber(y, m); n != day-int64(d)+1 {
			t.Fatalf("%d-%d begins on day %d; want %d", y, m, n, day-int64(d)+1)
		}
		if n := monthLength(y, m); n != at.AddDate(0, 1, -d).Day() {
			t.Fatalf("%d-%d has %d days", y, m, n)
		}
	}
}

// TestRandom compares random expressions with the oracle, in UTC, where it can
// look at one day after the other.
func TestRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range raced.Or(300, 1500) {
		text := randomExpression(random)
		e, err := Parse(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		compareDays(t, e, text, random.Int64N(130*365*daySeconds), 4)
	}
}

// compareDays compares the next times at which e fires in UTC with the oracle's.
func compareDays(t *testing.T, e *Expression, text string, after int64, n int) {
	t.Helper()
	o := newOracle(text)
	for range n {
		want, ok := o.next(after)
		got, fires := e.next(after, &utc)
		if !fires && !ok {
			return
		}
		if !ok && got > after+maxDays*daySeconds {
			return // farther than the oracle looks
		}
		if got != want || !fires {
			t.Fatalf("%q fires at %s after %s; want %s", text, times(got), times(after), times(want))
		}
		after = got
	}
}

// randomExpression returns an expression of any form.
func randomExpression(r *rand.Rand) string {
	f := make([]string, 7)
	for i := range f {
		f[i] = randomField(r, i)
	}
	days, weekdays := &f[dayOfMonth], &f[dayOfWeek]
	if r.IntN(2) == 0 {
		*weekdays = "?"
	} else {
		*days = "?"
	}
	n := 6 + r.IntN(2)
	return strings.Join(f[:n], " ")
}
