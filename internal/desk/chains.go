package desk

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// ChainStates are the states of executions of chains.
var ChainStates = []courier.ChainState{
	courier.ChainPending, courier.ChainRunning, courier.ChainCompleted, courier.ChainFailed, courier.ChainPaused, courier.ChainCancelled,
}

// ChainStatus is the state of an execution of a chain as people see it: "pausing" or
// "cancelling" if it was asked for that and has not reached it.
func ChainStatus(x *courier.ChainExecution) string {
	switch {
	case x.Request == courier.RequestCancel && !x.State.Ended():
		return "cancelling"
	case x.Request == courier.RequestPause && x.State == courier.ChainRunning:
		return "pausing"
	}
	return string(x.State)
}

// ChainExecution returns an execution of a chain, if the visitor may see it. A chain belongs
// to no job, and starts any: what counts is the role for all jobs, and a client sees its own.
// Ids that are none, that do not exist, and executions of others have the same error.
func (v *Visit) ChainExecution(ctx context.Context, id string) (courier.ChainExecution, error) {
	if !IsID(id) {
		return courier.ChainExecution{}, errUnknown
	}
	x, err := v.d.e.Chains().Execution(ctx, courier.ChainExecutionID(id))
	if errors.Is(err, courier.ErrNotFound) || err == nil && !NeedOf("getChainExecution").Granted(v.Role(ctx, ""), v.OwnChain(&x)) {
		return courier.ChainExecution{}, errUnknown
	}
	return x, err
}

// OwnChain reports whether an execution of a chain is the visitor's own; see [Visit.Own].
func (v *Visit) OwnChain(x *courier.ChainExecution) bool { return x.Labels[courier.LabelBy] == v.ID }

// ChainAction is the entry in the journal of what is done with an execution of a chain.
func ChainAction(x *courier.ChainExecution, verb, reason string) store.Action {
	return store.Action{Verb: verb, Kind: "chain execution", Name: x.Chain, Execution: courier.ExecutionID(x.ID), Reason: reason}
}

// ChainVerbs are what can be asked of an execution of a chain; see [Visit.AskChain].
var ChainVerbs = []string{"pause", "resume", "cancel", "release", "retry"}

// AskChain asks one of [ChainVerbs] of an execution of a chain, and returns it as it then
// is. It succeeds if that is so already, or was asked for. It writes no journal.
func (v *Visit) AskChain(ctx context.Context, id courier.ChainExecutionID, verb, reason string) (courier.ChainExecution, error) {
	h := v.d.e.Chains()
	ask := map[string]func(context.Context, courier.ChainExecutionID, courier.By) (courier.ChainExecution, error){
		"pause": h.Pause, "resume": h.Resume, "cancel": h.Cancel, "release": h.Release, "retry": h.Retry,
	}[verb]
	x, err := ask(ctx, id, v.By(reason))
	if _, refused := errors.AsType[*courier.ChainRequestError](err); refused {
		if now, again := h.Execution(ctx, id); again == nil && chainReached(verb, &now) {
			return now, nil
		}
	}
	return x, err
}

// chainReached reports whether an execution of a chain is as a request wants it, or was
// asked for that.
func chainReached(verb string, x *courier.ChainExecution) bool {
	switch verb {
	case "pause":
		return x.State == courier.ChainPaused || x.Request == courier.RequestPause
	case "cancel":
		return x.State == courier.ChainCancelled || x.Request == courier.RequestCancel
	case "release":
		return x.State == courier.ChainRunning
	}
	return x.State == courier.ChainRunning && x.Request == ""
}
