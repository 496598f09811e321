package cron

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/raced"
)

// TestZones compares each zone's table with the time package, at both sides of
// each change and at random, in all the years that matter.
func TestZones(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for i, name := range zoneNames() {
		if i%raced.Or(5, 1) != 0 {
			continue
		}
		z := mustLoad(t, name)
		if z.String() != name {
			t.Errorf("%s is called %s", name, z)
		}
		var at []int64
		for _, c := range z.changes[1:] {
			at = append(at, c.at-1, c.at)
		}
		for range 1000 {
			at = append(at, earliest+random.Int64N(latest-earliest))
		}
		for _, at := range at {
			want := offset(time.Unix(at, 0).In(z.Location()))
			if got := z.changes[z.period(at)].offset; got != want {
				t.Errorf("%s at %s is %d s ahead of UTC; want %d", name, times(at), got, want)
				break
			}
		}
		checkPeriods(t, z)
	}
}

// checkPeriods holds the zone to what the search relies on: clocks differ from
// UTC by less than a day, and no two changes are so near to each other that the
// times of one are still being moved or repeated at the other.
func checkPeriods(t *testing.T, z *Zone) {
	t.Helper()
	for i, c := range z.changes {
		if c.offset < -daySeconds || c.offset > daySeconds {
			t.Errorf("%s: offset %d", z, c.offset)
		}
		if i == 0 {
			continue
		}
		shift := max(c.offset-z.changes[i-1].offset, z.changes[i-1].offset-c.offset)
		if shift == 0 || c.at+shift > z.end(i) || i > 1 && c.at-shift < z.changes[i-1].at {
			t.Errorf("%s: the change at %s is by %d s, and the next at %s", z, times(c.at), shift, times(z.end(i)))
		}
	}
}

// TestZoneNames keeps the list of names the same as that of the tz database that
// comes with Go.
func TestZoneNames(t *testing.T) {
	want, _ := everyZone(t)
	slices.Sort(want)
	if got := zoneNames(); !slices.Equal(got, want) {
		t.Errorf("zones.txt has %d names; to write the %d of the database: unzip -Z1 $(go env GOROOT)/lib/time/zoneinfo.zip | grep -v '/$' | LC_ALL=C sort", len(got), len(want))
	}
	for zone := range abbreviations {
		if slices.Contains(want, zone) || !slices.Contains(want, abbreviations[zone]) {
			t.Errorf("%s is a name, or %s is none", zone, abbreviations[zone])
		}
	}
}

func TestLoadZone(t *testing.T) {
	if z := mustLoad(t, ""); z.String() != "UTC" || len(z.changes) != 1 {
		t.Errorf("the empty name is %s", z)
	}
	for _, c := range []struct{ name, want string }{
		{"europe/berlin", `there is no time zone "europe/berlin"; did you mean "Europe/Berlin"?`},
		{"Europe/Berln", `there is no time zone "Europe/Berln"; did you mean "Europe/Berlin"?`},
		{"Amercia/New_York", `there is no time zone "Amercia/New_York"; did you mean "America/New_York"?`},
		{"Asia/Calcuta", `there is no time zone "Asia/Calcuta"; did you mean "Asia/Calcutta"?`},
		{"US/Pacfic", `there is no time zone "US/Pacfic"; did you mean "US/Pacific"?`},
		{"Europe/Munich", `there is no time zone "Europe/Munich"; did you mean "Europe/Zurich" or "Europe/Monaco"?`},
		{"Berlin", `there is no time zone "Berlin"; did you mean "Europe/Berlin"?`},
		{"new york", `there is no time zone "new york"; did you mean "America/New_York"?`},
		{"Asia/Sydney", `there is no time zone "Asia/Sydney"; did you mean "Australia/Sydney"?`},
		{"CEST", `there is no time zone "CEST"; it is short for a time of the year; did you mean "Europe/Berlin"?`},
		{"pst", `there is no time zone "pst"; it is short for a time of the year; did you mean "America/Los_Angeles"?`},
		{"UTC+2", `there is no time zone "UTC+2"; did you mean "Etc/GMT-2", where the sign is the other way round?`},
		{"+02:00", `there is no time zone "+02:00"; did you mean "Etc/GMT-2", where the sign is the other way round?`},
		{"GMT-0500", `there is no time zone "GMT-0500"; did you mean "Etc/GMT+5", where the sign is the other way round?`},
		{"Local", `time zone "Local" is another one on every machine; write its name, such as "Europe/Berlin"`},
		{"../../etc/passwd", `there is no time zone "../../etc/passwd"; names are those of the tz database, such as "Europe/Berlin" or "UTC"`},
		{"\x00\n", `there is no time zone "\x00\n"; names are those of the tz database, such as "Europe/Berlin" or "UTC"`},
		{strings.Repeat("x", 101), `there is no time zone "` + strings.Repeat("x", 100) + `..."; names are those of the tz database, such as "Europe/Berlin" or "UTC"`},
	} {
		if _, err := LoadZone(c.name); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v\nwant %s", c.name, err, c.want)
		}
	}
}

// TestNoDatabase is a machine that has no time zone database at all.
func TestNoDatabase(t *testing.T) {
	got := unknownZone("Europe/Berlin").Error()
	if want := `time zone "Europe/Berlin" is not in the time zone database of this machine; install its package tzdata, or import time/tzdata into the program`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
