// Package notifications delivers events to subscribers: functions of the host,
// webhooks, jobs and email. The store keeps what is to be delivered; a [Service]
// checks and saves subscriptions, and its dispatcher takes deliveries that are due,
// makes them, and settles what came of each.
package notifications

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// Options are what the service uses of the engine, and say what it can deliver.
type Options struct {
	Changed  func(context.Context, core.Change) // is called after a subscription was changed
	Roles    core.Roles
	Programs *program.Cache
	Log      *slog.Logger
	Secrets  func(context.Context, courier.SecretRequest) (string, error) // nil if there are none
	// Start creates an execution of the latest version of a job. One that was created with
	// the same key is no error, unless it has other parameters, which is
	// [courier.ErrConflict]. NewExecution makes one that is not created.
	Start        func(ctx context.Context, job string, s core.Start) error
	NewExecution func(ctx context.Context, p *program.Program, opt *courier.EnqueueOptions) (store.NewExecution, error)
	// Subscribers are the functions that subscriptions of kind func name.
	Subscribers map[string]func(ctx context.Context, n courier.Notification) error
	// Mailer sends what subscriptions of kind email ask for; nil means nobody does.
	Mailer courier.Mailer
	// Webhooks says what subscriptions of kind webhook may reach.
	Webhooks safehttp.Options
	// WebhookTimeout is that of one attempt; 0 means 20 seconds.
	WebhookTimeout time.Duration
}

// A Service is the notifications of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	opt    Options
	wanted atomic.Bool   // there are subscriptions, as far as this engine has seen
	wake   chan struct{} // something may have been kept for one
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service {
	return &Service{opt: opt, wake: make(chan struct{}, 1)}
}

// Wake makes the dispatcher look for deliveries, after the engine has written
// something that may be an event.
func (v *Service) Wake() {
	if v.wanted.Load() {
		wakeup.Send(v.wake)
	}
}

// Learn notes whether there were subscriptions in the store at the time of a claim.
func (v *Service) Learn(subscribed bool) {
	if subscribed && !v.wanted.Swap(true) {
		wakeup.Send(v.wake)
	}
}

// Check returns what is wrong with a subscription, and what looks doubtful. The
// others are those that o has. Its error is one of the store's.
func (v *Service) Check(ctx context.Context, s *courier.Subscription, o store.Outbox) (problems, warnings []courier.Problem, err error) {
	c := subscriptionCheck{v: v, ctx: ctx, o: o, s: s}
	err = c.all()
	return c.found, c.warnings(), err
}
