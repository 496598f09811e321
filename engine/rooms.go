package engine

import (
	"context"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/monitors"
	"github.com/courierhq/courier/engine/internal/notifications"
	"github.com/courierhq/courier/store"
)

// A room is the engine as its rooms see it; see [core.Core].
type room struct{ e *Engine }

var _ core.Core = room{}

// addRooms makes the rooms of an engine whose options are complete.
func (e *Engine) addRooms() {
	e.notifications = notifications.New(room{e}, notifications.Options{
		Subscribers: e.opt.Subscribers, Mailer: e.opt.Mailer,
		Webhooks: e.opt.Webhooks.guard(), WebhookTimeout: e.opt.Webhooks.Timeout,
	})
	_, wakes := e.store.(store.Schedules)
	e.fileMonitors = monitors.New(room{e}, monitors.Options{
		Listers: e.opt.Listers, Roots: e.opt.Roots, MaxParams: e.opt.MaxParams, Poll: e.opt.Poll, StoreWakes: wakes,
	})
}

func (r room) Catalog() store.Catalog { return r.e.store }

func (r room) Log() *slog.Logger { return r.e.log }

func (r room) Changed(kind, name, change string, by courier.By, more ...slog.Attr) {
	r.e.changed(kind, name, change, by, more...)
}

func (r room) Outbox() (store.Outbox, error) { return r.e.outbox() }

func (r room) Monitors() (store.Monitors, error) { return r.e.monitors() }

func (r room) HasSecrets() bool { return r.e.opt.Secrets != nil }

func (r room) Secret(ctx context.Context, q courier.SecretRequest, known *core.Redactor) (string, error) {
	return r.e.secretFor(ctx, q, known)
}

func (r room) Job(ctx context.Context, name string, version int) (courier.Job, error) {
	return r.e.Jobs().Get(ctx, name, version)
}

func (r room) Start(ctx context.Context, job string, s core.Start) error {
	x, err := r.e.prepare(ctx, job, &EnqueueOptions{
		Params: s.Params, Priority: s.Priority, IdempotencyKey: s.IdempotencyKey, By: s.By,
	}, false)
	if err == nil {
		_, err = r.e.create(ctx, []store.NewExecution{x})
	}
	return err
}
