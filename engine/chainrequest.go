package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// Execution returns a chain execution as it is now.
func (h Chains) Execution(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	e := h.e
	chains, err := e.chains()
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
func (h Chains) Executions(ctx context.Context, f store.ChainFilter) ([]courier.ChainExecution, error) {
	e := h.e
	chains, err := e.chains()
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
func (h Chains) Wait(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	e := h.e
	const first, most = 20 * time.Millisecond, time.Second
	key := courier.ExecutionID(id)
	for wait := first; ; wait = min(2*wait, most) {
		moved := e.watch(key)
		c, err := e.Chains().Execution(ctx, id)
		if err != nil || c.State.Ended() {
			e.unwatch(key, moved)
			if err != nil {
				err = fmt.Errorf("wait: %w", err)
			}
			return c, err
		}
		news, err := e.stay(ctx, key, moved, wait)
		if err != nil {
			return c, fmt.Errorf("wait for chain execution %s, which is %s: %w", id, c.State, err)
		}
		if news {
			wait = first
		}
	}
}

// Pause releases no further members and asks those that are queued or run
// to pause. The chain execution is paused when none runs any more. A state that
// does not allow it is a *[courier.ChainRequestError]; so for the other
// requests. Pause returns the chain execution as it is then; so do the other requests.
func (h Chains) Pause(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.requestChain(ctx, id, courier.RequestPause, by)
}

// Resume undoes a pause: members that it has paused go on, and others are
// released again. Members that somebody has paused one by one stay paused.
func (h Chains) Resume(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.requestChain(ctx, id, courier.RequestResume, by)
}

// Cancel gives a chain execution up: members that have not begun are
// skipped, all others are cancelled, as by [Engine.Cancel]. It is cancelled when
// the last one is.
func (h Chains) Cancel(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.requestChain(ctx, id, courier.RequestCancel, by)
}

// Release lets a chain execution that was created with Hold go.
func (h Chains) Release(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.requestChain(ctx, id, courier.RequestRelease, by)
}

// Retry takes up a failed chain execution: failed members are resumed, as
// by [Engine.Resume] from the step that failed, cancelled ones get a new
// execution, and what was skipped because of them waits for them again. Members
// that have completed stay as they are.
func (h Chains) Retry(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.requestChain(ctx, id, courier.RequestRetry, by)
}

// requestChain makes a request of a chain execution, and tells the runs and
// observers here what came of it.
func (e *Engine) requestChain(ctx context.Context, id courier.ChainExecutionID, kind courier.RequestKind, by courier.By) (courier.ChainExecution, error) {
	var none courier.ChainExecution
	chains, err := e.chains()
	if err != nil {
		return none, err
	}
	if err := core.CheckText(core.Texts(by)); err != nil {
		return none, fmt.Errorf("%s chain execution %s: %w", kind, id, err)
	}
	r := store.ChainRequest{Chain: id, Kind: kind, By: by.Actor, Reason: by.Reason}
	if kind == courier.RequestRetry {
		c, err := e.Chains().Execution(ctx, id)
		if err != nil {
			return none, fmt.Errorf("%s: %w", kind, err)
		}
		for range c.Members {
			r.IDs = append(r.IDs, courier.ExecutionID(e.ids.New()))
		}
	}
	c, asked, err := chains.RequestChain(ctx, r)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return none, courier.Errorf(courier.ErrNotFound, "%s: there is no chain execution %q", kind, id)
	case err != nil:
		if _, ok := errors.AsType[*courier.ChainRequestError](err); ok {
			return none, err
		}
		return none, fmt.Errorf("%s chain execution %s: %w", kind, id, err)
	}
	e.notifications.Wake()
	each := kind // what was asked of the executions
	if kind == courier.RequestRetry {
		each = courier.RequestResume
	}
	for i := range asked {
		e.wasAsked(&asked[i], &store.Request{Kind: each, By: by.Actor, Reason: by.Reason})
		if asked[i].State == courier.Cancelled {
			e.discard(ctx, &asked[i])
		}
	}
	return c, nil
}
