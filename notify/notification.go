package notify

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// A Notification tells a subscriber about an event. Its JSON form is the body of webhooks and the
// parameter "event" of jobs.
type Notification struct {
	// ID identifies the event. It is the same for all subscriptions and in every attempt, so
	// receivers can recognize repetitions. It contains no dots.
	ID           string            `json:"id"`
	Subscription string            `json:"subscription"`
	Type         courier.EventType `json:"type"`
	At           time.Time         `json:"at"` // when it happened, by the store's clock
	// Execution is the execution of the event. Seq is the number of the event's audit entry.
	Execution courier.ExecutionID `json:"execution_id,omitempty"`
	Seq       int64               `json:"seq,omitempty"`
	Job       string              `json:"job,omitempty"`
	Version   int                 `json:"version,omitempty"`
	// ChainExecution is set for events of chains; Seq then counts the events of the chain
	// execution. Chain is set for events of chains and of a chain's members.
	ChainExecution courier.ExecutionID `json:"chain_execution_id,omitempty"`
	Chain          string              `json:"chain,omitempty"`
	// Step, StepID, StepType, Iteration and StepAttempt are set for events of steps. Step is nil
	// for other events.
	Step      *int   `json:"step,omitempty"`
	StepID    string `json:"step_id,omitempty"`
	StepType  string `json:"step_type,omitempty"`
	Iteration []int  `json:"iteration,omitempty"`
	// ItemLabels are the labels of the items of the loops in which the execution has failed,
	// outermost first. For events of an execution's end, FailedItems is the number of failed
	// items that were not repaired, and Failed has the first 20 of them. Stores leave these
	// fields out; the engine adds their current values at delivery. They are not set for the kind
	// job, for the same reason as URL.
	ItemLabels  []string              `json:"item_labels,omitempty"`
	FailedItems int                   `json:"failed_items,omitempty"`
	Failed      []courier.ItemFailure `json:"failed,omitempty"`
	// FinallyError says why the finally part of the execution has failed, for events of an
	// execution's end. It is empty if it has not failed. The engine adds it at delivery, like
	// Failed.
	FinallyError string         `json:"finally_error,omitempty"`
	StepAttempt  int            `json:"step_attempt,omitempty"`
	Bytes        int64          `json:"bytes,omitempty"`
	Reason       courier.Reason `json:"reason,omitempty"`
	Error        string         `json:"error,omitempty"`
	By           string         `json:"by,omitempty"`
	// Result is the result of the execution, for [courier.EventJobCompleted] of a job that has
	// one. Stores leave it out; the engine adds it at delivery.
	Result json.RawMessage `json:"result,omitempty"`
	// Expectation is the name of the expectation, for its events, which have no execution. Error
	// then describes the event in a sentence. Payload is the arrival, or the file if the event is
	// an unexpected file; see package expectation.
	Expectation string `json:"expectation,omitempty"`
	// Name and Payload are the name and payload of an event that a step has emitted; see
	// [courier.Context.Emit]. Its Seq is negative, because the event shares the audit entry of
	// the step's end with other events.
	Name    string          `json:"name,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// URL is the address of the page of the execution or chain execution, if the delivering
	// engine has a BaseURL. Stores leave it out. It is not set for the kind job, because the
	// parameters of the started job must be the same in each attempt.
	URL string `json:"url,omitempty"`
	// Count is the number of events of this type and job that the notification reports: 1, or
	// more if the subscription has a window. More has the first 50 of the other events.
	Count     int              `json:"count"`
	Coalesced []CoalescedEvent `json:"more,omitempty"`
}

// MarshalJSON adds the field iteration_index to events of steps: the iteration of the
// innermost loop around the step, or null outside loops.
func (n Notification) MarshalJSON() ([]byte, error) { return jsontext.AppendAny(nil, n.inJSON()) }

type plainNotification Notification // without methods

type notificationInJSON struct {
	plainNotification
	Index json.RawMessage `json:"iteration_index,omitempty"`
}

func (n *Notification) inJSON() notificationInJSON {
	return notificationInJSON{plainNotification(*n), jsontext.IterationIndex(n.Step, n.Iteration)}
}

// A CoalescedEvent is a further event in a notification about several events.
type CoalescedEvent struct {
	ID        string              `json:"id"`
	At        time.Time           `json:"at"`
	Execution courier.ExecutionID `json:"execution_id,omitempty"` // or the id of a chain execution or arrival
	Error     string              `json:"error,omitempty"`        // its first 200 characters
}

// A DeliveryState is the state of a delivery. Successful deliveries are not kept.
type DeliveryState string

// The states of deliveries.
const (
	Pending DeliveryState = "pending" // is due, in progress, or waits for the next attempt
	Failed  DeliveryState = "failed"  // all attempts failed, or the receiver refused it; see [Service.Replay]
)

// A Delivery is a notification that has not been delivered.
type Delivery struct {
	Notification
	State    DeliveryState `json:"state"`
	Attempts int           `json:"attempts"`             // number of attempts begun
	DueAt    time.Time     `json:"due_at"`               // time of the next attempt, or of the timeout of the present one; if it failed, when it failed
	LastErr  string        `json:"last_error,omitempty"` // error of the last attempt
}

// MarshalJSON writes the fields of the delivery beside those that [Notification.MarshalJSON]
// writes.
func (d Delivery) MarshalJSON() ([]byte, error) {
	return jsontext.AppendAny(nil, struct {
		notificationInJSON
		State    DeliveryState `json:"state"`
		Attempts int           `json:"attempts"`
		DueAt    time.Time     `json:"due_at"`
		LastErr  string        `json:"last_error,omitempty"`
	}{d.Notification.inJSON(), d.State, d.Attempts, d.DueAt, d.LastErr})
}

// EventID returns the ID of the event with the number seq of an execution or chain
// execution; see [Notification].Seq.
func EventID(x courier.ExecutionID, seq int64) string {
	return string(x) + "-" + strconv.FormatInt(seq, 10)
}

// ParseEventID returns the arguments of the [EventID] call that returned id. For any
// other text the error matches [courier.ErrInvalid].
func ParseEventID(id string) (courier.ExecutionID, int64, error) {
	const uuid = 36
	if len(id) > uuid+1 && id[uuid] == '-' {
		if seq, err := strconv.ParseInt(id[uuid+1:], 10, 64); err == nil && seq != 0 {
			return courier.ExecutionID(id[:uuid]), seq, nil
		}
	}
	return "", 0, courier.Errorf(courier.ErrInvalid, "%q is not the ID of an event", id)
}

// OfEntry returns the notification of an audit entry, without the subscription and the name of
// the chain. It returns false if the entry has no event (see [store.EventOf]). X is the execution
// after the entry. If it has failed, the notification names the step of x.Failure. First says
// that the entry records the first claim of its execution.
func OfEntry(x *courier.Execution, a *courier.AuditEntry, first bool) (Notification, bool) {
	n := Notification{
		ID: EventID(a.Execution, a.Seq), Type: store.EventOf(a, first), At: a.At, Execution: a.Execution, Seq: a.Seq, Job: x.Job, Version: x.Version,
		Step: a.Step, StepID: a.ID, StepType: a.Type, Iteration: a.Iteration, StepAttempt: a.Attempt, Bytes: a.Bytes, Reason: a.Reason,
		Error: a.Error, By: a.By, Count: 1,
	}
	if f := x.Failure; n.Type == courier.EventJobFailed && f != nil && f.Step >= 0 {
		step := f.Step
		n.Step, n.StepID, n.StepType, n.Iteration, n.StepAttempt = &step, f.ID, f.Type, f.Iteration, f.Attempt
	}
	return n, n.Type != ""
}

// OfStepEvents returns the notifications of the events that a step of x has emitted, in order,
// without the subscription and the name of the chain. Their numbers are negative, because the
// audit entry of the record is another event: event i of the record with the number seq has the
// number -(seq*m + m-1 - i), where m is [courier.MaxStepEvents]. These numbers are less than the
// numbers of [OfOverdue].
func OfStepEvents(x *courier.Execution, s *courier.StepExecution) []Notification {
	list := make([]Notification, len(s.Events))
	for i, e := range s.Events {
		seq, step := -(s.Seq*courier.MaxStepEvents + courier.MaxStepEvents - 1 - int64(i)), s.Step
		list[i] = Notification{
			ID: EventID(x.ID, seq), Type: courier.EventStep, At: s.EndedAt, Execution: x.ID, Seq: seq, Job: x.Job, Version: x.Version,
			Step: &step, StepID: s.ID, StepType: s.Type, Iteration: s.Iteration, StepAttempt: s.Attempt,
			Name: e.Name, Payload: e.Payload, Count: 1,
		}
	}
	return list
}

// OfChain returns the notification of an event that the method Event of a chain.Execution
// returned, without the subscription. Seq is the number of the event, counting from 1 in each
// chain execution.
func OfChain(e courier.Event, seq int64, at time.Time) Notification {
	id := courier.ExecutionID(e.ChainExecution)
	return Notification{
		ID: EventID(id, seq), Type: e.Type, At: at, Seq: seq, ChainExecution: id, Chain: e.Chain, Version: e.Version, Error: e.Error, Count: 1,
	}
}

// OfOverdue returns the notification of an overdue execution, without the subscription and the
// name of the chain. Its number is negative, because the event has no audit entry: an overdue
// execution does not change, and an entry would take the number of the next transition of its
// worker. The number is -1 for [courier.ReasonMaxDuration] and -2 for [courier.ReasonExpectedBy].
func OfOverdue(o *store.OverdueExecution, now time.Time) Notification {
	seq := int64(-2)
	if o.Reason == courier.ReasonMaxDuration {
		seq = -1
	}
	return Notification{
		ID: EventID(o.Execution, seq), Type: courier.EventJobOverdue, At: now, Execution: o.Execution, Seq: seq,
		Job: o.Job, Version: o.Version, Reason: o.Reason, Error: o.Text(), Count: 1,
	}
}

// OfExpectation returns the notification of an event of an expectation, without the subscription.
// The id is the id of the arrival, whose events seq counts from 1, or an id of the event itself.
func OfExpectation(expectation, id string, seq int64, t courier.EventType, at time.Time, text string, payload json.RawMessage) Notification {
	return Notification{
		ID: EventID(courier.ExecutionID(id), seq), Type: t, At: at, Seq: seq, Expectation: expectation, Error: text, Payload: payload, Count: 1,
	}
}

// Coalesce makes the notification also report other events of the same type and job, in their
// order.
func (n *Notification) Coalesce(others []Notification) {
	for i := range others {
		o := &others[i]
		n.Count += o.Count
		if len(n.Coalesced) < MaxCoalesced {
			n.Coalesced = append(n.Coalesced, CoalescedEvent{ID: o.ID, At: o.At, Execution: o.about(), Error: firstOf(o.Error, MaxCoalescedError)})
		}
	}
}

// about returns the id of the subject of the event: an execution, a chain execution, or an
// arrival.
func (n *Notification) about() courier.ExecutionID {
	if n.Expectation != "" {
		id, _, _ := ParseEventID(n.ID)
		return id
	}
	return cmp.Or(n.Execution, n.ChainExecution)
}

// firstOf returns the first n characters of s.
func firstOf(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
