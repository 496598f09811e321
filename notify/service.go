package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/named"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// Jobs gives access to the jobs that subscriptions start, and to the results that are delivered.
type Jobs interface {
	// CheckStart returns the problems of an execution of the latest version of a job with these
	// parameters; chain is empty. The field of a problem is job, params or the name of a
	// parameter, such as params.day. The error is from the store.
	CheckStart(ctx context.Context, job, chain string, params map[string]any) ([]courier.Problem, error)
	// Start creates an execution of the latest version of a job. If an execution with the same
	// idempotency key exists, it creates none and returns nil, or [courier.ErrConflict] if the
	// parameters differ.
	Start(ctx context.Context, job string, opt *courier.EnqueueOptions) error
	// Result returns the result of a completed execution of a version of a job. It is nil
	// if the job has none, or if the store no longer has the execution.
	Result(ctx context.Context, job string, version int, x courier.ExecutionID) (json.RawMessage, error)
	// Items adds details about failed items to the notification of an execution's end:
	// ItemLabels, FailedItems, Failed and FinallyError. It adds nothing if the store no longer
	// has the execution.
	Items(ctx context.Context, n *Notification) error
	// TraceOf returns the trace context of the execution or chain execution of a notification;
	// empty if it has none, if the store no longer has it, or if the host does not trace.
	TraceOf(ctx context.Context, n *Notification) (string, error)
}

// Options are the parts of the engine that a [Service] uses, and its means of delivery. Secrets,
// Subscribers and Mailer may be nil, and Webhooks may be zero; all others must be set.
type Options struct {
	// Store returns the store's role that keeps subscriptions. If the store does not have the
	// role, the error matches [errors.ErrUnsupported].
	Store func() (Store, error)
	// Catalog has the jobs and chains that subscriptions name.
	Catalog store.Catalog
	Jobs    Jobs
	// Changed is called after somebody has changed a subscription. The entry is for the
	// journal, without the actor; the attributes are for the log.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
	Log     *slog.Logger
	// Secrets resolves the secrets to which subscriptions of kind webhook refer.
	Secrets func(context.Context, courier.SecretRequest) (string, error)
	// Subscribers are the functions that subscriptions of kind func name.
	Subscribers map[string]func(context.Context, Notification) error
	Mailer      Mailer // for the kind email
	// Webhooks limits the receivers of subscriptions of kind webhook.
	Webhooks WebhookOptions
	// BaseURL is the address of the pages of package dashboard, for links; empty means none.
	BaseURL string
}

// A Service manages the subscriptions of one store, and makes the deliveries of one engine. Its
// methods may be called by several goroutines. If the store keeps no subscriptions, the errors of
// methods that need it match [errors.ErrUnsupported].
type Service struct {
	opt     Options
	records named.Records[Store, Record, Record]
	wanted  atomic.Bool   // whether there are subscriptions, as far as this engine has seen
	wake    chan struct{} // a delivery may have been kept
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service {
	return &Service{opt: opt, wake: make(chan struct{}, 1), records: named.Records[Store, Record, Record]{
		Kind: "subscription", Store: opt.Store, Changed: opt.Changed,
		List: func(ctx context.Context, o Store, name, after string) (list []Record, now time.Time, err error) {
			list, err = o.Subscriptions(ctx, Filter{Name: name, After: after})
			return list, now, err
		},
		Name: func(r *Record) string { return r.Name }, Delete: Store.RemoveSubscription,
	}}
}

// A Subscribed is the result of [Service.Set].
type Subscribed struct {
	Subscription Subscription
	// Warnings are doubtful settings, such as a function that this engine does not have, although
	// others may have it.
	Warnings []courier.Problem
}

// Set checks a subscription and saves it, in place of the one with the same name. Every event
// that it selects, and whose write begins after Set has returned, is delivered at least once by a
// started engine that can deliver it: for kind func the engine must have the function, for kind
// email a [Mailer]. If the subscription can't work, nothing is saved, and the error is an
// *[Error], which lists all problems. Doubtful settings are returned as warnings, and logged.
func (v *Service) Set(ctx context.Context, s Subscription, by courier.By) (Subscribed, error) {
	fail := func(err error) (Subscribed, error) {
		return Subscribed{}, fmt.Errorf("set subscription %q: %w", s.Name, err)
	}
	o, err := v.records.Open(by)
	if err != nil {
		return fail(err)
	}
	s.Reason, s.DisabledAt = "", time.Time{}
	body, err := jsontext.Append(nil, s)
	if err != nil {
		return Subscribed{}, &Error{Subscription: s.Name, Problems: []courier.Problem{{Step: -1, Message: err.Error()}}}
	}
	problems, warnings, err := v.Check(ctx, s)
	if err != nil {
		return fail(err)
	}
	if len(problems) > 0 {
		return Subscribed{}, &Error{Subscription: s.Name, Problems: problems}
	}
	var plain Subscription // in the form in which it will be read
	if err := json.Unmarshal(body, &plain); err != nil {
		return Subscribed{}, courier.Errorf(courier.ErrInvalid, "set subscription %q: %w", s.Name, err)
	}
	_, _, same, err := v.Compare(ctx, plain)
	if err != nil {
		return fail(err)
	}
	err = o.PutSubscription(ctx, Record{
		Name: plain.Name, Channel: plain.channel(), Events: plain.Events, Jobs: plain.Jobs, Chains: plain.Chains, Expectations: plain.Expectations,
		Window: plain.EffectiveWindow().Truncate(time.Microsecond), Disabled: plain.Disabled, Body: body,
	})
	if err != nil {
		return fail(err)
	}
	if !same {
		v.opt.Changed(ctx, by, store.Action{Kind: "subscription", Name: s.Name, Verb: "set", Now: body})
	}
	v.wanted.Store(true)
	wakeup.Send(v.wake)
	for _, w := range warnings {
		v.opt.Log.Warn("subscription", "subscription", s.Name, "warning", w.String())
	}
	plain.Window = new(plain.EffectiveWindow())
	return Subscribed{plain, warnings}, nil
}

// Compare returns, as JSON, the subscription that is saved under the name, nil if there is none,
// and the subscription that Set would save. Same reports whether they are equal. Compare checks
// nothing else.
func (v *Service) Compare(ctx context.Context, s Subscription) (was, now json.RawMessage, same bool, err error) {
	s.Reason, s.DisabledAt = "", time.Time{}
	old, err := v.records.Look(ctx, s.Name)
	if err == nil {
		now, err = jsontext.Append(nil, s)
	}
	if err != nil || old == nil {
		return nil, now, false, err
	}
	var kept, given Subscription // in the form in which they are read
	same = json.Unmarshal(old.Body, &kept) == nil && json.Unmarshal(now, &given) == nil
	return old.Body, now, same && old.Disabled == given.Disabled && text.SameJSON(kept, given), nil
}

// Remove removes a subscription and its undelivered notifications. Deliveries in
// progress are not interrupted. If there is no such subscription, the error is
// [courier.ErrNotFound].
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	return v.records.Remove(ctx, name, by)
}

// Get returns a subscription with its effective window. If there is no subscription of that name,
// the error matches [courier.ErrNotFound].
func (v *Service) Get(ctx context.Context, name string) (Subscription, error) {
	r, err := v.records.Get(ctx, name)
	if err != nil {
		return Subscription{}, err
	}
	return publicSubscription(r)
}

// List returns a page of subscriptions, in byte order of their names, each with its effective
// window.
func (v *Service) List(ctx context.Context, f Filter) ([]Subscription, error) {
	o, err := v.opt.Store()
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", err)
	}
	got, err := o.Subscriptions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", err)
	}
	list := make([]Subscription, len(got))
	for i := range got {
		if list[i], err = publicSubscription(&got[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// publicSubscription returns a saved subscription as users see it, with its effective window.
func publicSubscription(r *Record) (s Subscription, err error) {
	if err := json.Unmarshal(r.Body, &s); err != nil {
		return s, fmt.Errorf("subscription %q: %w", r.Name, err)
	}
	s.Disabled, s.DisabledAt, s.Reason = r.Disabled, r.DisabledAt, r.Reason
	s.Window = new(s.EffectiveWindow())
	return s, nil
}

// Deliveries returns a page of undelivered notifications, ordered by subscription and event. They
// are pending or have failed; failed ones are kept for 30 days.
func (v *Service) Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, error) {
	o, err := v.opt.Store()
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	list, err := o.Deliveries(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	return list, nil
}

// Replay makes deliveries of a subscription due now, with as many attempts as new ones, and
// returns their number. It selects deliveries that failed, and deliveries that wait for their
// next attempt, which may be a day away. It selects the events with the given IDs, or all if
// events is nil. Receivers get the same event ID again.
func (v *Service) Replay(ctx context.Context, name string, events []string, by courier.By) (int, error) {
	o, err := v.records.Open(by)
	for i := 0; i < len(events) && err == nil; i++ {
		_, _, err = ParseEventID(events[i])
	}
	if err != nil {
		return 0, fmt.Errorf("replay deliveries of subscription %q: %w", name, err)
	}
	n, err := o.ReplayDeliveries(ctx, name, events)
	if errors.Is(err, courier.ErrNotFound) {
		err = v.records.Unknown(ctx, o, name)
	}
	if err != nil {
		return 0, fmt.Errorf("replay deliveries of subscription %q: %w", name, err)
	}
	v.opt.Changed(ctx, by, store.Action{Kind: "subscription", Name: name, Verb: "replayed"}, slog.Int("deliveries", n))
	wakeup.Send(v.wake)
	return n, nil
}

// Wake makes [Service.Run] look for deliveries. An engine calls it after a write that may have an
// event.
func (v *Service) Wake() {
	if v.wanted.Load() {
		wakeup.Send(v.wake)
	}
}

// Claimed makes [Service.Run] look for deliveries if a claim has found subscriptions in the
// store, while this service has not seen any.
func (v *Service) Claimed(subscribed bool) {
	if subscribed && !v.wanted.Swap(true) {
		wakeup.Send(v.wake)
	}
}
