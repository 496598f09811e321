package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/deadlines"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/engine/internal/dryruns"
	"github.com/courierhq/courier/engine/internal/figures"
	"github.com/courierhq/courier/engine/internal/hours"
	"github.com/courierhq/courier/engine/internal/maintenance"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/unserved"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/asked"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// access has the methods that packages below engine/internal need of an engine, by the
// interfaces and functions that they declare. They may be called by any number of
// goroutines, at any time after the engine was made.
type access struct{ e *Engine }

// addSubsystems makes the subsystems of an engine whose options are complete.
func (e *Engine) addSubsystems() {
	c, o, roles := access{e}, &e.opt, e.roles
	e.programs = program.NewCache(e.store, e.reg)
	e.definitions = definitions.New(roles, e.reg, e.programs, o.Queues, e.log)
	e.figures = figures.New(roles, o.Queues, e.log)
	e.unserved = unserved.New(roles.Workers, e.log)
	e.repairs = repair.New(e.store, e.programs, o.Secrets)
	e.hours = hours.New(roles, e.log, o.Worker)
	e.maintenance = maintenance.New(roles, e.reg, e.log, o.Worker)
	e.notifications = notify.New(notify.Options{
		Store: roles.Subscriptions, Catalog: roles.Catalog(), Jobs: c, Log: e.log, Secrets: o.Secrets,
		Changed: c.Changed, Subscribers: o.Subscribers, Mailer: o.Mailer, Webhooks: o.Webhooks, BaseURL: o.BaseURL,
	})
	e.deadlines = deadlines.New(deadlines.Options{
		Roles: roles, Programs: e.programs, Log: e.log, Poll: o.Poll,
		Observe: e.observers.Emit, WakeNotifications: e.notifications.Wake, Expire: c.expire,
	})
	e.chains = chain.New(chain.Options{
		Store: roles.Chains, Definitions: e.definitions, Job: c.job, Trace: c.Trace, Remove: c.removeDefinition, Requested: c.Requested, Written: e.notifications.Wake,
		Observe: e.observers.Emit, Observed: e.observers.Wanted, WaitUntil: e.waiters.Until,
		Log: e.log, NewID: e.ids.New, MaxParams: o.MaxParams,
	})
	_, wakes := roles.Behind.(schedule.Store)
	e.monitors = monitor.New(monitor.Options{
		Store: roles.Monitors, Targets: c, Calendar: c.days, Listers: o.Listers, NewContext: c.listingContext, Changed: c.Changed,
		Recorded:  func(r monitor.Recorded) { e.chains.Started(r.Chains) },
		MaxParams: o.MaxParams, StoreWakes: wakes, Log: e.log, Poll: o.Poll,
	})
	e.expectations = expectation.NewService(expectation.Options{
		Store: roles.Expectations, Calendar: c.days, Monitor: c.monitor, Job: c.jobNamed, Told: c.told, Changed: c.Changed,
		Look: e.monitors.Look, PollSoon: e.monitors.PollSoon,
		Happened: c.happened, NewID: e.ids.New, StoreWakes: wakes, Log: e.log, Poll: o.Poll,
	})
	e.calendars = calendar.NewService(calendar.Options{
		Catalog: roles.Catalog(), Users: c.calendarUsers, Follow: c.followCalendar, Changed: c.Changed,
	})
	e.schedules = schedule.New(schedule.Options{
		Store: roles.Schedules, Targets: c, Calendar: c.days, Log: e.log, Poll: o.Poll, Changed: c.Changed,
		Fired: func(list []schedule.Fired) {
			e.notifications.Wake()
			for i := range list {
				e.chains.Started(list[i].Chains)
			}
		},
		Awaited: func() {
			e.monitors.Wake()
			e.expectations.Wake()
			e.deadlines.Wake()
		},
	})
	e.dryRuns = dryruns.New(c, dryruns.Config{
		Checks: e.definitions, Schedules: e.schedules.Reports,
		Unsaved: func(jobs []courier.Job, chains []chain.Chain) dryruns.Checks {
			return e.definitions.Unsaved(jobs, chains)
		},
		Roles: roles, Registry: e.reg, Queues: o.Queues, Log: e.log, NewID: e.ids.New, MaxParams: o.MaxParams, Grace: o.Grace,
	})
}

// days returns the days of a calendar.
func (c access) days(ctx context.Context, name string) (*calendar.Days, error) {
	return c.e.calendars.Days(ctx, name)
}

// calendarUsers returns the schedules, monitors and expectations that go by a calendar, as phrases.
func (c access) calendarUsers(ctx context.Context, name string) (users []string, err error) {
	schedules, err := c.e.schedules.Using(ctx, name)
	if err != nil {
		return nil, err
	}
	monitors, err := c.e.monitors.Using(ctx, name)
	for _, s := range schedules {
		users = append(users, fmt.Sprintf("schedule %q", s))
	}
	for _, m := range monitors {
		users = append(users, fmt.Sprintf("monitor %q", m))
	}
	if err != nil {
		return nil, err
	}
	expectations, err := c.e.expectations.Using(ctx, name)
	for _, x := range expectations {
		users = append(users, fmt.Sprintf("expectation %q", x))
	}
	return users, err
}

// monitor returns a monitor from which files are expected.
func (c access) monitor(ctx context.Context, name string) (monitor.Monitor, error) {
	if c.e.monitorNamed != nil {
		return c.e.monitorNamed(ctx, name)
	}
	return c.e.monitors.Get(ctx, name)
}

// jobNamed returns the error if there is no job of a name, with the nearest one.
func (c access) jobNamed(ctx context.Context, name string) error {
	problems, err := c.CheckStart(ctx, name, "", nil)
	for _, p := range problems {
		if err == nil && p.Field == "job" {
			return courier.Errorf(courier.ErrNotFound, "%s", p.Message)
		}
	}
	return err
}

// told returns whether anybody is told if a file of an expectation does not come.
func (c access) told(ctx context.Context) (func(name string) bool, error) {
	if len(c.e.opt.Observers) > 0 {
		return func(string) bool { return true }, nil
	}
	var all []notify.Record
	f := notify.Filter{Limit: 1000}
	for {
		list, err := c.e.notifications.List(ctx, f)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		for i := range list {
			s := &list[i]
			f.After = s.Name
			all = append(all, notify.Record{Events: s.Events, Expectations: s.Expectations, Disabled: s.Disabled})
		}
		if len(list) < f.Limit {
			return func(name string) bool {
				return slices.ContainsFunc(all, func(r notify.Record) bool { return r.WantsExpectation(courier.EventFileMissing, name) })
			}, nil
		}
	}
}

// happened tells observers and subscribers of events of expectations.
func (c access) happened(list []expectation.Event) {
	for i := range list {
		e := &list[i]
		c.e.observers.Emit(courier.Event{Type: e.Type, At: time.Now(), Expectation: e.Expectation, Step: -1, Error: e.Text, Payload: e.Payload})
	}
	c.e.notifications.Wake()
}

// followCalendar makes schedules, monitors and expectations follow a calendar that was changed.
func (c access) followCalendar(ctx context.Context, name string, was *calendar.Days, by courier.By) error {
	if err := c.e.schedules.Follow(ctx, name, was, by); err != nil {
		return err
	}
	if err := c.e.monitors.Follow(ctx, name); err != nil {
		return err
	}
	return c.e.expectations.Follow(ctx, name)
}

// listingContext returns the context of one listing for a monitor, and the redactor of the
// secrets that the lister asks for.
func (c access) listingContext(monitor string) (*courier.Context, *courier.Redactor) {
	secrets := new(secret.Redactor)
	return courier.NewContext(courier.ContextConfig{
		Monitor: monitor, Log: slog.New(core.RedactHandler(c.e.log.Handler(), secrets)).With("monitor", monitor),
		Roots: c.e.opt.Roots, Redactor: &secrets.Redactor,
		Secrets: func(ctx context.Context, q courier.SecretRequest) (string, error) {
			return secret.Resolve(ctx, q, c.e.opt.Secrets, secrets)
		},
	}), &secrets.Redactor
}

// job returns a version of a job as chains need it; version 0 means the latest.
func (c access) job(ctx context.Context, name string, version int) (*chain.Job, error) {
	p, err := c.e.programs.Load(ctx, name, version)
	if err != nil {
		return nil, err
	}
	j := p.Member()
	j.New = func(ctx context.Context, opt *courier.EnqueueOptions) (store.NewExecution, error) {
		return c.NewExecution(ctx, p, opt)
	}
	return j, nil
}

// Created has the engine look for overdue executions when the first deadline of executions
// that were created passes.
func (c access) Created(list []store.NewExecution) { c.e.deadlines.Created(list) }

// Changed writes a change that was made to the log, with further attributes, and to the
// journal if the store keeps one. It completes the entry with who made the change.
func (c access) Changed(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr) {
	core.Changed(c.e.log, a.Kind, a.Name, a.Verb, by, more...)
	j, err := c.e.roles.Journal()
	if err != nil {
		return
	}
	a.By, a.Via, a.Reason, a.Outcome = by.Actor, cmp.Or(by.Via, "go"), by.Reason, "done"
	a.Of = asked.In(ctx)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storecall.Timeout)
	defer cancel()
	_, err = j.Note(call, a)
	if err != nil {
		c.e.log.Error("the change was made, but it is missing from the journal", "kind", a.Kind, "name", a.Name, "change", a.Verb, "by", by, "error", err)
	}
}

// Trace returns the trace context of a call, empty if there is none.
func (c access) Trace(ctx context.Context) string {
	if c.e.opt.Trace == nil {
		return ""
	}
	return c.e.opt.Trace(ctx)
}

// TraceOf returns the trace context of what a notification is about.
func (c access) TraceOf(ctx context.Context, n *notify.Notification) (trace string, err error) {
	if c.e.opt.Trace == nil {
		return "", nil
	}
	if n.Execution != "" {
		var x courier.Execution
		x, err = c.e.roles.Archive().Execution(ctx, n.Execution)
		trace = x.Trace
	} else if chains, none := c.e.roles.Chains(); none == nil && n.ChainExecution != "" {
		var x chain.Execution
		x, err = chains.ChainExecution(ctx, courier.ChainExecutionID(n.ChainExecution))
		trace = x.Trace
	}
	if errors.Is(err, courier.ErrNotFound) {
		return "", nil
	}
	return trace, err
}

// NewExecution returns a new execution of a program, with a new id.
func (c access) NewExecution(ctx context.Context, p *program.Program, opt *courier.EnqueueOptions) (store.NewExecution, error) {
	return c.newExecution(ctx, p, opt, false)
}

// Start creates an execution of the latest version of a job.
func (c access) Start(ctx context.Context, job string, opt *courier.EnqueueOptions) error {
	n, err := c.e.prepare(ctx, job, opt, false)
	if err == nil {
		_, err = c.e.create(ctx, []store.NewExecution{n})
	}
	return err
}

// Result returns the result of a completed execution, nil if it has none or retention has
// removed it.
func (c access) Result(ctx context.Context, job string, version int, x courier.ExecutionID) (json.RawMessage, error) {
	p, err := c.e.programs.Load(ctx, job, version)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the job of execution %s: %w", x, err)
	case p.Job.Result == "":
		return nil, nil
	}
	got, err := c.e.roles.Archive().Execution(ctx, x)
	if err != nil && !errors.Is(err, courier.ErrNotFound) {
		return nil, fmt.Errorf("read the result of execution %s: %w", x, err)
	}
	return got.Result, nil
}

// Items adds to the notification of an execution's end what is known of its failed items.
func (c access) Items(ctx context.Context, n *notify.Notification) error {
	x, err := c.e.roles.Archive().Execution(ctx, n.Execution)
	if f := x.Failure; f != nil && slices.Equal(f.Iteration, n.Iteration) {
		n.ItemLabels = f.ItemLabels
	}
	if f := x.FinallyError; f != nil && x.State.Ended() {
		n.FinallyError = f.Message
	}
	if n.FailedItems = x.FailedItems; err != nil || x.FailedItems == 0 {
		return itemsError(n, err)
	}
	p, err := c.e.programs.Load(ctx, x.Job, x.Version)
	if err != nil || p.Tree == nil {
		return itemsError(n, err)
	}
	left, err := c.e.Executions().history(p, &x).Failures(ctx)
	n.Failed = repair.ItemFailures(p.Tree, left, x.Position)
	return itemsError(n, err)
}

// itemsError is the error of reading the failed items for a notification. What retention has
// removed is none.
func itemsError(n *notify.Notification, err error) error {
	if err == nil || errors.Is(err, courier.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("read the failed items of execution %s: %w", n.Execution, err)
}

// CheckExecution returns the error that NewExecution would have, for a dry run: secrets
// are asked for as in one.
func (c access) CheckExecution(ctx context.Context, p *program.Program, opt *courier.EnqueueOptions) error {
	_, err := c.newExecution(ctx, p, opt, true)
	return err
}

func (c access) newExecution(ctx context.Context, p *program.Program, opt *courier.EnqueueOptions, dry bool) (store.NewExecution, error) {
	m := program.Making{ID: courier.ExecutionID(c.e.ids.New()), MaxParams: c.e.opt.MaxParams, Now: c.now()}
	m.Secret = func(q courier.SecretRequest) error {
		q.DryRun = dry
		return core.AskSecret(ctx, q, c.e.opt.Secrets)
	}
	return p.NewExecution(opt, &m)
}

// now returns the instant by the clock of the store, if it tells it without being
// called over a network, and otherwise by that of this process.
func (c access) now() time.Time {
	if s, ok := c.e.roles.Behind.(interface{ Now() time.Time }); ok {
		return s.Now()
	}
	return time.Now()
}

// Requested acts on a request that the store has recorded for an execution, which is given
// as it is since then: it notifies the run of the execution and the observers, and removes
// the files of an execution that is cancelled.
func (c access) Requested(ctx context.Context, x *courier.Execution, r *store.Request) {
	c.e.requested(x, r)
	if x.State == courier.Cancelled {
		c.e.discard(ctx, x)
	}
}

// expire fails an execution that has not begun, with a message.
func (c access) expire(ctx context.Context, id courier.ExecutionID, message string) error {
	_, err := c.e.request(ctx, id, courier.RequestExpire, courier.By{Reason: message})
	return err
}
