package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// A Report says when a schedule will fire.
type Report struct {
	Schedule string `json:"schedule"`            // its name
	Words    string `json:"words,omitempty"`     // such as "At 05:30:00 on weekdays (Monday to Friday)"
	Zone     string `json:"time_zone,omitempty"` // an IANA name; empty means UTC
	// Next are the next times by the store's clock, in the schedule's zone,
	// without jitter; none if Reason or Problem says why.
	Next    []time.Time `json:"next"`
	Notes   []string    `json:"notes,omitempty"`   // what happens when the clocks change within the next 400 days, and on closed days
	Reason  string      `json:"reason,omitempty"`  // why it does not fire: disabled, paused, or over
	Problem string      `json:"problem,omitempty"` // why it could not fire
}

// Reports reports on the schedules that start a job or a chain, with the next n times of each. It
// returns at most limit schedules, in byte order of their names, and whether there are more. If
// check is not nil, it returns why an execution with the parameters of a schedule can't be
// started. Reports returns nothing if the store keeps no schedules.
func (v *Service) Reports(ctx context.Context, kind store.Kind, target string, limit, n int, check func(params map[string]any) error) (list []Report, more bool, err error) {
	a, err := v.opt.Store()
	if err != nil || target == "" {
		return nil, false, nil
	}
	call, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	t, err := a.Schedules(call, Filter{Kind: kind, Target: target, Limit: limit + 1})
	if err != nil {
		return nil, false, fmt.Errorf("read schedules: %w", err)
	}
	if more = len(t.List) > limit; more {
		t.List = t.List[:limit]
	}
	tables := v.Timetables(call)
	for i := range t.List {
		s := publicSchedule(&t.List[i])
		r, err := report(&s, tables, t.Now, n)
		if err != nil {
			return nil, false, fmt.Errorf("read calendars: %w", err)
		}
		if r.Problem == "" && check != nil {
			if err := check(s.Params); err != nil {
				r.Problem = text.Plain(err)
			}
		}
		list = append(list, r)
	}
	return list, more, nil
}

// report says when a saved schedule will fire. The error is from the store.
func report(s *Schedule, tables func(*Schedule) (*Timetable, error), now time.Time, n int) (Report, error) {
	r := Report{Schedule: s.Name, Zone: s.Zone, Next: []time.Time{}}
	t, err := tables(s)
	if wrong, ok := errors.AsType[*Error](err); ok {
		r.Problem = wrong.Error()
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Words, r.Notes = words(s, now)
	r.Notes = t.OnOpenDays(r.Notes)
	if s.Problem != "" {
		r.Notes = append(r.Notes, "the last time it could not fire: "+s.Problem)
	}
	switch {
	case s.Disabled || s.Paused:
		r.Reason = cmp.Or(s.Reason, "it is disabled")
		return r, nil
	case s.NextFire.IsZero():
		r.Reason = "it has no time to fire any more"
		return r, nil
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		zone = time.UTC
	}
	for at := s.NextFire; !at.IsZero() && len(r.Next) < n; at = t.Next(at) {
		r.Next = append(r.Next, at.In(zone))
	}
	if len(r.Next) > 0 {
		for _, closed := range t.Closed(now, t.until(r.Next[len(r.Next)-1]), maxNotes) {
			r.Notes = append(r.Notes, closed.Text)
		}
	}
	return r, nil
}

// maxNotes is the maximum number of closed days that a report names.
const maxNotes = 10

// until returns the end of the closed days whose ticks are moved to the day of a tick.
func (t *Timetable) until(tick time.Time) time.Time {
	if t.days == nil || t.def.onClosed() != ClosedPrevious {
		return tick
	}
	return t.begin(t.days.Next(t.days.On(tick)))
}

// closedWords say what happens to ticks of closed days.
var closedWords = map[OnClosed]string{
	ClosedSkip: "left out", ClosedNext: "moved to the next open day", ClosedPrevious: "moved to the open day before",
}

// words describes a schedule, with notes about its times.
func words(s *Schedule, now time.Time) (words string, notes []string) {
	switch {
	case !s.At.IsZero():
		words = "Once"
	case s.Every > 0:
		words = "Every " + shortDuration(s.Every)
	default:
		if x, err := ExplainCron(s.Cron, s.Zone, now, 1); err == nil {
			words, notes = x.Words, x.Notes
		}
	}
	if s.Calendar != "" {
		notes = append(notes, fmt.Sprintf("ticks of days that the calendar %q closes are %s", s.Calendar, closedWords[s.onClosed()]))
	}
	if s.Jitter > 0 {
		notes = append(notes, "each time is late by up to "+shortDuration(s.Jitter)+" (jitter)")
	}
	return words, notes
}

// shortDuration returns the text of a duration without zero units at its end.
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
