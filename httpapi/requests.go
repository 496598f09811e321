package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// A ReasonRequest is the body of requests that only have a reason.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty"` // for people; at most 1,000 bytes
}

// A CancelRequest is the body that cancels an execution.
type CancelRequest struct {
	Reason string `json:"reason,omitempty"` // for people; at most 1,000 bytes
	// WithoutFinally leaves out the finally part of the job, or ends it if it is running. A second
	// cancel does the same.
	WithoutFinally bool `json:"without_finally,omitempty"`
}

// A ResumeRequest is the body that resumes an execution. Without changes the execution continues
// where it stopped; see [courier.ResumeOptions] for each field.
type ResumeRequest struct {
	Reason string `json:"reason,omitempty"`
	courier.ResumeOptions
}

// A RerunRequest is the body that starts an execution again as a new one.
type RerunRequest struct {
	Reason         string         `json:"reason,omitempty"`
	Params         map[string]any `json:"params,omitempty"`  // replace parameters of the former execution by name
	Version        int            `json:"version,omitempty"` // 0 means the latest
	IdempotencyKey string         `json:"idempotency_key,omitempty"`
}

// A BulkRequest is the body of an action on many executions: those that a filter selects, or those
// with the given ids. It is the text form of a [bulk.Request]: the filter is not parsed, and it has
// no actor.
type BulkRequest struct {
	Action string                `json:"action"` // resume, cancel, pause, release or rerun
	Where  string                `json:"where,omitempty"`
	IDs    []courier.ExecutionID `json:"ids,omitempty"`
	Reason string                `json:"reason,omitempty"`
	// WithoutFinally is for the action cancel: see [CancelRequest].
	WithoutFinally bool   `json:"without_finally,omitempty"`
	Key            string `json:"key,omitempty"` // of a rerun: with the same key nothing is started twice
	DryRun         bool   `json:"dry_run,omitempty"`
	Cursor         string `json:"cursor,omitempty"` // the field next of the previous outcome
}

var requestRoutes = []route{
	askRoute("pause", "pauseExecution", "Pauses a queued or running execution. A running one stops before its next step."),
	{
		method: "POST", path: "v1/executions/{id}/cancel", id: "cancelExecution", group: "executions", on: onExecution,
		does: "Cancels an execution. The running step is told to end. A finally part runs then, unless the body says otherwise, or this is the second cancel. If it is cancelled already, it succeeds.",
		body: CancelRequest{}, optional: true, answers: map[int]any{http.StatusAccepted: ExecutionView{}}, problems: []*code{codeTransition}, do: (*call).cancel,
	},
	askRoute("release", "releaseExecution", "Releases a held execution."),
	{
		method: "POST", path: "v1/executions/{id}/resume", id: "resumeExecution", group: "executions", on: onExecution,
		does: "Resumes a paused or failed execution, optionally with changes.", body: ResumeRequest{}, optional: true,
		answers: map[int]any{http.StatusAccepted: ExecutionView{}}, problems: []*code{codeTransition, codeConflict}, do: (*call).resume,
	},
	{
		method: "POST", path: "v1/executions/{id}/resume/dry-run", id: "dryRunResume", group: "executions", on: onExecution,
		does: "Says what a resume would do, and does nothing. It shows values, and needs the role that sees them.", body: ResumeRequest{}, optional: true,
		answers: map[int]any{http.StatusOK: courier.ResumeReport{}}, problems: []*code{codeTransition, codeConflict}, do: (*call).dryRunResume,
	},
	{
		method: "POST", path: "v1/executions/{id}/rerun", id: "rerunExecution", group: "executions", on: onExecution,
		does: "Starts an ended execution again, as a new one.", headers: []param{keyHeader}, sets: []string{"Location"}, body: RerunRequest{}, optional: true,
		answers: map[int]any{http.StatusAccepted: Started{}}, problems: []*code{codeTooMany, codeTransition, codeDependency, codeConflict, codeKeyReused}, do: (*call).rerun,
	},
	{
		method: "POST", path: "v1/bulk", id: "bulk", group: "executions", on: onVisible,
		does: "Does one thing with up to 500 executions, the newest first. The outcome has a cursor if there are more.", body: BulkRequest{},
		answers: map[int]any{http.StatusOK: bulk.Outcome{}}, do: (*call).bulk,
	},
}

// An ask is a method of the engine that sends a request to an execution.
type ask func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error)

func askRoute(verb, id, does string) route {
	return route{
		method: "POST", path: "v1/executions/{id}/" + verb, id: id, group: "executions", on: onExecution,
		does: does + " If that is so or asked already, it succeeds.", body: ReasonRequest{}, optional: true,
		answers: map[int]any{http.StatusAccepted: ExecutionView{}}, problems: []*code{codeTransition},
		do: func(c *call) error {
			var b ReasonRequest
			if err := c.body(&b); err != nil {
				return err
			}
			return c.request(verb, b.Reason, map[string]ask{"pause": c.h.e.Pause, "release": c.h.e.Release}[verb])
		},
	}
}

func (c *call) cancel() error {
	var b CancelRequest
	if err := c.body(&b); err != nil {
		return err
	}
	verb := "cancel"
	if b.WithoutFinally {
		verb = "cancel without finally"
	}
	return c.request(verb, b.Reason, func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
		return c.h.e.Cancel(ctx, id, &courier.CancelOptions{By: by, WithoutFinally: b.WithoutFinally})
	})
}

// request sends a request to the execution, and answers with the execution as it is afterwards.
func (c *call) request(verb, reason string, f ask) error {
	x := &c.execution
	err := c.Do(c.ctx(), c.action(verb, reason), func(ctx context.Context) error {
		got, err := f(ctx, x.ID, c.By(reason))
		if err == nil {
			*x = got
			return nil
		}
		if _, ok := errors.AsType[*courier.TransitionError](err); ok {
			if now, again := c.h.e.Executions().Get(ctx, x.ID); again == nil && reached(verb, &now) {
				*x = now
				return nil
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusAccepted, c.view(x))
}

// reached reports whether an execution is already in the state that a request asks for, or has that
// request pending.
func reached(verb string, x *courier.Execution) bool {
	switch verb {
	case "pause":
		return x.State == courier.Paused || x.Request == courier.RequestPause
	case "cancel", "cancel without finally":
		return x.State == courier.Cancelled || x.Request == courier.RequestCancel || x.Request == courier.RequestAbort
	case "release":
		return x.State == courier.Queued || x.State == courier.Running
	}
	return x.Request == "" && (x.State == courier.Queued || x.State == courier.Running)
}

// action is the entry in the journal for a request to the execution.
func (c *call) action(verb, reason string) store.Action {
	return store.Action{Verb: verb, Kind: "execution", Name: c.execution.Job, Job: c.execution.Job, Execution: c.execution.ID, Reason: reason}
}

func (c *call) resume() error {
	var b ResumeRequest
	if err := c.body(&b); err != nil {
		return err
	}
	verb := "resume"
	if b.Changes() {
		verb = "resume with changes" // a repeated resume must not pass for one that was carried out
	}
	f := func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
		b.By = by
		return c.h.e.Resume(ctx, id, &b.ResumeOptions)
	}
	if !b.Changes() {
		return c.request(verb, b.Reason, f)
	}
	err := c.Do(c.ctx(), c.action(verb, b.Reason), func(ctx context.Context) (err error) {
		c.execution, err = f(ctx, c.execution.ID, c.By(b.Reason))
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusAccepted, c.view(&c.execution))
}

func (c *call) dryRunResume() error {
	var b ResumeRequest
	if err := c.body(&b); err != nil {
		return err
	}
	b.By = c.By(b.Reason)
	r, err := c.h.e.DryRunResume(c.ctx(), c.execution.ID, &b.ResumeOptions)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, r)
}

func (c *call) rerun() error {
	var b RerunRequest
	if err := c.body(&b); err != nil {
		return err
	}
	key, err := c.key(b.IdempotencyKey)
	if err != nil {
		return err
	}
	var x courier.Execution
	err = c.Do(c.ctx(), c.action("rerun", b.Reason), func(ctx context.Context) error {
		opt := &courier.EnqueueOptions{Version: b.Version}
		if err := c.MayStart(ctx, c.execution.Job, opt); err != nil {
			return err
		}
		x, err = c.h.e.Rerun(ctx, c.execution.ID, &engine.RerunOptions{By: c.By(b.Reason), Labels: c.Labels(), Params: b.Params, Version: b.Version, IdempotencyKey: key, LimitKeys: opt.LimitKeys})
		return err
	})
	if err != nil {
		return startProblem(err, key)
	}
	return c.started(x, 0)
}

func (c *call) bulk() error {
	var b BulkRequest
	if err := c.body(&b); err != nil {
		return err
	}
	w, err := filter.Parse(b.Where, time.Now())
	if err != nil {
		return err
	}
	r := bulk.Request{Action: bulk.Action(b.Action), Where: w, IDs: b.IDs, By: courier.By{Reason: b.Reason}, Key: b.Key, WithoutFinally: b.WithoutFinally, DryRun: b.DryRun, Cursor: b.Cursor}
	var out bulk.Outcome
	do := func(ctx context.Context) error {
		out, err = c.Bulk(ctx, r)
		return err
	}
	if b.DryRun {
		err = do(c.ctx())
	} else {
		err = c.Do(c.ctx(), store.Action{Verb: "bulk " + b.Action, Kind: "executions", Name: w.String(), Reason: b.Reason}, do)
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}
