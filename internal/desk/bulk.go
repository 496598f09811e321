package desk

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/filter"
)

// Bulk is like [bulk.Do], for the executions of the jobs for which the visitor has the rights.
// The conditions of the filter must be about data that the visitor may see. The visitor is the
// actor.
func (v *Visit) Bulk(ctx context.Context, b bulk.Request) (bulk.Outcome, error) {
	b.By = v.By(b.By.Reason)
	may, err := v.mayAsk(ctx, &b.Where)
	if err != nil {
		return bulk.Outcome{}, err
	}
	need := NeedOf("bulk").Rights
	if b.Action == bulk.Rerun {
		need = NeedOf("rerunExecution").Rights
	}
	if !v.Can(ctx, "", need) {
		may = may.and(func(x *courier.Execution) bool { return v.Can(ctx, x.Job, need) })
	}
	r, err := v.reach(ctx, &b.Where, Need{Rights: need}, may)
	if err != nil {
		return bulk.Outcome{}, err
	}
	who := bulk.Caller{ID: v.ID, Labels: v.Labels(), Charge: v.chargeRerun}
	who.Find = func(ctx context.Context, w *filter.Filter, before courier.ExecutionID, limit int) ([]courier.Execution, courier.ExecutionID, error) {
		return v.d.find(ctx, w, before, limit, r)
	}
	if may != nil {
		who.May = func(ctx context.Context, id courier.ExecutionID) error {
			x, err := v.d.e.Executions().Get(ctx, id)
			if errors.Is(err, courier.ErrNotFound) || err == nil && !may(&x) {
				return errUnknown
			}
			return err
		}
	}
	return bulk.Do(ctx, v.d.e, who, b)
}

// chargeRerun is like [Visit.Charge], for the rerun of an execution of which only the id may be
// known. If there are too many, it refuses only this execution.
func (v *Visit) chargeRerun(ctx context.Context, x *courier.Execution) ([]string, error) {
	job := x.Job
	if job == "" {
		given, err := v.d.e.Executions().Get(ctx, x.ID)
		if err != nil {
			return nil, err
		}
		job = given.Job
	}
	var opt courier.EnqueueOptions
	err := v.Charge(ctx, job, &opt)
	if _, tooMany := errors.AsType[*TooManyError](err); tooMany {
		err = courier.Errorf(courier.ErrConflict, "%w", err)
	}
	return opt.LimitKeys, err
}
