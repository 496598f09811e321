package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A ReplayRequest is the body that has notifications delivered again.
type ReplayRequest struct {
	Events []string `json:"events,omitempty"` // their IDs; none means all that failed or wait for another attempt
	Reason string   `json:"reason,omitempty"`
}

// A Replayed says how many notifications are due now.
type Replayed struct {
	Replayed int `json:"replayed"`
}

var subscriptions = &kept[courier.Subscription, *courier.Subscription]{
	kind: "subscription", name: func(s *courier.Subscription) *string { return &s.Name }, hide: hideSubscription,
	list: func(c *call, after string, limit int) ([]courier.Subscription, string, error) {
		return c.Subscriptions(c.ctx(), after, limit)
	},
	get: func(c *call, name string) (courier.Subscription, error) {
		return c.h.e.Subscriptions().Get(c.ctx(), name)
	},
	set: func(c *call, s courier.Subscription) (courier.Subscription, []courier.Problem, error) {
		saved, err := c.h.e.Subscriptions().Set(c.ctx(), s, c.By(""))
		return saved.Subscription, saved.Warnings, err
	},
	remove: func(c *call, name string) error { return c.h.e.Subscriptions().Remove(c.ctx(), name, c.By("")) },
	wrong: func(name string, list []courier.Problem) error {
		return &courier.DefinitionError{Subscription: name, Problems: list}
	},
}

var subscriptionRoutes = slices.Concat(subscriptions.routes(), []route{
	{
		method: "POST", path: "v1/subscriptions/{name}/replay", id: "replaySubscription", group: "subscriptions", role: desk.Operator, on: onBody,
		does: "Makes notifications due now that failed, or wait for another attempt.", body: ReplayRequest{}, optional: true,
		answers: map[int]any{http.StatusOK: Replayed{}}, do: (*call).replay,
	},
	{
		method: "GET", path: "v1/deliveries", id: "listDeliveries", group: "subscriptions", role: desk.Viewer, on: onVisible,
		does: "Lists notifications that have not been delivered, by subscription and event: those that wait, and those that have failed.",
		query: []param{
			{name: "subscription", kind: "string", does: "The name of the subscription."},
			{name: "state", kind: "string", does: "Their state.", enum: []string{"pending", "failed"}},
			limitParam, cursorParam,
		},
		answers: map[int]any{http.StatusOK: page[courier.Delivery]{}}, do: (*call).listDeliveries,
	},
})

// hideSubscription takes away what may be a value or lets somebody in. References to
// secrets stay: they are names.
func hideSubscription(s *courier.Subscription) {
	s.Reason = hiddenIf(s.Reason)
	if s.Job != nil {
		job := *s.Job
		job.Params = nil
		s.Job = &job
	}
	if s.Webhook == nil {
		return
	}
	hook := *s.Webhook
	hook.URL = hiddenUnlessSecret(hook.URL)
	hook.Headers = make(map[string]string, len(s.Webhook.Headers))
	for name, value := range s.Webhook.Headers {
		hook.Headers[name] = hiddenUnlessSecret(value)
	}
	s.Webhook = &hook
}

func hiddenUnlessSecret(value string) string {
	if strings.HasPrefix(value, "secret:") {
		return value
	}
	return hiddenIf(value)
}

func (c *call) replay() error {
	s, err := subscriptions.find(c, desk.Operator)
	if err != nil {
		return err
	}
	var b ReplayRequest
	if err := c.body(&b); err != nil {
		return err
	}
	if len(b.Events) > 1000 {
		return oneProblem(item{Pointer: "/events", Message: "it has more than 1,000 events: send several requests, or none of them for all"})
	}
	if len(b.Events) == 0 {
		b.Events = nil
	}
	var n int
	a := store.Action{Verb: "replay", Kind: "subscription", Name: s.Name, Job: desk.JobsOf(&s)[0], Reason: b.Reason}
	err = c.Do(c.ctx(), a, func(ctx context.Context) (err error) {
		n, err = c.h.e.Subscriptions().Replay(ctx, s.Name, b.Events, c.By(b.Reason))
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, Replayed{n})
}

func (c *call) listDeliveries() error {
	f := store.DeliveryFilter{Subscription: c.query.Get("subscription"), State: courier.DeliveryState(c.query.Get("state"))}
	place := func(d *courier.Delivery) string { return d.ID + " " + d.Subscription }
	seen := make(map[string]bool)
	return answerList(c, "delivery", func(after string, limit int) ([]courier.Delivery, string, error) {
		list, next, err := desk.Pick(after, limit, func(after string, limit int) ([]courier.Delivery, error) {
			f.Limit = limit
			f.AfterEvent, f.AfterSubscription, _ = strings.Cut(after, " ")
			if _, _, err := store.ParseEventID(f.AfterEvent); after != "" && (err != nil || f.AfterSubscription == "") {
				return nil, errCursor()
			}
			return c.h.e.Subscriptions().Deliveries(c.ctx(), f)
		}, place, func(d *courier.Delivery) bool { return c.seesDelivery(d, seen) })
		for i := range list {
			if !c.SeesValues(c.ctx(), list[i].Job) {
				hideDelivery(&list[i])
			}
		}
		return list, next, err
	})
}

// seesDelivery reports whether the visitor may see the execution that a delivery is about,
// and its subscription; known has the answers for subscriptions.
func (c *call) seesDelivery(d *courier.Delivery, known map[string]bool) bool {
	if c.Role(c.ctx(), "") >= desk.Viewer {
		return true
	}
	sees, ok := known[d.Subscription]
	if !ok {
		s, err := c.h.e.Subscriptions().Get(c.ctx(), d.Subscription)
		sees = err == nil && c.Has(c.ctx(), desk.JobsOf(&s), desk.Viewer)
		known[d.Subscription] = sees
		if err != nil && !errors.Is(err, courier.ErrNotFound) {
			c.h.log.Warn("a subscription could not be read, so its deliveries are left out of a list", "subscription", d.Subscription, "error", err)
		}
	}
	return sees && c.Role(c.ctx(), d.Job) >= desk.Viewer
}

// hideDelivery takes away the values of a delivery, and what may have them in it.
func hideDelivery(d *courier.Delivery) {
	d.Error, d.LastErr, d.Result, d.Payload = hiddenIf(d.Error), hiddenIf(d.LastErr), nil, nil
	d.Coalesced = slices.Clone(d.Coalesced)
	for i := range d.Coalesced {
		d.Coalesced[i].Error = hiddenIf(d.Coalesced[i].Error)
	}
}
