package desk

import (
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/watch"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// The functions of this file hide the fields that a visitor who may not see values must not see.
// Each type, including the types of its fields, has one composite literal here, which names the
// visible fields. A field that is not named is hidden, also if it is added to a type later.

// Hidden replaces a message that may contain values.
const Hidden = "hidden: it may contain values, which need another role"

// HiddenIf returns the replacement of a text that may contain values: [Hidden], or nothing if the
// text is empty.
func HiddenIf(text string) string {
	if text == "" {
		return ""
	}
	return Hidden
}

// hiddenUnlessSecret hides a value unless it is a reference to a secret, which is only a name.
func hiddenUnlessSecret(value string) string {
	if strings.HasPrefix(value, "secret:") {
		return value
	}
	return HiddenIf(value)
}

// ifAny returns the visible part of a value, or nil for nil.
func ifAny[T any](v *T, seen func(*T) T) *T {
	if v == nil {
		return nil
	}
	s := seen(v)
	return &s
}

// each returns the visible parts of the items of a list, in a new list.
func each[T any](list []T, seen func(*T) T) []T {
	if list == nil {
		return nil
	}
	s := make([]T, len(list))
	for i := range list {
		s[i] = seen(&list[i])
	}
	return s
}

// HideValues hides the values of an execution, and the fields that may contain them.
func HideValues(x *courier.Execution) {
	*x = courier.Execution{
		ID: x.ID, Job: x.Job, Version: x.Version, State: x.State, Queue: x.Queue, Priority: x.Priority,
		Attempt: x.Attempt, Position: seenPosition(&x.Position), StepAttempts: x.StepAttempts, EarlierStarts: x.EarlierStarts,
		Retries: x.Retries, Current: ifAny(x.Current, seenStep),
		CreatedAt: x.CreatedAt, DueAt: x.DueAt, StartedAt: x.StartedAt, EndedAt: x.EndedAt, UpdatedAt: x.UpdatedAt,
		Failure: ifAny(x.Failure, seenFailure), HasFinally: x.HasFinally, Finishing: ifAny(x.Finishing, seenFinishing), FinallyError: ifAny(x.FinallyError, seenFailure), Request: x.Request, RequestedAt: x.RequestedAt, RequestedBy: x.RequestedBy,
		Resumed: x.Resumed, FailedItems: x.FailedItems, RescuedItems: x.RescuedItems, RerunOf: x.RerunOf, Chain: x.Chain, Member: x.Member,
		MaxRetries: x.MaxRetries, Trace: x.Trace, Timeout: x.Timeout, By: x.By,
		Worker: x.Worker, Workspace: x.Workspace, HeartbeatAt: x.HeartbeatAt, LeaseExpiresAt: x.LeaseExpiresAt,
		DiskBytes: x.DiskBytes, OnlyCopies: ifAny(x.OnlyCopies, seenCopies), Seq: x.Seq,
	}
}

func seenPosition(p *courier.Position) courier.Position {
	return courier.Position{Step: p.Step, Loops: each(p.Loops, seenLoop)}
}

func seenLoop(l *courier.LoopPosition) courier.LoopPosition {
	return courier.LoopPosition{Step: l.Step, Index: l.Index, Failed: l.Failed, ItemFailed: l.ItemFailed, Rescued: l.Rescued, Rescue: l.Rescue}
}

func seenFinishing(f *courier.Finishing) courier.Finishing {
	return courier.Finishing{Outcome: f.Outcome, Position: seenPosition(&f.Position), Seq: f.Seq, By: f.By}
}

func seenFailure(f *courier.Failure) courier.Failure {
	return courier.Failure{
		Step: f.Step, ID: f.ID, Type: f.Type, Iteration: f.Iteration, Attempt: f.Attempt, Reason: f.Reason, Message: Hidden, Connection: f.Connection,
	}
}

func seenCopies(c *courier.OnlyCopies) courier.OnlyCopies {
	return courier.OnlyCopies{Count: c.Count, Bytes: c.Bytes, Problem: HiddenIf(c.Problem)}
}

// HideStep hides the values of a record, and the fields that may contain them.
func HideStep(s *courier.StepExecution) { *s = seenStep(s) }

func seenStep(s *courier.StepExecution) courier.StepExecution {
	return courier.StepExecution{
		Execution: s.Execution, Seq: s.Seq, Step: s.Step, ID: s.ID, Type: s.Type, Iteration: s.Iteration, Total: s.Total,
		Attempt: s.Attempt, ExecutionAttempt: s.ExecutionAttempt, Version: s.Version, State: s.State,
		StartedAt: s.StartedAt, EndedAt: s.EndedAt, Bytes: s.Bytes, Reason: s.Reason, Error: HiddenIf(s.Error),
		Worker: s.Worker, FailedLoop: s.FailedLoop, Rescue: s.Rescue,
	}
}

// HideEvents hides the fields that may contain values, including those of the events.
func HideEvents(list []watch.AuditEvent) {
	for i := range list {
		entry := list[i].AuditEntry
		HideEntry(&entry)
		list[i] = watch.AuditEvent{AuditEntry: entry}
	}
}

// HideEntry hides the fields that may contain values.
func HideEntry(a *courier.AuditEntry) {
	*a = courier.AuditEntry{
		Execution: a.Execution, Seq: a.Seq, At: a.At, Step: a.Step, ID: a.ID, Type: a.Type, Iteration: a.Iteration,
		Attempt: a.Attempt, ExecutionAttempt: a.ExecutionAttempt, From: a.From, To: a.To, Elapsed: a.Elapsed,
		Bytes: a.Bytes, Reason: a.Reason, Error: HiddenIf(a.Error), By: a.By, Worker: a.Worker,
	}
}

// HideChain hides the values of a chain execution, and the fields that may contain them,
// including its labels. So [Visit.OwnChain] must be called before it.
func HideChain(x *chain.Execution) {
	*x = chain.Execution{
		ID: x.ID, Chain: x.Chain, Version: x.Version, State: x.State, Request: x.Request, Members: each(x.Members, seenMember),
		CreatedAt: x.CreatedAt, StartedAt: x.StartedAt, EndedAt: x.EndedAt, Failure: ifAny(x.Failure, seenChainFailure),
		By: x.By, RerunOf: x.RerunOf, Trace: x.Trace,
	}
}

func seenMember(m *chain.MemberExecution) chain.MemberExecution {
	return chain.MemberExecution{
		Name: m.Name, Job: m.Job, Version: m.Version, Execution: m.Execution, State: m.State, Reason: m.Reason,
		DependsOn: each(m.DependsOn, seenDependency),
	}
}

func seenDependency(d *chain.Dependency) chain.Dependency {
	return chain.Dependency{Member: d.Member, RunOnFailure: d.RunOnFailure, RequiredStatus: d.RequiredStatus}
}

func seenChainFailure(f *chain.Failure) chain.Failure {
	return chain.Failure{Member: f.Member, Execution: f.Execution, Message: Hidden}
}

// HideCause hides the values of a cause: keys of limits, and the texts of people and steps.
func HideCause(c *advice.Cause) { *c = seenCause(c) }

func seenCause(c *advice.Cause) advice.Cause {
	text, scope := c.Text, c.Scope
	if c.Reason != "" || strings.HasPrefix(scope, "key:") || c.Kind == advice.Backoff || c.Kind == advice.Failed {
		text, scope = Hidden, ""
	}
	return advice.Cause{
		Kind: c.Kind, Text: text, Scope: scope, Limit: c.Limit, Running: c.Running, Until: c.Until, Since: c.Since,
		Job: c.Job, Execution: c.Execution, Chain: c.Chain, By: c.By, Do: c.Do, Call: c.Call,
	}
}

// HideSchedule hides the values of a schedule, and the fields that may contain them.
func HideSchedule(s *schedule.Schedule) {
	*s = schedule.Schedule{
		Name: s.Name, Job: s.Job, Chain: s.Chain, Cron: s.Cron, Zone: s.Zone, Every: s.Every, At: s.At, Calendar: s.Calendar, OnClosed: s.OnClosed, Starts: s.Starts, Ends: s.Ends,
		Priority: s.Priority, Overlap: s.Overlap, Misfire: s.Misfire, Window: s.Window, Jitter: s.Jitter, PauseAfter: s.PauseAfter,
		Disabled: s.Disabled, Paused: s.Paused, Reason: HiddenIf(s.Reason), NextFire: s.NextFire, Waiting: s.Waiting,
		LastFire: s.LastFire, LastExecution: s.LastExecution, Failures: s.Failures, Problem: HiddenIf(s.Problem), SavedAt: s.SavedAt, MovesFrom: s.MovesFrom,
	}
}

// HideMonitor hides the values of a monitor, and the fields that may contain them.
func HideMonitor(m *monitor.Monitor) {
	*m = monitor.Monitor{
		Name: m.Name, Description: m.Description, Lister: m.Lister, Connection: m.Connection, Path: m.Path, Patterns: m.Patterns,
		Events: m.Events, Every: m.Every, Calendar: m.Calendar, Between: monitor.Hours{From: m.Between.From, Until: m.Between.Until}, Stable: m.Stable, DoneFile: m.DoneFile, Batch: m.Batch, Job: m.Job, Chain: m.Chain, Expectation: m.Expectation,
		Priority: m.Priority, MaxFailures: m.MaxFailures, Disabled: m.Disabled, State: m.State, Reason: HiddenIf(m.Reason),
		Health: seenHealth(&m.Health), NextPoll: m.NextPoll, SavedAt: m.SavedAt,
	}
}

func seenHealth(h *monitor.Health) monitor.Health {
	return monitor.Health{
		LastPoll: h.LastPoll, PollSeconds: h.PollSeconds, Files: h.Files, Waiting: h.Waiting, Refused: h.Refused, Failures: h.Failures,
		Problem: HiddenIf(h.Problem), Triggered: h.Triggered, LastTriggered: h.LastTriggered, LastExecution: h.LastExecution,
	}
}

// HideExpectation hides the values of an expectation, and the fields that may contain them.
func HideExpectation(x *expectation.Expectation) {
	*x = expectation.Expectation{
		Name: x.Name, Description: x.Description, From: seenFrom(&x.From), Pattern: x.Pattern,
		Count: expectation.Count{Least: x.Count.Least, Most: x.Count.Most}, Bytes: expectation.Bytes{Least: x.Bytes.Least, Most: x.Bytes.Most},
		Window: expectation.Window{From: x.Window.From, Until: x.Window.Until, Grace: x.Window.Grace}, Calendar: x.Calendar, Cron: x.Cron, Zone: x.Zone,
		DueSoon: x.DueSoon, Early: x.Early, Label: x.Label, Disabled: x.Disabled, SavedAt: x.SavedAt,
		Health: expectation.Health{LookedAt: x.Health.LookedAt, MatchedAt: x.Health.MatchedAt, Problem: HiddenIf(x.Health.Problem), Hint: x.Health.Hint},
	}
}

func seenFrom(f *expectation.From) expectation.From {
	return expectation.From{Monitor: f.Monitor, Job: f.Job, Path: f.Path, Connection: f.Connection, Lister: f.Lister, Every: f.Every}
}

// HideArrival hides the names of the files of an arrival, and the fields that may contain them.
func HideArrival(a *expectation.Arrival) {
	*a = expectation.Arrival{
		ID: a.ID, Expectation: a.Expectation, Date: a.Date, State: a.State, Opens: a.Opens, Until: a.Until, Ends: a.Ends, Zone: a.Zone,
		ArrivedAt: a.ArrivedAt, LateSeconds: a.LateSeconds, Files: each(a.Files, seenArrived), More: a.More, Note: a.Note, Problem: HiddenIf(a.Problem), DecidedAt: a.DecidedAt,
		Reasons:   each(a.Reasons, func(reason *string) string { return HiddenIf(*reason) }),
		ExcusedBy: a.ExcusedBy, ExcusedAt: a.ExcusedAt, Excuse: HiddenIf(a.Excuse), Events: a.Events,
	}
}

func seenArrived(f *expectation.File) expectation.File {
	return expectation.File{
		Name: Hidden, Size: f.Size, SeenAt: f.SeenAt, ModifiedAt: f.ModifiedAt, At: f.At, Appeared: f.Appeared, Execution: f.Execution, Wrong: f.Wrong,
	}
}

// HideSubscription hides values and credentials. References to secrets stay visible, because they
// are only names.
func HideSubscription(s *notify.Subscription) {
	*s = notify.Subscription{
		Name: s.Name, Kind: s.Kind, Events: s.Events, Jobs: s.Jobs, Chains: s.Chains, Expectations: s.Expectations, Func: s.Func,
		Webhook: ifAny(s.Webhook, seenWebhook), Job: ifAny(s.Job, seenJobTarget), Email: ifAny(s.Email, seenEmail),
		Window: s.Window, Disabled: s.Disabled, DisabledAt: s.DisabledAt, Reason: HiddenIf(s.Reason),
	}
}

func seenWebhook(w *notify.WebhookTarget) notify.WebhookTarget {
	headers := make(map[string]string, len(w.Headers))
	for name, value := range w.Headers {
		headers[name] = hiddenUnlessSecret(value)
	}
	return notify.WebhookTarget{URL: hiddenUnlessSecret(w.URL), Secrets: w.Secrets, Headers: headers}
}

func seenJobTarget(j *notify.JobTarget) notify.JobTarget {
	return notify.JobTarget{Name: j.Name, Priority: j.Priority}
}

func seenEmail(e *notify.EmailTarget) notify.EmailTarget {
	return notify.EmailTarget{To: e.To, Subject: e.Subject}
}

// HideDelivery hides the values of a delivery, and the fields that may contain them.
func HideDelivery(d *notify.Delivery) {
	*d = notify.Delivery{
		Notification: seenNotification(&d.Notification), State: d.State, Attempts: d.Attempts, DueAt: d.DueAt, LastErr: HiddenIf(d.LastErr),
	}
}

func seenNotification(n *notify.Notification) notify.Notification {
	return notify.Notification{
		ID: n.ID, Subscription: n.Subscription, Type: n.Type, At: n.At, Execution: n.Execution, Seq: n.Seq, Job: n.Job, Version: n.Version,
		ChainExecution: n.ChainExecution, Chain: n.Chain, Step: n.Step, StepID: n.StepID, StepType: n.StepType, Iteration: n.Iteration,
		StepAttempt: n.StepAttempt, Bytes: n.Bytes, Reason: n.Reason, Error: HiddenIf(n.Error), By: n.By, Name: n.Name, Expectation: n.Expectation,
		Count: n.Count, Coalesced: each(n.Coalesced, seenCoalesced),
	}
}

func seenCoalesced(e *notify.CoalescedEvent) notify.CoalescedEvent {
	return notify.CoalescedEvent{ID: e.ID, At: e.At, Execution: e.Execution, Error: HiddenIf(e.Error)}
}

// HideAttention hides the fields that may contain values.
func HideAttention(e *attention.Entry) {
	*e = attention.Entry{
		Kind: e.Kind, Key: e.Key, Acknowledged: ifAny(e.Acknowledged, seenAcknowledgement), Returned: ifAny(e.Returned, seenAcknowledgement), Title: e.Title, Since: e.Since, Count: e.Count, More: e.More, Job: e.Job, Step: e.Step, StepID: e.StepID,
		StepType: e.StepType, Reason: e.Reason, Jobs: e.Jobs, Connection: e.Connection, Oldest: e.Oldest, Queue: e.Queue, Name: e.Name, Date: e.Date, Thing: e.Thing, State: e.State, By: e.By,
		Message: HiddenIf(e.Message), Executions: e.Executions, All: e.All, Version: e.Version, Because: each(e.Because, seenCause),
		Do: e.Do, Call: e.Call,
	}
}

func seenAcknowledgement(a *store.Acknowledgement) store.Acknowledgement {
	return store.Acknowledgement{Key: a.Key, Title: a.Title, By: a.By, Reason: HiddenIf(a.Reason), At: a.At, Until: a.Until, Snoozed: a.Snoozed}
}

// HideKept hides the names of files, and the fields that may contain them.
func HideKept(k *store.KeptFiles) {
	*k = store.KeptFiles{
		Execution: k.Execution, Job: k.Job, State: k.State, Since: k.Since, Workspace: k.Workspace, Worker: k.Worker,
		Files: []courier.File{}, Count: k.Count, Bytes: k.Bytes, Problem: HiddenIf(k.Problem),
		DiscardedBy: k.DiscardedBy, DiscardedAt: k.DiscardedAt,
	}
}

// HideItem hides a step's message about a failed item.
func HideItem(f *courier.FailedItem) {
	*f = courier.FailedItem{
		ItemPath: seenPath(&f.ItemPath), Label: courier.IndexLabel(f.Iteration), Step: f.Step, ID: f.ID, Type: f.Type, Attempt: f.Attempt, Reason: f.Reason,
		Error: Hidden, FailedSeq: f.FailedSeq,
	}
}

func seenPath(p *courier.ItemPath) courier.ItemPath {
	return courier.ItemPath{Loop: p.Loop, Iteration: p.Iteration}
}

// HideRefused hides the store's message, which may repeat values.
func HideRefused(r *engine.RefusedWrite) {
	*r = engine.RefusedWrite{
		Execution: r.Execution, Job: r.Job, Since: r.Since, Tries: r.Tries, Lasting: r.Lasting, Left: r.Left, Error: HiddenIf(r.Error),
	}
}

// HideMaintenance hides the message of a step type's maintenance.
func HideMaintenance(f *courier.FailedMaintenance) {
	*f = courier.FailedMaintenance{StepType: f.StepType, Since: f.Since, Error: HiddenIf(f.Error)}
}
