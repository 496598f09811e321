package memstore

import (
	sorted "container/heap"
	"context"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

var _ store.Deadlines = (*Store)(nil)

// A deadline is one of an execution. That of an execution that has ended stays until it
// passes.
type deadline struct {
	x      *execution
	reason courier.Reason
	at     time.Time
}

// A deadlineHeap has the earliest deadline on top.
type deadlineHeap []deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h deadlineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *deadlineHeap) Push(x any) {
	d, _ := x.(deadline)
	*h = append(*h, d)
}
func (h *deadlineHeap) Pop() any {
	n := len(*h) - 1
	d := (*h)[n]
	(*h)[n], *h = deadline{}, (*h)[:n]
	return d
}

// addDeadlines adds those of a new execution.
func (s *Store) addDeadlines(x *execution, n *store.NewExecution) {
	if n.MaxDuration > 0 {
		sorted.Push(&s.deadlines, deadline{x, courier.ReasonMaxDuration, x.DueAt.Add(n.MaxDuration.Truncate(time.Microsecond))})
	}
	if n.Expires > 0 {
		sorted.Push(&s.deadlines, deadline{x, courier.ReasonExpired, x.CreatedAt.Add(n.Expires.Truncate(time.Microsecond))})
	}
	if n.ExpectedBy > 0 {
		from := x.CreatedAt
		if c := s.chains.all[n.Chain]; c != nil {
			from = c.CreatedAt
		}
		sorted.Push(&s.deadlines, deadline{x, courier.ReasonExpectedBy, from.Add(n.ExpectedBy.Truncate(time.Microsecond))})
	}
}

// Overdue drops deadlines that have passed, and returns those of executions that have
// not ended.
func (s *Store) Overdue(ctx context.Context, limit int) (store.Overdue, error) {
	if err := ctx.Err(); err != nil {
		return store.Overdue{}, err
	}
	if limit <= 0 || limit > page {
		limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.forgetOverdue()
	var got store.Overdue
	for ; limit > 0 && len(s.deadlines) > 0 && !s.deadlines[0].at.After(now); limit-- {
		d, _ := sorted.Pop(&s.deadlines).(deadline)
		x := d.x
		if x.State.Ended() || s.executions[x.ID] != x {
			continue
		}
		o := store.OverdueExecution{Execution: x.ID, Job: x.Job, Version: x.Version, State: x.State, Reason: d.reason, Deadline: d.at}
		if d.reason == courier.ReasonExpired {
			if x.StartedAt.IsZero() {
				got.List = append(got.List, o)
				d.at = now.Add(time.Minute) // whoever is told of it may die before it acts
				sorted.Push(&s.deadlines, d)
			}
			continue
		}
		got.List = append(got.List, o)
		s.overdue = append(s.overdue, d)
		n := notify.OfOverdue(&o, now)
		if c := s.chains.all[x.Chain]; c != nil {
			n.Chain = c.Chain
		}
		s.keep(&n)
	}
	if len(s.deadlines) > 0 {
		got.Next = max(time.Microsecond, s.deadlines[0].at.Sub(now))
	}
	return got, nil
}

// forgetOverdue forgets that executions were overdue which have ended for good.
func (s *Store) forgetOverdue() {
	s.overdue = slices.DeleteFunc(s.overdue, func(d deadline) bool { return d.x.State.Final() || s.executions[d.x.ID] != d.x })
}
