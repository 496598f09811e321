package cron

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestQuartz compares with what Quartz 2.3.2 itself answered, in UTC. Each line
// of the file has an expression, a start, and the next four times at which it
// fires; fewer if it fires no more often.
func TestQuartz(t *testing.T) {
	file, err := os.Open("testdata/quartz-2.3.2.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for scanner := bufio.NewScanner(file); scanner.Scan(); lines++ {
		text, rest, _ := strings.Cut(scanner.Text(), "|")
		start, fires, ok := strings.Cut(rest, "|")
		if !ok {
			t.Fatalf("line %d has no three parts", lines+1)
		}
		e, err := Parse(text)
		if err != nil {
			t.Errorf("line %d: %v", lines+1, err)
			continue
		}
		at := unix(t, start)
		var want []int64
		for _, f := range strings.Fields(fires) {
			want = append(want, unix(t, f))
		}
		if got := fireTimes(e, nil, at, 4); !slices.Equal(got, want) {
			t.Errorf("%s from %s fires at %s; Quartz says %s", text, times(at), times(got...), times(want...))
		}
	}
	if lines != 3000 {
		t.Errorf("the file has %d lines, want 3000", lines)
	}
}

// fireTimes returns the first n times after a start at which e fires.
func fireTimes(e *Expression, z *Zone, after int64, n int) (fires []int64) {
	at := time.Unix(after, 0)
	for range n {
		next, ok := e.Next(at, z)
		if !ok {
			break
		}
		fires = append(fires, next.Unix())
		at = next
	}
	return fires
}

func unix(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// times writes instants for people.
func times(at ...int64) string {
	var b strings.Builder
	for i, s := range at {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(time.Unix(s, 0).UTC().Format("Mon 2006-01-02 15:04:05"))
	}
	if len(at) == 0 {
		return "never"
	}
	return b.String()
}
