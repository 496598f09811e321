package cron

import (
	"archive/zip"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/courierhq/courier/internal/test/raced"
)

var (
	whole    = flag.Bool("whole", false, "check every change of every zone, not one of each sort")
	fromYear = flag.Int("from", 2025, "the first year of the changes to check")
	toYear   = flag.Int("to", 2035, "the year after the last")
)

// everyZone returns all names of the tz database, with the sum of each zone's
// data, which is the same for names of the same zone.
func everyZone(t *testing.T) (names []string, sums []uint32) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			names, sums = append(names, f.Name), append(sums, f.CRC32)
		}
	}
	return names, sums
}

// A shift is a change of a zone's clocks.
type shift struct {
	zone          string
	location      *time.Location
	at            int64 // the first second of the new time
	before, after int64 // offsets
	near          string
}

func (s shift) String() string {
	return fmt.Sprintf("%s at %s (%+d min to %+d min)", s.zone, times(s.at), s.before/60, s.after/60)
}

// shiftsOf returns the changes of a zone in some years.
func shiftsOf(t *testing.T, zone string, from, to int) (found []shift) {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(to, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(from, 1, 1, 0, 0, 0, 0, location); ; {
		_, next := at.ZoneBounds()
		if next.IsZero() || next.After(end) {
			break
		}
		if !next.After(at) { // on the last day of some years
			next = at.AddDate(0, 0, 1)
		}
		_, before := next.Add(-1).Zone()
		if _, after := next.Zone(); after != before {
			found = append(found, shift{zone: zone, location: location, at: next.Unix(), before: int64(before), after: int64(after)})
		}
		at = next
	}
	for i, s := range found {
		var b strings.Builder
		for _, other := range found {
			if far := other.at - s.at; far > -4*daySeconds && far < 4*daySeconds {
				fmt.Fprint(&b, far, other.before, other.after, " ")
			}
		}
		found[i].near = b.String() + fmt.Sprint((s.at+s.before)%daySeconds)
	}
	return found
}

// odd are changes of the past that have no like in the years that are checked
// otherwise: days left out, half and quarter hours, changes at midnight.
var odd = []struct {
	zone string
	year int
}{
	{"Pacific/Apia", 2011}, {"Pacific/Fakaofo", 2011}, {"Pacific/Kwajalein", 1993}, {"Pacific/Kiritimati", 1994},
	{"Pacific/Enderbury", 1994}, {"Asia/Pyongyang", 2015}, {"Asia/Pyongyang", 2018}, {"America/Caracas", 2007},
	{"America/Caracas", 2016}, {"Asia/Kathmandu", 1985}, {"Antarctica/Casey", 2018}, {"America/Sao_Paulo", 2018},
	{"Asia/Amman", 2013}, {"Asia/Tehran", 2019}, {"Asia/Singapore", 1981}, {"America/St_Johns", 1988}, {"Africa/Cairo", 2014},
	{"Antarctica/Troll", 2016}, {"Africa/Juba", 2021}, {"Europe/Volgograd", 2018}, {"America/Metlakatla", 2015},
}

// TestEveryShift compares with the oracle, for 48 hours around each change of the
// clocks, in every zone of the tz database and all years from -from to -to.
// Changes that are the same but for their date are taken once.
//
//	go test ./internal/cron -run TestEveryShift -whole -timeout 0
func TestEveryShift(t *testing.T) {
	var shifts []shift
	zones, sums := everyZone(t)
	known := map[uint32][]shift{}
	for i, zone := range zones {
		found, ok := known[sums[i]]
		if !ok || *whole {
			found = shiftsOf(t, zone, *fromYear, *toYear)
			known[sums[i]] = found
		}
		shifts = append(shifts, found...)
	}
	all := len(shifts)
	for _, o := range odd {
		past := shiftsOf(t, o.zone, o.year, o.year+1)
		if len(past) == 0 {
			t.Errorf("%s has no change in %d", o.zone, o.year)
		}
		shifts = append(shifts, past...)
	}
	if !*whole {
		shifts = oneOfEach(shifts)
	}
	compared, every := 0, raced.Or(4, 1)
	for i, s := range shifts {
		if i%every != 0 && !*whole {
			continue
		}
		compared += s.check(t, i%raced.Or(16, 4) == 0)
		if t.Failed() && compared > 1_000_000 {
			t.Fatal("and no more is checked")
		}
	}
	t.Logf("%d zones, %d changes from %d to %d, %d checked, %d times compared", len(zones), all, *fromYear, *toYear, (len(shifts)+every-1)/every, compared)
	if len(zones) < 590 || all < 3000 || len(shifts) < 50 || compared < 100_000 {
		t.Error("that is too little")
	}
}

func oneOfEach(shifts []shift) (some []shift) {
	seen := map[string]bool{}
	for _, s := range shifts {
		if !seen[s.near] {
			seen[s.near] = true
			some = append(some, s)
		}
	}
	return some
}

// everyMinute are schedules in full minutes, for all changes.
var everyMinute = []string{
	"0 * * * * ?", "0 0 * * * ?", "0 30 * * * ?", "0 0/30 * * * ?", "0 0/45 * * * ?", "0 5,50 * * * ?", "0 7/10 1-3 * * ?",
	"0 */20 2 * * ?", "0 15 0-3 * * ?", "0 0 1/2 * * ?", "0 0 23-1 ? * *", "0 59 * L * ?", "0 * 0 1 * ?", "0 0/15 2 ? * SUN",
	"0 0 0 * * ?", "0 30 0 * * ?", "0 0 1 * * ?", "0 30 1 * * ?", "0 0 2 * * ?", "0 15 2 * * ?", "0 30 2 * * ?", "0 45 2 ? * SUN",
	"0 0 3 * * ?", "0 45 23 * * ?", "0 30 2,3 * * ?", "0 0,15,30,45 0,1,2,3,23 * * ?", "0 30 2 ? * 1L", "0 30 0 LW * ?",
}

// everySecond are schedules in seconds, for some changes.
var everySecond = []string{"* * * * * ?", "13/20 0/30 * * * ?", "0-3 59 0-23/2 * * ?", "59 59 * * * ?"}

// check compares all schedules around one change, and says how many times.
func (s shift) check(t *testing.T, seconds bool) (compared int) {
	zone := NewZone(s.location)
	clock, skipped := readings(s.location, s.at-56*3600, s.at+25*3600, 60)
	for _, text := range slices.Concat(everyMinute, s.schedules()) {
		compared += s.compare(t, text, zone, newOracle(text).fires(clock, skipped), 24*3600)
	}
	if seconds {
		clock, skipped := readings(s.location, s.at-4*3600, s.at+2*3600, 1)
		for _, text := range everySecond {
			compared += s.compare(t, text, zone, newOracle(text).fires(clock, skipped), 3600)
		}
	}
	return compared
}

// schedules returns some that fire just about the times that the change skips or
// repeats, on that day.
func (s shift) schedules() (texts []string) {
	low, high := s.at+min(s.before, s.after), s.at+max(s.before, s.after)
	for _, local := range []int64{low - 60, low, low + 60, (low + high) / 120 * 60, high - 60, high, high + 60} {
		at := time.Unix(local, 0).UTC()
		texts = append(texts,
			at.Format("0 4 15 2 1 ? 2006"),
			at.Format("0 4,0,7,8 * 2 1 ?"),
			strings.ToUpper(at.Format("0 4 15 ? * Mon")),
			at.Format("0 4/3 15 2 * ?"),
			at.Format("0 4 15 * * ?"))
	}
	return texts
}

// compare looks at one schedule from far before the change to far after it: all
// times one after the other, and the next one from many instants.
func (s shift) compare(t *testing.T, text string, zone *Zone, want []int64, far int64) int {
	e, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	start, end := s.at-far, s.at+far
	want = want[sort.Search(len(want), func(i int) bool { return want[i] > start }):]
	want = want[:sort.Search(len(want), func(i int) bool { return want[i] > end })]
	at := start
	for i := 0; ; i++ {
		next, ok := e.next(at, zone)
		if !ok || next > end {
			if i != len(want) {
				t.Errorf("%s: %q does not fire at %s, after %s", s, text, times(want[i]), times(at))
			}
			break
		}
		if i == len(want) || next != want[i] {
			t.Errorf("%s: %q fires at %s after %s; want %s", s, text, times(next), times(at), times(want[i:min(i+1, len(want))]...))
			break
		}
		at = next
	}
	compared := len(want)
	for i, at := 0, start; i < len(want); at += 607 {
		for i < len(want) && want[i] <= at {
			i++
		}
		if i == len(want) {
			break
		}
		compared++
		if next, ok := e.next(at, zone); !ok || next != want[i] {
			t.Errorf("%s: %q fires at %s after %s; want %s", s, text, times(next), times(at), times(want[i]))
			break
		}
	}
	return compared
}
