package chains

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/store"
)

// Target returns the latest version of a job, or of a chain if job is empty, to
// start it together with a record of the store. The error of one that does not exist
// matches [courier.ErrNotFound].
func (v *Service) Target(ctx context.Context, job, chain string) (core.Target, error) {
	t := &target{service: v}
	var err error
	if job != "" {
		t.job, err = v.cfg.Programs.Load(ctx, job, 0)
		return t, err
	}
	if _, err := v.cfg.Roles.Chains(); err != nil {
		return nil, err
	}
	t.chain, err = v.Load(ctx, chain, 0)
	return t, err
}

// TargetOf returns the job or chain of a definition.
func (v *Service) TargetOf(ctx context.Context, d *store.Definition) (core.Target, error) {
	t := &target{service: v}
	var err error
	if d.Kind == store.Chain {
		t.chain, err = v.Load(ctx, d.Name, d.Version)
	} else {
		t.job, err = v.cfg.Programs.Of(d)
	}
	return t, err
}

// A target is a job or a chain; see [core.Target].
type target struct {
	service *Service
	job     *program.Program
	chain   *Chain // nil if it is a job
}

func (t *target) Params() map[string]any {
	if t.chain != nil {
		return t.chain.Params
	}
	return t.job.Job.Params
}

func (t *target) Job() (name string, version int) {
	if t.chain != nil {
		return "", 0
	}
	return t.job.Job.Name, t.job.Version
}

func (t *target) Prepare(ctx context.Context, s core.Start) (core.Prepared, error) {
	if t.chain != nil {
		n, err := t.service.New(ctx, t.chain, &courier.ChainOptions{Params: s.Params, IdempotencyKey: s.IdempotencyKey, By: s.By})
		return core.Prepared{Chain: &n}, err
	}
	n, err := t.service.engine.NewExecution(ctx, t.job, &courier.EnqueueOptions{Params: s.Params, Priority: s.Priority, IdempotencyKey: s.IdempotencyKey, By: s.By})
	return core.Prepared{Execution: &n}, err
}
