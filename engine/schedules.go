package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/schedules"
	"github.com/courierhq/courier/store"
)

// Schedules start jobs and chains at given times. The store must have the role
// [store.Schedules]; started engines fire them.
type Schedules struct{ e *Engine }

// Schedules returns the schedules in the engine's store.
func (e *Engine) Schedules() Schedules { return Schedules{e} }

// Set checks a schedule and saves it under its name, so that started engines on the
// same store fire it. If it equals the saved schedule, that one is returned and
// nothing is saved: a program may set its schedules whenever it starts. Otherwise it
// replaces the saved schedule and keeps the state of that one; if the ticks change,
// the next tick is the first after now. If the schedule can't be saved, the error is
// a *[courier.ScheduleError], which lists everything that is wrong.
func (h Schedules) Set(ctx context.Context, s courier.Schedule, by courier.By) (courier.Schedule, error) {
	return h.e.schedules.Set(ctx, s, by)
}

// Enable lets a schedule that was disabled or paused fire again, from the first tick
// after now on, with no failures counted. It changes nothing for any other schedule.
// If the schedule has no further tick, the error is a *[courier.ScheduleError].
func (h Schedules) Enable(ctx context.Context, name string, by courier.By) (courier.Schedule, error) {
	return h.e.schedules.Enable(ctx, name, by)
}

// Disable keeps a schedule from firing until it is enabled. Ticks that come in the
// meantime do not fire later.
func (h Schedules) Disable(ctx context.Context, name string, by courier.By) (courier.Schedule, error) {
	return h.e.schedules.Disable(ctx, name, by)
}

// Remove removes a schedule. Executions that it has started go on.
func (h Schedules) Remove(ctx context.Context, name string, by courier.By) error {
	return h.e.schedules.Remove(ctx, name, by)
}

// Get returns a schedule in its present state. Every field that has a default is set.
func (h Schedules) Get(ctx context.Context, name string) (courier.Schedule, error) {
	return h.e.schedules.Get(ctx, name)
}

// List returns a page of schedules, in byte order of their names.
func (h Schedules) List(ctx context.Context, f store.ScheduleFilter) ([]courier.Schedule, error) {
	return h.e.schedules.List(ctx, f)
}

// Next returns the first tick of a schedule after an instant; zero if there is none. It
// goes by the definition alone, whether the schedule is saved, enabled or due. If no ticks
// follow from the definition, the error is a *[courier.ScheduleError].
func (h Schedules) Next(s courier.Schedule, after time.Time) (time.Time, error) {
	return h.e.schedules.Next(&s, after)
}

// A CronExplanation says what a cron expression means.
type CronExplanation struct {
	Words string      `json:"words"`           // such as "At 03:00:00 on Tuesday"
	Next  []time.Time `json:"next"`            // when it fires, in its zone; empty if it never does again
	Notes []string    `json:"notes,omitempty"` // what happens when the clocks change within the next 400 days
}

// String returns the explanation as lines of text.
func (x CronExplanation) String() string { return schedules.Explanation(x).String() }

// ExplainCron says what a cron expression of a [courier.Schedule] means in a time
// zone, with the first n times at which it fires after an instant. An empty zone
// means UTC, a zero instant now, and 0 times 5. If the expression or the zone is
// wrong, the error matches [courier.ErrInvalid], points at the character, and
// suggests a correction.
func ExplainCron(expression, zone string, after time.Time, n int) (CronExplanation, error) {
	x, err := schedules.Explain(expression, zone, after, n)
	return CronExplanation(x), err
}
