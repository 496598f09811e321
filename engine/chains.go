package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/chains"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/store"
)

// Chains are the definitions of chains, and their executions. The store must have
// the role [store.Chains] for the latter.
type Chains struct{ e *Engine }

// Chains returns the chains in the engine's store.
func (e *Engine) Chains() Chains { return Chains{e} }

// A DefinedChain is a version of a chain in the store. Its fields mean
// what those of [DefinedJob] mean.
type DefinedChain struct {
	Chain      courier.Chain
	SavedBy    string
	SavedAt    time.Time
	Superseded bool
	Warnings   []courier.Problem
}

// ChainOptions are the settings of a new chain execution. The zero value is the
// default.
type ChainOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Version        int            // of the chain; 0 means the latest
	IdempotencyKey string         // unique per chain; a used one returns the chain execution that used it
	Hold           bool           // creates it in the state pending, until [Chains.Release]
	By             courier.By     // who requests it; [Chains.Prepare] keeps the actor alone
}

// Define checks a chain and saves it as a new version of its name. If it
// equals the latest version, that one is returned and nothing is saved. Its jobs
// must have been defined; those without a version are checked as they are now.
// Their step types need not be registered here. The error of a chain that can't
// run is a *[courier.DefinitionError], which lists everything that is wrong with
// it. A nil opt means the defaults.
func (h Chains) Define(ctx context.Context, chain courier.Chain, opt *DefineOptions) (DefinedChain, error) {
	d, err := h.e.definitions.DefineChain(ctx, chain, (*definitions.Options)(opt))
	return DefinedChain(d), err
}

// Get returns a version of a chain; version 0 means the latest. The error of
// a chain that isn't there matches [courier.ErrNotFound] and names the nearest.
func (h Chains) Get(ctx context.Context, name string, version int) (courier.Chain, error) {
	return h.e.definitions.Chain(ctx, name, version)
}

// List returns a page of the latest versions of chains, in byte order of their
// names. The kind in the filter does not count.
func (h Chains) List(ctx context.Context, f store.DefinitionFilter) ([]DefinedChain, error) {
	list, err := h.e.definitions.Chains(ctx, f)
	return mapped(list, definedChain), err
}

// Versions returns a page of the versions of a chain, the newest first. The error
// of a chain that isn't there matches [courier.ErrNotFound].
func (h Chains) Versions(ctx context.Context, name string, f VersionFilter) ([]DefinedChain, error) {
	list, err := h.e.definitions.ChainVersions(ctx, name, definitions.VersionFilter(f))
	return mapped(list, definedChain), err
}

// Start creates an execution of the named chain and releases the members
// that depend on no other, for some engine to run. The versions of all members'
// jobs are those of this moment, whatever is saved later. Once Start
// returned nil, the chain execution is durable in the store. With an idempotency
// key that was used before, it returns that chain execution, whatever its state,
// or [courier.ErrConflict] if it has other parameters. A nil opt means the
// defaults.
func (h Chains) Start(ctx context.Context, chain string, opt *ChainOptions) (courier.ChainExecution, error) {
	return h.e.chains.Start(ctx, chain, (*chains.Options)(opt))
}

// Prepare returns what [Chains.Start] would create, and creates
// nothing. A nil opt means the defaults.
func (h Chains) Prepare(ctx context.Context, chain string, opt *ChainOptions) (store.NewChainExecution, error) {
	return h.e.chains.Prepare(ctx, chain, (*chains.Options)(opt))
}

// Execution returns a chain execution as it is now.
func (h Chains) Execution(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	return h.e.chains.Execution(ctx, id)
}

// Executions returns a page of chain executions, the newest first.
func (h Chains) Executions(ctx context.Context, f store.ChainFilter) ([]courier.ChainExecution, error) {
	return h.e.chains.Executions(ctx, f)
}

// Wait returns the chain execution when it is completed, failed or
// cancelled; it waits through pauses. The outcome is no error of Wait's:
// see [courier.ChainExecution.Err]. When ctx ends first, Wait returns its
// error with the chain execution as it is.
func (h Chains) Wait(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	return h.e.chains.Wait(ctx, id)
}

// Pause releases no further members, and requests a pause of those that are queued or
// run. The chain execution is paused when none runs any more. A state that
// does not allow it is a *[courier.ChainRequestError]; so for the other
// requests. Pause returns the chain execution as it is then; so do the other requests.
func (h Chains) Pause(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestPause, by)
}

// Resume undoes a pause: members that it has paused go on, and others are
// released again. Members that were paused by a request of their own stay paused.
func (h Chains) Resume(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestResume, by)
}

// Cancel gives a chain execution up: members that have not started are
// skipped, all others are cancelled, as by [Engine.Cancel]. It is cancelled when
// the last one is.
func (h Chains) Cancel(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestCancel, by)
}

// Release lets a chain execution that was created with Hold go.
func (h Chains) Release(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestRelease, by)
}

// Retry takes up a failed chain execution: failed members are resumed, as
// by [Engine.Resume] from the step that failed, cancelled ones get a new
// execution, and what was skipped because of them waits for them again. Members
// that have completed stay as they are.
func (h Chains) Retry(ctx context.Context, id courier.ChainExecutionID, by courier.By) (courier.ChainExecution, error) {
	return h.e.chains.Request(ctx, id, courier.RequestRetry, by)
}

// Rerun starts the chain of a former execution again with the parameters of that one,
// whatever its state; see [Engine.Rerun].
func (h Chains) Rerun(ctx context.Context, id courier.ChainExecutionID, opt *RerunOptions) (courier.ChainExecution, error) {
	if opt == nil {
		opt = &RerunOptions{}
	}
	return h.e.chains.Rerun(ctx, id, chains.Options{Params: opt.Params, Version: opt.Version, IdempotencyKey: opt.IdempotencyKey, By: opt.By})
}

func definedChain(d definitions.Chain) DefinedChain { return DefinedChain(d) }
