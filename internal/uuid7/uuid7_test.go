package uuid7

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var form = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestForm(t *testing.T) {
	var s Source
	for range 1000 {
		if id := s.New(); !form.MatchString(id) {
			t.Fatalf("%s is no UUIDv7 in text form", id)
		}
	}
}

// millis returns the instant that id holds, and its fraction.
func millis(t *testing.T, id string) (ms, fraction int64) {
	t.Helper()
	digits := strings.ReplaceAll(id, "-", "")
	ms, err := strconv.ParseInt(digits[:12], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	fraction, err = strconv.ParseInt(digits[13:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ms, fraction
}

func TestInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1234*time.Millisecond + 750*time.Microsecond)
		var s Source
		ms, fraction := millis(t, s.New())
		if want := time.Now().UnixMilli(); ms != want {
			t.Errorf("milliseconds %d, want %d", ms, want)
		}
		if fraction != 4096*3/4 {
			t.Errorf("fraction %d, want %d", fraction, 4096*3/4)
		}
	})
}

// Every instant maps to a fraction below 4096 and never to an earlier one than
// the instant before.
func TestTickGrowsWithTime(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	var before int64
	for range 20_000 {
		at = at.Add(101 * time.Nanosecond)
		var s Source
		tick := s.tick(at)
		if tick < before {
			t.Fatalf("%v: tick %d after %d", at, tick, before)
		}
		if got := tick >> 12; got != at.UnixMilli() {
			t.Fatalf("%v: millisecond %d, want %d", at, got, at.UnixMilli())
		}
		before = tick
	}
}

func TestStrictlyIncreasingInOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Source
		before := ""
		for range 20_000 { // more than one millisecond's worth
			id := s.New()
			if id <= before {
				t.Fatalf("%s does not come after %s", id, before)
			}
			before = id
		}
	})
}

func TestClockSetBack(t *testing.T) {
	var s Source
	now := time.UnixMilli(1_700_000_000_000)
	first := s.tick(now)
	if second := s.tick(now.Add(-time.Hour)); second != first+1 {
		t.Errorf("tick %d after %d with the clock set back", second, first)
	}
	if third := s.tick(now.Add(time.Millisecond)); third != first+4096 {
		t.Errorf("tick %d, want that of the clock again, %d", third, first+4096)
	}
}

func TestConcurrent(t *testing.T) {
	const workers, each = 8, 2000
	var s Source
	lists := make([][]string, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range each {
				lists[i] = append(lists[i], s.New())
			}
		})
	}
	wg.Wait()
	for i, list := range lists {
		if !slices.IsSorted(list) {
			t.Errorf("worker %d got UUIDs out of order", i)
		}
	}
	all := slices.Concat(lists...)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != workers*each {
		t.Errorf("%d different UUIDs, want %d", n, workers*each)
	}
}

func TestRandomPartDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b Source
		if x, y := a.New(), b.New(); x == y {
			t.Errorf("two sources made %s in the same instant", x)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	var s Source
	for b.Loop() {
		s.New()
	}
}

// TestFirst checks that the first UUID of an instant comes before all that are made then,
// and after all that were made before.
func TestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Source
		for range 3 {
			before := s.New()
			time.Sleep(time.Millisecond)
			first, then := First(time.Now()), s.New()
			if before >= first || first > then || !form.MatchString(first) {
				t.Errorf("%s, first %s, %s", before, first, then)
			}
		}
	})
	if got := First(time.Unix(-5, 0)); got != First(time.Unix(0, 0)) {
		t.Errorf("before 1970: %s", got)
	}
}
