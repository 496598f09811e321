package cron

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/nearest"
)

// A Zone has the changes of the clocks in a time zone. [LoadZone] or [NewZone] makes it. It never
// changes, and may be used by several goroutines at once. Making one takes a tenth of a
// millisecond and a few kilobytes, so [LoadZone] keeps one for each name.
type Zone struct {
	location *time.Location
	changes  []change // the first is before all times
}

// A change begins a period in which local time is UTC plus an offset.
type change struct{ at, offset int64 }

var utc = Zone{time.UTC, []change{{at: math.MinInt64}}}

// NewZone returns the zone of a location.
func NewZone(location *time.Location) *Zone {
	t := time.Unix(earliest, 0).In(location)
	before := offset(t)
	z := &Zone{location, []change{{math.MinInt64, before}}}
	for t.Unix() < latest {
		_, next := t.ZoneBounds()
		if next.IsZero() {
			break
		}
		if !next.After(t) { // as it may be said of the last day of a year
			next = t.Add(daySeconds * time.Second)
		}
		now := offset(next)
		if now != before {
			at := next.Unix()
			if offset(next.Add(-time.Second)) == now { // the end was within the new time
				at = t.Unix() + int64(sort.Search(int(at-t.Unix()), func(n int) bool {
					return offset(t.Add(time.Duration(n)*time.Second)) == now
				}))
			}
			z.changes = append(z.changes, change{at, now})
		}
		t, before = next, now
	}
	return z
}

// offset returns the number of seconds by which local time is ahead of UTC.
func offset(t time.Time) int64 {
	_, seconds := t.Zone()
	return int64(seconds)
}

// Location returns the location from which the zone was made.
func (z *Zone) Location() *time.Location { return z.location }

// String returns the name of the zone.
func (z *Zone) String() string { return z.location.String() }

// period returns the index of the period that contains an instant.
func (z *Zone) period(at int64) int {
	low, high := 0, len(z.changes)
	for low+1 < high {
		if middle := int(uint(low+high) >> 1); z.changes[middle].at <= at {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// end returns the end of period i.
func (z *Zone) end(i int) int64 {
	if i == len(z.changes)-1 {
		return never
	}
	return z.changes[i+1].at
}

//go:embed zones.txt
var zoneList string

// zoneNames returns the names of the tz database. They are used to suggest a name, also on a
// machine that has no database. [LoadZone] also finds names that are newer than this list.
func zoneNames() []string { return strings.Fields(zoneList) }

// LoadZone returns the zone of a name in the tz database, such as Europe/Berlin. The empty name
// is UTC. "Local" is refused, because it is a different zone on every machine. The error for an
// unknown name suggests the nearest names.
func LoadZone(name string) (*Zone, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if zone := loaded.zones[name]; zone != nil {
		return zone, nil
	}
	if name == "Local" {
		return nil, errors.New(`time zone "Local" is another one on every machine; write its name, such as "Europe/Berlin"`)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone(name)
	}
	zone := NewZone(location)
	if loaded.zones == nil || len(loaded.zones) >= maxLoaded {
		loaded.zones = make(map[string]*Zone)
	}
	loaded.zones[name] = zone
	return zone, nil
}

// loaded keeps zones by name.
var loaded struct {
	sync.Mutex
	zones map[string]*Zone
}

// maxLoaded is the maximum number of zones that are kept.
const maxLoaded = 1000

// unknownZone returns the error for a name that the machine's database does not have.
func unknownZone(name string) error {
	if slices.Contains(zoneNames(), name) {
		return fmt.Errorf("time zone %q is not in the time zone database of this machine; install its package tzdata, or import time/tzdata into the program", name)
	}
	return fmt.Errorf("there is no time zone %q; %s", shown(name), meantZone(name))
}

// meantZone suggests a zone for a name.
func meantZone(name string) string {
	if zone, ok := abbreviations[strings.ToUpper(name)]; ok {
		return fmt.Sprintf("it is short for a time of the year; did you mean %q?", zone)
	}
	if zone, ok := fixedOffset(name); ok {
		return fmt.Sprintf("did you mean %q, where the sign is the other way round?", zone)
	}
	found := nearestZones(name)
	for i, zone := range found {
		found[i] = strconv.Quote(zone)
	}
	if len(found) == 0 {
		return `names are those of the tz database, such as "Europe/Berlin" or "UTC"`
	}
	return "did you mean " + join(found, "or") + "?"
}

// nearestZones returns up to three zones with a similar name or a similar last part, which is
// usually a city.
func nearestZones(name string) []string {
	names := zoneNames()
	name = strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	var found []string
	for _, n := range names {
		if strings.EqualFold(n, name) || strings.EqualFold(city(n), city(name)) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		found = nearestNames(name, names, 3)
	}
	if len(found) == 0 {
		cities := make([]string, len(names))
		for i, n := range names {
			cities[i] = city(n)
		}
		for _, c := range nearestNames(city(name), cities, 3) {
			found = append(found, names[slices.Index(cities, c)])
		}
	}
	slices.SortStableFunc(found, func(a, b string) int {
		return nearest.Distance(name, a, math.MaxInt) - nearest.Distance(name, b, math.MaxInt)
	})
	return found[:min(3, len(found))]
}

// city returns the last part of a zone's name.
func city(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// fixedOffset returns the zone with a fixed number of hours from UTC, for names such as UTC+2 or
// +02:00.
func fixedOffset(name string) (string, bool) {
	s := strings.ToUpper(strings.ReplaceAll(name, " ", ""))
	s = strings.TrimPrefix(strings.TrimPrefix(s, "UTC"), "GMT")
	s = strings.TrimSuffix(strings.TrimSuffix(s, ":00"), "00")
	if len(s) < 2 || len(s) > 3 || s[0] != '+' && s[0] != '-' {
		return "", false
	}
	sign := "-"
	if s[0] == '-' {
		sign = "+"
	}
	zone := "Etc/GMT" + sign + strings.TrimPrefix(s[1:], "0")
	return zone, slices.Contains(zoneNames(), zone)
}

// abbreviations are abbreviations of times that people mistake for names of zones.
var abbreviations = map[string]string{
	"AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "AWST": "Australia/Perth",
	"BST": "Europe/London", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "KST": "Asia/Seoul", "SGT": "Asia/Singapore",
	"CEST": "Europe/Berlin", "EEST": "Europe/Helsinki", "WEST": "Europe/Lisbon", "MSK": "Europe/Moscow",
	"EDT": "America/New_York", "CST": "America/Chicago", "CDT": "America/Chicago", "MDT": "America/Denver",
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "AKST": "America/Anchorage", "BRT": "America/Sao_Paulo",
	"NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland",
}
