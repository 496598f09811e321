package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/store"
)

// claimDead claims an execution for a worker that never shows up again.
func claimDead(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) store.Claimed {
	t.Helper()
	got, err := h.Store.Claim(t.Context(), store.ClaimRequest{
		Worker: "dead", StepTypes: h.Registry.Keys(), Queues: []string{courier.DefaultQueue},
		Only: []courier.ExecutionID{id}, Max: 1, Lease: 15 * time.Second,
	})
	if err != nil || len(got.List) != 1 {
		t.Fatalf("claim: %d, %v", len(got.List), err)
	}
	return got.List[0]
}

// Shorter names for the tests of this package.
type (
	ctx         = context.Context
	storeFilter = store.Filter
)

// brokenRenew is a store in which no lease can be renewed.
type brokenRenew struct{ store.Store }

func (*brokenRenew) Renew(ctx, store.RenewRequest) ([]store.Renewed, error) {
	return nil, errors.New("the network is down")
}

func contextCause(c ctx) error { return context.Cause(c) }

func contextWithCancel(t *testing.T) (ctx, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
