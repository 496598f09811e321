package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Subscribed is what [Subscriptions.Set] has saved.
type Subscribed struct {
	Subscription courier.Subscription
	// Warnings are what looks doubtful: a function that this engine does not have,
	// which others may have.
	Warnings []courier.Problem
}

// Set checks a subscription and saves it, in place of one of the same name.
// Every event that it wants and that begins to be written after Set has
// returned is delivered at least once, by an engine that was started and can: of
// kind func one that has the function, of kind email one that has a Mailer. The
// error of a subscription that can't work is a *[courier.DefinitionError], which
// lists everything that is wrong with it, and nothing was saved then. What only looks
// doubtful is returned as warnings, and written to [Options].Log.
func (h Subscriptions) Set(ctx context.Context, s courier.Subscription, by courier.By) (Subscribed, error) {
	e := h.e
	o, err := e.outbox()
	if err != nil {
		return Subscribed{}, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	if err := checkText(texts(by)); err != nil {
		return Subscribed{}, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	s.Reason = ""
	body, err := jsontext.Append(nil, s)
	if err != nil {
		return Subscribed{}, &courier.DefinitionError{Subscription: s.Name, Problems: []courier.Problem{{Step: -1, Message: err.Error()}}}
	}
	c := subscriptionCheck{e: e, ctx: ctx, o: o, s: &s}
	if err := c.all(); err != nil {
		return Subscribed{}, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	if len(c.found) > 0 {
		return Subscribed{}, &courier.DefinitionError{Subscription: s.Name, Problems: c.found}
	}
	var plain courier.Subscription // as it will be read
	if err := json.Unmarshal(body, &plain); err != nil {
		return Subscribed{}, courier.Errorf(courier.ErrInvalid, "subscribe %q: %w", s.Name, err)
	}
	channel := string(plain.Kind)
	if plain.Kind == courier.SubscribeFunc {
		channel = funcChannel(plain.Func)
	}
	err = o.Subscribe(ctx, store.Subscription{
		Name: plain.Name, Channel: channel, Events: plain.Events, Jobs: plain.Jobs, Chains: plain.Chains,
		Window: plain.EffectiveWindow().Truncate(time.Microsecond), Disabled: plain.Disabled, Body: body,
	})
	if err != nil {
		return Subscribed{}, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	e.changed("subscription", s.Name, "set", by)
	e.notices.wanted.Store(true)
	signal(e.notices.wake)
	warnings := c.warnings()
	for _, w := range warnings {
		e.log.Warn("subscription", "subscription", s.Name, "warning", w.String())
	}
	plain.Window = new(plain.EffectiveWindow())
	return Subscribed{plain, warnings}, nil
}

// Remove removes a subscription and all that was kept for it. Deliveries
// under way end as they may. One that isn't there is [courier.ErrNotFound].
func (h Subscriptions) Remove(ctx context.Context, name string, by courier.By) error {
	e := h.e
	o, err := e.outbox()
	if err == nil {
		err = checkText(texts(by))
	}
	if err == nil {
		err = o.Subscribe(ctx, store.Subscription{Name: name})
	}
	if errors.Is(err, courier.ErrNotFound) {
		err = e.unknownSubscription(ctx, o, name)
	}
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	e.changed("subscription", name, "removed", by)
	return nil
}

func (e *Engine) unknownSubscription(ctx context.Context, o store.Outbox, name string) error {
	var names []string
	list, _ := o.Subscriptions(ctx)
	for i := range list {
		names = append(names, list[i].Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no subscription %q; %s", name, nearest.DidYouMean(name, names))
}

// List returns all subscriptions, in byte order of their names, each with
// the window that holds.
func (h Subscriptions) List(ctx context.Context) ([]courier.Subscription, error) {
	e := h.e
	o, err := e.outbox()
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	got, err := o.Subscriptions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	list := make([]courier.Subscription, len(got))
	for i := range got {
		if err := json.Unmarshal(got[i].Body, &list[i]); err != nil {
			return nil, fmt.Errorf("subscription %q: %w", got[i].Name, err)
		}
		list[i].Disabled, list[i].Reason = got[i].Disabled, got[i].Reason
		list[i].Window = new(list[i].EffectiveWindow())
	}
	return list, nil
}

// Deliveries returns a page of what has not been delivered, in the order of
// subscriptions and events: what waits, and what has failed, which is kept for 30
// days.
func (h Subscriptions) Deliveries(ctx context.Context, f store.DeliveryFilter) ([]courier.Delivery, error) {
	e := h.e
	o, err := e.outbox()
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	list, err := o.Deliveries(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return list, nil
}

// Replay makes deliveries of a subscription due now, with as many attempts as new
// ones, and returns how many there are: those that failed, and those that wait
// for their next attempt, which may be a day away. They are those of the events
// with the given IDs, or all for nil. Receivers see the ID that they may
// have seen before.
func (h Subscriptions) Replay(ctx context.Context, name string, events []string, by courier.By) (int, error) {
	e := h.e
	o, err := e.outbox()
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	if err := checkText(texts(by)); err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	for _, id := range events {
		if _, _, err := store.ParseEventID(id); err != nil {
			return 0, fmt.Errorf("replay: %w", err)
		}
	}
	n, err := o.Replay(ctx, name, events)
	if errors.Is(err, courier.ErrNotFound) {
		err = e.unknownSubscription(ctx, o, name)
	}
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	e.changed("subscription", name, "replayed", by, slog.Int("deliveries", n))
	signal(e.notices.wake)
	return n, nil
}

// A subscriptionCheck finds what is wrong with a subscription.
type subscriptionCheck struct {
	e     *Engine
	ctx   context.Context
	o     store.Outbox
	s     *courier.Subscription
	found []courier.Problem
}

func (c *subscriptionCheck) problem(field, format string, args ...any) {
	c.found = append(c.found, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
}

// eventTypes are those that can be subscribed to.
var eventTypes = []courier.EventType{
	courier.EventJobStarted, courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobPaused, courier.EventJobResumed,
	courier.EventJobCancelled, courier.EventJobTakenOver, courier.EventStepStarted, courier.EventStepCompleted, courier.EventStepFailed, courier.EventStepSkipped,
	courier.EventChainStarted, courier.EventChainCompleted, courier.EventChainFailed,
}

var subscriptionKinds = []courier.SubscriptionKind{
	courier.SubscribeFunc, courier.SubscribeWebhook, courier.SubscribeJob, courier.SubscribeEmail,
}

// maxListedNames bounds the lists of a subscription.
const maxListedNames = 1000

// all looks at everything. Its error is one of the store's.
func (c *subscriptionCheck) all() error {
	s := c.s
	if text := wrongName(s.Name); text != "" {
		c.problem("name", "%s", text)
	}
	if !slices.Contains(subscriptionKinds, s.Kind) {
		c.problem("kind", "%q is unknown; %s", s.Kind, nearest.DidYouMean(string(s.Kind), subscriptionKinds))
	}
	if len(s.Events) == 0 {
		c.problem("events", "there are none; name at least one, such as %q", courier.EventJobFailed)
	}
	for i, t := range s.Events {
		switch {
		case t == courier.EventStepProgress:
			c.problem("events", "%q is not kept: it is for observers alone", t)
		case !slices.Contains(eventTypes, t):
			c.problem("events", "%q is unknown; %s", t, nearest.DidYouMean(string(t), eventTypes))
		case slices.Contains(s.Events[:i], t):
			c.problem("events", "%q is given twice", t)
		}
	}
	if s.Window != nil && *s.Window < 0 {
		c.problem("window_seconds", "%v is negative", *s.Window)
	}
	c.targets()
	if err := c.names("jobs", store.Job, s.Jobs); err != nil {
		return err
	}
	if err := c.names("chains", store.Chain, s.Chains); err != nil {
		return err
	}
	switch {
	case s.Kind == courier.SubscribeFunc && s.Func == "":
		c.problem("func", "is missing: the name of a function in the engine's Options.Subscribers")
	case s.Kind == courier.SubscribeWebhook && s.Webhook != nil:
		c.webhook(s.Webhook)
	case s.Kind == courier.SubscribeJob && s.Job != nil:
		return c.job(s.Job)
	case s.Kind == courier.SubscribeEmail && s.Email != nil:
		c.email(s.Email)
	}
	return nil
}

// warnings are what looks doubtful.
func (c *subscriptionCheck) warnings() (list []courier.Problem) {
	name := c.s.Func
	if c.s.Kind != courier.SubscribeFunc || name == "" || c.e.opt.Subscribers[name] != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.e.opt.Subscribers))
	return append(list, courier.Problem{Step: -1, Field: "func", Message: fmt.Sprintf(
		"this engine has no function %q in Options.Subscribers; %s; events are kept until an engine that has it is started", name, nearest.DidYouMean(name, names))})
}

// targets reports settings of other kinds than that of the subscription.
func (c *subscriptionCheck) targets() {
	for _, t := range []struct {
		kind  courier.SubscriptionKind
		field string
		given bool
	}{
		{courier.SubscribeFunc, "func", c.s.Func != ""}, {courier.SubscribeWebhook, "webhook", c.s.Webhook != nil},
		{courier.SubscribeJob, "job", c.s.Job != nil}, {courier.SubscribeEmail, "email", c.s.Email != nil},
	} {
		switch {
		case t.given && t.kind != c.s.Kind:
			c.problem(t.field, "is for subscriptions of kind %q, and this one is of kind %q", t.kind, c.s.Kind)
		case !t.given && t.kind == c.s.Kind && t.kind != courier.SubscribeFunc:
			c.problem(t.field, "is missing")
		}
	}
}

// names looks whether what the subscription names is there.
func (c *subscriptionCheck) names(field string, kind store.Kind, list []string) error {
	if len(list) > maxListedNames {
		c.problem(field, "has %d names, more than %d", len(list), maxListedNames)
		return nil
	}
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			c.problem(field, "%q is given twice", name)
			continue
		}
		if err := c.named(field, kind, name); err != nil {
			return err
		}
	}
	return nil
}

// named looks whether a job or a chain is there.
func (c *subscriptionCheck) named(field string, kind store.Kind, name string) error {
	_, err := c.e.store.Load(c.ctx, kind, name, 0)
	if !errors.Is(err, courier.ErrNotFound) {
		return err
	}
	const most = 1000
	list, err := c.e.store.List(c.ctx, store.DefinitionFilter{Kind: kind, Limit: most})
	if err != nil {
		return err
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	c.problem(field, "there is no %s %q; %s", kind, name, nearest.DidYouMean(name, names))
	return nil
}

// wrongName says what is wrong with the name of something, "" if nothing is.
func wrongName(s string) string {
	const most = 200
	switch n := utf8.RuneCountInString(s); {
	case s == "":
		return "is missing"
	case n > most:
		return fmt.Sprintf("has %d characters; %d is the most", n, most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Sprintf("%q contains control characters", s)
	}
	return ""
}
