package chains

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Execution returns a chain execution as it is now.
func (v *Service) Execution(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	chains, err := v.cfg.Roles.Chains()
	if err != nil {
		return courier.ChainExecution{}, err
	}
	c, err := chains.ChainExecution(ctx, id)
	if errors.Is(err, courier.ErrNotFound) {
		return c, courier.Errorf(courier.ErrNotFound, "there is no chain execution %q", id)
	}
	if err != nil {
		return c, fmt.Errorf("load chain execution: %w", err)
	}
	return c, nil
}

// Executions returns a page of chain executions, the newest first.
func (v *Service) Executions(ctx context.Context, f store.ChainFilter) ([]courier.ChainExecution, error) {
	chains, err := v.cfg.Roles.Chains()
	if err != nil {
		return nil, err
	}
	list, err := chains.ChainExecutions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("chain executions: %w", err)
	}
	return list, nil
}

// Wait returns the chain execution when it is completed, failed or
// cancelled; it waits through pauses. The outcome is no error of Wait's:
// see [courier.ChainExecution.Err]. When ctx ends first, Wait returns its
// error with the chain execution as it is.
func (v *Service) Wait(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	var c courier.ChainExecution
	var failed error
	err := v.cfg.WaitUntil(ctx, courier.ExecutionID(id), func() (bool, error) {
		c, failed = v.Execution(ctx, id)
		return c.State.Ended(), failed
	})
	switch {
	case failed != nil:
		return c, fmt.Errorf("wait: %w", failed)
	case err != nil:
		return c, fmt.Errorf("wait for chain execution %s, which is %s: %w", id, c.State, err)
	}
	return c, nil
}

// Request makes a request for a chain execution, and notifies the runs and observers of
// this engine of the result. A state that does not allow it is a
// *[courier.ChainRequestError].
func (v *Service) Request(ctx context.Context, id courier.ChainExecutionID, kind courier.RequestKind, by courier.By) (courier.ChainExecution, error) {
	var none courier.ChainExecution
	chains, err := v.cfg.Roles.Chains()
	if err != nil {
		return none, err
	}
	if err := text.Check(text.By(by)); err != nil {
		return none, fmt.Errorf("%s chain execution %s: %w", kind, id, err)
	}
	r := store.ChainRequest{Chain: id, Kind: kind, By: by.Actor, Reason: by.Reason}
	if kind == courier.RequestRetry {
		c, err := v.Execution(ctx, id)
		if err != nil {
			return none, fmt.Errorf("%s: %w", kind, err)
		}
		for range c.Members {
			r.IDs = append(r.IDs, courier.ExecutionID(v.cfg.NewID()))
		}
	}
	c, requested, err := chains.RequestChain(ctx, r)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return none, courier.Errorf(courier.ErrNotFound, "%s: there is no chain execution %q", kind, id)
	case err != nil:
		if _, ok := errors.AsType[*courier.ChainRequestError](err); ok {
			return none, err
		}
		return none, fmt.Errorf("%s chain execution %s: %w", kind, id, err)
	}
	v.cfg.WakeNotifications()
	each := kind // the request for the executions
	if kind == courier.RequestRetry {
		each = courier.RequestResume
	}
	v.Moved(&c, kind == courier.RequestRelease)
	for i := range requested {
		v.engine.Requested(ctx, &requested[i], &store.Request{Kind: each, By: by.Actor, Reason: by.Reason})
	}
	return c, nil
}
