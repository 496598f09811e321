package filter

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// Cursors writes and reads the cursors of one list or action with one filter. Executions are in
// the order of their ids, the newest first.
type Cursors struct{ mark string }

// CursorsOf returns the cursors of a list or action, such as "list", with a filter. It ignores
// the instants of the filter, because a duration such as 24h gives another instant at each call.
func CursorsOf(what string, f Filter) Cursors {
	f.Since, f.Until, f.Ended = time.Time{}, time.Time{}, time.Time{}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %s", what, f)
	return Cursors{fmt.Sprintf("%08x", h.Sum32())}
}

// Write returns the cursor of the page before an id; empty for an empty id.
func (c Cursors) Write(before courier.ExecutionID) string {
	if before == "" {
		return ""
	}
	return string(before) + "." + c.mark
}

// Read returns the id of a cursor; empty for an empty cursor. If the text is not a cursor, or is
// a cursor of another filter or action, the error matches [courier.ErrInvalid].
func (c Cursors) Read(cursor string) (before courier.ExecutionID, err error) {
	id, mark, _ := strings.Cut(cursor, ".")
	switch {
	case cursor == "":
	case !IsID(id):
		return "", courier.Errorf(courier.ErrInvalid, "cursor %q: not a valid cursor; start from the first page", cursor)
	case mark != c.mark:
		return "", courier.Errorf(courier.ErrInvalid, "cursor %q: it belongs to another filter or action; start from the first page", cursor)
	}
	return courier.ExecutionID(id), nil
}

// IsID reports whether text has the form of the id of an execution or chain execution.
func IsID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, r := range text {
		if dash := slices.Contains([]int{8, 13, 18, 23}, i); dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

// Within returns the range of the ids that begin with a text of at least 8 characters, from first
// up to, but not including, next. The first 13 characters are the millisecond in which an id was
// made, which is enough to identify an execution for people. Ok is false if no id begins with the
// text.
func Within(text string) (first, next courier.ExecutionID, ok bool) {
	const lowest, highest = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(text) < 8 || len(text) >= len(lowest) || !IsID(text+lowest[len(text):]) {
		return "", "", false
	}
	first, next = courier.ExecutionID(text+lowest[len(text):]), After(courier.ExecutionID(text+highest[len(text):]))
	return first, next, first < next
}

// After returns the id that follows another in the order of ids: its cursor continues with the
// execution of the given id.
func After(id courier.ExecutionID) courier.ExecutionID {
	const digits = "0123456789abcdef"
	text := []byte(id)
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '-' {
			continue
		}
		n := strings.IndexByte(digits, text[i]) + 1
		if text[i] = digits[n%16]; n < 16 {
			break
		}
	}
	return courier.ExecutionID(text)
}
