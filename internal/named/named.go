// Package named reads and changes the records that a store keeps by name for a service:
// schedules, monitors, expectations and subscriptions.
package named

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Records are the records of type R that a store of type S keeps, each under its name. A
// record is saved as a P. The methods may be called by several goroutines if the functions
// may. Errors that a method words begin with the operation, the kind and the name.
type Records[S, R, P any] struct {
	Kind  string // of the records, in messages and in the journal
	Store func() (S, error)
	// List returns the record of a name, or of all records the first thousand whose names come
	// after one if the name is empty, and the time by the clock of the store, if the store
	// returns it.
	List func(ctx context.Context, s S, name, after string) (list []R, now time.Time, err error)
	Name func(*R) string
	// Write saves a record. The error is [courier.ErrConflict] if the record was changed
	// since it was read. It may be nil if Change is not called.
	Write func(s S, ctx context.Context, p P) (R, error)
	// Delete removes the record of a name, or returns [courier.ErrNotFound].
	Delete func(s S, ctx context.Context, name string) error
	// Changed is called after a record was changed or removed, with the entry for the
	// journal.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
}

// ErrUnchanged is what the function given to [Records.Change] returns if nothing is to be
// saved.
var ErrUnchanged = errors.New("unchanged")

// Open returns the store for a change by somebody, whose name it checks.
func (r *Records[S, R, P]) Open(by courier.By) (S, error) {
	s, err := r.Store()
	if err == nil {
		err = text.Check(text.By(by))
	}
	return s, err
}

// Find returns the record of a name, nil if there is none, and the time by the clock of the
// store.
func (r *Records[S, R, P]) Find(ctx context.Context, s S, name string) (*R, time.Time, error) {
	list, now, err := r.List(ctx, s, name, "")
	if err != nil || len(list) == 0 || r.Name(&list[0]) != name {
		return nil, now, err
	}
	return &list[0], now, nil
}

// Look returns the record of a name, nil if there is none.
func (r *Records[S, R, P]) Look(ctx context.Context, name string) (*R, error) {
	s, err := r.Store()
	var found *R
	if err == nil {
		found, _, err = r.Find(ctx, s, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Kind, err)
	}
	return found, nil
}

// Get returns the record of a name. If there is none, the error matches
// [courier.ErrNotFound].
func (r *Records[S, R, P]) Get(ctx context.Context, name string) (*R, error) {
	s, err := r.Store()
	var found *R
	if err == nil {
		found, _, err = r.Find(ctx, s, name)
	}
	if err == nil && found == nil {
		err = r.Unknown(ctx, s, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Kind, err)
	}
	return found, nil
}

// Unknown returns the error of a record that does not exist. It matches
// [courier.ErrNotFound], and suggests the nearest name.
func (r *Records[S, R, P]) Unknown(ctx context.Context, s S, name string) error {
	var names []string
	list, _, _ := r.List(ctx, s, "", "")
	for i := range list {
		names = append(names, r.Name(&list[i]))
	}
	return courier.Errorf(courier.ErrNotFound, "there is no %s %q; %s", r.Kind, name, nearest.DidYouMean(name, names))
}

// maxWrites is how often Change writes a record that others change meanwhile.
const maxWrites = 20

// Change saves what change returns for a record, which is nil if there is none; now is as
// [Records.Find] returns it. If somebody else changes the record meanwhile, change is
// called again. If it returns [ErrUnchanged], nothing is saved; if it returns
// [courier.ErrNotFound] itself, the error is that of [Records.Unknown]. The entry for the
// journal has the name of the record; its kind is added.
func (r *Records[S, R, P]) Change(ctx context.Context, verb string, a store.Action, by courier.By, change func(old *R, now time.Time) (P, error)) (*R, error) {
	fail := func(err error) (*R, error) { return nil, fmt.Errorf("%s %s %q: %w", verb, r.Kind, a.Name, err) }
	s, err := r.Open(by)
	if err != nil {
		return fail(err)
	}
	for n := 1; ; n++ {
		old, now, err := r.Find(ctx, s, a.Name)
		if err != nil {
			return fail(err)
		}
		put, err := change(old, now)
		switch {
		case err == ErrUnchanged:
			return old, nil
		case err == courier.ErrNotFound:
			return fail(r.Unknown(ctx, s, a.Name))
		case err != nil:
			return fail(err)
		}
		saved, err := r.Write(s, ctx, put)
		if errors.Is(err, courier.ErrConflict) && n < maxWrites {
			continue
		}
		if err != nil {
			return fail(err)
		}
		a.Kind = r.Kind
		r.Changed(ctx, by, a)
		return &saved, nil
	}
}

// Remove removes the record of a name. If there is none, the error matches
// [courier.ErrNotFound].
func (r *Records[S, R, P]) Remove(ctx context.Context, name string, by courier.By) error {
	s, err := r.Open(by)
	if err == nil {
		err = r.Delete(s, ctx, name)
	}
	if errors.Is(err, courier.ErrNotFound) {
		err = r.Unknown(ctx, s, name)
	}
	if err != nil {
		return fmt.Errorf("remove %s %q: %w", r.Kind, name, err)
	}
	r.Changed(ctx, by, store.Action{Kind: r.Kind, Name: name, Verb: "removed"})
	return nil
}
