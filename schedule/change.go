package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
)

// user returns a function that reports whether a schedule uses the calendar of that name.
func user(name string) func(*Record) bool {
	return func(r *Record) bool {
		var def Schedule
		return json.Unmarshal(r.Body, &def) == nil && def.Calendar == name
	}
}

// Using returns the names of the schedules that use a calendar. The list is empty if the store
// keeps no schedules.
func (v *Service) Using(ctx context.Context, name string) ([]string, error) {
	return v.records.Using(ctx, user(name))
}

// Follow applies a changed calendar to the schedules that use it, from their next tick on. Was
// has the days of the calendar before the change; it is nil if the calendar is new. A tick that
// is due and has not fired is left to [PlanTicks]. A tick that waits for an execution fires.
func (v *Service) Follow(ctx context.Context, name string, was *calendar.Days, by courier.By) error {
	return v.records.Rewrite(ctx, user(name), func(a Store, r *Record, now time.Time) error { return v.follow(ctx, a, r, was, now, by) })
}

// follow computes the next tick of a schedule again.
func (v *Service) follow(ctx context.Context, a Store, r *Record, was *calendar.Days, now time.Time, by courier.By) error {
	var def Schedule
	if json.Unmarshal(r.Body, &def) != nil || def.Calendar == "" || r.Disabled || r.Paused || r.Waiting {
		return nil
	}
	def.MovesFrom = r.MovesFrom
	t, err := v.Timetables(ctx)(&def)
	if err != nil {
		if _, wrong := errors.AsType[*Error](err); wrong {
			return nil // which the schedule itself says
		}
		return err
	}
	var before *Timetable
	if was != nil {
		b := *t
		b.days = was
		if was.Zone().String() != t.days.Zone().String() {
			b.wall = nil
		}
		before = &b
	}
	put := *r
	missed := put.moves(t, before, now)
	if r.Next.IsZero() || r.Next.After(now) {
		put.Next = t.since(put.MovesFrom).Next(now)
	}
	if put.Next.Equal(r.Next) && len(missed) == 0 && r.Problem == "" {
		return nil
	}
	put.Problem, put.Due = "", TickAt(r.Name, put.Next, def.Jitter)
	if _, err := a.PutSchedule(ctx, put); err != nil {
		return fmt.Errorf("schedule %q: %w", r.Name, err)
	}
	v.note(ctx, r.Name, missed, by)
	return nil
}
