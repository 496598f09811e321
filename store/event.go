package store

import "github.com/courierhq/courier"

// EventOf returns the type of the event that follows from an audit entry, for observers
// and subscribers. It returns "" for entries without an event: the creation, a release,
// every return to the queue except by a resume or after the worker was lost, every claim
// except the first, and a step that goes back to pending. First says that the entry is of
// the first claim of its execution.
func EventOf(a *courier.AuditEntry, first bool) courier.EventType {
	if a.Step != nil {
		return stepEvents[courier.StepState(a.To)]
	}
	from, to := courier.State(a.From), courier.State(a.To)
	switch {
	case to == courier.Running && first:
		return courier.EventJobStarted
	case to == courier.Queued && a.Reason == courier.ReasonCancelled:
		return "" // it runs its finally part
	case to == courier.Queued && (from == courier.Paused || from == courier.Failed || a.Reason == courier.ReasonWithoutFiles):
		return courier.EventJobResumed
	case to == courier.Queued && a.Reason == courier.ReasonWorkerLost:
		return courier.EventJobTakenOver
	}
	return jobEvents[to]
}

var stepEvents = map[courier.StepState]courier.EventType{
	courier.StepRunning: courier.EventStepStarted, courier.StepCompleted: courier.EventStepCompleted,
	courier.StepFailed: courier.EventStepFailed, courier.StepSkipped: courier.EventStepSkipped,
}

var jobEvents = map[courier.State]courier.EventType{
	courier.Completed: courier.EventJobCompleted, courier.Failed: courier.EventJobFailed,
	courier.Paused: courier.EventJobPaused, courier.Cancelled: courier.EventJobCancelled,
}
