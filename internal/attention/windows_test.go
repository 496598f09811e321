package attention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/attention"
)

// The next windows are those of the days that count, by the clocks of their zones, without what is
// switched off; and the ends of those whose files are due soon. The first five are named.
func TestWindows(t *testing.T) {
	in(t, func(s *service) {
		window := func(name, from string) expectation.Expectation {
			return expectation.Expectation{Name: name, From: expectation.From{Monitor: "m"}, Pattern: name + "*", Window: expectation.Window{From: from, Until: "23:59"}}
		}
		night := time.Now().UTC() // midnight on a Saturday
		berlin, off, monday, unknown := window("berlin", "02:30"), window("off", "00:10"), window("monday", "00:20"), window("unknown", "00:30")
		berlin.Zone, off.Disabled, monday.Cron, unknown.Calendar = "Europe/Berlin", true, "0 0 0 ? * MON", "gone"
		s.expected = []expectation.Expectation{berlin, off, monday, unknown, window("now", "00:00"), window("utc", "02:00")}
		s.arrivals = []expectation.Arrival{{Expectation: "now", Date: "2000-01-01", State: expectation.DueSoon, Until: night.Add(time.Hour)}, {Expectation: "utc", Date: "1999-12-31", State: expectation.DueSoon, Until: night}}
		want := []attention.Window{
			{"now", night.Add(time.Hour), true}, {"berlin", night.Add(90 * time.Minute), false}, {"utc", night.Add(2 * time.Hour), false},
			{"now", night.Add(24 * time.Hour), false}, {"monday", night.Add(48*time.Hour + 20*time.Minute), false},
		}
		got := s.list().Windows
		if len(got) != len(want) {
			t.Fatalf("%v", got)
		}
		for i := range want {
			if got[i].Expectation != want[i].Expectation || !got[i].At.Equal(want[i].At) || got[i].Due != want[i].Due {
				t.Errorf("%d: %v, want %v", i, got[i], want[i])
			}
		}
		s.expected = nil
		for i := range 1000 {
			s.expected = append(s.expected, window(fmt.Sprintf("n%04d", i), fmt.Sprintf("%02d:%02d", 1+i/60, i%60)))
		}
		if got := s.list().Windows; len(got) != 5 || got[4].Expectation != "n0003" { // behind the one that is due
			t.Errorf("of many: %v", got)
		}
	})
}

// BenchmarkWindows has as many expectations as are looked at.
func BenchmarkWindows(b *testing.B) {
	s := service{t: b}
	for i := range 1000 {
		s.expected = append(s.expected, expectation.Expectation{
			Name: fmt.Sprintf("n%04d", i), From: expectation.From{Monitor: "m"}, Pattern: "n{date:20060102}*", Cron: "0 0 0 ? * MON", Zone: "Europe/Berlin", Window: expectation.Window{From: "06:00", Until: "07:50"},
		})
	}
	for b.Loop() {
		s.list()
	}
}
