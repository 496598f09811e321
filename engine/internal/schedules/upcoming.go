package schedules

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// Upcoming returns schedules that start a job or a chain, with their next n times,
// for a dry run.
func (v *Service) Upcoming(ctx context.Context, kind store.Kind, target string, limit, n int) (list []core.UpcomingFires, more bool, err error) {
	a, err := v.opt.Roles.Schedules()
	if err != nil || target == "" {
		return nil, false, nil
	}
	call, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	t, err := a.Schedules(call, store.ScheduleFilter{Kind: kind, Target: target, Limit: limit + 1})
	if err != nil {
		return nil, false, fmt.Errorf("read schedules: %w", err)
	}
	if more = len(t.List) > limit; more {
		t.List = t.List[:limit]
	}
	for i := range t.List {
		list = append(list, v.upcoming(&t.List[i], t.Now, n))
	}
	return list, more, nil
}

// upcoming says when a schedule will fire.
func (v *Service) upcoming(s *store.Schedule, now time.Time, n int) core.UpcomingFires {
	def := publicSchedule(s)
	u := core.UpcomingFires{Schedule: def, Next: []time.Time{}}
	c, problems := v.newCalendar(&def)
	if len(problems) > 0 {
		u.Problem = (&courier.ScheduleError{Schedule: s.Name, Problems: problems}).Error()
		return u
	}
	u.Words, u.Notes = words(&def, now)
	if def.Problem != "" {
		u.Notes = append(u.Notes, "the last time it could not fire: "+def.Problem)
	}
	switch {
	case s.Disabled || s.Paused:
		u.Reason = cmp.Or(s.Reason, "it is disabled")
		return u
	case s.Next.IsZero():
		u.Reason = "it has no time to fire any more"
		return u
	}
	zone, err := time.LoadLocation(def.Zone)
	if err != nil {
		zone = time.UTC
	}
	for at := s.Next; !at.IsZero() && len(u.Next) < n; at = c(at) {
		u.Next = append(u.Next, at.In(zone))
	}
	return u
}

// words describes a schedule, with notes about its times.
func words(s *courier.Schedule, now time.Time) (words string, notes []string) {
	switch {
	case !s.At.IsZero():
		words = "Once"
	case s.Every > 0:
		words = "Every " + shortDuration(s.Every)
	default:
		if x, err := Explain(s.Cron, s.Zone, now, 1); err == nil {
			words, notes = x.Words, x.Notes
		}
	}
	if s.Jitter > 0 {
		notes = append(notes, "each time is late by up to "+shortDuration(s.Jitter)+" (jitter)")
	}
	return words, notes
}

// shortDuration is a duration without units that are zero at its end.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
