package memstore

import (
	"cmp"
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Apply writes the progress of a running execution.
func (s *Store) Apply(ctx context.Context, t store.Transition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[t.Execution]
	if x == nil {
		return unknown(t.Execution)
	}
	write, err := t.Admit(store.LeaseState{
		State: x.State, Lease: x.token, First: x.first, Last: x.last, Seq: x.seq(), Request: x.Request, By: x.RequestedBy,
	})
	if write {
		n := x.seq()
		s.write(x, &t, s.clock())
		s.notify(x, n, false)
	}
	return err
}

// write writes what was admitted.
func (s *Store) write(x *execution, t *store.Transition, now time.Time) {
	before := len(x.steps)
	for i := range t.Ended {
		x.end(&t.Ended[i], now)
	}
	s.noteNames(x, before)
	if t.Interrupt {
		x.interrupt(now, x.Worker, nil)
	}
	attempt := x.Attempt
	x.Position, x.counters = t.Position, t.Counters
	x.progress = t.Progress.WithoutReport()
	if t.FailedItems != nil {
		x.FailedItems = *t.FailedItems
	}
	if t.Repairs != nil {
		x.Repairs = store.RepairsOrNil(t.Repairs)
	}
	if t.RetryJob {
		x.counters = x.counters.NextAttempt()
		x.nextAttempt()
	}
	if t.Workspace != "" {
		x.Workspace = t.Workspace
	}
	if t.DiskBytes != 0 {
		x.DiskBytes = t.DiskBytes
	}
	if ends := t.To != courier.Running && t.To != courier.Queued; ends || t.Finish != nil || t.Failure != nil && !t.Finally {
		x.Failure = t.Failure
	}
	if t.To != courier.Running {
		x.OnlyCopies = t.OnlyCopies
	}
	x.Current = nil
	if (t.To == courier.Completed || t.Finish != nil) && !t.Finally {
		x.Result = t.Result
	}
	if t.To.Ended() {
		x.finish, x.Finishing, x.FinallyError = nil, nil, t.FinallyError
	}
	if f := t.Finish; f != nil {
		x.finish, x.Finishing, x.clock = f, &f.Finishing, now
	}
	if t.To != courier.Running || t.Finish != nil {
		n := x.noteOf(t)
		kept := x.Request
		if !t.Keeps(kept) {
			kept = ""
		}
		if t.To == courier.Running {
			x.log(now, entry{from: string(x.State), to: string(x.State), elapsed: now.Sub(x.since), attempt: attempt, worker: x.Worker, note: n})
			x.since = now
			if kept == "" {
				x.ask("", nil, now)
			}
		} else {
			asked := x.Execution
			x.last = x.seq() + 1
			s.move(x, t.To, now.Add(t.Delay.Truncate(time.Microsecond)), now, entry{attempt: attempt, worker: x.Worker, note: n})
			if kept != "" {
				x.Request, x.RequestedAt, x.RequestedBy, x.RequestReason = kept, asked.RequestedAt, asked.RequestedBy, asked.RequestReason
			}
			return
		}
	}
	if t.Start != nil {
		x.start(t.Start, now)
	}
	x.last = x.seq()
}

// noteOf is the note of the change of state that a transition makes.
func (x *execution) noteOf(t *store.Transition) *note {
	n := note{by: t.CarriedOut(x.Request, x.RequestedBy), err: t.Text}
	if n.by != "" && n.err == "" {
		n.err = x.RequestReason
	}
	n.by = cmp.Or(n.by, t.By)
	if t.Failure != nil {
		n.reason, n.err = t.Failure.Reason, t.Failure.Message
	}
	if t.Finish != nil {
		n.err = t.Finish.Text
	}
	if n.err = t.AnswersLast(x.Request, x.RequestedBy, n.err); n == (note{}) {
		return nil
	}
	return &n
}

// nextAttempt begins the next attempt of the execution.
func (x *execution) nextAttempt() {
	x.Attempt++
	clear(x.present)
	x.FailedItems, x.Repairs = 0, store.NextRepairs(x.Repairs)
}

// end records an attempt that ended.
func (x *execution) end(ended *courier.StepExecution, now time.Time) {
	e := entry{from: string(courier.StepPending), to: string(ended.State), worker: x.Worker}
	started := ended.StartedAt
	if store.Same(x.Current, ended) {
		e.from, e.step = string(courier.StepRunning), x.Current
		e.elapsed = now.Sub(x.Current.StartedAt)
		if started.IsZero() {
			started = x.Current.StartedAt
		}
	} else {
		e.step = new(courier.StepExecution)
	}
	if started.IsZero() {
		started = now
	}
	*e.step = *ended
	e.step.Execution, e.step.ExecutionAttempt, e.step.Worker = x.ID, x.Attempt, cmp.Or(ended.Worker, x.Worker)
	e.step.StartedAt = started
	x.record(e, now)
}

// skip records that an operator skipped a step.
func (x *execution) skip(s *courier.StepExecution, now time.Time) {
	skipped := *s
	skipped.Execution, skipped.ExecutionAttempt, skipped.Worker, skipped.StartedAt = x.ID, x.Attempt, "", now
	x.record(entry{from: string(courier.StepPending), to: string(courier.StepSkipped), step: &skipped}, now)
}

// record logs an entry that ends an attempt, and keeps the record of that.
func (x *execution) record(e entry, now time.Time) {
	x.log(now, e)
	r := e.step
	r.Seq, r.EndedAt, r.Version, r.Progress = x.seq(), now, 0, nil
	x.steps = append(x.steps, r)
	x.present[r.Step] = append(x.present[r.Step], r)
	if r.FailedLoop != nil || r.Rescue != nil {
		x.failed = append(x.failed, r)
	}
}

// interrupt records that the present step, if any, went back to pending.
func (x *execution) interrupt(now time.Time, worker string, n *note) {
	if x.Current == nil {
		return
	}
	x.log(now, entry{
		from: string(courier.StepRunning), to: string(courier.StepPending), elapsed: now.Sub(x.Current.StartedAt),
		step: x.Current, worker: worker, note: n,
	})
}

// start records that a step started.
func (x *execution) start(s *courier.StepExecution, now time.Time) {
	started := *s
	started.Execution, started.ExecutionAttempt, started.Worker = x.ID, x.Attempt, x.Worker
	started.State, started.StartedAt = courier.StepRunning, now
	started.Seq, started.EndedAt, started.Progress = 0, time.Time{}, nil
	x.Current = &started
	x.log(now, entry{from: string(courier.StepPending), to: string(courier.StepRunning), step: x.Current, worker: x.Worker})
}

// move changes the state of x, by an operator or to one other than running.
// The entry is completed and logged.
func (s *Store) move(x *execution, to courier.State, due, now time.Time, e entry) {
	e.from, e.to, e.elapsed = string(x.State), string(to), now.Sub(x.since)
	x.log(now, e)
	switch x.State {
	case courier.Running:
		s.leases.remove(x)
		s.running.add(x, -1)
		x.HeartbeatAt, x.LeaseExpiresAt, x.Current = time.Time{}, time.Time{}, nil
		x.ask("", nil, now)
		s.wakeAll()
	case courier.Queued:
		s.dequeue(x)
		x.ask("", nil, now)
	}
	s.enter(x, to)
	x.since, x.EndedAt = now, time.Time{}
	if to == courier.Queued {
		x.DueAt = due
		s.enqueue(x, now)
	} else if to.Ended() {
		x.EndedAt = now
	}
	if x.Chain != "" {
		s.moved(x, now)
	}
	if to.Ended() {
		s.awaited(x, now)
	}
}

// enter sets the state of x.
func (s *Store) enter(x *execution, to courier.State) {
	s.states[x.State]--
	s.states[to]++
	x.State = to
}

// Request carries out what an operator wants of an execution, or leaves it with its
// worker.
func (s *Store) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	if err := ctx.Err(); err != nil {
		return courier.Execution{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[r.Execution]
	if x == nil {
		return courier.Execution{}, unknown(r.Execution)
	}
	if err := s.ask(x, r, s.clock()); err != nil {
		return courier.Execution{}, err
	}
	return s.view(x), nil
}

// ask carries out an operator's request to x.
func (s *Store) ask(x *execution, r store.Request, now time.Time) error {
	if r.OfKept() {
		return x.keep(&r, now)
	}
	d, err := r.Decide(&x.Execution, x.expired(now))
	if err != nil {
		return err
	}
	if c := r.Change; c != nil && c.Version != nil && s.definition(store.Job, x.Job, c.Version.Version) == nil {
		return noVersion(store.Job, x.Job, c.Version.Version)
	}
	if c := s.chains.all[x.Chain]; c != nil && d.To == "" {
		c.Progress = c.Moved(c.plan.Index(x.Member), x.State) // it is no more the chain that has asked
	}
	s.carryOut(x, d, r, now)
	return nil
}

// keep does what a request about kept files asks for.
func (x *execution) keep(r *store.Request, now time.Time) error {
	k, err := r.Kept(&x.Execution)
	if err != nil {
		return err
	}
	x.ask(k.Pending, r, now)
	x.Workspace, x.OnlyCopies = k.Workspace, k.OnlyCopies
	if k.Text != "" {
		x.log(now, entry{from: string(x.State), to: string(x.State), elapsed: now.Sub(x.since), note: &note{by: k.By, err: k.Text}})
		x.since = now
	}
	return nil
}

// carryOut does what was decided about a request.
func (s *Store) carryOut(x *execution, d store.Decision, r store.Request, now time.Time) {
	if d.To != "" {
		s.asked(x, d, r, now)
	}
	if d.To == "" || d.Pending != "" {
		if x.State == courier.Queued && d.To == "" && d.Due(x.State) {
			s.dequeue(x)
			x.DueAt = now
			s.enqueue(x, now)
			s.wakeAll()
		}
		x.ask(d.Pending, &r, now)
	}
}

// ask sets the pending request; none if kind is empty.
func (x *execution) ask(kind courier.RequestKind, r *store.Request, now time.Time) {
	x.Request, x.RequestedAt, x.RequestedBy, x.RequestReason = kind, time.Time{}, "", ""
	if kind != "" {
		x.RequestedAt, x.RequestedBy, x.RequestReason = now, r.By, r.Reason
	}
}

// asked moves x to another state on an operator's request.
func (s *Store) asked(x *execution, d store.Decision, r store.Request, now time.Time) {
	to, n, attempt, text := d.To, x.seq(), x.Attempt, r.Text()
	x.interrupt(now, "", &note{reason: courier.ReasonWorkerLost})
	due := x.DueAt
	if d.Due(x.State) {
		due = now
	}
	if f := x.finish; f != nil && to.Ended() {
		text = r.TextOfEnd(&x.Execution)
		x.Position, x.counters, x.FinallyError = f.Position, f.After(x.counters), store.AbortedFinally(r.By, r.Reason)
		x.finish, x.Finishing = nil, nil
	}
	if r.Kind == courier.RequestResume || r.Kind == courier.RequestRestart {
		due = now
		x.Failure, x.FinallyError, x.Resumed, x.clock = nil, nil, true, time.Time{}
		x.counters = r.Change.Counters(x.counters, x.State)
	}
	if r.Kind == courier.RequestRestart {
		x.nextAttempt()
		x.Position, x.counters, x.Workspace, x.DiskBytes, x.OnlyCopies = courier.Position{}, store.Counters{Secrets: x.counters.Secrets}, "", 0, nil
	}
	if c := r.Change; c != nil {
		x.change(c, now)
		due = due.Add(c.Delay.Truncate(time.Microsecond))
	}
	if r.DropsProgress(to) {
		x.progress = nil
	}
	if f := r.Failure(); f != nil {
		x.Failure = f
	}
	if to.Final() {
		x.OnlyCopies = store.LeftBehind(&x.Execution)
	}
	s.move(x, to, due, now, entry{attempt: attempt, note: &note{by: r.By, reason: r.ClassFor(to), err: text}})
	s.notify(x, n, false)
}

// change makes the change of a resume, but for the counters.
func (x *execution) change(c *store.Change, now time.Time) {
	if v := c.Version; v != nil {
		x.Version, x.types, x.jobLimit, x.HasFinally = v.Version, v.StepTypes, v.JobLimit, store.HasFinally(v.StepTypes)
	}
	if c.Move != nil {
		x.Position = c.Move.Position
	}
	if c.Items != nil {
		x.FailedItems = c.Items.Failed
	}
	if c.Repairs != nil {
		x.Repairs = store.RepairsOrNil(c.Repairs)
	}
	if c.Elsewhere {
		x.Workspace, x.DiskBytes, x.OnlyCopies = "", 0, nil
	}
	if c.Skipped != nil {
		x.skip(c.Skipped, now)
	}
}
