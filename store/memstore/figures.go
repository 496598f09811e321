package memstore

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var _ store.Figures = (*Store)(nil)

// CountHours counts the hours that are due. It walks over the histories of the executions
// that have changed since the first of them.
func (s *Store) CountHours(ctx context.Context, age time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if last := s.hours[now.Truncate(time.Hour)].CountedAt; !last.IsZero() && !last.After(now) && now.Sub(last) < age {
		return nil
	}
	counted := make(map[time.Time]*store.HourFigures)
	var first time.Time
	for n := range store.KeptHours {
		hour := now.Truncate(time.Hour).Add(-time.Duration(n) * time.Hour)
		if known := s.hours[hour]; due(&known, hour, now) && len(counted) < store.MaxCountedHours {
			counted[hour], first = &store.HourFigures{Hour: hour, CountedAt: now}, hour
		}
	}
	for _, x := range s.executions {
		for i := len(x.audit) - 1; i >= 0 && !x.audit[i].at.Before(first); i-- {
			if h := counted[x.audit[i].at.Truncate(time.Hour)]; h != nil && x.audit[i].step == nil && x.audit[i].from != x.audit[i].to {
				switch courier.State(x.audit[i].to) {
				case courier.Completed:
					h.Completed++
				case courier.Failed:
					h.Failed++
				}
			}
		}
		for i := len(x.steps) - 1; i >= 0 && !x.steps[i].EndedAt.Before(first); i-- {
			if h := counted[x.steps[i].EndedAt.Truncate(time.Hour)]; h != nil {
				countStep(h, x.steps[i])
			}
		}
	}
	for hour, h := range counted {
		known := s.hours[hour]
		if h.Running, h.Queued = known.Running, known.Queued; hour.Equal(now.Truncate(time.Hour)) {
			h.Running, h.Queued = max(h.Running, sampled(s.running.all)), max(h.Queued, sampled(s.queuedNow()))
		}
		s.hours[hour] = *h
	}
	for hour := range s.hours {
		if hour.Before(now.Truncate(time.Hour).Add(-(store.KeptHours - 1) * time.Hour)) {
			delete(s.hours, hour)
		}
	}
	return nil
}

// queuedNow is how many executions are queued and wait for no other job.
func (s *Store) queuedNow() (n int) {
	for _, classes := range s.queues {
		for _, cl := range classes {
			n += len(cl.ready.list) + len(cl.waiting.list)
		}
	}
	return n
}

// sampled is a number of executions as a sample has it.
func sampled(n int) int64 { return int64(min(n, store.DefaultCountLimit)) }

// countStep adds what a step attempt has done.
func countStep(h *store.HourFigures, r *courier.StepExecution) {
	switch {
	case r.Rescue != nil:
		h.RescuedItems++
	case r.FailedLoop != nil:
		h.FailedItems++
	}
	for _, f := range r.Files {
		switch {
		case f.Connection == "" || f.Removed || r.State != courier.StepCompleted:
		case f.Received:
			h.FilesIn, h.BytesIn = h.FilesIn+1, h.BytesIn+f.Size
		default:
			h.FilesOut, h.BytesOut = h.FilesOut+1, h.BytesOut+f.Size
		}
	}
}

// due reports whether an hour with these figures has to be counted. An hour that was not counted
// has the zero value.
func due(f *store.HourFigures, hour, now time.Time) bool {
	return !hour.Before(now.Truncate(time.Hour).Add(-time.Hour)) || // it may still change
		f.CountedAt.Before(hour.Add(2*time.Hour)) || // it may have changed since
		f.CountedAt.After(now) // by a clock that has jumped
}

// Hours returns the figures of the last hours.
func (s *Store) Hours(ctx context.Context, most int) ([]store.HourFigures, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if most <= 0 {
		most = store.DefaultHours
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.HourFigures
	for n := min(most, store.KeptHours) - 1; n >= 0; n-- {
		if h, ok := s.hours[s.clock().Truncate(time.Hour).Add(-time.Duration(n)*time.Hour)]; ok {
			list = append(list, h)
		}
	}
	return list, nil
}
