package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
)

// An Outbox is a role of stores, found by type assertion: it keeps events for
// subscriptions until they are delivered.
//
// Whatever writes an audit entry that stands for an event (see [EventOf]), or a
// state of a chain execution that does (see [NotifyChain]), keeps one delivery of
// it for each subscription that wants it, in the same transaction: both are
// committed or neither is. That holds for every call that begins after the
// subscription was saved. A delivery is taken by its state and not by its place
// in any order, so one that is committed late is not passed over.
type Outbox interface {
	// Subscribe saves a subscription, in place of one of the same name. One with
	// no Body is removed, with all its deliveries; that it is not there is
	// ErrNotFound then.
	Subscribe(ctx context.Context, s Subscription) error
	// Subscriptions returns a page of subscriptions, in byte order of their names.
	Subscriptions(ctx context.Context, f SubscriptionFilter) ([]Subscription, error)
	// Take leases deliveries that are due; see [TakeRequest]. Each counts as an
	// attempt. One that is not settled before the lease ends is due again.
	Take(ctx context.Context, r TakeRequest) (Taken, error)
	// Settle says what came of deliveries that were taken. One whose token is not
	// that of its last Take is left alone, so that a call can be repeated.
	Settle(ctx context.Context, list []Outcome) error
	// Deliveries returns a page of what has not been delivered, ordered by
	// subscription and event.
	Deliveries(ctx context.Context, f DeliveryFilter) ([]courier.Delivery, error)
	// Replay makes deliveries of a subscription pending and due, with no attempts
	// made, and returns how many: those that failed, and those that wait for their
	// next attempt, of the named events, or of all for nil. Deliveries that are
	// taken or due, and events that a window holds back, stay as they are.
	Replay(ctx context.Context, subscription string, events []string) (int, error)
}

// A Subscription is what a store has to know of a [courier.Subscription].
type Subscription struct {
	Name string
	// Channel says who can deliver: a kind, or "func:" and the name of the
	// function.
	Channel      string
	Events       []courier.EventType
	Jobs, Chains []string // both empty: all
	Window       time.Duration
	Disabled     bool   // nothing is kept for it or taken from it
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

// A TakeRequest says which deliveries a caller can make: those that are pending
// and due, of subscriptions that are not disabled and whose channel is one of
// Channels, those that have been due longest first.
//
// Of a subscription with a window, all events of one type and job that came
// since the last were joined are joined into one delivery when it is taken for
// the first time, and not before the window of the last one has ended: it begins
// when that one was taken. What was joined stays as it is in every later attempt.
type TakeRequest struct {
	Channels []string
	// Except names subscriptions from which nothing is taken now.
	Except []string
	Max    int // in all
	Each   int // of each subscription
	Lease  time.Duration
}

// Taken is what [Outbox.Take] returns.
type Taken struct {
	List []TakenDelivery
	// Next is the time until something that the request could take becomes due;
	// 0 means nothing is known. It is set when fewer than Max were taken.
	Next time.Duration
	// Events are the types that subscriptions want, sorted; with none there is no
	// need to look again soon.
	Events []courier.EventType
}

// A TakenDelivery is a delivery with what is needed to make and settle it.
type TakenDelivery struct {
	Notification courier.Notification
	Token        Token
	Attempt      int             // counts from 1
	Body         json.RawMessage // of the subscription
}

// A Result is what came of an attempt to deliver.
type Result string

// The verdicts. Failed and Gone keep the delivery among the failed ones, for 30
// days at least.
const (
	Delivered Result = "delivered"
	Again     Result = "again"    // failed; due again after Delay
	Returned  Result = "returned" // not attempted after all; due at once, and not counted
	GivenUp   Result = "given_up" // failed for good
	Gone      Result = "gone"     // as GivenUp, and disables the subscription for the reason Error
)

// An Outcome is what came of one delivery.
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
	// After continues behind a delivery, given by its subscription and its
	// event's ID; both are set or none.
	AfterSubscription, AfterEvent string
	Limit                         int // 0 means 100, the most is 1000
}

// Page is how many deliveries a page has.
func (f *DeliveryFilter) Page() int {
	if f.Limit <= 0 {
		return 100
	}
	return min(f.Limit, 1000)
}

// MaxCoalesced is how many events a joined delivery names besides its own, and
// MostBesideError how many characters of their errors.
const (
	MaxCoalesced      = 50
	MaxCoalescedError = 200
)

// FailedRetention is for how long a failed delivery is kept at least.
const FailedRetention = 30 * 24 * time.Hour

// EventID is the ID of the event that an audit entry stands for.
func EventID(x courier.ExecutionID, seq int64) string {
	return string(x) + "-" + strconv.FormatInt(seq, 10)
}

// ParseEventID is the reverse of EventID. What is no such ID is ErrInvalid.
func ParseEventID(id string) (courier.ExecutionID, int64, error) {
	const uuid = 36
	if len(id) > uuid+1 && id[uuid] == '-' {
		if seq, err := strconv.ParseInt(id[uuid+1:], 10, 64); err == nil && seq > 0 {
			return courier.ExecutionID(id[:uuid]), seq, nil
		}
	}
	return "", 0, courier.Errorf(courier.ErrInvalid, "%q is not the ID of an event", id)
}

// EventOf returns the type of the event that an audit entry stands for, or "" for
// those that stand for none: the creation, a release, every return to the queue
// but by a resume or after the worker was lost, claims but the first, and a step that goes back to pending.
// First says that the entry is of an execution's first claim.
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

// Notify returns the notification of an audit entry of an execution, but for the
// subscription and the name of the chain that it is a member of; false if the
// entry stands for no event. X is the execution as the entry leaves it: that of its
// failure names the step that x.Failure names.
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

// NotifyChain returns the notification of a step that a chain execution has
// taken, but for the subscription; false if it stands for no event. Was is its
// state before, started says that its first members have just been released, and
// seq is the number of the event, which counts from 1 in each chain execution. A
// chain that failed and is retried can fail again, and be completed.
func NotifyChain(c *courier.ChainExecution, was courier.ChainState, started bool, seq int64, at time.Time) (courier.Notification, bool) {
	id := courier.ExecutionID(c.ID)
	n := courier.Notification{ID: EventID(id, seq), At: at, Seq: seq, ChainExecution: id, Chain: c.Chain, Version: c.Version, Count: 1}
	switch {
	case started:
		n.Type = courier.EventChainStarted
	case c.State == was:
	case c.State == courier.ChainCompleted:
		n.Type = courier.EventChainCompleted
	case c.State == courier.ChainFailed:
		n.Type = courier.EventChainFailed
		if f := c.Failure; f != nil {
			n.Error = fmt.Sprintf("member %q: %s", f.Member, f.Message)
		}
	}
	return n, n.Type != ""
}

// Coalesce makes n stand for others of the same type and job too, in their order.
func Coalesce(n *courier.Notification, others []courier.Notification) {
	for i := range others {
		o := &others[i]
		n.Count += o.Count
		if len(n.Coalesced) < MaxCoalesced {
			n.Coalesced = append(n.Coalesced, courier.CoalescedEvent{ID: o.ID, At: o.At, Execution: cmp.Or(o.Execution, o.ChainExecution), Error: firstOf(o.Error, MaxCoalescedError)})
		}
	}
}

// firstOf is the first n characters of s.
func firstOf(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
