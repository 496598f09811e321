package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// Roles are the parts of a store, which not every store has all of. The error of a part
// that the store does not have names the interface that it must implement, and matches
// [errors.ErrUnsupported]. Methods may be called by several goroutines.
type Roles struct {
	Store store.Store // that calls go to
	// Behind is the store around which Store is put, or Store itself. It decides which
	// parts there are.
	Behind store.Store
}

// Catalog returns the part that keeps definitions.
func (r Roles) Catalog() store.Catalog { return r.Store }

// Archive returns the part that has the records of executions.
func (r Roles) Archive() store.Archive { return r.Store }

// Subscriptions returns the part that keeps subscriptions and their deliveries.
func (r Roles) Subscriptions() (notify.Store, error) {
	return role[notify.Store](r, "subscriptions")
}

// Monitors returns the part that keeps monitors.
func (r Roles) Monitors() (monitor.Store, error) { return role[monitor.Store](r, "monitors") }

// Expectations returns the part that keeps expectations and their arrivals.
func (r Roles) Expectations() (expectation.Store, error) {
	return role[expectation.Store](r, "expectations")
}

// Schedules returns the part that keeps schedules.
func (r Roles) Schedules() (schedule.Store, error) { return role[schedule.Store](r, "schedules") }

// Chains returns the part that keeps chain executions.
func (r Roles) Chains() (chain.Store, error) { return role[chain.Store](r, "chain executions") }

// Deadlines returns the part that keeps deadlines of executions.
func (r Roles) Deadlines() (store.Deadlines, error) {
	return role[store.Deadlines](r, "deadlines of executions")
}

// Workers returns the part that records workers.
func (r Roles) Workers() (store.Workers, error) { return role[store.Workers](r, "workers") }

// StoreID returns the id of the store; empty if it has none.
func (r Roles) StoreID(ctx context.Context) (string, error) {
	if _, ok := r.Behind.(store.Identity); !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	id, err := r.Store.(store.Identity).StoreID(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return "", nil // of the store that a wrapper is put around
	}
	return id, err
}

// Overview returns the part that counts and explains executions.
func (r Roles) Overview() (store.Overview, error) {
	return role[store.Overview](r, "overview of executions")
}

// Statistics returns the part that has figures for metrics.
func (r Roles) Statistics() (store.Statistics, error) {
	return role[store.Statistics](r, "statistics")
}

// Figures returns the part that has figures by hour.
func (r Roles) Figures() (store.Figures, error) { return role[store.Figures](r, "figures by hour") }

// Trail returns the part that finds reports of files.
func (r Roles) Trail() (store.Trail, error) { return role[store.Trail](r, "trail of files") }

// Journal returns the part that keeps who has changed what.
func (r Roles) Journal() (store.Journal, error) { return role[store.Journal](r, "journal") }

// Acknowledgements returns the part that keeps what people have put out of sight.
func (r Roles) Acknowledgements() (store.Acknowledgements, error) {
	return role[store.Acknowledgements](r, "acknowledgements")
}

// role returns a part of the store, or an error that says what the part keeps.
func role[R any](r Roles, keeps string) (R, error) {
	var none R
	if r.Behind == NoStore {
		return none, ErrNoStore
	} else if _, ok := r.Behind.(R); !ok {
		return none, fmt.Errorf("the store (%T) keeps no %s: it must implement %v, as memstore and pgstore do: %w", r.Behind, keeps, reflect.TypeFor[R](), errors.ErrUnsupported)
	}
	part, _ := r.Store.(R)
	return part, nil
}
