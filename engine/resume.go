package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/store"
)

// Resume puts a paused or failed execution back into the queue, with all its retries. A
// failed execution continues from the step that failed. If this engine can access the
// files of the execution, Resume first checks that the files of completed steps still
// exist. Otherwise the worker that claims the execution checks them. A pause that has not
// taken effect yet is withdrawn. A nil opt means the defaults.
//
// A resume with changes takes effect at most once: if the execution has changed since the
// resume was planned, the error matches [courier.ErrConflict].
func (e *Engine) Resume(ctx context.Context, id courier.ExecutionID, opt *courier.ResumeOptions) (courier.Execution, error) {
	if opt == nil {
		opt = &courier.ResumeOptions{}
	}
	x, err := e.seen(ctx, id, opt.Seq)
	if err == nil && opt.Elsewhere {
		x, err = e.leaveWorkspace(ctx, x, opt.By)
	}
	if err != nil {
		return x, e.requestError(courier.RequestResume, id, err)
	}
	waits := x.State == courier.Paused || x.State == courier.Failed
	if opt.Changes() {
		return e.resumeChanged(ctx, &x, opt)
	}
	if waits && x.Workspace == e.opt.WorkspaceID {
		if err := e.checkMissing(ctx, &x); err != nil {
			return x, err
		}
	}
	return e.request(ctx, id, courier.RequestResume, opt.By)
}

// seen returns an execution that has not changed since somebody has seen it.
func (e *Engine) seen(ctx context.Context, id courier.ExecutionID, seq int64) (courier.Execution, error) {
	x, err := e.store.Execution(ctx, id)
	if err == nil && seq != 0 && x.Seq != seq {
		err = courier.Errorf(courier.ErrConflict, "it has changed since it was read: it is %s, and its last audit entry is number %d and not %d; nothing was changed; read it again", x.State, x.Seq, seq)
	}
	return x, err
}

// resumeChanged resumes an execution that goes on in another way.
func (e *Engine) resumeChanged(ctx context.Context, x *courier.Execution, opt *courier.ResumeOptions) (courier.Execution, error) {
	plan, err := e.repairs.Plan(ctx, x, opt, false)
	if err != nil {
		return *x, fmt.Errorf("resume execution %s: %w", x.ID, err)
	}
	if plan.Whole {
		return e.request(ctx, x.ID, courier.RequestRestart, opt.By)
	}
	if opt.From == "" && !opt.Elsewhere && x.Workspace == e.opt.WorkspaceID {
		if err := e.checkMissing(ctx, x); err != nil {
			return *x, err
		}
	}
	return e.requestChange(ctx, x.ID, courier.RequestResume, opt.By, &plan.Change)
}

// isLost reports whether an execution that may go on without its workspace has a lease that
// has ended. The error says why it may not.
func isLost(x *courier.Execution) (bool, error) {
	lost := x.State == courier.Running && time.Now().After(x.LeaseExpiresAt)
	_, err := store.Decide(x, lost, courier.RequestRestart)
	return lost, err
}

// leaveWorkspace returns an execution that stands still and may go on without its workspace:
// one that is lost is paused.
func (e *Engine) leaveWorkspace(ctx context.Context, x courier.Execution, by courier.By) (courier.Execution, error) {
	if lost, err := isLost(&x); err != nil || !lost {
		return x, err
	}
	now, err := e.request(ctx, x.ID, courier.RequestPause, by)
	if err == nil && now.State == courier.Running { // by the store's clock a worker has it
		if now, err = e.request(ctx, x.ID, courier.RequestResume, by); err == nil {
			_, err = store.Decide(&now, false, courier.RequestRestart)
		}
	}
	return now, err
}

// checkMissing returns an error if files that completed steps left are gone.
func (e *Engine) checkMissing(ctx context.Context, x *courier.Execution) error {
	files, err := e.repairs.Files(ctx, x)
	if err != nil {
		return e.requestError(courier.RequestResume, x.ID, err)
	}
	if missing := e.work.Missing(x.ID, e.opt.Roots, files); len(missing) > 0 {
		return courier.Errorf(courier.ErrConflict, "resume execution %s: %s; it stays %s", x.ID, history.MissingFailure(missing).Message, x.State)
	}
	return nil
}

// DryRunResume returns what [Engine.Resume] would do with the options, and changes
// nothing. It returns the errors of Resume, with one exception: if steps from From on
// have removed files, that is in the report and is not an error.
func (e *Engine) DryRunResume(ctx context.Context, id courier.ExecutionID, opt *courier.ResumeOptions) (courier.ResumeReport, error) {
	if opt == nil {
		opt = &courier.ResumeOptions{}
	}
	x, err := e.seen(ctx, id, opt.Seq)
	if err == nil && opt.Elsewhere {
		var lost bool
		if lost, err = isLost(&x); lost {
			x.State = courier.Paused
		}
	}
	if err != nil {
		return courier.ResumeReport{}, e.requestError(courier.RequestResume, id, err)
	}
	plan, err := e.repairs.Plan(ctx, &x, opt, true)
	if err != nil {
		return courier.ResumeReport{}, fmt.Errorf("resume execution %s: %w", id, err)
	}
	return courier.ResumeReport{
		Execution: id, Version: plan.Program.Version, Position: plan.Position, Note: plan.Change.Note,
		Steps: plan.Steps, Config: plan.Config(), Values: plan.Values.Snapshot(), Consumed: plan.Consumed,
		FailedItems: repair.FailedItems(plan.Program.Tree, plan.Failed, x.Position),
	}, nil
}

// RerunOptions are the settings of [Engine.Rerun].
type RerunOptions struct {
	By courier.By
	// Params replace parameters of the earlier execution by name.
	Params map[string]any
	// Labels replace labels of the earlier execution by name.
	Labels map[string]string
	// Version is the version of the job; 0 means the latest.
	Version        int
	IdempotencyKey string // empty means none
	// LimitKeys are added to those of the job. Those of the earlier execution are not
	// copied.
	LimitKeys []string
}

// Rerun enqueues a new execution of the job of an earlier execution, whatever the state of that
// one. It copies the parameters, the priority, the timeout, the labels except [courier.LabelBy],
// and the number of retries. Everything else is as for a new Enqueue. The new execution names the
// earlier one in RerunOf; the filter RerunOf of [Executions.List] finds the reruns of an execution.
// A nil opt means the defaults.
func (e *Engine) Rerun(ctx context.Context, id courier.ExecutionID, opt *RerunOptions) (courier.Execution, error) {
	if opt == nil {
		opt = &RerunOptions{}
	}
	x, err := e.Executions().Get(ctx, id)
	if err != nil {
		return x, fmt.Errorf("rerun: %w", err)
	}
	o := program.Rerun(&x, courier.EnqueueOptions{Params: opt.Params, Labels: opt.Labels, Version: opt.Version, IdempotencyKey: opt.IdempotencyKey, By: opt.By, LimitKeys: opt.LimitKeys})
	n, err := e.prepare(ctx, x.Job, &o, false)
	if err != nil {
		return courier.Execution{}, fmt.Errorf("rerun execution %s: %w", id, err)
	}
	n.RerunOf = id
	got, err := e.create(ctx, []store.NewExecution{n})
	if err != nil {
		return courier.Execution{}, fmt.Errorf("rerun execution %s: %w", id, err)
	}
	e.unserved.Created(ctx, e.served(), got...)
	core.Explained(e.log, "execution", string(got[0].ID), "started again", opt.By, slog.String("job", x.Job))
	return got[0], nil
}
