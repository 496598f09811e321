package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/chains"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/deadlines"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/engine/internal/dryrun"
	"github.com/courierhq/courier/engine/internal/enqueue"
	"github.com/courierhq/courier/engine/internal/executions"
	"github.com/courierhq/courier/engine/internal/limits"
	"github.com/courierhq/courier/engine/internal/maintenance"
	"github.com/courierhq/courier/engine/internal/monitors"
	"github.com/courierhq/courier/engine/internal/notifications"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/schedules"
	"github.com/courierhq/courier/engine/internal/unserved"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// coreAccess gives the packages below engine/internal access to an engine; see
// [core.Core].
type coreAccess struct {
	e *Engine
	core.Roles
}

var _ core.Core = coreAccess{}

// access returns what the subsystems get.
func (e *Engine) access() coreAccess { return coreAccess{e, e.roles} }

// addSubsystems makes the subsystems of an engine whose options are complete.
func (e *Engine) addSubsystems() {
	c := e.access()
	e.programs = program.NewCache(e.store, e.reg)
	e.definitions = definitions.New(c)
	e.chains = chains.New(c)
	e.enqueuer = enqueue.New(c, e.store)
	e.schedules = schedules.New(c, e.opt.Poll)
	e.limits = limits.New(c, e.wake)
	e.dryRuns = dryrun.New(c, e.opt.Grace)
	e.unserved = unserved.New(c)
	e.executions = executions.New(c, executions.Options{Workspace: e.work.Of, WorkspaceID: e.opt.WorkspaceID, Members: e.chains.Values})
	e.repairs = repair.New(c)
	e.deadlines = deadlines.New(c, e.opt.Poll)
	e.maintenance = maintenance.New(c, e.opt.Worker)
	e.notifications = notifications.New(c, notifications.Options{
		Subscribers: e.opt.Subscribers, Mailer: e.opt.Mailer,
		Webhooks: e.opt.Webhooks.guard(), WebhookTimeout: e.opt.Webhooks.Timeout,
	})
	_, wakes := e.roles.Behind.(store.Schedules)
	e.monitors = monitors.New(c, monitors.Options{
		Listers: e.opt.Listers, Roots: e.opt.Roots, MaxParams: e.opt.MaxParams, Poll: e.opt.Poll, StoreWakes: wakes,
	})
}

func (c coreAccess) Queues() []string { return c.e.opt.Queues }

func (c coreAccess) Log() *slog.Logger { return c.e.log }

func (c coreAccess) WakeNotifications() { c.e.notifications.Wake() }

func (c coreAccess) WakeMonitors() { c.e.monitors.Wake() }

func (c coreAccess) WakeDeadlines() { c.e.deadlines.Wake() }

func (c coreAccess) Created(list []store.NewExecution) { c.e.deadlines.Created(list) }

func (c coreAccess) Changed(ctx context.Context, h core.Change) {
	core.Changed(c.e.log, h.Kind, h.Name, h.Verb, h.By, h.More...)
	j, err := c.Journal()
	if err != nil {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), core.StoreTimeout)
	defer cancel()
	_, err = j.Note(call, store.Action{
		By: h.By.Actor, Via: cmp.Or(h.By.Via, "go"), Verb: h.Verb, Kind: h.Kind, Name: h.Name, Job: h.Job, Now: h.Now, Reason: h.By.Reason, Outcome: "done",
	})
	if err != nil {
		c.e.log.Error("the change was made, and the journal does not have it", "kind", h.Kind, "name", h.Name, "change", h.Verb, "by", h.By, "error", err)
	}
}

func (c coreAccess) Observe(ev courier.Event) { c.e.observers.Emit(ev) }

func (c coreAccess) Observed() bool { return c.e.observers.Wanted() }

func (c coreAccess) ChainsStarted(list []store.StartedChain) {
	for i := range list {
		c.e.chains.Moved(&list[i].Execution, !list[i].Existed)
	}
}

func (c coreAccess) HasSecrets() bool { return c.e.opt.Secrets != nil }

func (c coreAccess) Secret(ctx context.Context, r courier.SecretRequest, known *core.Redactor) (string, error) {
	return core.ResolveSecret(ctx, r, c.e.opt.Secrets, known)
}

func (c coreAccess) AskSecret(ctx context.Context, r courier.SecretRequest) error {
	return core.AskSecret(ctx, r, c.e.opt.Secrets)
}

func (c coreAccess) Registry() *courier.Registry { return c.e.reg }

func (c coreAccess) Programs() *program.Cache { return c.e.programs }

func (c coreAccess) Chain(ctx context.Context, name string, version int) (courier.Chain, error) {
	return c.e.definitions.Chain(ctx, name, version)
}

func (c coreAccess) NewID() string { return c.e.ids.New() }

func (c coreAccess) Trace(ctx context.Context) string {
	if c.e.opt.Trace == nil {
		return ""
	}
	return c.e.opt.Trace(ctx)
}

func (c coreAccess) NewExecution(ctx context.Context, p *program.Program, opt *program.Options) (store.NewExecution, error) {
	return c.newExecution(ctx, p, opt, false)
}

func (c coreAccess) CheckExecution(ctx context.Context, p *program.Program, opt *program.Options) error {
	_, err := c.newExecution(ctx, p, opt, true)
	return err
}

func (c coreAccess) newExecution(ctx context.Context, p *program.Program, opt *program.Options, dry bool) (store.NewExecution, error) {
	m := program.Making{ID: courier.ExecutionID(c.e.ids.New()), MaxParams: c.e.opt.MaxParams, Now: c.now()}
	m.Secret = func(q courier.SecretRequest) error {
		q.DryRun = dry
		return c.AskSecret(ctx, q)
	}
	return p.NewExecution(opt, &m)
}

// now returns the instant by the clock of the store, if it tells it without being
// called over a network, and otherwise by that of this process.
func (c coreAccess) now() time.Time {
	if s, ok := c.Behind.(interface{ Now() time.Time }); ok {
		return s.Now()
	}
	return time.Now()
}

func (c coreAccess) MergeParams(declared *flow.Params, given map[string]any, partial bool) (json.RawMessage, error) {
	return program.MergeParams(declared, given, partial, c.e.opt.MaxParams)
}

func (c coreAccess) Expire(ctx context.Context, id courier.ExecutionID, message string) error {
	_, err := c.e.request(ctx, id, courier.RequestExpire, courier.By{Reason: message})
	return err
}

func (c coreAccess) Requested(ctx context.Context, x *courier.Execution, r *store.Request) {
	c.e.requested(x, r)
	if x.State == courier.Cancelled {
		c.e.discard(ctx, x)
	}
}

func (c coreAccess) WaitUntil(ctx context.Context, id courier.ExecutionID, look func() (bool, error)) error {
	return c.e.waiters.Until(ctx, id, look)
}

func (c coreAccess) CheckJob(ctx context.Context, job courier.Job) (core.CheckedJob, error) {
	return c.e.definitions.CheckJob(ctx, job)
}

func (c coreAccess) CheckChain(ctx context.Context, chain courier.Chain) (core.CheckedChain, error) {
	return c.e.definitions.CheckChain(ctx, chain)
}

func (c coreAccess) CheckSchedule(ctx context.Context, s *courier.Schedule) (problems, warnings []courier.Problem, err error) {
	return c.e.schedules.Check(ctx, s)
}

func (c coreAccess) CheckMonitor(ctx context.Context, m *courier.Monitor, listers bool) ([]courier.Problem, error) {
	return c.e.monitors.Check(ctx, m, listers)
}

func (c coreAccess) CheckSubscription(ctx context.Context, s *courier.Subscription, o store.Outbox) (problems, warnings []courier.Problem, err error) {
	return c.e.notifications.Check(ctx, s, o)
}

func (c coreAccess) Unsaved(jobs []courier.Job, chains []courier.Chain) core.Checks {
	unsaved := definitions.NewUnsaved(c.e.store, false)
	unsaved.Add(jobs, chains)
	opt := c.e.opt
	opt.Probe = nil // it is told of the calls to the store behind
	return New(unsaved, c.e.reg, &opt).access()
}

func (c coreAccess) UpcomingFires(ctx context.Context, kind store.Kind, target string, limit, n int) ([]core.UpcomingFires, bool, error) {
	return c.e.schedules.Upcoming(ctx, kind, target, limit, n)
}

func (c coreAccess) Start(ctx context.Context, job string, s core.Start) error {
	return c.e.enqueuer.Start(ctx, job, s)
}

func (c coreAccess) Target(ctx context.Context, job, chain string) (core.Target, error) {
	return c.e.chains.Target(ctx, job, chain)
}

func (c coreAccess) TargetOf(ctx context.Context, d *store.Definition) (core.Target, error) {
	return c.e.chains.TargetOf(ctx, d)
}
