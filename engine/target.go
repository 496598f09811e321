package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/target"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A startable is a job or a chain that schedules and monitors start, in the version that was
// the latest at one moment.
type startable struct {
	access access
	job    *program.Program
	chain  *chain.Loaded // nil if it is a job
}

// latest returns the latest version of a job, or of a chain if job is empty. The error of one
// that does not exist matches [courier.ErrNotFound].
func (c access) latest(ctx context.Context, job, chain string) (*startable, error) {
	t := &startable{access: c}
	var err error
	if job != "" {
		t.job, err = c.e.programs.Load(ctx, job, 0)
		return t, err
	}
	if _, err := c.e.roles.Chains(); err != nil {
		return nil, err
	}
	t.chain, err = c.e.chains.Load(ctx, chain, 0)
	return t, err
}

// of returns the job or chain of a definition.
func (c access) of(ctx context.Context, d *store.Definition) (*startable, error) {
	t := &startable{access: c}
	var err error
	if d.Kind == store.Chain {
		t.chain, err = c.e.chains.Load(ctx, d.Name, d.Version)
	} else {
		t.job, err = c.e.programs.Of(d)
	}
	return t, err
}

// Params returns the parameters that it declares; nil if it takes any.
func (t *startable) Params() map[string]any {
	if t.chain != nil {
		return t.chain.Chain.Params
	}
	return t.job.Job.Params
}

// Job returns the name and the version of a job; the name is empty for a chain.
func (t *startable) Job() (name string, version int) {
	if t.chain != nil {
		return "", 0
	}
	return t.job.Job.Name, t.job.Version
}

// add appends a new execution to the list of its kind, and returns its id. The members of a
// chain have priorities of their own.
func (t *startable) add(ctx context.Context, opt *courier.EnqueueOptions, executions *[]store.NewExecution, chains *[]chain.NewExecution) (courier.ExecutionID, error) {
	if t.chain != nil {
		n, err := t.chain.NewExecution(ctx, &chain.StartOptions{Params: opt.Params, IdempotencyKey: opt.IdempotencyKey, By: opt.By})
		if err != nil {
			return "", err
		}
		*chains = append(*chains, n)
		return courier.ExecutionID(n.ID), nil
	}
	n, err := t.access.NewExecution(ctx, t.job, opt)
	if err != nil {
		return "", err
	}
	*executions = append(*executions, n)
	return n.ID, nil
}

// CheckStart returns what is wrong with starting the latest version of a job, or of a
// chain if job is empty, by a schedule or a monitor.
func (c access) CheckStart(ctx context.Context, job, name string, params map[string]any) ([]courier.Problem, error) {
	t, err := c.latest(ctx, job, name)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		kind, _ := target.Of(job, name)
		return []courier.Problem{{Step: -1, Field: string(kind), Message: text.Plain(err)}}, nil
	case err != nil:
		return nil, err
	}
	if _, err = t.add(ctx, &courier.EnqueueOptions{Params: params}, new([]store.NewExecution), new([]chain.NewExecution)); err != nil {
		return core.ParamProblems(err), nil
	}
	return nil, nil
}

// Prepare adds a new execution of the job or chain of a definition to a firing.
func (c access) Prepare(ctx context.Context, f *schedule.Firing, d *store.Definition, s *schedule.Schedule, key string) (courier.ExecutionID, error) {
	t, err := c.of(ctx, d)
	if err != nil {
		return "", err
	}
	opt := courier.EnqueueOptions{Params: s.Params, Priority: s.Priority, IdempotencyKey: key, By: courier.By{Actor: f.By}}
	return t.add(ctx, &opt, &f.Executions, &f.Chains)
}

// Latest returns what a monitor starts: the latest version of a job, or of a chain if job is
// empty.
func (c access) Latest(ctx context.Context, job, chain string) (monitor.Target, error) {
	return c.latest(ctx, job, chain)
}

// Prepare adds a new execution to the result of a poll.
func (t *startable) Prepare(ctx context.Context, r *monitor.PollResult, opt courier.EnqueueOptions) (courier.ExecutionID, error) {
	id, err := t.add(ctx, &opt, &r.Executions, &r.Chains)
	if name, version := t.Job(); err != nil && name != "" {
		err = fmt.Errorf("job %q version %d: %w", name, version, err)
	}
	return id, err
}
