package filter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/filter"
)

// A cursor is read by the list and the filter that it belongs to, whatever the instants of
// the filter are by then.
func TestCursors(t *testing.T) {
	const id = courier.ExecutionID("01930000-0000-7000-8000-00000000000a")
	f := filter.Filter{Jobs: []string{"daily"}, Since: time.Unix(1, 0)}
	cursors := filter.CursorsOf("list", f)
	if got := cursors.Write(""); got != "" {
		t.Errorf("the cursor of nothing is %q", got)
	}
	if got, err := cursors.Read(""); got != "" || err != nil {
		t.Errorf("no cursor is read as %q, %v", got, err)
	}
	later := f
	later.Since = time.Unix(60, 0)
	cursor := cursors.Write(id)
	if got, err := filter.CursorsOf("list", later).Read(cursor); got != id || err != nil {
		t.Errorf("a minute later it is read as %q, %v", got, err)
	}
	for what, c := range map[string]struct {
		of           filter.Cursors
		cursor, want string
	}{
		"another filter": {filter.CursorsOf("list", filter.Filter{}), cursor, "belongs to another filter or action"},
		"another action": {filter.CursorsOf("cancel", f), cursor, "belongs to another filter or action"},
		"no cursor":      {cursors, "x", "not a valid cursor; start from the first page"},
		"capitals":       {cursors, strings.ToUpper(cursor), "not a valid cursor"},
	} {
		if got, err := c.of.Read(c.cursor); got != "" || !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// TestAfter checks that the order of ids is that of their successors.
func TestAfter(t *testing.T) {
	for id, want := range map[courier.ExecutionID]courier.ExecutionID{
		"01930000-0000-7000-8000-000000000000": "01930000-0000-7000-8000-000000000001",
		"01930000-0000-7000-8000-000000000009": "01930000-0000-7000-8000-00000000000a",
		"01930000-0000-7000-8fff-ffffffffffff": "01930000-0000-7000-9000-000000000000",
	} {
		if got := filter.After(id); got != want {
			t.Errorf("after %s comes %s, want %s", id, got, want)
		}
	}
}

// What has the form of the beginning of an id is the range of the ids that begin so.
func TestWithin(t *testing.T) {
	for text, want := range map[string][2]courier.ExecutionID{
		"01930000":                            {"01930000-0000-0000-0000-000000000000", "01930001-0000-0000-0000-000000000000"},
		"01930000-":                           {"01930000-0000-0000-0000-000000000000", "01930001-0000-0000-0000-000000000000"},
		"0193abcd-00ff":                       {"0193abcd-00ff-0000-0000-000000000000", "0193abcd-0100-0000-0000-000000000000"},
		"01930000-0000-7000-8000-00000000000": {"01930000-0000-7000-8000-000000000000", "01930000-0000-7000-8000-000000000010"},
	} {
		if first, next, ok := filter.Within(text); !ok || first != want[0] || next != want[1] {
			t.Errorf("%s: from %s, before %s, %v", text, first, next, ok)
		}
	}
	for _, text := range []string{"", "0193000", "0193000g", "0193ABCD", "01930000 ", "019300000", "01930000-000-", "ffffffff", "01930000-0000-7000-8000-000000000000", "01930000-0000-7000-8000-0000000000000"} {
		if first, next, ok := filter.Within(text); ok {
			t.Errorf("%q: from %s, before %s", text, first, next)
		}
	}
}
