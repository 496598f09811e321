package monitor

import (
	"testing"
	"time"

	"github.com/courierhq/courier/calendar"
)

// TestOpening: a monitor opens at its time on an open day. A time that the clocks skip is the
// instant at which they do, and one that comes twice is the first.
func TestOpening(t *testing.T) {
	for _, c := range []struct{ from, until, zone, at, want string }{
		{"", "", "Europe/Berlin", "2027-03-26T12:00:00Z", "2027-03-26T12:00:00Z"},
		{"", "", "Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-27T23:00:00Z"}, // Sunday is open here
		{"06:00", "19:30", "Europe/Berlin", "2027-03-26T04:00:00Z", "2027-03-26T05:00:00Z"},
		{"06:00", "19:30", "Europe/Berlin", "2027-03-26T18:29:59Z", "2027-03-26T18:29:59Z"},
		{"06:00", "19:30", "Europe/Berlin", "2027-03-26T18:30:00Z", "2027-03-28T04:00:00Z"},
		{"02:30", "", "Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z"},
		{"02:15", "02:45", "Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-29T00:15:00Z"}, // they are skipped on Sunday
		{"02:30", "", "Europe/Berlin", "2027-10-30T12:00:00Z", "2027-10-31T00:30:00Z"},
		{"01:30", "02:30", "Europe/Berlin", "2027-10-31T00:29:00Z", "2027-10-31T00:29:00Z"},
		{"01:30", "02:30", "Europe/Berlin", "2027-10-31T00:30:00Z", "2027-11-01T00:30:00Z"},
		{"06:00", "", "", "2027-03-27T12:00:00Z", "2027-03-28T06:00:00Z"},
	} {
		days, err := calendar.New(calendar.Calendar{Name: "c", Zone: c.zone, Weekend: []string{"saturday"}})
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := opening(Hours{c.from, c.until}, days, at).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%q to %q in %s: from %s on at %s, want %s", c.from, c.until, c.zone, c.at, got, c.want)
		}
	}
}
