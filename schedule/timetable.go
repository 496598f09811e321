package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/cron"
	"github.com/courierhq/courier/internal/text"
)

// A Timetable has the ticks of a schedule, by its definition and its calendar, if it has one. It
// never changes, has no clock, does no I/O, and may be used by several goroutines.
// [Service.Timetables] makes it.
type Timetable struct {
	def  Schedule
	raw  Ticks // as if every day were open
	days *calendar.Days
	// wall has the ticks of a cron expression in the zone of the calendar, on a clock that never
	// changes for summer time, as instants in UTC. It is nil for other ticks.
	wall Ticks
	// from is [Status].MovesFrom.
	from time.Time
}

// Next returns the first tick after an instant; zero if there is none. It is a [Ticks].
func (t *Timetable) Next(after time.Time) time.Time {
	if t.days == nil {
		return t.raw(after)
	}
	next := t.moved
	if t.def.onClosed() == ClosedSkip {
		next = t.open
	}
	return bounded(&t.def, next)(after)
}

// Next returns the first tick of a schedule after an instant; zero if there is none. It uses only
// the definition; the schedule need not be saved, enabled or due. If the definition is invalid,
// the error is an *[Error].
func (v *Service) Next(ctx context.Context, s Schedule, after time.Time) (time.Time, error) {
	t, err := v.Timetables(ctx)(&s)
	if err != nil {
		return time.Time{}, err
	}
	return t.Next(after), nil
}

// Timetables returns a function that returns the timetable of a schedule, saved or not. The
// function reads each calendar once. If the definition of a schedule is invalid, its error is an
// *[Error]; other errors are from the store. The function is for one goroutine and one request:
// it does not see later changes of calendars.
func (v *Service) Timetables(ctx context.Context) func(*Schedule) (*Timetable, error) {
	known := make(map[string]*calendar.Days)
	return func(s *Schedule) (*Timetable, error) {
		t, problems, err := v.timetable(ctx, s, known)
		if err != nil {
			return nil, err
		}
		if t == nil && len(problems) == 0 {
			problems = s.Check()
		}
		if len(problems) > 0 {
			return nil, &Error{Schedule: s.Name, Problems: problems}
		}
		return t, nil
	}
}

// timetable returns the ticks of a schedule, or its problems. Known has the calendars that were
// read already. The error is from the store.
func (v *Service) timetable(ctx context.Context, s *Schedule, known map[string]*calendar.Days) (*Timetable, []courier.Problem, error) {
	t := &Timetable{def: *s, from: s.MovesFrom}
	var found []courier.Problem
	switch {
	case !s.At.IsZero():
		t.raw = func(after time.Time) time.Time {
			if s.At.After(after) {
				return s.At
			}
			return time.Time{}
		}
	case s.Every > 0:
		t.raw = func(after time.Time) time.Time { return nextInterval(s.Starts, s.Every, after) }
	default:
		found = v.cronTicks(t)
	}
	if s.Calendar != "" {
		days := known[s.Calendar]
		if days == nil {
			var err error
			days, err = v.opt.Calendar(ctx, s.Calendar)
			switch {
			case errors.Is(err, courier.ErrNotFound), errors.Is(err, courier.ErrInvalid):
				found = append(found, courier.Problem{Step: -1, Field: "calendar", Message: text.Plain(err)})
			case err != nil:
				return nil, nil, err
			default:
				known[s.Calendar] = days
			}
		}
		t.days = days
	}
	if len(found) > 0 || t.raw == nil {
		return nil, found, nil
	}
	if zone := t.zone(); t.days != nil && t.days.Zone().String() != zone {
		t.wall = nil // a tick may have another date in the zone of the calendar
	}
	t.raw = bounded(&t.def, t.raw)
	return t, nil, nil
}

// zone returns the name of the schedule's zone.
func (t *Timetable) zone() string {
	if t.def.Zone == "" {
		return time.UTC.String()
	}
	return t.def.Zone
}

// cronTicks adds the ticks of a cron expression, or returns its problems.
func (v *Service) cronTicks(t *Timetable) (found []courier.Problem) {
	zone, err := cron.LoadZone(t.def.Zone)
	if err != nil {
		found = append(found, courier.Problem{Step: -1, Field: "time_zone", Message: err.Error()})
	}
	if t.def.Cron == "" {
		return found
	}
	x, err := cron.Parse(t.def.Cron)
	if err != nil {
		return append(found, courier.Problem{Step: -1, Field: "cron", Message: err.Error()})
	}
	in := func(zone *cron.Zone) Ticks {
		return func(after time.Time) time.Time {
			if t, ok := x.Next(after, zone); ok {
				return t.UTC()
			}
			return time.Time{}
		}
	}
	t.raw, t.wall = in(zone), in(nil)
	return found
}

// nextInterval returns the first instant after the given one that is a whole number of intervals
// after start, or after 1970-01-01 UTC if start is zero.
func nextInterval(start time.Time, every time.Duration, after time.Time) time.Time {
	if start.IsZero() {
		start = time.Unix(0, 0).UTC()
	}
	if after.Before(start) {
		return start
	}
	return start.Add((after.Sub(start)/every + 1) * every)
}

// bounded limits ticks to the schedule's Starts and Ends.
func bounded(s *Schedule, next Ticks) Ticks {
	return func(after time.Time) time.Time {
		if !s.Starts.IsZero() && after.Before(s.Starts) {
			after = s.Starts.Add(-time.Nanosecond)
		}
		t := next(after)
		if !s.Ends.IsZero() && t.After(s.Ends) {
			return time.Time{}
		}
		return t
	}
}
