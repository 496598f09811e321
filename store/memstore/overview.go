package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
)

var (
	_ store.Overview   = (*Store)(nil)
	_ store.Statistics = (*Store)(nil)
)

// Census counts the executions that have not ended, and failed ones.
func (s *Store) Census(ctx context.Context, most int) (store.Census, error) {
	if err := ctx.Err(); err != nil {
		return store.Census{}, err
	}
	if most <= 0 {
		most = store.DefaultCountLimit
	}
	most = min(most, store.MaxCountLimit)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	c := store.Census{
		At: now, CountLimit: most, Queues: []store.QueueCensus{},
		Running: min(most, s.running.all), Jobs: counts(s.running.job, most), Keys: counts(s.running.key, most),
		Created: min(most, s.states[courier.Created]), Paused: min(most, s.states[courier.Paused]), Failed: min(most, s.states[courier.Failed]),
	}
	for name, classes := range s.queues {
		q := store.QueueCensus{Queue: name}
		for _, cl := range classes {
			q.Queued += len(cl.ready.list) + len(cl.waiting.list)
			older(&q, &cl.ready, now)
			older(&q, &cl.waiting, now)
		}
		c.Queues = append(c.Queues, q)
	}
	slices.SortFunc(c.Queues, func(a, b store.QueueCensus) int { return strings.Compare(a.Queue, b.Queue) })
	c.Queues = c.Queues[:min(len(c.Queues), store.MaxQueues)]
	c.QueueCountLimit = store.QueueCountLimit(most, len(c.Queues))
	for i := range c.Queues {
		c.Queues[i].Queued = min(c.QueueCountLimit, c.Queues[i].Queued)
	}
	c.Waiting = min(most, s.states[courier.Queued]-s.queuedNow())
	for range s.leases.while(func(x *execution) bool { return x.expired(now) }) {
		c.Lost = min(most, c.Lost+1)
	}
	return c, nil
}

// older sets the oldest of a queue to one of the heap that has been due for longer.
func older(q *store.QueueCensus, h *heap, now time.Time) {
	for _, x := range h.list {
		if d := x.DueAt.Compare(q.DueAt); !x.DueAt.After(now) && (q.Oldest == "" || d < 0 || d == 0 && x.ID < q.Oldest) {
			q.Oldest, q.Job, q.DueAt = x.ID, x.Job, x.DueAt
		}
	}
}

// counts returns numbers by name, none higher than most.
func counts(n map[string]int, most int) []store.NamedCount {
	list := make([]store.NamedCount, 0, len(n))
	for name, count := range n {
		list = append(list, store.NamedCount{Name: name, Count: min(most, count)})
	}
	slices.SortFunc(list, func(a, b store.NamedCount) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Circumstances returns the facts that decide whether an execution makes progress.
func (s *Store) Circumstances(ctx context.Context, id courier.ExecutionID, age time.Duration) (store.Circumstances, error) {
	if err := ctx.Err(); err != nil {
		return store.Circumstances{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.executions[id]
	if x == nil {
		return store.Circumstances{}, unknown(id)
	}
	now := s.clock()
	c := store.Circumstances{
		At: now, Execution: s.view(x), StepTypes: x.types, Limits: s.limitsOf(x),
		Workers: s.present(now, age),
	}
	switch {
	case x.State == courier.Queued && x.class != nil:
		c.Ahead = s.before(x, now)
	case x.State == courier.Paused:
		c.Entry = x.auditEntry(x.seq())
	}
	if chain := s.chains.all[x.Chain]; chain != nil {
		m := chain.Progress.Members[chain.plan.Index(x.Member)]
		c.ChainPaused = m.Asked && x.State == courier.Paused
	}
	return c, nil
}

// limitsOf returns the limits that are in force for x.
func (s *Store) limitsOf(x *execution) []store.LimitUse {
	var list []store.LimitUse
	add := func(scope string, limit, running int, under func(*execution) bool) {
		if limit <= 0 {
			return
		}
		l := store.LimitUse{Scope: scope, Limit: limit, Running: min(running, store.DefaultCountLimit)}
		for _, r := range s.leases.list {
			if r != x && under(r) && (l.Holder == "" || r.ID < l.Holder) {
				l.Job, l.Holder = r.Job, r.ID
			}
		}
		list = append(list, l)
	}
	add("", s.globalLimit(), s.running.all, func(*execution) bool { return true })
	add("job:"+x.Job, s.jobLimit(x), s.running.job[x.Job], func(r *execution) bool { return r.Job == x.Job })
	for _, k := range x.LimitKeys {
		add("key:"+k, s.keyLimit(k), s.running.key[k], func(r *execution) bool { return slices.Contains(r.LimitKeys, k) })
	}
	return list
}

// before counts the due executions of x's queue that come before it.
func (s *Store) before(x *execution, now time.Time) int {
	n := 0
	for _, c := range s.queues[x.Queue] {
		for _, h := range []*heap{&c.ready, &c.waiting} {
			for _, y := range h.list {
				if y != x && !y.DueAt.After(now) && inOrder(y, x) < 0 {
					n++
				}
			}
		}
	}
	return min(n, store.DefaultCountLimit)
}

// Stats returns figures for metrics.
func (s *Store) Stats(ctx context.Context, most int) (store.Stats, error) {
	if err := ctx.Err(); err != nil {
		return store.Stats{}, err
	}
	if most <= 0 {
		most = store.DefaultCountLimit
	}
	most = min(most, store.MaxCountLimit)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	st := store.Stats{At: now}
	due := func(oldest *time.Time, at time.Time) {
		if !at.IsZero() && !at.After(now) && (oldest.IsZero() || at.Before(*oldest)) {
			*oldest = at
		}
	}
	if len(s.schedules.due) > 0 {
		due(&st.ScheduleDue, s.schedules.due[0].Due)
	}
	for _, m := range s.monitors.all {
		switch m.State {
		case monitor.Degraded:
			st.MonitorsDegraded++
		case monitor.Failed:
			st.MonitorsFailed++
		}
		if !m.leased.After(now) {
			due(&st.MonitorDue, m.Due)
		}
	}
	for _, b := range s.boxes {
		for _, d := range b.list {
			switch {
			case d.failed:
				st.DeliveriesFailed = min(most, st.DeliveriesFailed+1)
			case !d.held:
				st.DeliveriesPending = min(most, st.DeliveriesPending+1)
				due(&st.DeliveryDue, d.due)
			}
		}
	}
	return st, nil
}
