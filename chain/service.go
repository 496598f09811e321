package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Definitions keeps the versions of definitions in the catalog of a store, by the same rules as
// jobs. If a definition does not exist, the error matches [courier.ErrNotFound] and names the
// nearest.
type Definitions interface {
	// Save saves a definition as a new version of its name, unless it equals the latest version.
	// Kept says that a newer version was kept; d is that version.
	Save(ctx context.Context, kind store.Kind, name string, def any, warnings []courier.Problem, opt *courier.DefineOptions) (d store.Definition, kept bool, err error)
	// Load returns a version of a definition; version 0 means the latest.
	Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error)
	// List returns a page of the latest versions, in byte order of their names.
	List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error)
	// Versions returns a page of the versions of a definition, the newest first.
	Versions(ctx context.Context, kind store.Kind, name string, f store.VersionFilter) ([]store.Definition, error)
}

// Options are the parts of the engine that a [Service] uses. All must be set.
type Options struct {
	// Store returns the store's role that keeps chain executions. If the store does not have the
	// role, the error matches [errors.ErrUnsupported].
	Store       func() (Store, error)
	Definitions Definitions
	// Job returns a version of a job; version 0 means the latest. If the job does not exist, the
	// error matches [courier.ErrNotFound] and names the nearest.
	Job func(ctx context.Context, name string, version int) (*Job, error)
	// Remove removes a definition that is not used and whose executions have all ended.
	Remove func(ctx context.Context, kind store.Kind, name string, by courier.By) error
	// Trace returns the trace context of a call, empty if there is none.
	Trace func(ctx context.Context) string
	// Requested is called after the store has recorded a request for a member's execution. X is
	// the execution after the request.
	Requested func(ctx context.Context, x *courier.Execution, r *store.Request)
	// Written is called after the store has written chain executions that were started or
	// changed.
	Written func()
	// Observe gives an event that was committed to the observers, and Observed reports
	// whether there are any.
	Observe  func(courier.Event)
	Observed func() bool
	// WaitUntil calls look until it returns true or an error, or ctx ends. It calls look at
	// growing intervals, and at once when this engine has ended an execution of a member of the
	// chain execution with the id.
	WaitUntil func(ctx context.Context, id courier.ExecutionID, look func() (done bool, err error)) error
	Log       *slog.Logger
	NewID     func() string // for a chain execution or an execution
	MaxParams int           // bytes of the parameters of a chain execution
}

// A Service manages the chains of one store. Its methods may be called by several goroutines. If
// the store keeps no chain executions, the errors of methods that need it match
// [errors.ErrUnsupported].
type Service struct {
	opt      Options
	observed observed
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service { return &Service{opt: opt} }

// Define checks a chain and saves it as a new version of its name. If it equals the latest
// version, Define returns that version and saves nothing. The jobs of its members must be
// defined; a member without a version is checked against the latest one. The step types of the
// jobs need not be registered here. If the chain can't run, the error is an *[Error], which lists
// all problems. A nil opt means the defaults.
func (v *Service) Define(ctx context.Context, c Chain, opt *courier.DefineOptions) (Defined, error) {
	fail := func(err error) (Defined, error) { return Defined{}, fmt.Errorf("define chain %q: %w", c.Name, err) }
	if _, err := v.opt.Store(); err != nil {
		return fail(err)
	}
	d, err := v.Check(ctx, c)
	if err != nil {
		return fail(err)
	}
	if len(d.Problems) > 0 {
		return Defined{}, &Error{Chain: c.Name, Problems: d.Problems}
	}
	saved, kept, err := v.opt.Definitions.Save(ctx, store.Chain, c.Name, d.Chain, d.Warnings, opt)
	if err != nil {
		return fail(err)
	}
	got := d.Chain
	if kept {
		if got, err = read(&saved); err != nil {
			return Defined{}, err
		}
	}
	got.Version = saved.Version
	return Defined{Chain: got, SavedBy: saved.By, SavedAt: saved.SavedAt, Superseded: kept, Warnings: d.Warnings}, nil
}

// Remove removes a chain. It disappears from all lists, and cannot be started until it is defined
// again, as its next version. Its versions and executions stay. If schedules or monitors use the
// chain, or if it has executions that have not ended, nothing is removed, and the error matches
// [courier.ErrConflict] and names them. If there is no such chain, the error matches
// [courier.ErrNotFound] and suggests the nearest name. The journal gets an entry.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	return v.opt.Remove(ctx, store.Chain, name, by)
}

// Check checks a chain as [Service.Define] does, and saves nothing. The error is from the store,
// or about a job that can't be read.
func (v *Service) Check(ctx context.Context, c Chain) (Checked, error) {
	return Check(ctx, c, v.opt.Job)
}

// Get returns a version of a chain; version 0 means the latest. If there is no such
// chain, the error matches [courier.ErrNotFound] and suggests the nearest name.
func (v *Service) Get(ctx context.Context, name string, version int) (Chain, error) {
	d, err := v.opt.Definitions.Load(ctx, store.Chain, name, version)
	if err != nil {
		return Chain{}, err
	}
	return read(&d)
}

// List returns a page of the latest versions of chains, in byte order of their names. It ignores
// the kind in the filter.
func (v *Service) List(ctx context.Context, f store.DefinitionFilter) ([]Defined, error) {
	f.Kind, f.Brief = store.Chain, false
	list, err := v.opt.Definitions.List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	return defined(list)
}

// Versions returns a page of the versions of a chain, the newest first. Versions that retention
// has removed are left out. If there is no such chain, the error matches [courier.ErrNotFound].
func (v *Service) Versions(ctx context.Context, name string, f store.VersionFilter) ([]Defined, error) {
	list, err := v.opt.Definitions.Versions(ctx, store.Chain, name, f)
	if err != nil {
		return nil, err
	}
	return defined(list)
}

// Execution returns the current state of a chain execution. If there is no such chain execution,
// the error matches [courier.ErrNotFound].
func (v *Service) Execution(ctx context.Context, id courier.ChainExecutionID) (Execution, error) {
	s, err := v.opt.Store()
	if err != nil {
		return Execution{}, err
	}
	x, err := s.ChainExecution(ctx, id)
	if errors.Is(err, courier.ErrNotFound) {
		return x, courier.Errorf(courier.ErrNotFound, "there is no chain execution %q", id)
	}
	if err != nil {
		return x, fmt.Errorf("load chain execution: %w", err)
	}
	return x, nil
}

// Executions returns a page of chain executions, the newest first.
func (v *Service) Executions(ctx context.Context, f Filter) ([]Execution, error) {
	s, err := v.opt.Store()
	if err != nil {
		return nil, err
	}
	list, err := s.ChainExecutions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("chain executions: %w", err)
	}
	return list, nil
}

// Wait waits until the chain execution is completed, failed or cancelled, and returns it. A pause
// does not end the wait. The error is nil whatever the outcome; see [Execution.Err]. If ctx ends
// first, Wait returns the error of ctx and the current chain execution.
func (v *Service) Wait(ctx context.Context, id courier.ChainExecutionID) (Execution, error) {
	var x Execution
	var failed error
	err := v.opt.WaitUntil(ctx, courier.ExecutionID(id), func() (bool, error) {
		x, failed = v.Execution(ctx, id)
		return x.State.Ended(), failed
	})
	switch {
	case failed != nil:
		return x, fmt.Errorf("wait: %w", failed)
	case err != nil:
		return x, fmt.Errorf("wait for chain execution %s, which is %s: %w", id, x.State, err)
	}
	return x, nil
}

// Pause requests a pause of a chain execution: no further members are released, and queued and
// running members are paused. The chain execution is paused when no member runs any more. Like
// the other requests, Pause returns the chain execution after the request. If its state does not
// allow the request, the error is a *[RequestError].
func (v *Service) Pause(ctx context.Context, id courier.ChainExecutionID, by courier.By) (Execution, error) {
	return v.request(ctx, id, courier.RequestPause, by)
}

// Resume ends a pause: members that the pause has paused continue, and further members are
// released again. A member that was paused by a request of its own stays paused.
func (v *Service) Resume(ctx context.Context, id courier.ChainExecutionID, by courier.By) (Execution, error) {
	return v.request(ctx, id, courier.RequestResume, by)
}

// Cancel cancels a chain execution: members that have not started are skipped, and all others are
// cancelled, like single executions. The chain execution is cancelled when its last member is.
func (v *Service) Cancel(ctx context.Context, id courier.ChainExecutionID, by courier.By) (Execution, error) {
	return v.request(ctx, id, courier.RequestCancel, by)
}

// Release starts a chain execution that was created with Hold.
func (v *Service) Release(ctx context.Context, id courier.ChainExecutionID, by courier.By) (Execution, error) {
	return v.request(ctx, id, courier.RequestRelease, by)
}

// Retry continues a failed chain execution. Failed members are resumed at the failed step, like
// single executions. Cancelled members get a new execution. Members that were skipped because of
// them wait for them again. Completed members do not change.
func (v *Service) Retry(ctx context.Context, id courier.ChainExecutionID, by courier.By) (Execution, error) {
	return v.request(ctx, id, courier.RequestRetry, by)
}

// request makes a request for a chain execution, and notifies the local runs and observers of the
// result.
func (v *Service) request(ctx context.Context, id courier.ChainExecutionID, kind courier.RequestKind, by courier.By) (Execution, error) {
	s, err := v.opt.Store()
	if err != nil {
		return Execution{}, err
	}
	if err := text.Check(text.By(by)); err != nil {
		return Execution{}, fmt.Errorf("%s chain execution %s: %w", kind, id, err)
	}
	r := Request{Chain: id, Kind: kind, By: by.Actor, Reason: by.Reason}
	if kind == courier.RequestRetry {
		x, err := v.Execution(ctx, id)
		if err != nil {
			return Execution{}, fmt.Errorf("%s: %w", kind, err)
		}
		for range x.Members {
			r.IDs = append(r.IDs, courier.ExecutionID(v.opt.NewID()))
		}
	}
	x, requested, err := s.RequestChain(ctx, r)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return Execution{}, courier.Errorf(courier.ErrNotFound, "%s: there is no chain execution %q", kind, id)
	case err != nil:
		if _, ok := errors.AsType[*RequestError](err); ok {
			return Execution{}, err
		}
		return Execution{}, fmt.Errorf("%s chain execution %s: %w", kind, id, err)
	}
	v.opt.Written()
	each := kind // the request for each execution
	if kind == courier.RequestRetry {
		each = courier.RequestResume
	}
	v.moved(&x, kind == courier.RequestRelease)
	for i := range requested {
		v.opt.Requested(ctx, &requested[i], &store.Request{Kind: each, By: by.Actor, Reason: by.Reason})
	}
	return x, nil
}

// MemberEnded gives observers the event of the end of a chain execution, if it has ended. An
// engine calls it after writing the end of a member's execution.
func (v *Service) MemberEnded(ctx context.Context, id courier.ChainExecutionID) {
	if !v.opt.Observed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	x, err := v.Execution(ctx, id)
	if err != nil {
		v.opt.Log.Warn("observers miss the state of a chain execution", "chain_execution", string(id), "error", err)
		return
	}
	v.moved(&x, false)
}

// Started gives observers the events of chain executions that were started together with a
// record of the store, such as the tick of a schedule.
func (v *Service) Started(list []Started) {
	for i := range list {
		v.moved(&list[i].Execution, !list[i].Existed)
	}
}
