package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// A ReplayRequest is the body that delivers notifications again.
type ReplayRequest struct {
	Events []string `json:"events,omitempty"` // their IDs; none means all notifications that failed or wait for another attempt
	Reason string   `json:"reason,omitempty"`
}

// A Replayed has the number of notifications that are due now.
type Replayed struct {
	Replayed int `json:"replayed"`
}

var subscriptions = &kept[notify.Subscription, *notify.Subscription]{
	Kept: desk.Subscriptions,
	list: func(c *call, after string, limit int) ([]notify.Subscription, string, error) {
		return c.Subscriptions(c.ctx(), after, limit)
	},
}

var subscriptionRoutes = slices.Concat(subscriptions.routes(), []route{
	{
		method: "POST", path: "v1/subscriptions/{name}/replay", id: "replaySubscription", group: "subscriptions", on: onBody,
		does: "Makes failed and waiting notifications due now.", body: ReplayRequest{}, optional: true,
		answers: map[int]any{http.StatusOK: Replayed{}}, do: (*call).replay,
	},
	{
		method: "GET", path: "v1/deliveries", id: "listDeliveries", group: "subscriptions", on: onVisible,
		does: "Lists waiting and failed notifications, by subscription and event.",
		query: []param{
			{name: "subscription", kind: "string", does: "The name of the subscription."},
			{name: "state", kind: "string", does: "Their state.", enum: []string{"pending", "failed"}},
			limitParam, cursorParam,
		},
		answers: map[int]any{http.StatusOK: page[notify.Delivery]{}}, do: (*call).listDeliveries,
	},
})

func (c *call) replay() error {
	s, err := subscriptions.find(c)
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
	f := notify.DeliveryFilter{Subscription: c.query.Get("subscription"), State: notify.DeliveryState(c.query.Get("state"))}
	return answerList(c, "delivery", func(after string, limit int) ([]notify.Delivery, string, error) {
		list, next, err := c.Deliveries(c.ctx(), f, after, limit)
		if errors.Is(err, desk.ErrCursor) {
			err = errCursor()
		}
		return list, next, err
	}, desk.AfterDelivery)
}
