package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/schedules"
	"github.com/courierhq/courier/store"
)

// Schedules are what starts jobs and chains at given times. The store must have
// the role [store.Schedules]; started engines fire them.
type Schedules struct{ e *Engine }

// Schedules returns the schedules in the engine's store.
func (e *Engine) Schedules() Schedules { return Schedules{e} }

// Set checks a schedule and saves it under its name, so that started
// engines on the same store fire it. If it equals the one that is there, that
// one is returned, as it stands, and nothing is saved: a program may set its
// schedules whenever it starts. Otherwise it replaces that one and goes on
// where that one was; if its ticks change, the next is the first after now. The
// error of a schedule that can't be saved is a *[courier.ScheduleError], which
// lists everything that is wrong with it.
func (h Schedules) Set(ctx context.Context, s courier.Schedule, by courier.By) (courier.Schedule, error) {
	return h.e.schedules.Set(ctx, s, by)
}

// Enable lets a schedule that was disabled or paused fire again, from
// the first tick after now on; the count of its failures begins anew. Of one
// that is neither, it changes nothing. The error of a
// schedule that has no tick any more is a *[courier.ScheduleError].
func (h Schedules) Enable(ctx context.Context, name string, by courier.By) (courier.Schedule, error) {
	return h.e.schedules.Enable(ctx, name, by)
}

// Disable keeps a schedule from firing until it is enabled. Ticks that
// come meanwhile are not made up for.
func (h Schedules) Disable(ctx context.Context, name string, by courier.By) (courier.Schedule, error) {
	return h.e.schedules.Disable(ctx, name, by)
}

// Remove removes a schedule. What it has started goes on.
func (h Schedules) Remove(ctx context.Context, name string, by courier.By) error {
	return h.e.schedules.Remove(ctx, name, by)
}

// Get returns a schedule as it stands, with a value in every field that has a
// default.
func (h Schedules) Get(ctx context.Context, name string) (courier.Schedule, error) {
	return h.e.schedules.Get(ctx, name)
}

// List returns a page of schedules, in byte order of their names.
func (h Schedules) List(ctx context.Context, f store.ScheduleFilter) ([]courier.Schedule, error) {
	return h.e.schedules.List(ctx, f)
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
// means UTC, a zero instant now, and 0 times 5. What is wrong with the expression
// or the zone is an error that matches [courier.ErrInvalid], points at the
// character, and says what was probably meant.
func ExplainCron(expression, zone string, after time.Time, n int) (CronExplanation, error) {
	x, err := schedules.Explain(expression, zone, after, n)
	return CronExplanation(x), err
}
