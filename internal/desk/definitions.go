package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/ticks"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// JobsOf returns the jobs that a definition is about. For a subscription they are the jobs whose
// events it selects, and the job that it starts. "" stands for all jobs: it is included if the
// definition names no job, or names a chain.
func JobsOf(d courier.Definition) []string {
	switch d := d.(type) {
	case *courier.Job:
		return []string{d.Name}
	case *schedule.Schedule:
		return started(d.Job, d.Chain)
	case *monitor.Monitor:
		return started(d.Job, d.Chain)
	case *notify.Subscription:
		jobs := slices.Clone(d.Jobs)
		if len(d.Jobs) == 0 || len(d.Chains) > 0 {
			jobs = append(jobs, "")
		}
		if d.Job != nil {
			jobs = append(jobs, d.Job.Name)
		}
		return jobs
	}
	return []string{""}
}

// started returns the jobs of a definition that starts a job or a chain. An invalid definition
// may name both.
func started(job, chain string) []string {
	if job != "" && chain != "" {
		return []string{job, ""}
	}
	return []string{job}
}

// Has reports whether the visitor has the given rights for each job; see [JobsOf].
func (v *Visit) Has(ctx context.Context, jobs []string, rights access.Role) bool {
	for _, job := range jobs {
		if !v.Can(ctx, job, rights) {
			return false
		}
	}
	return true
}

// NeedEach is like [Visit.Need], for each of several jobs.
func (v *Visit) NeedEach(ctx context.Context, jobs []string, rights access.Role) error {
	for _, job := range jobs {
		if err := v.Need(ctx, job, rights); err != nil {
			return err
		}
	}
	return nil
}

// MayChange returns an error if the visitor may not save a definition: it needs the role editor
// for all jobs that the definition is about. If the definition names a job that does not exist,
// the error is the same as for a job that the visitor must not know, because the engine's error
// would suggest names of other jobs.
func (v *Visit) MayChange(ctx context.Context, kind string, d courier.Definition) error {
	if v.Can(ctx, "", access.RightEdit) {
		return nil
	}
	starts := kind != "job" && kind != "chain"
	for _, job := range JobsOf(d) {
		if job == "" && starts {
			return &access.Error{Text: "a " + kind + " that names no job, or a chain, needs the role editor for all jobs"}
		}
		if err := v.Need(ctx, job, access.RightEdit); err != nil {
			return err
		}
		if !starts {
			continue
		}
		if _, err := v.d.e.Jobs().Get(ctx, job, 0); errors.Is(err, courier.ErrNotFound) {
			return errUnknown
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Changed returns [ErrUnchanged] if a request has changed nothing. Fields that engines write are
// ignored, such as when a schedule last fired.
func Changed[T any](was, now T) error {
	before, err1 := json.Marshal(asSet(was))
	after, err2 := json.Marshal(asSet(now))
	if err1 == nil && err2 == nil && bytes.Equal(before, after) {
		return ErrUnchanged
	}
	return nil
}

// asSet returns the fields that people set.
func asSet(v any) any {
	switch v := v.(type) {
	case schedule.Schedule:
		return []any{v.Definition(), v.Disabled, v.Paused, v.Reason}
	case monitor.Monitor:
		return []any{v.Definition(), v.State, v.Reason}
	}
	return v
}

// Pick returns a page of the elements of a list that the visitor may see, and the name after
// which the next page begins; it is empty if there is none. The list is read in pages that are
// ordered by name. A page can have fewer elements than the limit and still have a next page: the
// call stops when it has examined enough.
func Pick[T any](after string, limit int, read func(after string, limit int) ([]T, error), name func(*T) string, sees func(*T) bool) (list []T, next string, err error) {
	list = []T{}
	for examined := 0; examined < maxWalk; {
		size := min(pageSize, max(limit, min(examined, 100), 16)) // a definition may be large
		page, err := read(after, size)
		if err != nil {
			return nil, "", err
		}
		for i := range page {
			after = name(&page[i])
			if !sees(&page[i]) {
				continue
			}
			if list = append(list, page[i]); len(list) == limit {
				if i == len(page)-1 && len(page) < size {
					after = ""
				}
				return list, after, nil
			}
		}
		if len(page) < size {
			return list, "", nil
		}
		examined += len(page)
	}
	return list, after, nil
}

// Jobs returns a page of the jobs for which the visitor has a role and whose names begin with a
// text, in their latest versions. A client may start them, but sees nothing of their definitions.
func (v *Visit) Jobs(ctx context.Context, beginning, after string, limit int) ([]courier.DefinedJob, string, error) {
	return pickBeginning(beginning, after, limit, func(after string, limit int) ([]courier.DefinedJob, error) {
		return v.d.e.Jobs().List(ctx, store.DefinitionFilter{After: after, Limit: limit})
	}, func(j *courier.DefinedJob) string { return j.Job.Name }, func(j *courier.DefinedJob) bool { return v.Role(ctx, j.Job.Name) != access.None })
}

// Ticks returns the ticks of the enabled schedules that the visitor may see, from one instant up
// to, but not including, another. Cut also says that there are more schedules than were read.
func (v *Visit) Ticks(ctx context.Context, from, to time.Time) (ticks.TickList, error) {
	list, next, err := v.Schedules(ctx, "", store.DefaultCountLimit)
	if err != nil {
		return ticks.TickList{}, err
	}
	c := ticks.Between(v.d.e.Schedules().Timetables(ctx), list, from, to)
	c.Cut = c.Cut || next != ""
	return c, ctx.Err()
}

// Week returns the ticks of the enabled schedules that the visitor may see, for a number of days
// starting with the day of an instant. Cut says that there are more schedules than were read.
func (v *Visit) Week(ctx context.Context, from time.Time, days int, zone *time.Location) (ticks.Week, error) {
	list, next, err := v.Schedules(ctx, "", store.DefaultCountLimit)
	if err != nil {
		return ticks.Week{}, err
	}
	w, err := ticks.OfDays(ctx, v.d.e.Schedules().Timetables(ctx), list, from, days, zone)
	w.Cut = next != ""
	return w, err
}

// Schedules returns a page of the schedules that the visitor may see.
func (v *Visit) Schedules(ctx context.Context, after string, limit int) ([]schedule.Schedule, string, error) {
	return Pick(after, limit, func(after string, limit int) ([]schedule.Schedule, error) {
		return v.d.e.Schedules().List(ctx, schedule.Filter{After: after, Limit: limit})
	}, func(s *schedule.Schedule) string { return s.Name }, func(s *schedule.Schedule) bool { return v.Has(ctx, JobsOf(s), access.RightSee) })
}

// Calendars returns a page of the calendars. They belong to no job: a visitor who may see one
// sees all.
func (v *Visit) Calendars(ctx context.Context, after string, limit int) ([]calendar.Calendar, string, error) {
	return Pick(after, limit, func(after string, limit int) ([]calendar.Calendar, error) {
		return v.d.e.Calendars().List(ctx, store.DefinitionFilter{After: after, Limit: limit})
	}, func(c *calendar.Calendar) string { return c.Name }, func(c *calendar.Calendar) bool { return v.Has(ctx, JobsOf(c), access.RightSee) })
}

// Monitors returns a page of the monitors that the visitor may see.
func (v *Visit) Monitors(ctx context.Context, after string, limit int) ([]monitor.Monitor, string, error) {
	return Pick(after, limit, func(after string, limit int) ([]monitor.Monitor, error) {
		return v.d.e.Monitors().List(ctx, monitor.Filter{After: after, Limit: limit})
	}, func(m *monitor.Monitor) string { return m.Name }, func(m *monitor.Monitor) bool { return v.Has(ctx, JobsOf(m), access.RightSee) })
}

// Expectations returns a page of the expectations. They belong to no job: a visitor who may see
// one sees all.
func (v *Visit) Expectations(ctx context.Context, after string, limit int) ([]expectation.Expectation, string, error) {
	return Pick(after, limit, func(after string, limit int) ([]expectation.Expectation, error) {
		return v.d.e.Expectations().List(ctx, expectation.Filter{After: after, Limit: limit})
	}, func(x *expectation.Expectation) string { return x.Name }, func(x *expectation.Expectation) bool { return v.Has(ctx, JobsOf(x), access.RightSee) })
}

// Subscriptions returns a page of the subscriptions that the visitor may see.
func (v *Visit) Subscriptions(ctx context.Context, after string, limit int) ([]notify.Subscription, string, error) {
	return Pick(after, limit, func(after string, limit int) ([]notify.Subscription, error) {
		return v.d.e.Subscriptions().List(ctx, notify.Filter{After: after, Limit: limit})
	}, func(s *notify.Subscription) string { return s.Name }, func(s *notify.Subscription) bool { return v.Has(ctx, JobsOf(s), access.RightSee) })
}
