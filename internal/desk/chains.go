package desk

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// ChainStates are the states of executions of chains.
var ChainStates = []chain.State{
	chain.Pending, chain.Running, chain.Completed, chain.Failed, chain.Paused, chain.Cancelled,
}

// ChainStatus is the state of an execution of a chain as people see it: "pausing" or
// "cancelling" if it was asked for that and has not reached it.
func ChainStatus(x *chain.Execution) string {
	switch {
	case x.Request == courier.RequestCancel && !x.State.Ended():
		return "cancelling"
	case x.Request == courier.RequestPause && x.State == chain.Running:
		return "pausing"
	}
	return string(x.State)
}

// ChainExecution returns an execution of a chain, if the visitor may see it. A chain belongs
// to no job, and starts any: what counts is the role for all jobs, and a client sees its own.
// Ids that are none, that do not exist, and executions of others have the same error.
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

// seesChain reports whether the visitor may see an execution of a chain.
func (v *Visit) seesChain(ctx context.Context, x *chain.Execution) bool {
	return NeedOf("getChainExecution").Granted(v.Role(ctx, ""), v.OwnChain(x))
}

// OwnChain reports whether an execution of a chain is the visitor's own; see [Visit.Own].
func (v *Visit) OwnChain(x *chain.Execution) bool { return x.Labels[courier.LabelBy] == v.ID }

// ChainAction is the entry in the journal of what is done with an execution of a chain.
func ChainAction(x *chain.Execution, verb, reason string) store.Action {
	return store.Action{Verb: verb, Kind: "chain execution", Name: x.Chain, Execution: courier.ExecutionID(x.ID), Reason: reason}
}

// ChainVerbs are what can be asked of an execution of a chain; see [Visit.AskChain].
var ChainVerbs = []string{"pause", "resume", "cancel", "release", "retry"}

// AskChain asks one of [ChainVerbs] of an execution of a chain, and returns it as it then
// is. It succeeds if that is so already, or was asked for. It writes no journal.
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

// chainReached reports whether an execution of a chain is as a request wants it, or was
// asked for that.
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
