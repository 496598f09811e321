package desk

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
)

// ErrCursor is the error of a cursor that belongs to no page of a list. It matches
// [courier.ErrInvalid].
var ErrCursor = courier.Errorf(courier.ErrInvalid, "not a cursor of this list; start from the first page")

// Limits returns a page of the limits that were set and that the visitor may see: the limits of
// its jobs, and all others if it may see all jobs. Keys are values.
func (v *Visit) Limits(ctx context.Context, after string, limit int) ([]engine.Limit, string, error) {
	return Pick(after, limit, func(after string, limit int) ([]engine.Limit, error) {
		return v.d.e.Limits().List(ctx, engine.LimitFilter{After: after, Limit: limit})
	}, func(l *engine.Limit) string { return l.Scope }, func(l *engine.Limit) bool { return v.SeesLimit(ctx, l.Scope) })
}

// SetLimit sets the limit of a scope. The error is [ErrUnchanged] if the limit already has that
// value.
func (v *Visit) SetLimit(ctx context.Context, scope string, n int, by courier.By) error {
	f := engine.LimitFilter{Limit: 2}
	if scope != "global" && scope != "" {
		f.After = before(scope)
	}
	list, err := v.d.e.Limits().List(ctx, f)
	if err != nil {
		return err
	}
	if err := v.d.e.Limits().Set(ctx, scope, n, by); err != nil {
		return err
	}
	if slices.Contains(list, engine.Limit{Scope: scope, Limit: n}) {
		return ErrUnchanged
	}
	return nil
}

// SeesLimit reports whether the visitor may see the limit of a scope.
func (v *Visit) SeesLimit(ctx context.Context, scope string) bool {
	job, ok := strings.CutPrefix(scope, "job:")
	switch {
	case ok:
		return v.Can(ctx, job, access.RightSee)
	case strings.HasPrefix(scope, "key:"):
		return v.SeesValues(ctx, "")
	}
	return v.Can(ctx, "", access.RightSee)
}

// Deliveries returns a page of the undelivered notifications that the visitor may see, without
// values that it may not see. It also returns the position after which the next page begins. The
// position and the limit in f are ignored.
func (v *Visit) Deliveries(ctx context.Context, f notify.DeliveryFilter, after string, limit int) ([]notify.Delivery, string, error) {
	seen := make(map[string]bool)
	list, next, err := Pick(after, limit, func(after string, limit int) ([]notify.Delivery, error) {
		f.Limit = limit
		f.AfterEvent, f.AfterSubscription, _ = strings.Cut(after, " ")
		if _, _, err := notify.ParseEventID(f.AfterEvent); after != "" && (err != nil || f.AfterSubscription == "") {
			return nil, ErrCursor
		}
		return v.d.e.Subscriptions().Deliveries(ctx, f)
	}, AfterDelivery, func(d *notify.Delivery) bool { return v.seesDelivery(ctx, d, seen) })
	for i := range list {
		if !v.SeesValues(ctx, list[i].Job) {
			HideDelivery(&list[i])
		}
	}
	return list, next, err
}

// AfterDelivery returns the position of a delivery, after which the next page begins; see
// [Visit.Deliveries].
func AfterDelivery(d *notify.Delivery) string { return d.ID + " " + d.Subscription }

// seesDelivery reports whether the visitor may see the execution that a delivery is about,
// and its subscription; known has the answers for subscriptions.
func (v *Visit) seesDelivery(ctx context.Context, d *notify.Delivery, known map[string]bool) bool {
	if v.Can(ctx, "", access.RightSee) {
		return true
	}
	sees, ok := known[d.Subscription]
	if !ok {
		s, err := v.d.e.Subscriptions().Get(ctx, d.Subscription)
		sees = err == nil && v.Has(ctx, JobsOf(&s), access.RightSee)
		known[d.Subscription] = sees
		if err != nil && !errors.Is(err, courier.ErrNotFound) {
			v.d.log.Warn("a subscription could not be read, so its deliveries are left out of a list", "subscription", d.Subscription, "error", err)
		}
	}
	return sees && v.Can(ctx, d.Job, access.RightSee)
}

// A StateError says that the state of something does not permit the request. It matches
// [courier.ErrConflict].
type StateError struct{ Text string }

// Error returns the text.
func (e *StateError) Error() string { return e.Text }

// Is reports whether target is [courier.ErrConflict].
func (e *StateError) Is(target error) bool { return target == courier.ErrConflict }

// MonitorRefusal returns the error of a call that switches a monitor. If the state of the monitor
// does not permit the call, it returns a *[StateError] instead, because the engine's error
// repeats the reason of the state, which may contain values.
func (v *Visit) MonitorRefusal(ctx context.Context, name string, err error) error {
	if !errors.Is(err, courier.ErrConflict) {
		return err
	}
	m, again := v.d.e.Monitors().Get(ctx, name)
	switch {
	case again == nil && m.State == monitor.Failed:
		return &StateError{"the monitor is in the state error: acknowledge that, then it polls again"}
	case again == nil && !m.State.Polls():
		return &StateError{"the monitor is in the state " + string(m.State) + ", in which it does not poll"}
	}
	return err
}
