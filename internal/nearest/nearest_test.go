package nearest_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/nearest"
)

// TestName: a name is meant if a third of what was written is wrong at most, and always if one
// letter is. The first of several that are as near wins.
func TestName(t *testing.T) {
	for _, c := range []struct {
		written string
		names   []string
		want    string
	}{
		{"nihgt", []string{"day", "night"}, "night"}, // a swap is one mistake
		{"NIGHT", []string{"night"}, "night"},
		{"sftp.dwnlod", []string{"sftp.upload", "sftp.download"}, "sftp.download"},
		{"abc", []string{"axx", "abx"}, "abx"},
		{"abc", []string{"axx"}, ""},
		{"abcdef", []string{"abxxef"}, "abxxef"},
		{"abcdef", []string{"axxxef"}, ""},
		{"a", []string{"b"}, "b"},
		{"a", []string{"bc"}, ""},
		{"cat", []string{"bat", "hat"}, "bat"},
		{"", []string{"a", "ab"}, "a"},
		{"", []string{"ab"}, ""},
		{"a", nil, ""},
		{strings.Repeat("a", 101), []string{strings.Repeat("a", 100)}, ""},
		{strings.Repeat("a", 100), []string{strings.Repeat("a", 101)}, strings.Repeat("a", 101)},
		{"\xff", []string{"\xfe"}, "\xfe"},
	} {
		if got := nearest.Name(c.written, c.names); got != c.want {
			t.Errorf("%q, of %q: %q, want %q", c.written, c.names, got, c.want)
		}
	}
}

// TestDidYouMean: a message ends with the nearest name, or else with twelve names at most and how
// many more there are.
func TestDidYouMean(t *testing.T) {
	letters := strings.Split("abcdefghijklmnop", "")
	for _, c := range []struct {
		written string
		names   []string
		want    string
	}{
		{"nihgt", []string{"night"}, `did you mean "night"?`},
		{"none of these", nil, "there are none"},
		{"none of these", letters[:1], "known are a"},
		{"none of these", letters[:12], "known are a, b, c, d, e, f, g, h, i, j, k, l"},
		{"none of these", letters[:13], "known are a, b, c, d, e, f, g, h, i, j, k, l and 1 more"},
	} {
		if got := nearest.DidYouMean(c.written, c.names); got != c.want {
			t.Errorf("%q: %q, want %q", c.written, got, c.want)
		}
	}
}

// TestDistance: insertions, deletions, replacements and swaps of neighbours count one each, in both
// directions alike, up to a bound.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b       string
		most, want int
	}{
		{"", "", 5, 0}, {"a", "", 5, 1}, {"abc", "abc", 5, 0}, {"abc", "ab", 5, 1}, {"abc", "axc", 5, 1}, {"abc", "acb", 5, 1},
		{"kitten", "sitting", 9, 3}, {"abcd", "badc", 9, 2}, {"abc", "xyz", 2, 2}, {"abc", "xyz", 3, 3}, {"abcdef", "a", 5, 5},
	} {
		if got, back := nearest.Distance(c.a, c.b, c.most), nearest.Distance(c.b, c.a, c.most); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
