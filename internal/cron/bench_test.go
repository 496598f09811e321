package cron

import (
	"testing"
	"time"
)

// nextCases are what Next has to do: little, much, and what takes longest.
var nextCases = []struct{ name, expression, zone string }{
	{"minutes", "0 0/5 * * * ?", "America/New_York"},
	{"weekly", "0 0 3 ? * TUE", "America/New_York"},
	{"yearly", "0 30 2 31 12 ?", "America/New_York"},
	{"last weekday", "0 0 12 LW * ?", "Europe/Berlin"},
	{"third Friday", "0 0 12 ? * 6#3", "Europe/Berlin"},
	{"leap day", "0 0 12 29 2 ?", "Europe/Berlin"},
	{"UTC", "0 0/5 * * * ?", "UTC"},
	{"Ramadan", "0 30 2 * * ?", "Africa/Casablanca"},
}

// Next is to take 200 ns at most.
func BenchmarkNext(b *testing.B) {
	for _, c := range nextCases {
		b.Run(c.name, func(b *testing.B) {
			e, zone := mustParse(b, c.expression), mustLoad(b, c.zone)
			start := time.Date(2026, 11, 22, 12, 0, 0, 0, zone.Location())
			at, end := start, start.AddDate(50, 0, 0).Unix()
			b.ReportAllocs()
			for b.Loop() {
				at, _ = e.Next(at, zone)
				if at.Unix() > end {
					at = start
				}
			}
		})
	}
}

// BenchmarkNever is the search that goes through all years.
func BenchmarkNever(b *testing.B) {
	e, zone := mustParse(b, "0 0 0 30 2 ?"), mustLoad(b, "Europe/Berlin")
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, zone.Location())
	for b.Loop() {
		if _, ok := e.Next(at, zone); ok {
			b.Fatal("30 February")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustParse(b, "0 0/15 8-17 ? * MON-FRI")
	}
}

func BenchmarkNewZone(b *testing.B) {
	zone := mustLoad(b, "Europe/Berlin")
	b.ReportAllocs()
	for b.Loop() {
		NewZone(zone.Location())
	}
}

// TestNextAllocates keeps Next from allocating, also where it fires never.
func TestNextAllocates(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range append(nextCases, struct{ name, expression, zone string }{"never", "0 0 0 30 2 ?", "Asia/Tokyo"}) {
		e, zone := mustParse(t, c.expression), mustLoad(t, c.zone)
		if n := testing.AllocsPerRun(100, func() { e.Next(at, zone) }); n != 0 {
			t.Errorf("%s: Next allocates %v times", c.name, n)
		}
	}
}

func mustParse(t testing.TB, expression string) *Expression {
	t.Helper()
	e, err := Parse(expression)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustLoad(t testing.TB, name string) *Zone {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
