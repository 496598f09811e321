package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Chains are the definitions of chains, and their executions. The store must have
// the role [store.Chains] for the latter.
type Chains struct{ e *Engine }

// Chains returns the chains in the engine's store.
func (e *Engine) Chains() Chains { return Chains{e} }

// Define checks a chain and saves it as a new version of its name. If it equals the
// latest version, that one is returned and nothing is saved. Its jobs must have been
// defined; if a member names no version, its job is checked in the latest one. Their
// step types need not be registered here. If the chain can't run, the error is a
// *[courier.DefinitionError], which lists everything that is wrong. A nil opt means
// the defaults.
func (h Chains) Define(ctx context.Context, chain courier.Chain, opt *courier.DefineOptions) (courier.DefinedChain, error) {
	return h.e.definitions.DefineChain(ctx, chain, opt)
}

// Get returns a version of a chain; version 0 means the latest. If there is no such
// chain, the error matches [courier.ErrNotFound] and suggests the nearest name.
func (h Chains) Get(ctx context.Context, name string, version int) (courier.Chain, error) {
	return h.e.definitions.Chain(ctx, name, version)
}

// List returns a page of the latest versions of chains, in byte order of their
// names. The kind in the filter does not count.
func (h Chains) List(ctx context.Context, f store.DefinitionFilter) ([]courier.DefinedChain, error) {
	return h.e.definitions.Chains(ctx, f)
}

// Versions returns a page of the versions of a chain, the newest first. The error
// of a chain that isn't there matches [courier.ErrNotFound].
func (h Chains) Versions(ctx context.Context, name string, f store.VersionFilter) ([]courier.DefinedChain, error) {
	return h.e.definitions.ChainVersions(ctx, name, f)
}

// Start creates an execution of the named chain, and releases the members that depend
// on no other, for some engine to run. The versions of all members' jobs are fixed
// now. When Start has returned nil, the chain execution is durable in the store. If
// the idempotency key was used before, Start returns that chain execution, whatever
// its state, or courier.ErrConflict if it has other parameters. A nil opt means the
// defaults.
func (h Chains) Start(ctx context.Context, chain string, opt *courier.ChainOptions) (courier.ChainExecution, error) {
	return h.e.chains.Start(ctx, chain, opt)
}

// Prepare returns what [Chains.Start] would create, and creates
// nothing. A nil opt means the defaults.
func (h Chains) Prepare(ctx context.Context, chain string, opt *courier.ChainOptions) (store.NewChainExecution, error) {
	return h.e.chains.Prepare(ctx, chain, opt)
}

// Execution returns a chain execution as it is now.
func (h Chains) Execution(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	return h.e.chains.Execution(ctx, id)
}

// Executions returns a page of chain executions, the newest first.
func (h Chains) Executions(ctx context.Context, f store.ChainFilter) ([]courier.ChainExecution, error) {
	return h.e.chains.Executions(ctx, f)
}

// Wait returns the chain execution when it is completed, failed or cancelled; it
// waits through pauses. The error is nil whatever the outcome, see
// [courier.ChainExecution.Err]. If ctx ends first, Wait returns the error of ctx and
// the chain execution as it is.
func (h Chains) Wait(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	return h.e.chains.Wait(ctx, id)
}

// Pause requests that a chain execution stops: no further members are released, and
// those that are queued or run are paused. The chain execution is paused when no
// member runs any more. Like the other requests, Pause returns the chain execution as
// it then is; if its state does not allow the request, the error is a
// *[courier.ChainRequestError].
func (h Chains) Pause(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestPause, by)
}

// Resume undoes a pause: members that the pause has paused go on, and further members
// are released again. A member that was paused by a request of its own stays paused.
func (h Chains) Resume(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestResume, by)
}

// Cancel gives up a chain execution: members that have not started are skipped, and
// all others are cancelled, as by [Engine.Cancel]. The chain execution is cancelled
// when the last member is.
func (h Chains) Cancel(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestCancel, by)
}

// Release starts a chain execution that was created with Hold.
func (h Chains) Release(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestRelease, by)
}

// Retry continues a failed chain execution. Failed members are resumed at the step
// that failed, as by [Engine.Resume]; cancelled members get a new execution; members
// that were skipped because of them wait for them again. Completed members stay as
// they are.
func (h Chains) Retry(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestRetry, by)
}

// Rerun starts the chain of an earlier execution again, with the parameters of that
// execution and its labels but for [courier.LabelBy], whatever its state; see [Engine.Rerun].
func (h Chains) Rerun(ctx context.Context, id courier.ChainExecutionID, opt *RerunOptions) (courier.ChainExecution, error) {
	if opt == nil {
		opt = &RerunOptions{}
	}
	return h.e.chains.Rerun(ctx, id, courier.ChainOptions{Params: opt.Params, Labels: opt.Labels, Version: opt.Version, IdempotencyKey: opt.IdempotencyKey, By: opt.By})
}
