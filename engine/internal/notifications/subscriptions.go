package notifications

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

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// Set checks a subscription and saves it. Warnings are what only looks doubtful.
func (v *Service) Set(ctx context.Context, s courier.Subscription, by courier.By) (saved courier.Subscription, warnings []courier.Problem, err error) {
	o, err := v.opt.Roles.Outbox()
	if err != nil {
		return s, nil, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	if err := text.Check(text.By(by)); err != nil {
		return s, nil, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	s.Reason = ""
	body, err := jsontext.Append(nil, s)
	if err != nil {
		return s, nil, &courier.DefinitionError{Subscription: s.Name, Problems: []courier.Problem{{Step: -1, Message: err.Error()}}}
	}
	c := subscriptionCheck{v: v, ctx: ctx, o: o, s: &s}
	if err := c.all(); err != nil {
		return s, nil, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	if len(c.found) > 0 {
		return s, nil, &courier.DefinitionError{Subscription: s.Name, Problems: c.found}
	}
	var plain courier.Subscription // as it will be read
	if err := json.Unmarshal(body, &plain); err != nil {
		return s, nil, courier.Errorf(courier.ErrInvalid, "subscribe %q: %w", s.Name, err)
	}
	kept, err := isKept(ctx, o, plain)
	if err != nil {
		return s, nil, fmt.Errorf("subscribe %q: %w", s.Name, err)
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
		return s, nil, fmt.Errorf("subscribe %q: %w", s.Name, err)
	}
	if !kept {
		v.opt.Changed(ctx, core.Change{Kind: "subscription", Name: s.Name, Verb: "set", By: by, Now: body})
	}
	v.wanted.Store(true)
	wakeup.Send(v.wake)
	warnings = c.warnings()
	for _, w := range warnings {
		v.opt.Log.Warn("subscription", "subscription", s.Name, "warning", w.String())
	}
	plain.Window = new(plain.EffectiveWindow())
	return plain, warnings, nil
}

// isKept reports whether a subscription is kept as it is given.
func isKept(ctx context.Context, o store.Outbox, s courier.Subscription) (bool, error) {
	for after := ""; ; {
		list, err := o.Subscriptions(ctx, store.SubscriptionFilter{After: after})
		if err != nil || len(list) == 0 {
			return false, err
		}
		for i := range list {
			if after = list[i].Name; after != s.Name {
				continue
			}
			var was courier.Subscription
			err := json.Unmarshal(list[i].Body, &was)
			return err == nil && list[i].Disabled == s.Disabled && text.SameJSON(was, s), nil
		}
	}
}

// Remove removes a subscription and all that was kept for it.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	o, err := v.opt.Roles.Outbox()
	if err == nil {
		err = text.Check(text.By(by))
	}
	if err == nil {
		err = o.Subscribe(ctx, store.Subscription{Name: name})
	}
	if errors.Is(err, courier.ErrNotFound) {
		err = v.unknownSubscription(ctx, o, name)
	}
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	v.opt.Changed(ctx, core.Change{Kind: "subscription", Name: name, Verb: "removed", By: by})
	return nil
}

func (v *Service) unknownSubscription(ctx context.Context, o store.Outbox, name string) error {
	var names []string
	list, _ := o.Subscriptions(ctx, store.SubscriptionFilter{})
	for i := range list {
		names = append(names, list[i].Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no subscription %q; %s", name, nearest.DidYouMean(name, names))
}

// List returns a page of subscriptions, each with the window that holds.
func (v *Service) List(ctx context.Context, f store.SubscriptionFilter) ([]courier.Subscription, error) {
	o, err := v.opt.Roles.Outbox()
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	got, err := o.Subscriptions(ctx, f)
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

// Get returns a subscription. It reads the list: there are few subscriptions.
func (v *Service) Get(ctx context.Context, name string) (courier.Subscription, error) {
	for after := ""; ; {
		list, err := v.List(ctx, store.SubscriptionFilter{After: after})
		if err != nil {
			return courier.Subscription{}, err
		}
		for i := range list {
			if after = list[i].Name; after == name {
				return list[i], nil
			}
		}
		if len(list) == 0 || after > name {
			o, err := v.opt.Roles.Outbox()
			if err == nil {
				err = v.unknownSubscription(ctx, o, name)
			}
			return courier.Subscription{}, fmt.Errorf("subscription: %w", err)
		}
	}
}

// Deliveries returns a page of what has not been delivered.
func (v *Service) Deliveries(ctx context.Context, f store.DeliveryFilter) ([]courier.Delivery, error) {
	o, err := v.opt.Roles.Outbox()
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	list, err := o.Deliveries(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return list, nil
}

// Replay makes deliveries of a subscription due now, and returns how many.
func (v *Service) Replay(ctx context.Context, name string, events []string, by courier.By) (int, error) {
	o, err := v.opt.Roles.Outbox()
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	if err := text.Check(text.By(by)); err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	for _, id := range events {
		if _, _, err := store.ParseEventID(id); err != nil {
			return 0, fmt.Errorf("replay: %w", err)
		}
	}
	n, err := o.Replay(ctx, name, events)
	if errors.Is(err, courier.ErrNotFound) {
		err = v.unknownSubscription(ctx, o, name)
	}
	if err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	v.opt.Changed(ctx, core.Change{Kind: "subscription", Name: name, Verb: "replayed", By: by, More: []slog.Attr{slog.Int("deliveries", n)}})
	wakeup.Send(v.wake)
	return n, nil
}

// A subscriptionCheck finds what is wrong with a subscription.
type subscriptionCheck struct {
	v     *Service
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
	courier.EventJobCancelled, courier.EventJobTakenOver, courier.EventJobOverdue, courier.EventStepStarted, courier.EventStepCompleted, courier.EventStepFailed, courier.EventStepSkipped, courier.EventStep,
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
	if c.s.Kind != courier.SubscribeFunc || name == "" || c.v.opt.Subscribers[name] != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.v.opt.Subscribers))
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
	_, err := c.v.opt.Roles.Catalog().Load(c.ctx, kind, name, 0)
	if !errors.Is(err, courier.ErrNotFound) {
		return err
	}
	const most = 1000
	list, err := c.v.opt.Roles.Catalog().List(c.ctx, store.DefinitionFilter{Kind: kind, Limit: most})
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
