package program_test

import (
	"testing"
	"time"

	"github.com/courierhq/courier/engine/internal/program"
)

// TestTimeOfDay checks the first instant of a time of day after another one, also on the
// days on which clocks change.
func TestTimeOfDay(t *testing.T) {
	for _, c := range []struct{ text, after, want string }{
		{"07:30", "2026-03-01T07:29:59Z", "2026-03-01T07:30:00Z"},
		{"07:30 UTC", "2026-03-01T07:30:00Z", "2026-03-02T07:30:00Z"},
		{"07:30 Europe/Berlin", "2026-03-01T06:00:00Z", "2026-03-01T06:30:00Z"},
		{"07:30 Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T05:30:00Z"}, // summer time has begun
		{"02:30 Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T01:30:00Z"}, // which is 03:30
		{"02:30 Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z"}, // the first of two
		{"00:00 Asia/Kolkata", "2026-03-01T18:29:00Z", "2026-03-01T18:30:00Z"},
	} {
		at, err := program.ParseTimeOfDay(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := at.Next(after).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s after %s is %s, want %s", c.text, c.after, got, c.want)
		}
	}
}
