package engine

import (
	"context"
	"crypto/x509"
	"net/netip"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/store"
)

// Subscriptions say where events are delivered. The store must have the role
// [store.Outbox]; started engines deliver.
type Subscriptions struct{ e *Engine }

// Subscriptions returns the subscriptions in the engine's store.
func (e *Engine) Subscriptions() Subscriptions { return Subscriptions{e} }

// A Subscribed is what [Subscriptions.Set] has saved.
type Subscribed struct {
	Subscription courier.Subscription
	// Warnings are what looks doubtful: a function that this engine does not have,
	// which others may have.
	Warnings []courier.Problem
}

// Set checks a subscription and saves it, in place of one of the same name. Every
// event that it selects, and whose write begins after Set has returned, is delivered
// at least once. A started engine delivers it that is able to: for kind func one that
// has the function, for kind email one that has a Mailer. If the subscription can't
// work, nothing is saved, and the error is a *[courier.DefinitionError], which lists
// everything that is wrong. Doubtful places are returned as warnings, and written to
// Options.Log.
func (h Subscriptions) Set(ctx context.Context, s courier.Subscription, by courier.By) (Subscribed, error) {
	saved, warnings, err := h.e.notifications.Set(ctx, s, by)
	if err != nil {
		return Subscribed{}, err
	}
	return Subscribed{saved, warnings}, nil
}

// Remove removes a subscription and its undelivered notifications. Deliveries in
// progress are not interrupted. If there is no such subscription, the error is
// courier.ErrNotFound.
func (h Subscriptions) Remove(ctx context.Context, name string, by courier.By) error {
	return h.e.notifications.Remove(ctx, name, by)
}

// List returns a page of subscriptions, in byte order of their names, each with the
// window that is in force.
func (h Subscriptions) List(ctx context.Context, f store.SubscriptionFilter) ([]courier.Subscription, error) {
	return h.e.notifications.List(ctx, f)
}

// Get returns a subscription with the window that is in force. If there is none of the
// name, the error matches [courier.ErrNotFound].
func (h Subscriptions) Get(ctx context.Context, name string) (courier.Subscription, error) {
	return h.e.notifications.Get(ctx, name)
}

// Deliveries returns a page of notifications that have not been delivered, ordered by
// subscription and event: those that wait, and those that have failed, which are kept
// for 30 days.
func (h Subscriptions) Deliveries(ctx context.Context, f store.DeliveryFilter) ([]courier.Delivery, error) {
	return h.e.notifications.Deliveries(ctx, f)
}

// Replay makes deliveries of a subscription due now, with as many attempts as new
// ones, and returns how many there are. It selects those that failed, and those that
// wait for their next attempt, which may be a day away: of the events with the given
// IDs, or all if events is nil. Receivers get the same event ID again.
func (h Subscriptions) Replay(ctx context.Context, name string, events []string, by courier.By) (int, error) {
	return h.e.notifications.Replay(ctx, name, events, by)
}

// WebhookOptions are the settings of subscriptions of kind webhook. The zero value
// allows https to public addresses. The address of a receiver is checked when a
// subscription is saved, and again for each connection, because the name may have got
// another address. Redirects are not followed.
type WebhookOptions struct {
	// Networks may be reached although they are not public.
	Networks []netip.Prefix
	// TrustedHosts may be reached wherever they are: names, addresses, or
	// "*.example.com" for all names below.
	TrustedHosts []string
	// AllowPlain allows http without TLS.
	AllowPlain bool
	// RootCAs are the authorities whose certificates of receivers are accepted; nil
	// means those of the system.
	RootCAs *x509.CertPool
	// Timeout of one attempt; 0 means 20 seconds, and a minute is the most.
	Timeout time.Duration
	// Lookup finds the addresses of a name. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (o *WebhookOptions) guard() safehttp.Options {
	return safehttp.Options{
		Networks: o.Networks, TrustedHosts: o.TrustedHosts, AllowPlain: o.AllowPlain, RootCAs: o.RootCAs, Lookup: o.Lookup,
		Setting: "engine.Options.Webhooks",
	}
}
