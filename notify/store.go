package notify

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Store keeps subscriptions, and keeps events for them until they are delivered: it is a
// transactional outbox. It is an optional role of a [store.Store]; an engine finds it by a type
// assertion. The rules that package store states for all methods hold here too.
//
// Events follow from audit entries (see [store.EventOf] and [OfEntry]), events of records (see
// [OfStepEvents]), states of chain executions (see [OfChain]), overdue executions (see
// [OfOverdue]) and looks at expectations (see [OfExpectation]). A call of the store that writes
// or finds one of these keeps a delivery for each subscription that selects the event, in the
// same transaction. That holds for every call that begins after the subscription was saved. A
// delivery is due by its state, not by its place in an order, so a delivery that is committed
// late is not missed.
type Store interface {
	// PutSubscription saves a subscription, in place of one of the same name.
	PutSubscription(ctx context.Context, r Record) error
	// RemoveSubscription removes a subscription and its deliveries, or returns
	// [courier.ErrNotFound].
	RemoveSubscription(ctx context.Context, name string) error
	// Subscriptions returns a page of subscriptions, in byte order of their names.
	Subscriptions(ctx context.Context, f Filter) ([]Record, error)
	// DueDeliveries leases due deliveries; see [DueRequest]. Each lease counts as an attempt. A
	// delivery whose result is not recorded before the lease ends is due again.
	DueDeliveries(ctx context.Context, r DueRequest) (DueList, error)
	// RecordDeliveries records the results of leased deliveries. It skips a delivery whose token
	// is not the token of its last lease, so a call can be repeated.
	RecordDeliveries(ctx context.Context, list []Outcome) error
	// Deliveries returns a page of the undelivered events, ordered by subscription and
	// event.
	Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, error)
	// ReplayDeliveries makes deliveries of a subscription pending and due, with no attempts made,
	// and returns their number. It selects failed deliveries, and deliveries that wait for their
	// next attempt, of the named events, or of all if events is nil. It does not change
	// deliveries that are leased or due, or events that a window holds back.
	ReplayDeliveries(ctx context.Context, subscription string, events []string) (int, error)
}

// A Record is a subscription as a store keeps it.
type Record struct {
	Name string
	// Channel is the means of delivery: a kind, or "func:" and the name of a function.
	Channel      string
	Events       []courier.EventType
	Jobs, Chains []string        // if these and Expectations are empty, all
	Expectations []string        // for events of expectations
	Window       time.Duration   // 0 means that each event is delivered on its own
	Disabled     bool            // no events are kept for it, and none are delivered
	DisabledAt   time.Time       // when it was disabled, by the store's clock; set by the store; zero if it is enabled
	Reason       string          // why it is disabled
	Body         json.RawMessage // the subscription, valid JSON
}

// Wants reports whether the subscription selects an event of a job, and of a chain if the job is
// a member of one.
func (r *Record) Wants(e courier.EventType, job, chain string) bool {
	if r.Disabled || !slices.Contains(r.Events, e) {
		return false
	}
	return len(r.Jobs)+len(r.Chains)+len(r.Expectations) == 0 || job != "" && slices.Contains(r.Jobs, job) || chain != "" && slices.Contains(r.Chains, chain)
}

// WantsExpectation reports whether the subscription selects an event of an expectation. A
// subscription without Expectations selects the events of all, also if it names jobs or chains.
func (r *Record) WantsExpectation(e courier.EventType, name string) bool {
	return !r.Disabled && slices.Contains(r.Events, e) && (len(r.Expectations) == 0 || slices.Contains(r.Expectations, name))
}

// A DueRequest selects pending and due deliveries of enabled subscriptions whose channel is one
// of Channels. Deliveries that have been due longest come first.
//
// If a subscription has a window, DueDeliveries coalesces the events of one type and job. The
// events since the last delivery are joined into one delivery, which is due when the window of
// the last delivery has ended. A window begins when a delivery is leased for the first time. A
// joined delivery stays the same in every later attempt.
type DueRequest struct {
	Channels []string
	// Except names subscriptions to leave out.
	Except []string
	Max    int // in total
	Each   int // per subscription
	Lease  time.Duration
}

// DueList is what [Store.DueDeliveries] returns.
type DueList struct {
	List []Due
	// Next is the time until another delivery that the request selects becomes due; 0 means that
	// the store does not know. It is set if there are fewer than Max.
	Next time.Duration
	// Events are the event types that subscriptions select, sorted. If there are none,
	// DueDeliveries need not be called again soon.
	Events []courier.EventType
}

// A Due is a due delivery that is leased.
type Due struct {
	Notification Notification
	Token        store.Token
	Attempt      int             // counts from 1
	Body         json.RawMessage // of the subscription's [Record]
}

// A Result is the result of an attempt to deliver.
type Result string

// The results. GivenUp and EndpointGone keep the delivery as failed, for [FailedRetention].
const (
	Delivered    Result = "delivered"
	Retry        Result = "retry"         // failed; due again after Delay
	Returned     Result = "returned"      // not attempted; due at once, and the attempt is not counted
	GivenUp      Result = "given_up"      // failed for good
	EndpointGone Result = "endpoint_gone" // like GivenUp; also disables the subscription with the reason Error
)

// An Outcome is the result of one delivery.
type Outcome struct {
	Subscription string
	Event        string // its ID
	Token        store.Token
	Result       Result
	Delay        time.Duration // for [Retry]
	Error        string        // why it was not delivered
}

// A Filter selects subscriptions. Zero fields select all. It is not a monitor.Filter, because
// neither package imports the other.
type Filter struct {
	Name  string // only the one with this name
	After string // only those whose names come after it
	Limit int    // 0 means 1000
}

// A DeliveryFilter selects deliveries. Zero fields select all.
type DeliveryFilter struct {
	Subscription string
	State        DeliveryState
	// A page begins after the delivery with this subscription and this event ID. Both are set or
	// neither.
	AfterSubscription, AfterEvent string
	Limit                         int // 0 means 100; the maximum is 1000
}

// Page returns the maximum number of deliveries on a page.
func (f *DeliveryFilter) Page() int {
	if f.Limit <= 0 {
		return 100
	}
	return min(f.Limit, 1000)
}

// MaxCoalesced is the number of events that a joined delivery names besides the first,
// and MaxCoalescedError the number of characters of the error of each.
const (
	MaxCoalesced      = 50
	MaxCoalescedError = 200
)

// FailedRetention is the minimum time for which a failed delivery is kept.
const FailedRetention = 30 * 24 * time.Hour
