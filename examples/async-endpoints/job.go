package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// A job is an execution in the words of this program.
type job struct {
	ID     courier.ExecutionID `json:"id"`
	Name   string              `json:"name"`
	Status status              `json:"status"`
	request
	Result          *string    `json:"result"`     // JSON, as the handler has returned it, if it has at most 1 MiB
	Error           *jobError  `json:"error"`      // the last failure
	RetryCount      int        `json:"retryCount"` // since it was created, or last retried by somebody
	MaxRetries      int        `json:"maxRetries"`
	RetryDelayUntil *time.Time `json:"retryDelayUntil"` // of a Scheduled job
	WorkerID        *string    `json:"workerId"`        // of a job that is InProgress
	CreatedAt       time.Time  `json:"createdAt"`
	StartedAt       *time.Time `json:"startedAt"`
	CompletedAt     *time.Time `json:"completedAt"` // when it became Completed, Failed or Canceled
	LastUpdatedAt   time.Time  `json:"lastUpdatedAt"`
}

type jobError struct {
	Code    courier.Reason `json:"code"` // such as "error", "timeout", "worker_lost" or "expired"
	Message string         `json:"message"`
}

type status string

const (
	queued     status = "Queued"
	scheduled  status = "Scheduled"
	inProgress status = "InProgress"
	completed  status = "Completed"
	failed     status = "Failed"
	canceled   status = "Canceled"
)

var statuses = []status{queued, scheduled, inProgress, completed, failed, canceled}

// statusOf returns the status of an execution. A paused one is Queued: reschedule pauses jobs
// for a moment.
func statusOf(x *courier.Execution) status {
	switch x.State {
	case courier.Running:
		return inProgress
	case courier.Completed:
		return completed
	case courier.Failed:
		return failed
	case courier.Cancelled:
		return canceled
	case courier.Queued:
		if x.DueAt.After(time.Now()) {
			return scheduled
		}
	}
	return queued
}

// The ways in which a job changes its status.
const (
	onRequest = "PUT /jobs/{jobId}/status does it"
	byWorker  = "a worker does it when the job begins, ends or has waited long enough, and nobody else"
)

// transitions are all possible transitions of a job. A text other than these two says why Courier
// does not have the transition.
var transitions = map[[2]status]string{
	{queued, inProgress}:    byWorker,
	{queued, failed}:        byWorker, // it has not begun within the claim timeout
	{queued, scheduled}:     onRequest,
	{queued, canceled}:      onRequest,
	{queued, completed}:     "a job completes when its handler has returned, and a queued one has not been handled",
	{scheduled, queued}:     onRequest, // and when its delay has passed
	{scheduled, canceled}:   onRequest,
	{inProgress, completed}: byWorker,
	{inProgress, failed}:    byWorker,
	{inProgress, scheduled}: byWorker, // for a retry
	{inProgress, canceled}:  onRequest,
	{failed, queued}:        onRequest,
	{failed, scheduled}:     onRequest,
	{failed, canceled}:      onRequest,
	{completed, canceled}:   "its work is done, and its result may have been read: completed is final",
}

// view returns the job of an execution.
func (s *service) view(ctx context.Context, x *courier.Execution) (*job, error) {
	definition, err := s.engine.Jobs().Get(ctx, x.Job, x.Version)
	if err != nil {
		return nil, err
	}
	j := &job{
		ID: x.ID, Name: x.Job, Status: statusOf(x), RetryCount: x.Retries, MaxRetries: definition.FailurePolicy.Retries(), CreatedAt: x.CreatedAt,
		StartedAt: instant(x.StartedAt), CompletedAt: instant(x.EndedAt), LastUpdatedAt: x.UpdatedAt,
	}
	if err := json.Unmarshal(x.Params, &j.request); err != nil {
		return nil, err
	}
	if x.Result != nil {
		if err := json.Unmarshal(x.Result, &j.Result); err != nil {
			return nil, err
		}
	}
	if f := x.Failure; f != nil {
		j.Error = &jobError{f.Reason, f.Message}
	}
	switch j.Status {
	case scheduled:
		j.RetryDelayUntil = &x.DueAt
	case inProgress:
		j.WorkerID = &x.Worker
	}
	return j, nil
}

// instant returns an instant, nil for the zero one.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// putStatus answers PUT /jobs/{jobId}/status: with 200 if the job has the status, and with 202 if a
// worker was told to stop the job.
func (s *service) putStatus(w http.ResponseWriter, r *http.Request) error {
	var to struct {
		Status       status  `json:"status"`
		DelaySeconds float64 `json:"delaySeconds"` // for Scheduled alone
	}
	if err := s.api.ReadJSON(w, r, &to); err != nil {
		return err
	}
	if !slices.Contains(statuses, to.Status) ||
		to.DelaySeconds < 0 || to.DelaySeconds > 366*24*3600 || (to.Status == scheduled) != (to.DelaySeconds > 0) {
		return courier.Errorf(courier.ErrInvalid, `the body must be {"status": S}, where S is one of %q, and for Scheduled alone "delaySeconds" of more than 0 and at most a year`, statuses)
	}
	x, err := s.find(r)
	if err != nil {
		return err
	}
	if x, err = s.move(r.Context(), x, to.Status, time.Duration(to.DelaySeconds*float64(time.Second))); err != nil {
		return err
	}
	code := http.StatusOK
	if statusOf(&x) != to.Status {
		code = http.StatusAccepted
	}
	return s.answer(w, r, code, &x)
}

// move moves a job to a status, if the table has this transition on request. A job that already has
// the status stays as it is.
func (s *service) move(ctx context.Context, x courier.Execution, to status, delay time.Duration) (courier.Execution, error) {
	from := statusOf(&x)
	how := cmp.Or(transitions[[2]status{from, to}], "there is no such transition")
	switch {
	case from == to && x.State != courier.Paused:
		return x, nil
	case from != to && how != onRequest:
		return x, courier.Errorf(&courier.TransitionError{Execution: x.ID, From: x.State}, "a job that is %s can't be made %s: %s; nothing was changed", from, to, how)
	case to == canceled:
		return s.engine.Cancel(ctx, x.ID, &courier.CancelOptions{By: courier.By{}})
	case from == failed:
		return s.engine.Resume(ctx, x.ID, &courier.ResumeOptions{Delay: delay})
	}
	return s.reschedule(ctx, x, delay)
}

// reschedule changes when a waiting job is due: it pauses the job, and resumes it with the delay.
func (s *service) reschedule(ctx context.Context, x courier.Execution, delay time.Duration) (courier.Execution, error) {
	if x.StartedAt.IsZero() && time.Now().Add(delay).After(x.CreatedAt.Add(s.opt.claimTimeout)) {
		return x, courier.Errorf(courier.ErrInvalid, "delaySeconds: the job fails if it has not begun %v after it was created, and would not be due by then; nothing was changed", s.opt.claimTimeout)
	}
	if x.State != courier.Paused { // unless a process has died in between
		paused, err := s.engine.Pause(ctx, x.ID, courier.By{})
		if err != nil {
			return x, err
		}
		if x = paused; x.State != courier.Paused { // a worker was faster
			_, err = s.engine.Resume(ctx, x.ID, nil)
			return x, errors.Join(err, courier.Errorf(courier.ErrConflict, "the job has begun meanwhile; nothing was changed"))
		}
	}
	return s.engine.Resume(ctx, x.ID, &courier.ResumeOptions{Delay: delay})
}
