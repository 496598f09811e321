package promise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// A Witness sees every write to a store as it takes effect, and every attempt
// of a step. It lets one call through at a time, so it is for stores that
// answer at once, such as memstore. It may be used by any number of goroutines.
type Witness struct {
	s store.Store

	mu         sync.Mutex
	executions map[courier.ExecutionID]*shadow
	order      []courier.ExecutionID
	keys       map[[2]string]courier.ExecutionID
	limits     map[string]int
	running    map[string]int // by scope
	breaches   []error
	attempts   attempts
	// OnEffect, if not nil, is called with every write that took effect. It
	// must not call the store.
	OnEffect func(c *storewrap.Call)
	// OnCreated, if not nil, is called with every execution that the store has
	// created by itself, before OnEffect with the call that has led to it. It
	// must not call the store.
	OnCreated func(x *courier.Execution)
	// OnTick, if not nil, is called with every tick that has started something,
	// and the schedule as it was then. It must not call the store.
	OnTick func(s *schedule.Schedule, tick time.Time)

	plans
	chains chains
}

// maxBreaches is how many breaches are kept: the first ones tell the most.
const maxBreaches = 10

// Watch returns a witness of what happens to s through [Witness.Store].
func Watch(s store.Store) *Witness {
	return &Witness{
		s: s, executions: make(map[courier.ExecutionID]*shadow), keys: make(map[[2]string]courier.ExecutionID),
		limits: map[string]int{"": store.DefaultLimit}, running: make(map[string]int),
		attempts: newAttempts(),
		plans: plans{
			schedules: make(map[string]*watched), ticks: make(map[string]string), startedBy: make(map[string]string), jobLimits: make(map[courier.ExecutionID]int),
		},
		chains: chains{all: make(map[courier.ChainExecutionID]*watchedChain), keys: make(map[[2]string]courier.ChainExecutionID)},
	}
}

// Store returns the store to be used in place of the one that is watched.
// Faults belong between it and the engines, since what the witness sees counts
// as written.
// The store is one that keeps neither schedules nor chains; see
// [Witness.Planned].
func (w *Witness) Store() store.Store {
	type unplanned struct{ store.Store }
	return storewrap.Intercept(unplanned{w.s}, w.see)
}

// Err returns the first breaches that were seen, joined, or nil.
func (w *Witness) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.breaches...)
}

// Executions returns the ids of all executions, in the order of their creation.
func (w *Witness) Executions() []courier.ExecutionID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.order[:len(w.order):len(w.order)]
}

// Acknowledged notes that an engine has told its caller that the execution
// exists.
func (w *Witness) Acknowledged(id courier.ExecutionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.executions[id] == nil {
		w.report(breach("P1", id, "it was acknowledged, but never written"))
	}
}

// Obeyed notes that an engine has told its caller that a request was taken.
// A cancel that was is the end of an execution.
func (w *Witness) Obeyed(id courier.ExecutionID, kind courier.RequestKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.executions[id]
	if x != nil && kind == courier.RequestCancel && !x.cancelled {
		w.report(breach("P8", id, "a cancel was acknowledged, but never written"))
	}
}

func (w *Witness) report(err error) {
	if len(w.breaches) < maxBreaches {
		w.breaches = append(w.breaches, err)
	}
}

// A shadow is what must be true of an execution.
type shadow struct {
	courier.Execution
	jobLimit   int
	token      store.Token // of the last claim
	first, seq int64       // audit entries: of the last claim, and the last one
	done       map[string]bool
	names      map[int]string // of steps that have had another index, by their present one
	remaps     int            // how often indexes have changed
	restart    int            // of a loop: the base of the last start
	cancelled  bool           // a cancel was taken
	ended      bool           // once, at least
}

func (x *shadow) expired(now time.Time) bool {
	return x.State == courier.Running && !x.LeaseExpiresAt.After(now)
}

// see is the interceptor of [Witness.Store].
func (w *Witness) see(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
	switch c.Method {
	case "Enqueue", "Claim", "Renew", "Apply", "Request", "Set":
	case "PutSchedule", "RemoveSchedule", "DueSchedules", "FireSchedules", "StartChains", "RequestChain":
	default:
		return do(ctx) // it writes nothing that is promised
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now().UTC().Truncate(time.Microsecond)
	err := do(ctx)
	if err != nil {
		if x := w.executions[c.Execution]; x != nil && len(w.news(x)) > 0 {
			w.report(breach("P7", x.ID, "%s was refused with %q, but changed it", c.Method, err))
		}
		w.untouched(c, err)
		return err
	}
	switch r := c.Request.(type) {
	case []store.NewExecution:
		w.enqueued(r, c.Result.([]store.Enqueued))
	case store.ClaimRequest:
		w.claimed(&r, c.Result.(store.Claims).List, now)
	case store.RenewRequest:
		w.renewed(&r, c.Result.([]store.Renewed))
	case store.Transition:
		w.applied(&r)
	case store.Request:
		w.asked(&r)
	case [2]string:
		w.set(r[0], r[1])
	}
	if w.agenda != nil {
		w.plan(c)
	}
	if w.OnEffect != nil {
		w.OnEffect(c)
	}
	return nil
}

// news returns the audit entries that x does not know yet.
func (w *Witness) news(x *shadow) []courier.AuditEntry {
	entries, err := w.s.Audit(context.Background(), store.AuditFilter{Execution: x.ID, After: x.seq})
	if err != nil {
		w.report(breach("P7", x.ID, "its audit can't be read: %v", err))
	}
	return entries
}

// look brings x up to date, and checks that the audit tells all that has
// changed since the last look.
func (w *Witness) look(x *shadow, what string) []courier.AuditEntry {
	now, err := w.s.Execution(context.Background(), x.ID)
	if err != nil {
		w.report(breach("P1", x.ID, "after %s: %v", what, err))
		return nil
	}
	entries := w.news(x)
	state := x.State
	for i := range entries {
		x.seq++
		if entries[i].Seq != x.seq {
			w.report(breach("P7", x.ID, "%s wrote audit entry %d after %d", what, entries[i].Seq, x.seq-1))
			x.seq = entries[i].Seq
		}
		if entries[i].Step != nil {
			continue
		}
		if entries[i].From != string(state) {
			w.report(breach("P7", x.ID, "%s wrote the move %s > %s of an execution that was %s", what, entries[i].From, entries[i].To, state))
		}
		state = courier.State(entries[i].To)
	}
	if state != now.State {
		w.report(breach("P7", x.ID, "after %s it is %s, but its audit ends with %s", what, now.State, state))
	}
	// What becomes of files that an execution keeps after its end is in its audit, and changes nothing else.
	changes := func(e courier.AuditEntry) bool { return e.Step != nil || e.From != e.To }
	if x.State.Final() && slices.ContainsFunc(entries, changes) {
		w.report(breach("P1", x.ID, "%s changed it, though it was %s", what, x.State))
	}
	if waits := now.State == courier.Queued && now.HasFinally; x.cancelled && now.State != courier.Running && now.State != courier.Cancelled && !waits {
		w.report(breach("P8", x.ID, "after %s it is %s, though a cancel was taken", what, now.State))
	}
	w.count(x, -1)
	x.Execution, x.ended = now, x.ended || now.State.Ended()
	w.count(x, +1)
	return entries
}

// count adds x to those that run, if it does.
func (w *Witness) count(x *shadow, n int) {
	if x.State == courier.Running {
		for _, scope := range scopes(&x.Execution) {
			w.running[scope] += n
		}
	}
}

func (w *Witness) enqueued(list []store.NewExecution, got []store.Enqueued) {
	for i := range list {
		n, x := &list[i], got[i].Execution
		key := [2]string{n.Job, n.IdempotencyKey}
		first, used := w.keys[key]
		switch {
		case got[i].Existed && (w.executions[x.ID] == nil || x.ID != n.ID && x.ID != first):
			w.report(breach("P6", x.ID, "it was returned for the idempotency key %q, which is not its own", n.IdempotencyKey))
		case got[i].Existed:
		case used:
			w.report(breach("P6", x.ID, "it was created with the idempotency key %q of execution %s", n.IdempotencyKey, first))
		default:
			if n.IdempotencyKey != "" {
				w.keys[key] = x.ID
			}
			s := &shadow{jobLimit: n.JobLimit, done: make(map[string]bool)}
			s.ID = x.ID
			w.executions[x.ID] = s
			w.order = append(w.order, x.ID)
			w.look(s, "Enqueue")
		}
	}
}

func (w *Witness) claimed(r *store.ClaimRequest, list []store.Claimed, now time.Time) {
	for i := range list {
		c := &list[i]
		x := w.executions[c.Execution.ID]
		if x == nil {
			w.report(breach("P1", c.Execution.ID, "it was claimed and never created"))
			continue
		}
		queued := x.State == courier.Queued && !x.DueAt.After(now)
		if !queued && !x.expired(now) {
			w.report(breach("P2", x.ID, "worker %s claimed it while it was %s (due at %v, lease of %s until %v)", r.Worker, x.State, x.DueAt, x.Worker, x.LeaseExpiresAt))
		}
		if c.Token == x.token || c.Token == "" {
			w.report(breach("P2", x.ID, "worker %s claimed it under the token of the lease before", r.Worker))
		}
		w.look(x, "Claim")
		if queued {
			w.room(x, r.Worker)
		}
		if x.State != courier.Running {
			w.report(breach("P2", x.ID, "it was claimed, and is %s", x.State))
		}
		if c.Seq != x.seq {
			w.report(breach("P2", x.ID, "the claim says that %d is its last audit entry, which is %d", c.Seq, x.seq))
		}
		x.token, x.first = c.Token, x.seq
		if s := c.Started; s != nil {
			x.first--
			if err := w.attempts.start(x, s); err != nil {
				w.report(err)
			}
		}
	}
}

// room reports an execution that was claimed though a limit left no room.
func (w *Witness) room(x *shadow, worker string) {
	for _, scope := range scopes(&x.Execution) {
		limit, set := w.limits[scope]
		if scope == "job:"+x.Job && !set {
			limit = x.jobLimit
		}
		if n := w.running[scope]; limit > 0 && n > limit {
			w.report(breach("P5", x.ID, "worker %s claimed it, and now %d run under the limit %q of %d", worker, n, scope, limit))
		}
	}
}

func (w *Witness) renewed(r *store.RenewRequest, got []store.Renewed) {
	tokens := make(map[courier.ExecutionID]store.Token, len(r.Leases))
	for _, l := range r.Leases {
		tokens[l.Execution] = l.Token
	}
	for _, g := range got {
		x := w.executions[g.Execution]
		if x == nil || x.State != courier.Running || tokens[g.Execution] != x.token {
			w.report(breach("P2", g.Execution, "worker %s renewed a lease that it has no longer", r.Worker))
			continue
		}
		w.look(x, "Renew")
	}
}

func (w *Witness) applied(t *store.Transition) {
	x := w.executions[t.Execution]
	if x == nil {
		w.report(breach("P1", t.Execution, "progress was written of what was never created"))
		return
	}
	before := x.Execution
	if t.Lease == x.token && t.Seq > x.first && t.Seq <= x.seq {
		if n := len(w.news(x)); n > 0 {
			w.report(breach("P3", x.ID, "a repeated transition wrote %d audit entries", n))
		}
		return
	}
	switch {
	case t.Lease != x.token:
		w.report(breach("P2", x.ID, "a write under a lease that was taken over was accepted: %s", describe(t)))
	case x.State != courier.Running:
		w.report(breach("P2", x.ID, "a write was accepted while it was %s: %s", x.State, describe(t)))
	case t.Seq != x.seq+1:
		w.report(breach("P2", x.ID, "a write with number %d was accepted after audit entry %d: %s", t.Seq, x.seq, describe(t)))
	case !obeys(t, x.Request):
		w.report(breach("P8", x.ID, "a %s is pending, but this was accepted: %s", x.Request, describe(t)))
	}
	if f := before.Finishing; f != nil && (!t.Finally || t.To.Ended() && t.To != f.Outcome) {
		w.report(breach("finally", x.ID, "its outcome is %s, and this was accepted: %s", f.Outcome, describe(t)))
	}
	w.attempts.end(x, t)
	for i := range t.Ended {
		if s := &t.Ended[i]; s.State == courier.StepCompleted || s.State == courier.StepSkipped {
			if key := place(s.Step, s.Iteration); x.done[key] {
				w.report(breach("P3", x.ID, "step %s was completed twice", key))
			} else {
				x.done[key] = true
			}
		}
	}
	if t.RetryJob {
		clear(x.done)
	}
	if entries := w.look(x, "Apply"); len(entries) != len(t.Entries(before.Current, "")) {
		w.report(breach("P7", x.ID, "%d audit entries were written of a transition with %d: %s", len(entries), len(t.Entries(before.Current, "")), describe(t)))
	}
	if t.Start != nil {
		w.started(x, t)
	}
}

// obeys says which progress may be written while a request is pending. It is
// what store.Transition.Answers should say, in other words.
func obeys(t *store.Transition, r courier.RequestKind) bool {
	goesOn := t.To == courier.Running && t.Start != nil
	waits := t.To == courier.Queued
	begins := t.Finish != nil
	ends := t.To == courier.Cancelled || t.Finally && t.To.Ended()
	switch r {
	case courier.RequestCancel:
		return !goesOn && (t.To == courier.Running && !begins || t.To == courier.Cancelled || begins && t.Finish.Outcome == courier.Cancelled)
	case courier.RequestAbort:
		return !goesOn && !begins && (t.To == courier.Running || ends)
	case courier.RequestPause:
		return begins || t.Finally || !goesOn && !waits
	}
	return true
}

// started checks that an attempt may start.
func (w *Witness) started(x *shadow, t *store.Transition) {
	key := place(t.Start.Step, t.Start.Iteration)
	if t.Counters.Base > 0 && t.Counters.Base != x.restart {
		clear(x.done) // the loop was started again; what is before it is not reached any more
	}
	x.restart = t.Counters.Base
	if x.done[key] {
		w.report(breach("P3", x.ID, "step %s was completed, and starts again as attempt %d", key, t.Start.Attempt))
	}
	if err := w.attempts.start(x, t.Start); err != nil {
		w.report(err)
	}
}

func (w *Witness) asked(r *store.Request) {
	x := w.executions[r.Execution]
	if x == nil {
		w.report(breach("P1", r.Execution, "a request was taken for what was never created"))
		return
	}
	cancels := r.Kind == courier.RequestCancel || r.Kind == courier.RequestAbort
	x.cancelled = x.cancelled || cancels && (x.Finishing == nil || x.Finishing.Outcome == courier.Cancelled)
	if r.Kind == courier.RequestRestart {
		clear(x.done)
	}
	if c := r.Change; c != nil && c.Version != nil {
		steps := c.Repairs.Versions[len(c.Repairs.Versions)-1].Steps
		x.remap(steps)
	}
	w.look(x, "Request")
}

// identity tells steps apart that have had the same index in different versions of the job,
// and is the same for a step that has had several.
func (x *shadow) identity(step int) string {
	if name, ok := x.names[step]; ok {
		return name
	}
	return fmt.Sprintf("%d of version %d", step, x.remaps)
}

// remap gives the steps the indexes of another version of the job.
func (x *shadow) remap(steps []int) {
	if steps == nil {
		return
	}
	names := make(map[int]string)
	for from, to := range steps {
		if to >= 0 {
			names[to] = x.identity(from)
		}
	}
	x.names = names
	x.remaps++
	done := make(map[string]bool, len(x.done))
	for key := range x.done {
		if to, ok := remapped(key, steps); ok {
			done[to] = true
		}
	}
	x.done = done
}

// remapped gives a place the index that its step has in another version; ok is false if
// the step is not there.
func remapped(place string, steps []int) (to string, ok bool) {
	var step int
	var iteration string
	fmt.Sscanf(place, "%d%s", &step, &iteration)
	return fmt.Sprintf("%d%s", steps[step], iteration), steps[step] >= 0
}

func (w *Witness) set(key, value string) {
	scope, ok := store.LimitScope(key)
	if !ok {
		return
	}
	n, err := strconv.Atoi(value)
	switch {
	case err == nil:
		w.limits[scope] = n
	case scope == "":
		w.limits[scope] = store.DefaultLimit
	default:
		delete(w.limits, scope)
	}
}

// describe says what a transition is about.
func describe(t *store.Transition) string {
	text := fmt.Sprintf("transition %d to %s at step %d", t.Seq, t.To, t.Position.Step)
	for i := range t.Ended {
		text += fmt.Sprintf(", %s attempt %d ends as %s", place(t.Ended[i].Step, t.Ended[i].Iteration), t.Ended[i].Attempt, t.Ended[i].State)
	}
	if t.Start != nil {
		text += fmt.Sprintf(", %s attempt %d starts", place(t.Start.Step, t.Start.Iteration), t.Start.Attempt)
	}
	return text
}
