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

// eachUser calls do for each schedule that goes by a calendar.
func (v *Service) eachUser(ctx context.Context, name string, do func(a Store, r *Record, def *Schedule, now time.Time) error) error {
	a, err := v.opt.Store()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	const page = 1000
	f := Filter{Limit: page}
	for err == nil {
		var t List
		if t, err = a.Schedules(ctx, f); err != nil {
			break
		}
		for i := range t.List {
			r := &t.List[i]
			f.After = r.Name
			var def Schedule
			if json.Unmarshal(r.Body, &def) != nil || def.Calendar != name {
				continue
			}
			if err := do(a, r, &def, t.Now); err != nil {
				return err
			}
		}
		if len(t.List) < page {
			return nil
		}
	}
	return fmt.Errorf("schedules: %w", err)
}

// Using returns the names of the schedules that go by a calendar. There is none if the store
// keeps no schedules.
func (v *Service) Using(ctx context.Context, name string) (names []string, err error) {
	err = v.eachUser(ctx, name, func(_ Store, r *Record, _ *Schedule, _ time.Time) error {
		names = append(names, r.Name)
		return nil
	})
	return names, err
}

// Follow makes the schedules that go by a calendar follow it from their next tick on, after it
// was changed. Was are the days that held before; nil if there was no such calendar. A tick
// that has come and not fired is left to [PlanTicks], and one that waits for an execution fires.
func (v *Service) Follow(ctx context.Context, name string, was *calendar.Days, by courier.By) error {
	return v.eachUser(ctx, name, func(a Store, r *Record, def *Schedule, now time.Time) error {
		for n := 1; ; n++ {
			err := v.follow(ctx, a, r, was, now, by)
			if !errors.Is(err, courier.ErrConflict) || n == maxWrites {
				return err
			}
			t, err := a.Schedules(ctx, Filter{Name: r.Name})
			if err != nil {
				return fmt.Errorf("schedules: %w", err)
			}
			if len(t.List) == 0 {
				return nil // it was removed meanwhile
			}
			r, now = &t.List[0], t.Now
		}
	})
}

// maxWrites is how often a schedule is written that others change meanwhile.
const maxWrites = 20

// follow computes the next tick of a schedule anew.
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
