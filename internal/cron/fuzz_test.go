package cron

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/raced"
)

// randomField returns a list of values, ranges, steps and what else a field may
// have.
func randomField(r *rand.Rand, index int) string {
	u := &units[index]
	value := func() string {
		v := u.min + r.IntN(u.max-u.min+1)
		if index == year {
			v = 2000 + r.IntN(100)
		}
		if u.names != nil && r.IntN(2) == 0 {
			return u.short(v)
		}
		return fmt.Sprint(v)
	}
	step := func() string { return fmt.Sprint("/", 1+r.IntN(min(u.most, 40))) }
	items := make([]string, 1+max(0, r.IntN(8)-5))
	for i := range items {
		switch n := r.IntN(12); {
		case n < 2:
			items[i] = "*"
		case n < 3:
			items[i] = "*" + step()
		case n < 4:
			items[i] = value() + step()
		case n < 6 && index != year:
			items[i] = value() + "-" + value()
		case n < 7 && index != year:
			items[i] = value() + "-" + value() + step()
		case n < 11 && index == dayOfMonth:
			items[i] = []string{"L", "LW", fmt.Sprint("L-", r.IntN(31)), value() + "W", fmt.Sprint("L-", r.IntN(31), "W")}[r.IntN(5)]
		case n < 11 && index == dayOfWeek:
			items[i] = []string{"L", value() + "L", fmt.Sprint(value(), "#", 1+r.IntN(5))}[r.IntN(3)]
		default:
			items[i] = value()
		}
	}
	return strings.Join(items, ",")
}

// maxDays is how far the oracle looks for the next day.
const maxDays = 9 * 366

// next returns the first time after a given one, in UTC, by asking about each day.
func (o *oracle) next(after int64) (int64, bool) {
	for day := max(after, 0) / daySeconds; day < max(after, 0)/daySeconds+maxDays; day++ {
		midnight := day * daySeconds
		if !o.day(midnight) {
			continue
		}
		for at := max(after+1, midnight); at < midnight+daySeconds; at++ {
			switch minute := at / 60 * 60; {
			case !o.ofDay[minute%daySeconds/60]:
				at = minute + 59
			case o.ofMinute[at%60]:
				return at, true
			}
		}
	}
	return 0, false
}

// FuzzParse holds Parse to taking any text without panicking, and its errors to
// what their type says.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0 0 3 ? * TUE", "0 0/15 8-17 * * ?", "0 0 0 L-3W,15W * ? 2027/2", "0 0 3 ? * 6#3,FRIL", "@every 5m",
		"*/5 * * * 1-5", "0 0 3 * * *", "0 0 3 ? * MON-FRI/2", "a b c d e f", "0 0 0 99999999999999999999 * ?", "\xff \xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			checkError(t, text, err)
			return
		}
		if e.String() != text {
			t.Errorf("%q reads as %q", text, e)
		}
		if words := e.Words(); words == "" || strings.ContainsAny(words, "\n%") || strings.Contains(words, "  ") {
			t.Errorf("%q in words is %q", text, words)
		}
	})
}

// fuzzZones have changes of all sorts.
var fuzzZones = []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca",
	"Pacific/Apia", "Asia/Tehran", "Antarctica/Troll", "Antarctica/Casey", "Pacific/Kwajalein", "America/Caracas"}

func loadFuzzZones(t testing.TB) []*Zone {
	zones := make([]*Zone, len(fuzzZones))
	for i, name := range fuzzZones {
		zones[i] = mustLoad(t, name)
	}
	return zones
}

// FuzzNext compares with the oracle in UTC, and holds Next to its promises in
// zones where it has more to do: a time strictly later, that the expression names
// or that the clock skipped, and none before it.
func FuzzNext(f *testing.F) {
	for i, s := range []string{"0 30 2 * * ?", "* * * * * ?", "0 0/15 1-3 ? * SUN", "0 0 0 L-3W * ?", "59 59 23 31 12 ? 2099", "0 0 0 29 2 ?", "0 0 12 30 12 ?"} {
		f.Add(s, int64(1_700_000_000+i*10_000_000), byte(i))
	}
	zones := loadFuzzZones(f)
	f.Fuzz(func(t *testing.T, text string, after int64, zone byte) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		compareDays(t, e, text, after%(200*365*daySeconds), 2)
		checkNext(t, e, text, zones[int(zone)%len(zones)], after)
	})
}

// checkNext holds one call of Next to what it promises.
func checkNext(t *testing.T, e *Expression, text string, z *Zone, after int64) {
	t.Helper()
	next, ok := e.next(after, z)
	if !ok {
		if next, ok := e.next(max(after, 0)+daySeconds, z); ok {
			t.Fatalf("%q in %s does not fire after %d, but at %s", text, z, after, times(next))
		}
		return
	}
	if next <= after || next < -2*daySeconds || next >= latest {
		t.Fatalf("%q in %s fires at %d after %d", text, z, next, after)
	}
	for _, from := range []int64{next - 1, after/2 + next/2, next - (next-max(after, earliest))/1000 - 1} {
		if again, ok := e.next(max(from, after), z); from < next && (!ok || again != next) {
			t.Fatalf("%q in %s fires at %s after %s, but at %s after %s", text, z, times(next), times(after), times(again), times(max(from, after)))
		}
	}
	o, shown := newOracle(text), false
	clock, _ := readings(z.Location(), next, next+1, 1)
	shown = o.names(clock[0].local)
	for _, c := range z.changes[1:] { // as if the clock had gone on
		if d := next - c.at; !shown && d >= 0 && d < 2*daySeconds {
			before, _ := readings(z.Location(), c.at-1, c.at, 1)
			shown = before[1].local > before[0].local+1+d && o.names(before[0].local+1+d)
		}
	}
	if !shown {
		t.Fatalf("%q in %s fires at %s, which it does not name", text, z, times(next))
	}
}

// TestFuzzed does what FuzzNext does, with random expressions that are right.
func TestFuzzed(t *testing.T) {
	random, zones := rand.New(rand.NewPCG(3, 4)), loadFuzzZones(t)
	for i := range raced.Or(300, 1500) {
		text := randomExpression(random)
		if i%2 == 0 { // about changes of clocks
			text = fmt.Sprintf("0 %s %d %s", randomField(random, minute), random.IntN(4), "* * ?")
		}
		z := zones[random.IntN(len(zones))]
		after := random.Int64N(130 * 365 * daySeconds)
		if n := len(z.changes); n > 1 {
			after = z.changes[1+random.IntN(n-1)].at + random.Int64N(2*daySeconds) - daySeconds
		}
		checkNext(t, mustParse(t, text), text, z, after)
	}
}
