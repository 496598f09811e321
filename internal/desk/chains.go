package desk

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// ChainStates are the states of chain executions.
var ChainStates = []chain.State{
	chain.Pending, chain.Running, chain.Completed, chain.Failed, chain.Paused, chain.Cancelled,
}

// ChainStatus returns the state of a chain execution as people see it. It is "pausing" or
// "cancelling" if the request has not taken effect yet.
func ChainStatus(x *chain.Execution) string {
	switch {
	case x.Request == courier.RequestCancel && !x.State.Ended():
		return "cancelling"
	case x.Request == courier.RequestPause && x.State == chain.Running:
		return "pausing"
	}
	return string(x.State)
}

// ChainExecution returns a chain execution if the visitor may see it. A chain belongs to no job,
// and may start any job, so the role for all jobs decides; a client sees its own. The error is
// the same for malformed ids, ids that do not exist, and executions of others.
func (v *Visit) ChainExecution(ctx context.Context, id string) (chain.Execution, error) {
	if !filter.IsID(id) {
		return chain.Execution{}, errUnknown
	}
	x, err := v.d.e.Chains().Execution(ctx, courier.ChainExecutionID(id))
	if errors.Is(err, courier.ErrNotFound) || err == nil && !v.seesChain(ctx, &x) {
		return chain.Execution{}, errUnknown
	}
	return x, err
}

// seesChain reports whether the visitor may see a chain execution.
func (v *Visit) seesChain(ctx context.Context, x *chain.Execution) bool {
	return NeedOf("getChainExecution").Granted(v.Role(ctx, ""), v.OwnChain(x))
}

// OwnChain reports whether a chain execution is the visitor's own; see [Visit.Own].
func (v *Visit) OwnChain(x *chain.Execution) bool { return x.Labels[courier.LabelBy] == v.ID }

// ChainAction returns the journal entry of an action on a chain execution.
func ChainAction(x *chain.Execution, verb, reason string) store.Action {
	return store.Action{Verb: verb, Kind: "chain execution", Name: x.Chain, Execution: courier.ExecutionID(x.ID), Reason: reason}
}

// ChainVerbs are the possible requests to a chain execution; see [Visit.AskChain].
var ChainVerbs = []string{"pause", "resume", "cancel", "release", "retry"}

// AskChain makes one of the requests [ChainVerbs] to a chain execution, and returns it
// afterwards. It succeeds if the chain execution already has the requested state, or was
// requested to reach it. It writes no journal.
func (v *Visit) AskChain(ctx context.Context, id courier.ChainExecutionID, verb, reason string) (chain.Execution, error) {
	h := v.d.e.Chains()
	ask := map[string]func(context.Context, courier.ChainExecutionID, courier.By) (chain.Execution, error){
		"pause": h.Pause, "resume": h.Resume, "cancel": h.Cancel, "release": h.Release, "retry": h.Retry,
	}[verb]
	x, err := ask(ctx, id, v.By(reason))
	if _, refused := errors.AsType[*chain.RequestError](err); refused {
		if now, again := h.Execution(ctx, id); again == nil && chainReached(verb, &now) {
			return now, nil
		}
	}
	return x, err
}

// chainReached reports whether a chain execution has the requested state, or was requested to
// reach it.
func chainReached(verb string, x *chain.Execution) bool {
	switch verb {
	case "pause":
		return x.State == chain.Paused || x.Request == courier.RequestPause
	case "cancel":
		return x.State == chain.Cancelled || x.Request == courier.RequestCancel
	case "release":
		return x.State == chain.Running
	}
	return x.State == chain.Running && x.Request == ""
}
