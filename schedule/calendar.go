package schedule

import (
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/cron"
)

// Next returns the first tick of a schedule after an instant; zero if there is none. It
// goes by the definition alone, whether the schedule is saved, enabled or due. If no ticks
// follow from the definition, the error is an *[Error].
func (v *Service) Next(s Schedule, after time.Time) (time.Time, error) {
	c, problems := v.newCalendar(&s)
	if c == nil && len(problems) == 0 {
		problems = s.Check()
	}
	if len(problems) > 0 {
		return time.Time{}, &Error{Schedule: s.Name, Problems: problems}
	}
	return c(after), nil
}

// newCalendar returns the ticks of a schedule, or what is wrong with it.
func (v *Service) newCalendar(s *Schedule) (Calendar, []courier.Problem) {
	var next Calendar
	switch {
	case !s.At.IsZero():
		next = func(after time.Time) time.Time {
			if s.At.After(after) {
				return s.At
			}
			return time.Time{}
		}
	case s.Every > 0:
		next = func(after time.Time) time.Time { return nextInterval(s.Starts, s.Every, after) }
	default:
		return v.cronCalendar(s)
	}
	return bounded(s, next), nil
}

// cronCalendar is the calendar of a schedule with a cron expression.
func (v *Service) cronCalendar(s *Schedule) (Calendar, []courier.Problem) {
	var found []courier.Problem
	zone, err := v.zones.load(s.Zone)
	if err != nil {
		found = append(found, courier.Problem{Step: -1, Field: "time_zone", Message: err.Error()})
	}
	if s.Cron == "" {
		return nil, found
	}
	x, err := cron.Parse(s.Cron)
	if err != nil {
		found = append(found, courier.Problem{Step: -1, Field: "cron", Message: err.Error()})
	}
	if len(found) > 0 {
		return nil, found
	}
	return bounded(s, func(after time.Time) time.Time {
		if t, ok := x.Next(after, zone); ok {
			return t.UTC()
		}
		return time.Time{}
	}), nil
}

// nextInterval returns the first instant after one that is a whole number of
// intervals from start, or from 1970 where that is zero.
func nextInterval(start time.Time, every time.Duration, after time.Time) time.Time {
	if start.IsZero() {
		start = time.Unix(0, 0).UTC()
	}
	if after.Before(start) {
		return start
	}
	return start.Add((after.Sub(start)/every + 1) * every)
}

// bounded keeps a calendar within the schedule's Starts and Ends.
func bounded(s *Schedule, next Calendar) Calendar {
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

// zones keeps time zones, of which there are few, by their names.
type zones struct {
	mu  sync.Mutex
	all map[string]*cron.Zone
}

// maxZones bounds the zones that are kept.
const maxZones = 1000

// load returns the zone of a name.
func (z *zones) load(name string) (*cron.Zone, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if got := z.all[name]; got != nil {
		return got, nil
	}
	got, err := cron.LoadZone(name)
	if err != nil {
		return nil, err
	}
	if z.all == nil || len(z.all) >= maxZones {
		z.all = make(map[string]*cron.Zone)
	}
	z.all[name] = got
	return got, nil
}
