package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// Check returns the problems and the warnings of a subscription that is to be set. It saves
// nothing. The error is from the store.
func (v *Service) Check(ctx context.Context, s Subscription) (problems, warnings []courier.Problem, err error) {
	c := check{v: v, ctx: ctx, s: &s}
	err = c.all()
	return c.found, c.warnings(), err
}

// A check finds the problems of a subscription.
type check struct {
	v     *Service
	ctx   context.Context
	s     *Subscription
	found []courier.Problem
}

func (c *check) problem(field, format string, args ...any) {
	c.found = append(c.found, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
}

// eventTypes lists the event types that a subscription can have.
var eventTypes = []courier.EventType{
	courier.EventJobStarted, courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobPaused, courier.EventJobResumed,
	courier.EventJobCancelled, courier.EventJobTakenOver, courier.EventJobOverdue, courier.EventStepStarted, courier.EventStepCompleted, courier.EventStepFailed, courier.EventStepSkipped, courier.EventStep,
	courier.EventChainStarted, courier.EventChainCompleted, courier.EventChainFailed,
	courier.EventFileDueSoon, courier.EventFileArrived, courier.EventFileIncomplete, courier.EventFileMissing, courier.EventFileLate, courier.EventFileUnexpected,
}

// maxListedNames is the maximum length of each list of a subscription.
const maxListedNames = 1000

// all makes all checks. The error is from the store.
func (c *check) all() error {
	s := c.s
	if problem := errtext.Name(s.Name); problem != "" {
		c.problem("name", "%s", problem)
	}
	if !slices.Contains(kinds, s.Kind) {
		c.problem("kind", "%q is unknown; %s", s.Kind, nearest.DidYouMean(string(s.Kind), kinds))
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
	c.expectations()
	switch {
	case s.Kind == KindFunc && s.Func == "":
		c.problem("func", "is missing: the name of a function in the engine's Options.Subscribers")
	case s.Kind == KindWebhook && s.Webhook != nil:
		c.webhook(s.Webhook)
	case s.Kind == KindJob && s.Job != nil:
		return c.job(s.Job)
	case s.Kind == KindEmail && s.Email != nil:
		c.email(s.Email)
	}
	return nil
}

// warnings returns the doubtful settings.
func (c *check) warnings() (list []courier.Problem) {
	name := c.s.Func
	if c.s.Kind != KindFunc || name == "" || c.v.opt.Subscribers[name] != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.v.opt.Subscribers))
	return append(list, courier.Problem{Step: -1, Field: "func", Message: fmt.Sprintf(
		"this engine has no function %q in Options.Subscribers; %s; events are kept until an engine that has it is started", name, nearest.DidYouMean(name, names))})
}

// targets reports settings that belong to another kind than the subscription's.
func (c *check) targets() {
	for _, t := range []struct {
		kind  Kind
		field string
		given bool
	}{
		{KindFunc, "func", c.s.Func != ""}, {KindWebhook, "webhook", c.s.Webhook != nil},
		{KindJob, "job", c.s.Job != nil}, {KindEmail, "email", c.s.Email != nil},
	} {
		switch {
		case t.given && t.kind != c.s.Kind:
			c.problem(t.field, "is for subscriptions of kind %q, and this one is of kind %q", t.kind, c.s.Kind)
		case !t.given && t.kind == c.s.Kind && t.kind != KindFunc:
			c.problem(t.field, "is missing")
		}
	}
}

// names checks that the jobs or chains that the subscription names exist.
func (c *check) names(field string, kind store.Kind, list []string) error {
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

// expectations checks the names of expectations, which may be set later.
func (c *check) expectations() {
	list := c.s.Expectations
	if len(list) > maxListedNames {
		c.problem("expectations", "has %d names, more than %d", len(list), maxListedNames)
		return
	}
	for i, name := range list {
		if problem := errtext.Name(name); problem != "" {
			c.problem(fmt.Sprintf("expectations[%d]", i), "%s", problem)
		} else if slices.Contains(list[:i], name) {
			c.problem("expectations", "%q is given twice", name)
		}
	}
	if len(list) > 0 && !slices.ContainsFunc(c.s.Events, courier.EventType.OfExpectation) {
		c.problem("events", "there is none of an expectation; name one, such as %q", courier.EventFileMissing)
	}
}

// named checks that a job or chain exists.
func (c *check) named(field string, kind store.Kind, name string) error {
	_, err := c.v.opt.Catalog.Load(c.ctx, kind, name, 0)
	if !errors.Is(err, courier.ErrNotFound) {
		return err
	}
	const most = 1000
	list, err := c.v.opt.Catalog.List(c.ctx, store.DefinitionFilter{Kind: kind, Limit: most})
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
