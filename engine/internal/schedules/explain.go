package schedules

import (
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/cron"
)

// An Explanation says what a cron expression means.
type Explanation struct {
	Words string      // such as "At 03:00:00 on Tuesday"
	Next  []time.Time // when it fires, in its zone
	Notes []string    // what happens when the clocks change within the next 400 days
}

// String returns the explanation as lines of text.
func (x Explanation) String() string {
	var b strings.Builder
	b.WriteString(x.Words + "\n")
	for _, t := range x.Next {
		b.WriteString("next: " + t.Format("Mon 2006-01-02 15:04:05 MST") + "\n")
	}
	if len(x.Next) == 0 {
		b.WriteString("It never fires.\n")
	}
	for _, n := range x.Notes {
		b.WriteString("note: " + n + "\n")
	}
	return b.String()
}

// Explain says what a cron expression means in a time zone, with the first n times at
// which it fires after an instant. An empty zone means UTC, a zero instant now, and 0
// times 5. The error matches [courier.ErrInvalid].
func Explain(expression, zone string, after time.Time, n int) (Explanation, error) {
	const most = 1000
	z, err := cron.LoadZone(zone)
	if err != nil {
		return Explanation{}, courier.Errorf(courier.ErrInvalid, "explain cron: %w", err)
	}
	x, err := cron.Parse(expression)
	if err != nil {
		return Explanation{}, courier.Errorf(courier.ErrInvalid, "explain cron: %w", err)
	}
	if after.IsZero() {
		after = time.Now()
	}
	if n <= 0 {
		n = 5
	}
	got := x.Explain(after, z, min(n, most))
	explained := Explanation{Words: got.Words, Next: got.Next}
	for _, note := range got.Notes {
		explained.Notes = append(explained.Notes, note.Text)
	}
	return explained, nil
}
