package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// Explain returns the reasons why an execution makes no progress, from one snapshot of
// the store, each with what an operator can do. The store must have the role
// store.Overview; otherwise the error matches [errors.ErrUnsupported]. If there is no
// such execution, it matches [courier.ErrNotFound].
func (h Executions) Explain(ctx context.Context, id courier.ExecutionID) (advice.Explanation, error) {
	o, err := h.e.roles.Overview()
	if err != nil {
		return advice.Explanation{}, fmt.Errorf("explain execution %q: %w", id, err)
	}
	c, err := o.Circumstances(ctx, id, core.PresentFor)
	if err != nil {
		return advice.Explanation{}, fmt.Errorf("explain execution %q: %w", id, err)
	}
	return advice.Explain(&c), nil
}

// Census counts the executions that have not ended, and failed ones, by queue, by job, by
// limit key and by state. No count exceeds most, so that the cost does not depend on the
// number of executions; 0 means [store.DefaultCountLimit]. The store must have the role
// store.Overview; otherwise the error matches [errors.ErrUnsupported].
func (h Executions) Census(ctx context.Context, most int) (store.Census, error) {
	o, err := h.e.roles.Overview()
	if err != nil {
		return store.Census{}, fmt.Errorf("census: %w", err)
	}
	return o.Census(ctx, most)
}

// Incidents returns executions that may need attention: lost, pausing or cancelling,
// overdue and failed ones, at most the given number of each kind. 0 means
// [store.DefaultCountLimit]. The store must have the role store.Overview.
func (h Executions) Incidents(ctx context.Context, most int) (store.Incidents, error) {
	o, err := h.e.roles.Overview()
	if err != nil {
		return store.Incidents{}, fmt.Errorf("incidents: %w", err)
	}
	return o.Incidents(ctx, most)
}

// Stranded returns, in groups, executions that have been due or lost for 90 seconds and
// that no present worker can claim. It reads the store; [Health].Stranded has what the
// engine found lately. The store must have the role store.Workers.
func (h Executions) Stranded(ctx context.Context) ([]store.Stranded, error) {
	w, err := h.e.roles.Workers()
	if err != nil {
		return nil, fmt.Errorf("stranded executions: %w", err)
	}
	return w.Stranded(ctx, core.PresentFor)
}

// Workers returns the engines on the store that have claimed within the last 90 seconds
// or hold a lease: at most [store.MaxWorkers], in byte order of their names. The store
// must have the role store.Workers; otherwise the error matches [errors.ErrUnsupported].
func (e *Engine) Workers(ctx context.Context) ([]store.Worker, error) {
	w, err := e.roles.Workers()
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	return w.Workers(ctx, core.PresentFor)
}

// Figures returns hourly figures of the executions for the given number of hours, up to and
// including the present hour, the oldest first. 0 means 24; the most is [store.KeptHours].
// Hours are in UTC by the store's clock. Started engines take turns to count, once a minute.
// Hours that no engine has counted are left out. The store must have the role store.Figures;
// otherwise the error matches [errors.ErrUnsupported].
func (h Executions) Figures(ctx context.Context, hours int) ([]store.HourFigures, error) {
	f, err := h.e.roles.Figures()
	if err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	return f.Hours(ctx, hours)
}

// Journal returns a page of the journal, the newest entry first: who did what with
// schedules, monitors, subscriptions and limits. Changes of an execution are in its
// audit, and the author of a version is stored with the version. The store must have the
// role store.Journal; otherwise the error matches [errors.ErrUnsupported]. If the journal
// can't be written after a change was made, the engine logs the change, with an error.
func (e *Engine) Journal(ctx context.Context, f store.ActionFilter) ([]store.Action, error) {
	j, err := e.roles.Journal()
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j.Actions(ctx, f)
}

// Note adds an entry of the program's own to the journal, and returns it with its ID and
// At. The store must have the role store.Journal; otherwise the error matches
// errors.ErrUnsupported.
func (e *Engine) Note(ctx context.Context, a store.Action) (store.Action, error) {
	j, err := e.roles.Journal()
	if err != nil {
		return a, fmt.Errorf("journal: %w", err)
	}
	return j.Note(ctx, a)
}
