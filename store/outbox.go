package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
)

// An Outbox keeps events for subscriptions until they are delivered. It is an
// optional role of a [Store]; an engine finds it by a type assertion.
//
// Events follow from audit entries (see [EventOf]), from the events of records (see
// [NotifyEvents]), from states of chain executions
// (see [NotifyChain]) and from overdue executions (see [Deadlines]). A call that
// writes or finds one of these keeps a delivery for each subscription that selects
// the event, in the same transaction. That holds for every call that begins after the
// subscription was saved. A delivery is taken by its state and not by its place in an
// order, so one that is committed late is not missed.
type Outbox interface {
	// Subscribe saves a subscription, in place of one of the same name. If the Body
	// is empty, it removes the subscription with all its deliveries; if there is
	// none, the error is ErrNotFound.
	Subscribe(ctx context.Context, s Subscription) error
	// Subscriptions returns a page of subscriptions, in byte order of their names.
	Subscriptions(ctx context.Context, f SubscriptionFilter) ([]Subscription, error)
	// Take leases deliveries that are due; see [TakeRequest]. Each counts as an
	// attempt. One that is not settled before the lease ends is due again.
	Take(ctx context.Context, r TakeRequest) (Taken, error)
	// Settle records the results of deliveries that were taken. It skips a delivery
	// whose token is not that of its last Take. So a call can be repeated.
	Settle(ctx context.Context, list []Outcome) error
	// Deliveries returns a page of the undelivered events, ordered by subscription and
	// event.
	Deliveries(ctx context.Context, f DeliveryFilter) ([]courier.Delivery, error)
	// Replay makes deliveries of a subscription pending and due, with no attempts
	// made, and returns how many: those that failed, and those that wait for their
	// next attempt. It selects those of the named events, or all if events is nil.
	// Deliveries that are taken or due, and events that a window holds back, stay as
	// they are.
	Replay(ctx context.Context, subscription string, events []string) (int, error)
}

// A Subscription is a [courier.Subscription] as a store keeps it.
type Subscription struct {
	Name string
	// Channel is the means of delivery: a kind, or "func:" and the name of a function.
	Channel      string
	Events       []courier.EventType
	Jobs, Chains []string // both empty: all
	Window       time.Duration
	Disabled     bool   // no events are kept for it, and none are taken
	Reason       string // why it is disabled
	Body         json.RawMessage
}

// Wants reports whether the subscription wants an event of a job, and of a
// chain if the job is a member of one.
func (s *Subscription) Wants(e courier.EventType, job, chain string) bool {
	if s.Disabled || !slices.Contains(s.Events, e) {
		return false
	}
	return len(s.Jobs)+len(s.Chains) == 0 || job != "" && slices.Contains(s.Jobs, job) || chain != "" && slices.Contains(s.Chains, chain)
}

// A TakeRequest selects deliveries that are pending and due, of subscriptions that
// are not disabled and whose channel is one of Channels. Those that have been due
// longest come first.
//
// If a subscription has a window, Take coalesces the events of one type and job. The
// events since the last delivery are joined into one delivery, which is taken when
// the window of the last delivery has ended. A window begins when a delivery is taken
// for the first time. A joined delivery stays the same in every later attempt.
type TakeRequest struct {
	Channels []string
	// Except names subscriptions that are left out.
	Except []string
	Max    int // in all
	Each   int // of each subscription
	Lease  time.Duration
}

// Taken is what [Outbox.Take] returns.
type Taken struct {
	List []TakenDelivery
	// Next is the time until another delivery that the request selects becomes due;
	// 0 means that the store does not know. It is set when fewer than Max were taken.
	Next time.Duration
	// Events are the types that subscriptions want, sorted. Without any there is no
	// need to call Take again soon.
	Events []courier.EventType
}

// A TakenDelivery is a leased delivery.
type TakenDelivery struct {
	Notification courier.Notification
	Token        Token
	Attempt      int             // counts from 1
	Body         json.RawMessage // of the subscription
}

// A Result is the result of an attempt to deliver.
type Result string

// The results. GivenUp and Gone keep the delivery as failed, for [FailedRetention].
const (
	Delivered Result = "delivered"
	Again     Result = "again"    // failed; due again after Delay
	Returned  Result = "returned" // not attempted; due at once, and the attempt is not counted
	GivenUp   Result = "given_up" // failed for good
	Gone      Result = "gone"     // as GivenUp; also disables the subscription with the reason Error
)

// An Outcome is the result of one delivery.
type Outcome struct {
	Subscription string
	Event        string // its ID
	Token        Token
	Result       Result
	Delay        time.Duration
	Error        string
}

// A SubscriptionFilter selects subscriptions. Zero fields select all.
type SubscriptionFilter struct {
	After string // those whose names come after it
	Limit int    // 0 means 1000
}

// A DeliveryFilter selects deliveries. Zero fields select all.
type DeliveryFilter struct {
	Subscription string
	State        courier.DeliveryState
	// A page begins after the delivery with this subscription and this event's ID;
	// both are set or none.
	AfterSubscription, AfterEvent string
	Limit                         int // 0 means 100, the most is 1000
}

// Page returns the number of deliveries of a page.
func (f *DeliveryFilter) Page() int {
	if f.Limit <= 0 {
		return 100
	}
	return min(f.Limit, 1000)
}

// MaxStepEvents is the most events that a step may emit in an attempt; see
// [courier.StepExecution].Events.
const MaxStepEvents = 100

// MaxCoalesced is the number of events that a joined delivery names besides the first,
// and MaxCoalescedError the number of characters of the error of each.
const (
	MaxCoalesced      = 50
	MaxCoalescedError = 200
)

// FailedRetention is the least time for which a failed delivery is kept.
const FailedRetention = 30 * 24 * time.Hour

// EventID is the ID of the event of an audit entry, or of an event that has the
// number seq without an entry; see [OverdueSeq].
func EventID(x courier.ExecutionID, seq int64) string {
	return string(x) + "-" + strconv.FormatInt(seq, 10)
}

// ParseEventID returns the arguments of the [EventID] that has made id. For any other
// text the error is ErrInvalid.
func ParseEventID(id string) (courier.ExecutionID, int64, error) {
	const uuid = 36
	if len(id) > uuid+1 && id[uuid] == '-' {
		if seq, err := strconv.ParseInt(id[uuid+1:], 10, 64); err == nil && seq != 0 {
			return courier.ExecutionID(id[:uuid]), seq, nil
		}
	}
	return "", 0, courier.Errorf(courier.ErrInvalid, "%q is not the ID of an event", id)
}

// EventOf returns the type of the event that follows from an audit entry. It is ""
// for entries without an event: the creation, a release, every return to the queue
// except by a resume or after the worker was lost, every claim except the first, and
// a step that goes back to pending. First says that the entry is of the first claim
// of its execution.
func EventOf(a *courier.AuditEntry, first bool) courier.EventType {
	if a.Step != nil {
		return stepEvents[courier.StepState(a.To)]
	}
	from, to := courier.State(a.From), courier.State(a.To)
	switch {
	case to == courier.Running && first:
		return courier.EventJobStarted
	case to == courier.Queued && (from == courier.Paused || from == courier.Failed || a.Reason == courier.ReasonElsewhere):
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

// Notify returns the notification of an audit entry, without the subscription and the
// name of the chain; false if no event follows from the entry. X is the execution
// after the entry. If it has failed, the notification names the step of x.Failure.
func Notify(x *courier.Execution, a *courier.AuditEntry, first bool) (courier.Notification, bool) {
	n := courier.Notification{
		ID: EventID(a.Execution, a.Seq), Type: EventOf(a, first), At: a.At, Execution: a.Execution, Seq: a.Seq, Job: x.Job, Version: x.Version,
		Step: a.Step, StepID: a.ID, StepType: a.Type, Iteration: a.Iteration, StepAttempt: a.Attempt, Bytes: a.Bytes, Reason: a.Reason,
		Error: a.Error, By: a.By, Count: 1,
	}
	if f := x.Failure; n.Type == courier.EventJobFailed && f != nil && f.Step >= 0 {
		step := f.Step
		n.Step, n.StepID, n.StepType, n.Iteration, n.StepAttempt = &step, f.ID, f.Type, f.Iteration, f.Attempt
	}
	return n, n.Type != ""
}

// NotifyEvents returns the notifications of the events of a record of x, without the
// subscription and the name of the chain. Their numbers are negative, because the audit
// entry of the record is another event: event i of the record with the number seq has
// -(seq*MaxStepEvents + MaxStepEvents-1 - i), which is less than every [OverdueSeq].
func NotifyEvents(x *courier.Execution, s *courier.StepExecution) []courier.Notification {
	list := make([]courier.Notification, len(s.Events))
	for i, e := range s.Events {
		seq, step := -(s.Seq*MaxStepEvents + MaxStepEvents - 1 - int64(i)), s.Step
		list[i] = courier.Notification{
			ID: EventID(x.ID, seq), Type: courier.EventStep, At: s.EndedAt, Execution: x.ID, Seq: seq, Job: x.Job, Version: x.Version,
			Step: &step, StepID: s.ID, StepType: s.Type, Iteration: s.Iteration, StepAttempt: s.Attempt,
			Name: e.Name, Payload: e.Payload, Count: 1,
		}
	}
	return list
}

// NotifyChain returns the notification of an event of a chain execution, as the method Event
// of a chain.Execution returns it, without the subscription. Seq is the number of the event,
// counting from 1 in each chain execution.
func NotifyChain(e courier.Event, seq int64, at time.Time) courier.Notification {
	id := courier.ExecutionID(e.ChainExecution)
	return courier.Notification{
		ID: EventID(id, seq), Type: e.Type, At: at, Seq: seq, ChainExecution: id, Chain: e.Chain, Version: e.Version, Error: e.Error, Count: 1,
	}
}

// Coalesce makes the notification n stand for other events too, which have the same
// type and job, in their order.
func Coalesce(n *courier.Notification, others []courier.Notification) {
	for i := range others {
		o := &others[i]
		n.Count += o.Count
		if len(n.Coalesced) < MaxCoalesced {
			n.Coalesced = append(n.Coalesced, courier.CoalescedEvent{ID: o.ID, At: o.At, Execution: cmp.Or(o.Execution, o.ChainExecution), Error: firstOf(o.Error, MaxCoalescedError)})
		}
	}
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
