package steplog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/courierhq/courier/engine/internal/steplog"
)

// A cleaner replaces a text, or none.
type cleaner string

func (c cleaner) Clean(s string) string {
	if c == "" {
		return s
	}
	return strings.ReplaceAll(s, string(c), "[secret s]")
}

const same = cleaner("")

var times = regexp.MustCompile(`time=\S+Z `)

func TestLinesAreKept(t *testing.T) {
	var l steplog.Log
	var other bytes.Buffer
	log := l.Open(slog.New(slog.NewTextHandler(&other, nil)), 1<<14, cleaner("hunter2"))
	log.Debug("not kept")
	log.Info("first", "size", 7, "who", "a b\nc")
	log.With("file", "x").WithGroup("g").Warn("with hunter2", "n", 1)
	want := "level=INFO msg=first size=7 who=\"a b\\nc\"\nlevel=WARN msg=\"with [secret s]\" file=x g.n=1\n"
	got := l.Close()
	if times.ReplaceAllString(got, "") != want || strings.Count(got, "time=") != 2 {
		t.Errorf("kept %q, want %q", got, want)
	}
	if n := strings.Count(other.String(), "\n"); n != 2 || !strings.Contains(other.String(), "file=x g.n=1") {
		t.Errorf("the next handler has %q", other.String())
	}
	log.Info("after the end")
	if again := l.Close(); again != "" {
		t.Errorf("then %q", again)
	}
}

func TestLevels(t *testing.T) {
	for _, next := range []*slog.Logger{nil, slog.New(slog.DiscardHandler), slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug}))} {
		var l steplog.Log
		log := l.Open(next, steplog.Least, same)
		log.Debug("debug")
		log.Info("info")
		debugs := next != nil && next.Enabled(t.Context(), slog.LevelDebug)
		if got := l.Close(); strings.Contains(got, "msg=debug") != debugs || !strings.Contains(got, "msg=info") {
			t.Errorf("next handler that takes debug: %t; kept %q", debugs, got)
		}
	}
	var l steplog.Log
	if log := l.Open(nil, -1, same); log != nil || l.Close() != "" {
		t.Error("a log of which nothing is kept has a logger")
	}
}

// TestFirstAndLastLines writes more than is kept, in lines of many lengths, and checks
// that the first and the last are there, with the number of those between.
func TestFirstAndLastLines(t *testing.T) {
	for _, n := range []int{0, 1, 3, 10, 100, 1000, 10_000} {
		for _, long := range []int{0, 1, 40, 700, 5000} {
			var l steplog.Log
			log := l.Open(nil, 2048, same)
			for i := range n {
				log.Info(fmt.Sprintf("line%d.", i), "text", strings.Repeat("é", long*(i%3)))
			}
			got := l.Close()
			if len(got) > 2048 || !utf8.ValidString(got) || n == 0 != (got == "") {
				t.Fatalf("%d lines of %d: %d bytes: %q", n, long, len(got), got)
			}
			if n == 0 {
				continue
			}
			there := strings.Count(got, "level=")
			left := 0
			if m := regexp.MustCompile(`(?m)^\.\.\. (\d+) lines with (\d+) bytes are left out$`).FindStringSubmatch(got); m != nil {
				left, _ = strconv.Atoi(m[1])
			}
			if there+left != n || !strings.Contains(got, "line0.") || !strings.Contains(got, fmt.Sprintf("line%d.", n-1)) {
				t.Errorf("%d lines of %d: %d are there and %d left out: %q", n, long, there, left, got)
			}
		}
	}
}

func BenchmarkUnused(b *testing.B) {
	for b.Loop() {
		var l steplog.Log
		if l.Open(nil, 1<<14, same) == nil || l.Close() != "" {
			b.Fatal("unused log")
		}
	}
}

// TestRecent: the last lines are whole, of as many bytes as are wanted, from wherever they are kept.
func TestRecent(t *testing.T) {
	var l steplog.Log
	if text, n := l.Recent(100); text != "" || n != 0 {
		t.Errorf("of nothing: %q, %d", text, n)
	}
	log := l.Open(nil, steplog.Least, same)
	for i := range 100 {
		log.Info("line", "n", i)
		text, n := l.Recent(200)
		if n != int64(i+1) || len(text) > 200 || !strings.HasPrefix(text, "time=") || !strings.HasSuffix(text, fmt.Sprintf("n=%d\n", i)) {
			t.Fatalf("after %d lines: %d, %q", i+1, n, text)
		}
	}
	l.Close()
	if text, n := l.Recent(100); text != "" || n != 0 {
		t.Errorf("at the end: %q, %d", text, n)
	}
}
