package globmatch_test

import (
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/globmatch"
)

func TestCheck(t *testing.T) {
	for p, good := range map[courier.Pattern]bool{
		"*.csv": true, "in/**/x?.{csv,txt}": true, "../in/*.csv": true, "in/[ab]*": true, "in/x..y*": true,
		"": false, "in/": false, "in/[a*": false, "in/{a*": false, "in/*/../x": false, "**/..": false,
		"*{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}": false,
	} {
		err := globmatch.Check(p)
		if (err == nil) != good || err != nil && !courier.IsPermanent(err) {
			t.Errorf("Check(%q) = %v", p, err)
		}
	}
}

func TestMatch(t *testing.T) {
	if !globmatch.Match("*/x?", "a/xy") || globmatch.Match("*", "a/b") || !globmatch.Match("**/b", "b") {
		t.Error("Match does not do as doublestar")
	}
}
