package filter_test

import (
	"testing"

	"github.com/courierhq/courier/internal/filter"
)

// A text filter selects rows with all of its words and with none of those behind a minus sign.
func TestText(t *testing.T) {
	row := []string{"failed", "Acme invoices", "no route to host", "a-b", "-1"}
	for text, want := range map[string]bool{
		"": true, "  ": true, "acme": true, "ACME failed": true, "acme other": false, "-acme": false, "-other": true, "acme -heartbeat": true, "acme -route": false,
		`"no route"`: true, `"route no"`: false, `-"no route"`: false, `"acme invoices" -"in voices"`: true, "a-b": true, "-": true, `"-1"`: true, "-1": false, `-"-1"`: false, "--1": false,
		`"no rou`: false, `"`: false, `""`: true, "failedAcme": false,
	} {
		f := filter.ParseText(text)
		if got := f.Selects(row); got != want {
			t.Errorf("%q selects the row: %v", text, got)
		}
	}
	for _, name := range []string{`a "b" \c`, "-x", "two words", "שלום \u202e"} {
		if f := filter.ParseText(filter.TextOf(name)); !f.Selects([]string{"of " + name}) || f.Selects([]string{"other"}) {
			t.Errorf("%q is no name any more", name)
		}
	}
	for text, want := range map[string]bool{"": true, " - ": true, `""`: true, "a": false, "-a": false} {
		if f := filter.ParseText(text); f.Empty() != want {
			t.Errorf("%q is empty: %v", text, f.Empty())
		}
	}
}
