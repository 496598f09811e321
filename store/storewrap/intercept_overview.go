package storewrap

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// chains is the role chain.Store, under another name than the fields Store of wrappers.
type chains = chain.Store

// An acknowledgements is the role Acknowledgements, under a name that none of its methods has.
type acknowledgements interface{ store.Acknowledgements }

// roles are the roles that a wrapper passes on to the wrapped store unchanged.
type roles struct {
	chains
	notify.Store
	store.Overview
	store.Statistics
	store.Figures
	store.Trail
	store.Journal
	acknowledgements
	store.Deadlines
	store.Identity
	workers
	expectations
}

// rolesOf returns the roles of a store. All calls of a role that the store does not have are
// errors.
func rolesOf(s store.Store) roles {
	i, ok := s.(*intercepted)
	if !ok {
		i = &intercepted{s, func(ctx context.Context, _ *Call, do func(context.Context) error) error { return do(ctx) }}
	}
	return roles{i, i, i, i, i, i, i, i, i, i, i, i}
}

// interceptRole is intercept for a call of a role that the wrapped store may not have.
func interceptRole[R, T any](ctx context.Context, i *intercepted, c *Call, call func(context.Context, R) (T, error)) (T, error) {
	role, ok := i.s.(R)
	if !ok {
		var none T
		return none, fmt.Errorf("%T is no %v: %w", i.s, reflect.TypeFor[R](), errors.ErrUnsupported)
	}
	return intercept(ctx, i, c, func(ctx context.Context) (T, error) { return call(ctx, role) })
}

// Census calls the wrapped store, as do the following methods.
func (i *intercepted) Census(ctx context.Context, most int) (store.Census, error) {
	return interceptRole(ctx, i, &Call{Method: "Census", Request: most}, func(ctx context.Context, o store.Overview) (store.Census, error) {
		return o.Census(ctx, most)
	})
}

func (i *intercepted) Stats(ctx context.Context, most int) (store.Stats, error) {
	return interceptRole(ctx, i, &Call{Method: "Stats", Request: most}, func(ctx context.Context, o store.Statistics) (store.Stats, error) {
		return o.Stats(ctx, most)
	})
}

func (i *intercepted) CountHours(ctx context.Context, age time.Duration) error {
	_, err := interceptRole(ctx, i, &Call{Method: "CountHours", Request: age}, func(ctx context.Context, f store.Figures) (any, error) {
		return nil, f.CountHours(ctx, age)
	})
	return err
}

func (i *intercepted) Hours(ctx context.Context, most int) ([]store.HourFigures, error) {
	return interceptRole(ctx, i, &Call{Method: "Hours", Request: most}, func(ctx context.Context, f store.Figures) ([]store.HourFigures, error) {
		return f.Hours(ctx, most)
	})
}

func (i *intercepted) Circumstances(ctx context.Context, id courier.ExecutionID, age time.Duration) (store.Circumstances, error) {
	return interceptRole(ctx, i, &Call{Method: "Circumstances", Execution: id}, func(ctx context.Context, o store.Overview) (store.Circumstances, error) {
		return o.Circumstances(ctx, id, age)
	})
}

func (i *intercepted) Incidents(ctx context.Context, most int) (store.Incidents, error) {
	return interceptRole(ctx, i, &Call{Method: "Incidents", Request: most}, func(ctx context.Context, o store.Overview) (store.Incidents, error) {
		return o.Incidents(ctx, most)
	})
}

func (i *intercepted) Transfers(ctx context.Context, f store.TransferFilter) ([]store.Transfer, error) {
	return interceptRole(ctx, i, &Call{Method: "Transfers", Request: f}, func(ctx context.Context, o store.Overview) ([]store.Transfer, error) {
		return o.Transfers(ctx, f)
	})
}

func (i *intercepted) Find(ctx context.Context, f store.TrailFilter) ([]store.TrailEntry, error) {
	return interceptRole(ctx, i, &Call{Method: "Find", Request: f}, func(ctx context.Context, t store.Trail) ([]store.TrailEntry, error) {
		return t.Find(ctx, f)
	})
}

func (i *intercepted) Reports(ctx context.Context, entries []store.TrailEntry) ([]courier.StepExecution, error) {
	return interceptRole(ctx, i, &Call{Method: "Reports", Request: entries}, func(ctx context.Context, t store.Trail) ([]courier.StepExecution, error) {
		return t.Reports(ctx, entries)
	})
}

func (i *intercepted) Note(ctx context.Context, a store.Action) (store.Action, error) {
	return interceptRole(ctx, i, &Call{Method: "Note", Request: a}, func(ctx context.Context, j store.Journal) (store.Action, error) {
		return j.Note(ctx, a)
	})
}

func (i *intercepted) Actions(ctx context.Context, f store.ActionFilter) ([]store.Action, error) {
	return interceptRole(ctx, i, &Call{Method: "Actions", Request: f}, func(ctx context.Context, j store.Journal) ([]store.Action, error) {
		return j.Actions(ctx, f)
	})
}

func (i *intercepted) Acknowledge(ctx context.Context, a store.Acknowledgement) (store.Acknowledgement, error) {
	return interceptRole(ctx, i, &Call{Method: "Acknowledge", Request: a}, func(ctx context.Context, s store.Acknowledgements) (store.Acknowledgement, error) {
		return s.Acknowledge(ctx, a)
	})
}

func (i *intercepted) Withdraw(ctx context.Context, key string) error {
	_, err := interceptRole(ctx, i, &Call{Method: "Withdraw", Request: key}, func(ctx context.Context, s store.Acknowledgements) (any, error) {
		return nil, s.Withdraw(ctx, key)
	})
	return err
}

func (i *intercepted) Acknowledgements(ctx context.Context) ([]store.Acknowledgement, error) {
	return interceptRole(ctx, i, &Call{Method: "Acknowledgements"}, func(ctx context.Context, s store.Acknowledgements) ([]store.Acknowledgement, error) {
		return s.Acknowledgements(ctx)
	})
}
