package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/cron"
)

// A CronExplanation says what a cron expression means.
type CronExplanation struct {
	Words string      `json:"words"`           // such as "At 03:00:00 on Tuesday"
	Next  []time.Time `json:"next"`            // when it fires, in its zone; empty if it never does again
	Notes []string    `json:"notes,omitempty"` // what happens when the clocks change within the next 400 days
}

// String returns the explanation as lines of text.
func (x CronExplanation) String() string {
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

// ExplainCron says what a cron expression of a [Schedule] means in a time zone, with the
// first n times at which it fires after an instant, at most 1000. An empty zone means
// UTC, a zero instant now, and 0 times 5. If the expression or the zone is wrong, the
// error matches [courier.ErrInvalid], points at the character, and suggests a correction.
func ExplainCron(expression, zone string, after time.Time, n int) (CronExplanation, error) {
	const most = 1000
	z, err := cron.LoadZone(zone)
	if err != nil {
		return CronExplanation{}, courier.Errorf(courier.ErrInvalid, "explain cron: %w", err)
	}
	x, err := cron.Parse(expression)
	if err != nil {
		return CronExplanation{}, courier.Errorf(courier.ErrInvalid, "explain cron: %w", err)
	}
	if after.IsZero() {
		after = time.Now()
	}
	if n <= 0 {
		n = 5
	}
	got := x.Explain(after, z, min(n, most))
	explained := CronExplanation{Words: got.Words, Next: got.Next}
	for _, note := range got.Notes {
		explained.Notes = append(explained.Notes, note.Text)
	}
	return explained, nil
}

// ExplainOnOpenDays is [ExplainCron] for a schedule that uses a calendar. The times include the
// effects of the calendar. The notes also list the closed days up to the last of those times, and
// what happens to their ticks. The error of an unknown calendar or policy matches
// [courier.ErrInvalid]; other errors are from the store.
func (v *Service) ExplainOnOpenDays(ctx context.Context, expression, zone, calendar string, on OnClosed, after time.Time, n int) (CronExplanation, error) {
	if after.IsZero() {
		after = time.Now()
	}
	x, err := ExplainCron(expression, zone, after, n)
	if err != nil {
		return CronExplanation{}, err
	}
	s := Schedule{Name: "explain cron", Cron: expression, Zone: zone, Calendar: calendar, OnClosed: on}
	for _, p := range s.Check() {
		if p.Field == "on_closed" {
			return CronExplanation{}, courier.Errorf(courier.ErrInvalid, "explain cron: on_closed: %s", p.Message)
		}
	}
	t, err := v.Timetables(ctx)(&s)
	if bad, ok := errors.AsType[*Error](err); ok {
		return CronExplanation{}, courier.Errorf(courier.ErrInvalid, "explain cron: %s", bad.Problems[0].String())
	}
	if err != nil {
		return CronExplanation{}, fmt.Errorf("explain cron: %w", err)
	}
	location, last := t.location(), after
	most := max(len(x.Next), 1)
	x.Next, x.Notes = nil, t.OnOpenDays(x.Notes)
	for at := t.Next(after); !at.IsZero() && len(x.Next) < most; at = t.Next(at) {
		x.Next, last = append(x.Next, at.In(location)), at
	}
	for _, day := range t.Closed(after, t.until(last), maxNotes) {
		x.Notes = append(x.Notes, day.Text)
	}
	return x, nil
}

// OnOpenDays returns the notes of [ExplainCron] without those about clock changes on closed days,
// which do not apply. A note about a day begins with its date in the zone of the schedule.
func (t *Timetable) OnOpenDays(notes []string) (list []string) {
	for _, note := range notes {
		day, _, _ := strings.Cut(note, ": ")
		date, err := time.ParseInLocation(time.DateOnly, day, t.location())
		if err != nil || t.Open(date.Add(12*time.Hour)) {
			list = append(list, note)
		}
	}
	return list
}

// location returns the zone of the schedule.
func (t *Timetable) location() *time.Location {
	location, err := time.LoadLocation(t.def.Zone)
	if err != nil {
		return time.UTC // the timetable reports the wrong zone
	}
	return location
}
