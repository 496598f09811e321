package glob_test

import (
	"testing"

	"github.com/courierhq/courier/internal/glob"
)

// TestMatchCharacters checks wildcards at the beginning, in the middle and at the end, and that
// a pattern stands for the whole text.
func TestMatchCharacters(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		runes, bytes  bool
	}{
		{"", "", true, true}, {"", "a", false, false}, {"*", "", true, true}, {"**", "abc", true, true}, {"?", "", false, false},
		{"a*c", "abc", true, true}, {"a*c", "abcd", false, false}, {"a*", "ba", false, false}, {"*a", "ba", true, true},
		{"*ab*c", "aababbc", true, true}, {"*ab*cd", "aabcabc", false, false}, {"a?c", "abc", true, true}, {"a?c", "ac", false, false},
		{"gr?n", "grün", true, false}, {"gr??n", "grün", false, true},
	} {
		if got := glob.MatchCharacters([]rune(c.pattern), []rune(c.text)); got != c.runes {
			t.Errorf("%q stands for the runes of %q: %t", c.pattern, c.text, got)
		}
		if got := glob.MatchCharacters([]byte(c.pattern), []byte(c.text)); got != c.bytes {
			t.Errorf("%q stands for the bytes of %q: %t", c.pattern, c.text, got)
		}
	}
}
