package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// MaxAcknowledged is the longest time for which an acknowledgement can hold.
const MaxAcknowledged = 30 * 24 * time.Hour

// Acknowledge hides a problem from everybody until an instant, because somebody is dealing with
// it. The caller sets Key, Title, Until and Snoozed of a, and Reason of by. Until is between now
// and [MaxAcknowledged] from now. If one of these is missing or wrong, the error matches
// [courier.ErrInvalid]. An earlier acknowledgement under the key is replaced. The journal gets an
// entry. The store must have the role store.Acknowledgements; otherwise the error matches
// [errors.ErrUnsupported].
func (h Executions) Acknowledge(ctx context.Context, a store.Acknowledgement, by courier.By) (store.Acknowledgement, error) {
	role, err := h.e.roles.Acknowledgements()
	if err != nil {
		return a, fmt.Errorf("acknowledge: %w", err)
	}
	a.By, a.Reason = by.Actor, by.Reason
	ahead := time.Until(a.Until)
	switch n := utf8.RuneCountInString(a.Reason); {
	case a.Key == "":
		return a, courier.Errorf(courier.ErrInvalid, "acknowledge: the key of the problem is missing")
	case n == 0 || n > 300:
		return a, courier.Errorf(courier.ErrInvalid, "acknowledge: give a reason of 1 to 300 characters")
	case ahead <= 0 || ahead > MaxAcknowledged:
		return a, courier.Errorf(courier.ErrInvalid, "acknowledge: until must be within the next 30 days")
	}
	if a, err = role.Acknowledge(ctx, a); err != nil {
		return a, fmt.Errorf("acknowledge: %w", err)
	}
	verb := "acknowledged"
	if a.Snoozed {
		verb = "snoozed"
	}
	now, err := json.Marshal(struct {
		Until time.Time `json:"until"`
	}{a.Until})
	access(h).Changed(ctx, by, store.Action{Kind: "attention", Name: a.Title, Verb: verb, Now: now})
	return a, err
}

// Withdraw removes the acknowledgement under a key. If there is none, the error matches
// [courier.ErrNotFound]. The journal gets an entry with the title.
func (h Executions) Withdraw(ctx context.Context, key, title string, by courier.By) error {
	role, err := h.e.roles.Acknowledgements()
	if err != nil {
		return fmt.Errorf("withdraw an acknowledgement: %w", err)
	}
	err = role.Withdraw(ctx, key)
	if errors.Is(err, courier.ErrNotFound) {
		return courier.Errorf(courier.ErrNotFound, "there is no acknowledgement with the key %q", key)
	} else if err != nil {
		return fmt.Errorf("withdraw an acknowledgement: %w", err)
	}
	access(h).Changed(ctx, by, store.Action{Kind: "attention", Name: title, Verb: "withdrawn"})
	return nil
}

// Acknowledgements returns the acknowledgements that hold, and those that ended within the last
// [store.AcknowledgementsKept]. The store must have the role store.Acknowledgements; otherwise the
// error matches [errors.ErrUnsupported].
func (h Executions) Acknowledgements(ctx context.Context) ([]store.Acknowledgement, error) {
	role, err := h.e.roles.Acknowledgements()
	if err != nil {
		return nil, fmt.Errorf("acknowledgements: %w", err)
	}
	return role.Acknowledgements(ctx)
}
