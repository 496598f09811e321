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

// A Notification tells a subscriber about an event. In JSON it is the body of
// webhooks and the parameter of jobs.
type Notification struct {
	// ID identifies the event. It is the same for all subscriptions and in every attempt
	// to deliver it, so that receivers can recognize repetitions. It has no dots.
	ID           string            `json:"id"`
	Subscription string            `json:"subscription"`
	Type         courier.EventType `json:"type"`
	At           time.Time         `json:"at"` // when it happened, by the store's clock
	// Execution and Seq are the execution and the number of the audit entry of the event.
	Execution courier.ExecutionID `json:"execution_id,omitempty"`
	Seq       int64               `json:"seq,omitempty"`
	Job       string              `json:"job,omitempty"`
	Version   int                 `json:"version,omitempty"`
	// ChainExecution is set for events of chains, whose Seq counts them; Chain for
	// those and for events of a chain's members.
	ChainExecution courier.ExecutionID `json:"chain_execution_id,omitempty"`
	Chain          string              `json:"chain,omitempty"`
	// Step, StepID, StepType, Iteration and StepAttempt are set for events of
	// steps; Step is nil for others.
	Step      *int   `json:"step,omitempty"`
	StepID    string `json:"step_id,omitempty"`
	StepType  string `json:"step_type,omitempty"`
	Iteration []int  `json:"iteration,omitempty"`
	// ItemLabels name the items of the loops in which the execution has failed, outermost
	// first. FailedItems is how many items have failed and were not repaired, and Failed are
	// the first 20 of them, for events of an execution's end. Stores leave them out; the engine
	// that delivers adds them, as they are then. The kind job gets none, as for URL.
	ItemLabels  []string              `json:"item_labels,omitempty"`
	FailedItems int                   `json:"failed_items,omitempty"`
	Failed      []courier.ItemFailure `json:"failed,omitempty"`
	// FinallyError says why the finally part of the execution has failed, for events of an
	// execution's end; empty if it has not. It is added as Failed is.
	FinallyError string         `json:"finally_error,omitempty"`
	StepAttempt  int            `json:"step_attempt,omitempty"`
	Bytes        int64          `json:"bytes,omitempty"`
	Reason       courier.Reason `json:"reason,omitempty"`
	Error        string         `json:"error,omitempty"`
	By           string         `json:"by,omitempty"`
	// Result is that of the execution, for [courier.EventJobCompleted] of a job that has
	// one. Stores leave it out; the engine that delivers adds it.
	Result json.RawMessage `json:"result,omitempty"`
	// Expectation is the name of the expectation, for its events, which have no execution. Error
	// says in a sentence what has happened, and Payload is the arrival, or of an unexpected file
	// the file: see package expectation.
	Expectation string `json:"expectation,omitempty"`
	// Name and Payload are those of an event that a step has emitted; see
	// [courier.Context.Emit]. Its Seq is negative: it shares the audit entry of the
	// step's end with others.
	Name    string          `json:"name,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// URL is the address of the page of the execution, or of the chain execution, if the
	// engine that delivers has a BaseURL. Stores leave it out. The kind job gets none,
	// because the parameters of what it starts must be the same in each attempt.
	URL string `json:"url,omitempty"`
	// Count is how many events of this type and job the notification stands for:
	// 1, or more if the subscription has a window. More are others of them, the
	// first 50.
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
	Execution courier.ExecutionID `json:"execution_id,omitempty"` // or chain execution, or arrival
	Error     string              `json:"error,omitempty"`        // its first 200 characters
}

// A DeliveryState is the state of a delivery. A delivery that succeeded is not kept.
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
	Attempts int           `json:"attempts"`             // that were begun
	DueAt    time.Time     `json:"due_at"`               // of the next attempt, or when the present one times out; when it failed
	LastErr  string        `json:"last_error,omitempty"` // of the last attempt
}

// MarshalJSON writes the notification as [Notification.MarshalJSON] does, and the fields
// of the delivery.
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

// OfEntry returns the notification of an audit entry, without the subscription and the
// name of the chain; false if no event follows from the entry (see [store.EventOf]). X is
// the execution after the entry. If it has failed, the notification names the step of
// x.Failure. First says that the entry is of the first claim of its execution.
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

// OfStepEvents returns the notifications of the events that a step of x has emitted, in
// their order, without the subscription and the name of the chain. Their numbers are
// negative, because the audit entry of the record is another event: event i of the record
// with the number seq has -(seq*m + m-1 - i), where m is [courier.MaxStepEvents]. That is
// less than the numbers of [OfOverdue].
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

// OfChain returns the notification of an event of a chain execution, as the method Event of a
// chain.Execution returns it, without the subscription. Seq is the number of the event,
// counting from 1 in each chain execution.
func OfChain(e courier.Event, seq int64, at time.Time) Notification {
	id := courier.ExecutionID(e.ChainExecution)
	return Notification{
		ID: EventID(id, seq), Type: e.Type, At: at, Seq: seq, ChainExecution: id, Chain: e.Chain, Version: e.Version, Error: e.Error, Count: 1,
	}
}

// OfOverdue returns the notification of an overdue execution, without the subscription and
// the name of the chain. Its number is negative, because no audit entry belongs to the
// event: an execution that is overdue does not change, and an entry would take the number
// of the next transition of its worker. It is -1 for [courier.ReasonMaxDuration] and
// -2 for [courier.ReasonExpectedBy].
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

// OfExpectation returns the notification of an event of an expectation, without the
// subscription. The id is that of the arrival, in which seq counts the events from 1, or one of
// the event.
func OfExpectation(expectation, id string, seq int64, t courier.EventType, at time.Time, text string, payload json.RawMessage) Notification {
	return Notification{
		ID: EventID(courier.ExecutionID(id), seq), Type: t, At: at, Seq: seq, Expectation: expectation, Error: text, Payload: payload, Count: 1,
	}
}

// Coalesce makes the notification stand for other events too, which have the same type
// and job, in their order.
func (n *Notification) Coalesce(others []Notification) {
	for i := range others {
		o := &others[i]
		n.Count += o.Count
		if len(n.Coalesced) < MaxCoalesced {
			n.Coalesced = append(n.Coalesced, CoalescedEvent{ID: o.ID, At: o.At, Execution: o.about(), Error: firstOf(o.Error, MaxCoalescedError)})
		}
	}
}

// about is the id of what the event happened to: an execution, a chain execution, or an arrival.
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
