package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Incidents returns executions that may need attention.
func (s *Store) Incidents(ctx context.Context, most int) (store.Incidents, error) {
	if err := ctx.Err(); err != nil {
		return store.Incidents{}, err
	}
	if most <= 0 {
		most = store.DefaultCountLimit
	}
	most = min(most, store.MaxCountLimit)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	got := store.Incidents{At: now, Limit: most, List: []store.Incident{}}
	got.List = append(got.List, s.standing(now, most)...)
	got.List = append(got.List, s.failures(most)...)
	return got, nil
}

// standing returns the running executions that are lost or have a request, and the
// overdue ones, at most so many of each kind.
func (s *Store) standing(now time.Time, most int) []store.Incident {
	of := make(map[store.IncidentKind][]store.Incident)
	add := func(x *execution, i store.Incident) {
		i.Execution, i.Job, i.Queue = x.ID, x.Job, x.Queue
		of[i.Kind] = append(of[i.Kind], i)
	}
	for _, x := range s.leases.list {
		switch {
		case x.expired(now):
			add(x, store.Incident{Kind: store.IncidentLost, Since: x.LeaseExpiresAt, Worker: x.Worker})
		case x.Request == courier.RequestPause:
			add(x, store.Incident{Kind: store.IncidentPausing, Since: x.RequestedAt, Worker: x.Worker, By: x.RequestedBy, Text: x.RequestReason})
		case x.Request == courier.RequestCancel || x.Request == courier.RequestAbort:
			add(x, store.Incident{Kind: store.IncidentCancelling, Since: x.RequestedAt, Worker: x.Worker, By: x.RequestedBy, Text: x.RequestReason})
		}
	}
	s.forgetOverdue()
	for _, d := range s.overdue {
		if !d.x.State.Ended() {
			add(d.x, store.Incident{Kind: store.IncidentOverdue, Since: d.at, Reason: d.reason, Current: d.x.standing()})
		}
	}
	var all []store.Incident
	for _, kind := range []store.IncidentKind{store.IncidentLost, store.IncidentPausing, store.IncidentCancelling, store.IncidentOverdue} {
		list := of[kind]
		slices.SortFunc(list, func(a, b store.Incident) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Execution, b.Execution), cmp.Compare(a.Reason, b.Reason))
		})
		all = append(all, list[:min(len(list), most)]...)
	}
	return all
}

// standing returns the step that the execution is in; nil if it is in none.
func (x *execution) standing() *store.CurrentStep {
	s := x.Current
	if s == nil || x.State != courier.Running {
		return nil
	}
	c := &store.CurrentStep{Step: s.Step, ID: s.ID, Type: s.Type, Still: s.StartedAt}
	if p := x.progress.Of(s); p != nil && p.ChangedAt.After(c.Still) {
		c.Still = p.ChangedAt
	}
	return c
}

// failures returns the latest failed executions, with those that supersede them.
func (s *Store) failures(most int) []store.Incident {
	var list []store.Incident
	completed := make(map[string][]*execution) // by job, the latest first
	for i := len(s.ids) - 1; i >= 0 && len(list) < min(most, s.states[courier.Failed]); i-- {
		x := s.executions[s.ids[i]]
		if x.State == courier.Failed {
			n := store.Incident{Kind: store.IncidentFailed, Execution: x.ID, Job: x.Job, Queue: x.Queue, Since: x.EndedAt, Failure: x.Failure, Version: x.Version}
			n.Latest = len(s.definitions[store.Job][x.Job])
			if x.Failure != nil {
				n.Reason = x.Failure.Reason
			}
			if list = append(list, n); len(completed) < store.MaxSupersedingJobs {
				completed[x.Job] = nil
			}
		}
	}
	walked := make(map[string]int)
	for i, found := len(s.ids)-1, 0; i >= 0 && found < len(list); i-- {
		x := s.executions[s.ids[i]]
		if x.ID == list[found].Execution {
			if !x.HoldsOnlyCopies() {
				list[found].SupersededBy = superseding(x, completed[x.Job])
			}
			found++
		}
		if c, ok := completed[x.Job]; ok && walked[x.Job] < store.MaxSupersedingExamined {
			if walked[x.Job]++; x.State == courier.Completed && len(c) < store.MaxSuperseding {
				completed[x.Job] = append(c, x)
			}
		}
	}
	return list
}

// superseding returns the first of a list that stands for x.
func superseding(x *execution, list []*execution) courier.ExecutionID {
	key := x.Labels["key"]
	for _, c := range list {
		if len(x.Params) <= store.MaxSupersedingParams && bytes.Equal(c.Params, x.Params) || key != "" && c.Labels["key"] == key {
			return c.ID
		}
	}
	return ""
}
