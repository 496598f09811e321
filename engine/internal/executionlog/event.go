package executionlog

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// EventOf returns the event that an audit entry of an execution stands for, or
// false for entries that stand for none. F is the failure that was written with it;
// nil if none was.
func EventOf(x *courier.Execution, a *courier.AuditEntry, f *courier.Failure) (courier.Event, bool) {
	ev := courier.Event{
		Execution: x.ID, Job: x.Job, Version: x.Version, ChainExecution: x.Chain, Step: -1,
		Reason: a.Reason, Error: a.Error, Bytes: a.Bytes, By: a.By,
	}
	if a.Step != nil {
		ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.Attempt = *a.Step, a.ID, a.Type, a.Iteration, a.Attempt
	}
	ev.Type = store.EventOf(a, false)
	if ev.Type == courier.EventJobFailed && f != nil && f.Step >= 0 {
		ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.ItemLabels, ev.Attempt = f.Step, f.ID, f.Type, f.Iteration, f.ItemLabels, f.Attempt
	}
	return ev, ev.Type != ""
}

// StepEvents calls emit with the events that a step of an execution has emitted.
func StepEvents(x *courier.Execution, s *courier.StepExecution, emit func(courier.Event)) {
	for _, e := range s.Events {
		emit(courier.Event{
			Type: courier.EventStep, Execution: x.ID, Job: x.Job, Version: x.Version, Step: s.Step, ID: s.ID, StepType: s.Type,
			Iteration: s.Iteration, Attempt: s.Attempt, Name: e.Name, Payload: e.Payload,
		})
	}
}

// RequestEvents returns the events of a request that took effect at once and left the
// execution as x; none of one that did not.
func RequestEvents(x *courier.Execution, q *store.Request) (list []courier.Event) {
	ev := courier.Event{Execution: x.ID, Job: x.Job, Version: x.Version, ChainExecution: x.Chain, Step: -1, By: q.By}
	resumes := q.Kind == courier.RequestResume || q.Kind == courier.RequestRestart
	switch {
	case x.State == courier.Paused:
		ev.Type = courier.EventJobPaused
	case q.Kind == courier.RequestExpire:
		ev.Type, ev.Reason, ev.Error = courier.EventJobFailed, q.Class(), q.Text()
	case x.State == courier.Cancelled:
		ev.Type = courier.EventJobCancelled
	case q.Kind == courier.RequestAbort && x.State == courier.Completed:
		ev.Type = courier.EventJobCompleted
	case q.Kind == courier.RequestAbort && x.State == courier.Failed:
		ev.Type, ev.Error = courier.EventJobFailed, q.Text()
	case resumes && x.State == courier.Queued && x.Finishing == nil: // which withdraws a pause otherwise
		ev.Type, ev.Reason, ev.Error = courier.EventJobResumed, q.Class(), q.Text()
	default:
		return nil
	}
	if x.FinallyError != nil && q.Kind == courier.RequestAbort {
		ev.FinallyError = x.FinallyError.Message
	}
	if c := q.Change; c != nil && c.Skipped != nil {
		s := c.Skipped
		list = append(list, courier.Event{
			Type: courier.EventStepSkipped, Execution: x.ID, Job: x.Job, Version: x.Version, ChainExecution: x.Chain,
			Step: s.Step, ID: s.ID, StepType: s.Type, Iteration: s.Iteration, Attempt: s.Attempt, Reason: s.Reason, Error: s.Error,
		})
	}
	return append(list, ev)
}
