package text_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/text"
)

// nobody is an error whose method panics, as that of a nil pointer does.
type nobody struct{ name *string }

func (e nobody) Error() string { return *e.name }

// TestCheck checks which texts a store can keep.
func TestCheck(t *testing.T) {
	ok := text.By(courier.By{Actor: "ann", Reason: strings.Repeat("x", text.Max)}, "IdempotencyKey", "ключ")
	if err := text.Check(ok); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]string{"long": strings.Repeat("x", text.Max+1), "nul": "a\x00b", "not text": "\xff"} {
		err := text.Check(text.By(courier.By{Actor: "ann"}, name, s))
		if !errors.Is(err, courier.ErrInvalid) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOfErrors checks how errors become text, whatever they are.
func TestOfErrors(t *testing.T) {
	if s, ok := text.OfError(errors.New("broken")); s != "broken" || !ok {
		t.Errorf("%q, %v", s, ok)
	}
	if s, ok := text.OfError(nobody{}); ok || !strings.Contains(s, "nobody whose method Error panics") {
		t.Errorf("%q, %v", s, ok)
	}
	err := fmt.Errorf("job %q: %w", "a", courier.Errorf(courier.ErrNotFound, "there is none"))
	if got := text.Plain(err); strings.Contains(got, courier.ErrNotFound.Error()) || !strings.Contains(got, "there is none") {
		t.Errorf("%q", got)
	}
}

// TestCut checks that text which is cut is still text, and no longer than it may be.
func TestCut(t *testing.T) {
	const s = "aé€😀"
	for n := range len(s) + 1 {
		short := text.Shorten(s, n)
		body := strings.TrimSuffix(short, "...")
		if !utf8.ValidString(short) || len(body) > n || !strings.HasPrefix(s, body) || (n == len(s)) != (short == s) {
			t.Errorf("%d bytes: %q", n, short)
		}
		if v := text.Valid(s, n); !utf8.ValidString(v) || (n < len(s)) != strings.HasSuffix(v, "... (cut)") {
			t.Errorf("%d bytes: %q", n, v)
		}
	}
	if got := text.Valid("a\x00b\xff", 100); got != "a\uFFFDb\uFFFD" {
		t.Errorf("%q", got)
	}
	for n, want := range map[int]string{0: "0 steps", 1: "1 step", 2: "2 steps"} {
		if got := text.Count(n, "step"); got != want {
			t.Errorf("%q", got)
		}
	}
	if !text.SameJSON(map[string]int{"a": 1}, map[string]any{"a": 1.0}) || text.SameJSON(1, "1") || text.SameJSON(func() {}, func() {}) {
		t.Error("values are the same that are not, or not that are")
	}
}
