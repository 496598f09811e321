package executions

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// Explain says why an execution does not go on, from one snapshot of the store.
func (v *Service) Explain(ctx context.Context, id courier.ExecutionID) (store.Explanation, error) {
	o, err := v.opt.Roles.Overview()
	if err != nil {
		return store.Explanation{}, fmt.Errorf("explain execution %q: %w", id, err)
	}
	c, err := o.Circumstances(ctx, id, core.PresentFor)
	if err != nil {
		return store.Explanation{}, fmt.Errorf("explain execution %q: %w", id, err)
	}
	return c.Explain(), nil
}

// Census counts the executions that have not ended, and failed ones.
func (v *Service) Census(ctx context.Context, most int) (store.Census, error) {
	o, err := v.opt.Roles.Overview()
	if err != nil {
		return store.Census{}, fmt.Errorf("census: %w", err)
	}
	return o.Census(ctx, most)
}

// Incidents returns executions that somebody may have to look at.
func (v *Service) Incidents(ctx context.Context, most int) (store.Incidents, error) {
	o, err := v.opt.Roles.Overview()
	if err != nil {
		return store.Incidents{}, fmt.Errorf("incidents: %w", err)
	}
	return o.Incidents(ctx, most)
}

// Stranded returns, in groups, executions that have been due or lost for
// [core.PresentFor], and that no present worker can claim.
func (v *Service) Stranded(ctx context.Context) ([]store.Stranded, error) {
	w, err := v.opt.Roles.Workers()
	if err != nil {
		return nil, fmt.Errorf("stranded executions: %w", err)
	}
	return w.Stranded(ctx, core.PresentFor)
}

// Workers returns the engines on the store that are present or hold a lease.
func (v *Service) Workers(ctx context.Context) ([]store.Worker, error) {
	w, err := v.opt.Roles.Workers()
	if err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	return w.Workers(ctx, core.PresentFor)
}
