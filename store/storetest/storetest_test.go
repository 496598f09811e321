package storetest

import (
	"regexp"
	"testing"
)

// TestCaseNames: each case has a name of its own, in words that say the rule.
func TestCaseNames(t *testing.T) {
	words := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	seen := make(map[string]bool)
	for _, g := range groups() {
		for _, c := range g.Cases {
			name := g.Name + "/" + c.Name
			if seen[name] {
				t.Errorf("two cases are called %s", name)
			}
			if !words.MatchString(c.Name) {
				t.Errorf("case %s: the name must be words with underscores", name)
			}
			seen[name] = true
		}
	}
	if len(seen) < 500 {
		t.Errorf("the suite has %d cases: are all groups listed?", len(seen))
	}
}
