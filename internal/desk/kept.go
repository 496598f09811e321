package desk

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// A Kept is a kind of definitions that a service of an engine keeps by name. It is common to the
// API and the pages.
type Kept[T any] struct {
	Kind string // such as "schedule", also in the journal
	Name func(*T) *string
	Hide func(*T) // hides the values
	Get  func(ctx context.Context, e *engine.Engine, name string) (T, error)
	// Set saves a definition, and returns the doubtful places.
	Set    func(ctx context.Context, e *engine.Engine, v T, by courier.By) (T, []courier.Problem, error)
	Remove func(ctx context.Context, e *engine.Engine, name string, by courier.By) error
	Wrong  func(name string, list []courier.Problem) error // the error of a definition with these problems
}

// A keeper is the service of a kind, whose method Set returns an S.
type keeper[T, S any] interface {
	Get(ctx context.Context, name string) (T, error)
	Set(ctx context.Context, v T, by courier.By) (S, error)
	Remove(ctx context.Context, name string, by courier.By) error
}

// keptBy returns a kind with the methods of its service. Saved splits the result of Set.
func keptBy[T, S any, K keeper[T, S]](kind string, of func(*engine.Engine) K, saved func(S) (T, []courier.Problem)) Kept[T] {
	return Kept[T]{
		Kind: kind,
		Get:  func(ctx context.Context, e *engine.Engine, name string) (T, error) { return of(e).Get(ctx, name) },
		Set: func(ctx context.Context, e *engine.Engine, v T, by courier.By) (T, []courier.Problem, error) {
			got, err := of(e).Set(ctx, v, by)
			v, doubts := saved(got)
			return v, doubts, err
		},
		Remove: func(ctx context.Context, e *engine.Engine, name string, by courier.By) error {
			return of(e).Remove(ctx, name, by)
		},
	}
}

// undoubted returns the result of Set of a kind without warnings.
func undoubted[T any](v T) (T, []courier.Problem) { return v, nil }

// latestCalendars are the calendars, each in its latest version.
type latestCalendars struct{ *calendar.Service }

func (s latestCalendars) Get(ctx context.Context, name string) (calendar.Calendar, error) {
	return s.Service.Get(ctx, name, 0)
}

// Calendars are the calendars.
var Calendars = func() Kept[calendar.Calendar] {
	k := keptBy("calendar", func(e *engine.Engine) latestCalendars { return latestCalendars{e.Calendars()} }, undoubted[calendar.Calendar])
	k.Name = func(x *calendar.Calendar) *string { return &x.Name }
	k.Hide = func(*calendar.Calendar) {} // it has no values
	k.Wrong = func(name string, list []courier.Problem) error {
		return &calendar.Error{Calendar: name, Problems: list}
	}
	return k
}()

// Schedules are the schedules.
var Schedules = func() Kept[schedule.Schedule] {
	k := keptBy("schedule", (*engine.Engine).Schedules, undoubted[schedule.Schedule])
	k.Name, k.Hide = func(s *schedule.Schedule) *string { return &s.Name }, HideSchedule
	k.Wrong = func(name string, list []courier.Problem) error {
		return &schedule.Error{Schedule: name, Problems: list}
	}
	return k
}()

// Monitors are the monitors.
var Monitors = func() Kept[monitor.Monitor] {
	k := keptBy("monitor", (*engine.Engine).Monitors, undoubted[monitor.Monitor])
	k.Name, k.Hide = func(m *monitor.Monitor) *string { return &m.Name }, HideMonitor
	k.Wrong = func(name string, list []courier.Problem) error { return &monitor.Error{Monitor: name, Problems: list} }
	return k
}()

// Expectations are the expectations.
var Expectations = func() Kept[expectation.Expectation] {
	k := keptBy("expectation", (*engine.Engine).Expectations, func(s expectation.Saved) (expectation.Expectation, []courier.Problem) {
		return s.Expectation, s.Warnings
	})
	k.Name, k.Hide = func(x *expectation.Expectation) *string { return &x.Name }, HideExpectation
	k.Wrong = func(name string, list []courier.Problem) error {
		return &expectation.Error{Expectation: name, Problems: list}
	}
	return k
}()

// Subscriptions are the subscriptions.
var Subscriptions = func() Kept[notify.Subscription] {
	k := keptBy("subscription", (*engine.Engine).Subscriptions, func(s notify.Subscribed) (notify.Subscription, []courier.Problem) {
		return s.Subscription, s.Warnings
	})
	k.Name, k.Hide = func(s *notify.Subscription) *string { return &s.Name }, HideSubscription
	k.Wrong = func(name string, list []courier.Problem) error {
		return &notify.Error{Subscription: name, Problems: list}
	}
	return k
}()
