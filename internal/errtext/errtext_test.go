package errtext_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/errtext"
)

// TestShorten: a text that is too long is cut to valid UTF-8. One that is not stays as it is.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"a", 0, "..."},
		{"aäb", 2, "a..."}, {"aäb", 3, "aä..."}, {"\xff", 1, "\xff"}, {"\xffabc", 3, "ab..."}, {"日本語", 7, "日本..."},
	} {
		if got := errtext.Shorten(c.text, c.n); got != c.want {
			t.Errorf("%q to %d bytes: %q, want %q", c.text, c.n, got, c.want)
		}
	}
	if got := errtext.Shorten(strings.Repeat("語", 1000), 200); !utf8.ValidString(got) || len(got) > 203 {
		t.Errorf("%d bytes, %q", len(got), got)
	}
}

// A problem is a text.
type problem string

func (p problem) String() string { return string(p) }

// problems returns n problems.
func problems(n int) []problem {
	list := make([]problem, n)
	for i := range list {
		list[i] = problem(fmt.Sprint("p", i+1))
	}
	return list
}

// TestRefused: a single problem stands in the line of the operation. Several are counted and
// listed, each in a line, twenty of them at most.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		operation, name, note string
		list                  []problem
		want                  string
	}{
		{"define job", "a", errtext.NothingSaved, problems(1), `define job "a": p1`},
		{"define job", "a", errtext.NothingSaved, problems(2), "define job \"a\": 2 problems (nothing was saved):\n  p1\n  p2"},
		{"start", "", "", problems(2), "start: 2 problems:\n  p1\n  p2"},
		{"start", "\x1b[2J\n", "", problems(1), `start "\x1b[2J\n": p1`},
	} {
		if got := errtext.Refused(c.operation, c.name, c.note, c.list); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := errtext.Refused("define job", strings.Repeat("x", 1000), "", problems(1)); len(got) > 230 {
		t.Errorf("a name of any length is quoted: %s", got)
	}
	for n, last := range map[int]string{20: "p20", 21: "and 1 more", 100_000: "and 99980 more"} {
		lines := strings.Split(errtext.Lines(problems(n)), "\n  ")
		if len(lines) != min(n, 21) || lines[len(lines)-1] != last {
			t.Errorf("%d problems: %d lines, the last is %q", n, len(lines), lines[len(lines)-1])
		}
	}
}

// TestName: a name has up to 200 characters of valid UTF-8, without control characters.
func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "it is missing",
		"night":                  "",
		"Nacht Nr. 3/ä":          "",
		strings.Repeat("語", 200): "",
		strings.Repeat("語", 201): "it has 201 characters, more than 200",
		"a\nb":                   `"a\nb" has control characters, or is not valid UTF-8`,
		"a\x00":                  `"a\x00" has control characters, or is not valid UTF-8`,
		"a\u0085":                `"a\u0085" has control characters, or is not valid UTF-8`,
		"a\xff":                  `"a\xff" has control characters, or is not valid UTF-8`,
	} {
		if got := errtext.Name(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := errtext.Name(strings.Repeat("\n", 1<<20)); len(got) > 500 {
		t.Errorf("a name of any length is quoted: %d bytes", len(got))
	}
}
