package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Enqueue creates executions, all or none.
func (s *Store) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	found, existed := make([]*execution, len(list)), make([]bool, len(list))
	added := make([]*execution, 0, len(list))
	for i := range list {
		x, there, err := s.add(&list[i], now)
		if err != nil {
			s.forgetAll(added)
			return nil, err
		}
		if found[i], existed[i] = x, there; !there {
			added = append(added, x)
		}
	}
	for i := range list {
		if existed[i] {
			continue
		}
		if err := s.refused(&list[i], list); err != nil {
			s.forgetAll(added)
			return nil, err
		}
	}
	for _, x := range added {
		s.place(x)
	}
	for _, x := range added {
		s.begin(x, now)
	}
	results := make([]store.Enqueued, len(list))
	for i, x := range found {
		results[i] = store.Enqueued{Execution: s.view(x), Existed: existed[i]}
	}
	return results, nil
}

// place puts a new execution where others find it.
func (s *Store) place(x *execution) {
	i, _ := slices.BinarySearch(s.ids, x.ID)
	s.ids = slices.Insert(s.ids, i, x.ID) // mostly at the end
	s.waiting.created(x)
	for name, value := range x.Labels {
		s.follow(name, store.TrailEntry{Value: value, Execution: x.ID})
	}
}

// begin queues a new execution unless it is held.
func (s *Store) begin(x *execution, now time.Time) {
	if x.State == courier.Queued {
		s.enqueue(x, now)
	}
}

// add returns the execution of n, which it creates unless it exists, and whether it
// existed.
func (s *Store) add(n *store.NewExecution, now time.Time) (x *execution, existed bool, err error) {
	x, existed, err = s.find(n)
	switch {
	case err != nil:
		return nil, existed, err
	case n.Latest && s.outdated(n) && (!existed || !n.Same(&x.Execution)):
		return nil, false, fmt.Errorf("job %q version %d: %w", n.Job, n.Version, store.ErrOutdated)
	case existed:
		return x, true, n.Conflict(&x.Execution)
	}
	alone := *n
	alone.Chain, alone.Member = "", ""
	return s.create(&alone, now), false, nil
}

// find returns the execution that stands in the way of a new one, if any, or
// why that one can't be created.
func (s *Store) find(n *store.NewExecution) (x *execution, existed bool, err error) {
	x = s.executions[n.ID]
	if x == nil && n.IdempotencyKey != "" {
		x = s.used[keyOf(n.KeyScope, n.Job, n.IdempotencyKey)]
	}
	switch {
	case x != nil && x.Job != n.Job && !n.Same(&x.Execution):
		return nil, true, n.Conflict(&x.Execution)
	case x == nil:
		return nil, false, s.unknown(store.Job, n.Job, n.Version)
	}
	return x, true, nil
}

// create creates an execution. It stands in no queue yet.
func (s *Store) create(n *store.NewExecution, now time.Time) *execution {
	x := &execution{
		Execution: courier.Execution{
			ID: n.ID, Job: n.Job, Version: n.Version, State: courier.Queued, Queue: n.Queue, Priority: n.Priority,
			Attempt: 1, Params: n.Params, CreatedAt: now, DueAt: now.Add(n.Delay.Truncate(time.Microsecond)),
			IdempotencyKey: n.IdempotencyKey, KeyScope: n.KeyScope, LimitKeys: n.LimitKeys, Timeout: n.Timeout, By: n.By,
			Chain: n.Chain, Member: n.Member, RerunOf: n.RerunOf, Labels: n.Labels, MaxRetries: n.MaxRetries, Trace: n.Trace,
			HasFinally: store.HasFinally(n.StepTypes),
		},
		types: n.StepTypes, jobLimit: n.JobLimit, since: now, waitsFor: store.Waiting(n.DependsOn),
		present: make(map[int][]*courier.StepExecution),
	}
	if n.Hold {
		x.State = courier.Created
	}
	x.log(now, entry{to: string(x.State), note: &note{by: n.By}})
	s.executions[x.ID] = x
	s.states[x.State]++
	s.addDeadlines(x, n)
	if n.IdempotencyKey != "" {
		s.used[keyOf(n.KeyScope, n.Job, n.IdempotencyKey)] = x
	}
	return x
}

// outdated reports whether there is a newer version of the job.
func (s *Store) outdated(n *store.NewExecution) bool {
	return len(s.definitions[store.Job][n.Job]) > n.Version
}

func (s *Store) forgetAll(added []*execution) {
	for _, x := range added {
		s.forget(x)
	}
}

// forget undoes add.
func (s *Store) forget(x *execution) {
	delete(s.executions, x.ID)
	s.states[x.State]--
	if x.IdempotencyKey != "" {
		delete(s.used, keyOf(x.KeyScope, x.Job, x.IdempotencyKey))
	}
}

// A class holds the queued executions that one claim can take as well as
// another: their step types, workspace, job, limit and limit keys are the same.
// So a claim examines only the first of each class, however many wait.
type class struct {
	name    string
	ready   heap // due at some claim before, in the order of claims
	waiting heap // not known to be due, by due time
}

// classOf names the class that x belongs to.
func classOf(x *execution) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %d %q %q", x.Job, x.Workspace, x.jobLimit, x.LimitKeys, x.types)
	return b.String()
}

// enqueue puts a queued execution where claims find it, or where it waits for
// others.
func (s *Store) enqueue(x *execution, now time.Time) {
	if len(x.waitsFor) > 0 && !s.releaseWaiting(x, now) {
		s.waiting.add(x)
		return
	}
	q := s.queues[x.Queue]
	if q == nil {
		q = make(map[string]*class)
		s.queues[x.Queue] = q
	}
	name := classOf(x)
	c := q[name]
	if c == nil {
		c = &class{name: name, ready: heap{before: claimedBefore}, waiting: heap{before: dueBefore}}
		q[name] = c
	}
	x.class = c
	if x.DueAt.After(now) {
		c.waiting.push(x)
	} else {
		c.ready.push(x)
	}
	s.wake(x.Queue)
}

// dequeue takes a queued execution out of its queue.
func (s *Store) dequeue(x *execution) {
	if len(x.waitsFor) > 0 {
		s.waiting.remove(x)
		return
	}
	x.in.remove(x)
	c := x.class
	x.class = nil
	if c.ready.top() == nil && c.waiting.top() == nil {
		q := s.queues[x.Queue]
		delete(q, c.name)
		if len(q) == 0 {
			delete(s.queues, x.Queue)
		}
	}
}

// Renew extends leases and returns those that still are their holder's.
func (s *Store) Renew(ctx context.Context, r store.RenewRequest) ([]store.Renewed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	renewed := make([]store.Renewed, 0, len(r.Leases))
	for _, l := range r.Leases {
		x := s.executions[l.Execution]
		if x == nil || x.State != courier.Running || x.token != l.Token {
			continue
		}
		x.HeartbeatAt, x.LeaseExpiresAt = now, now.Add(r.For)
		s.leases.fix(x.index)
		if l.Progress != nil {
			x.progress = reported(l.Progress, now)
		}
		renewed = append(renewed, store.Renewed{Execution: x.ID, Request: x.Request, By: x.RequestedBy, Reason: x.RequestReason})
	}
	return renewed, nil
}

// reported returns progress as it is kept: with the instant of the last change in place of
// the time since.
func reported(p *store.Progress, now time.Time) *store.Progress {
	kept := *p
	kept.Idle = 0
	if p.Report != nil {
		report := *p.Report
		report.ChangedAt = now.Add(-p.Idle.Truncate(time.Microsecond))
		kept.Report = &report
	}
	return &kept
}

// A waiter is a call of Await.
type waiter struct {
	queues []string
	woken  chan struct{} // has room for one
}

// Await returns when something may have become claimable in one of the queues
// since the claim that returned the mark.
func (s *Store) Await(ctx context.Context, queues []string, since uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{queues: queues, woken: make(chan struct{}, 1)}
	if s.changedSince(queues, since, w) {
		return nil
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiters, w)
	}()
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changedSince reports whether one of the queues has changed since the mark. Otherwise
// it adds the waiter.
func (s *Store) changedSince(queues []string, since uint64, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed > since {
		return true
	}
	for _, q := range queues {
		if s.changed[q] > since {
			return true
		}
	}
	s.waiters[w] = struct{}{}
	return false
}

// wake wakes the waiters of a queue that has changed.
func (s *Store) wake(queue string) {
	s.changes++
	s.changed[queue] = s.changes
	for w := range s.waiters {
		if slices.Contains(w.queues, queue) {
			w.tell()
		}
	}
}

// wakeAll wakes all waiters: a slot became free, or a limit changed.
func (s *Store) wakeAll() {
	s.changes++
	s.freed = s.changes
	for w := range s.waiters {
		w.tell()
	}
}

func (w *waiter) tell() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}
