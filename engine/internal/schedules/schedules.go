package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Set checks a schedule and saves it under its name, so that started
// engines on the same store fire it. If it equals the one that is there, that
// one is returned, as it stands, and nothing is saved: a program may set its
// schedules whenever it starts. Otherwise it replaces that one and goes on
// where that one was; if its ticks change, the next is the first after now. The
// error of a schedule that can't be saved is a *[courier.ScheduleError], which
// lists everything that is wrong with it.
func (v *Service) Set(ctx context.Context, s courier.Schedule, by courier.By) (courier.Schedule, error) {
	s.At, s.Starts, s.Ends = plainTime(s.At), plainTime(s.Starts), plainTime(s.Ends)
	fail := func(err error) (courier.Schedule, error) {
		return courier.Schedule{}, fmt.Errorf("set schedule %q: %w", s.Name, err)
	}
	a, err := v.opt.Roles.Schedules()
	if err != nil {
		return fail(err)
	}
	body, c, problems, err := v.checkSchedule(ctx, &s)
	if err != nil {
		return fail(err)
	}
	if len(problems) > 0 {
		return courier.Schedule{}, &courier.ScheduleError{Schedule: s.Name, Problems: problems}
	}
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	changed := false
	got, err := v.changeSchedule(ctx, a, s.Name, func(old *store.Schedule, now time.Time) (store.Schedule, error) {
		put, err := setSchedule(old, &s, body, c, now, by)
		changed = err == nil
		return put, err
	})
	if problems, ok := errors.AsType[*courier.ScheduleError](err); ok {
		return courier.Schedule{}, problems
	}
	if err != nil {
		return fail(err)
	}
	if changed {
		v.opt.Changed(ctx, core.Change{Kind: "schedule", Name: s.Name, Verb: "set", By: by, Job: s.Job, Now: body})
	}
	return got, nil
}

// checkSchedule finds what is wrong with a schedule, and returns what is kept of
// it. Its error is one of the store.
func (v *Service) checkSchedule(ctx context.Context, s *courier.Schedule) (body json.RawMessage, c store.Calendar, problems []courier.Problem, err error) {
	problems = s.Check()
	c, more := v.newCalendar(s)
	problems = append(problems, more...)
	target, err := v.checkTarget(ctx, s)
	if err != nil {
		return nil, nil, nil, err
	}
	problems = append(problems, target...)
	body, err = jsontext.Append(nil, s.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Field: "params", Message: err.Error()})
	}
	return body, c, problems, nil
}

// Check finds what is wrong with a schedule, by the clock of this process, and what
// looks doubtful. Its error is one of the store.
func (v *Service) Check(ctx context.Context, s *courier.Schedule) (problems, warnings []courier.Problem, err error) {
	_, calendar, problems, err := v.checkSchedule(ctx, s)
	if err != nil || len(problems) > 0 {
		return problems, nil, err
	}
	never := begin(new(store.Schedule), s, calendar, time.Now())
	if bad, ok := errors.AsType[*courier.ScheduleError](never); ok {
		if !s.At.IsZero() || !s.Ends.IsZero() { // it may have fired
			return nil, bad.Problems, nil
		}
		return bad.Problems, nil, nil
	}
	return nil, nil, never
}

// plainTime is t as the store keeps it.
func plainTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}

// errUnchanged says that there is nothing to save.
var errUnchanged = errors.New("unchanged")

// setSchedule returns what is to be saved in place of old, which may be nil.
func setSchedule(old *store.Schedule, s *courier.Schedule, body json.RawMessage, c store.Calendar, now time.Time, by courier.By) (store.Schedule, error) {
	kind, target := targetOf(s)
	put := store.Schedule{Name: s.Name}
	var was courier.Schedule
	same := false // the ticks are
	if old != nil {
		put = *old
		same = json.Unmarshal(old.Body, &was) == nil && was.SameTicks(s)
		if text.SameJSON(was.WithDefaults().Definition(), s.WithDefaults().Definition()) && (old.Disabled || !s.Disabled) {
			return put, errUnchanged
		}
	}
	if put.Kind != kind || put.Target != target {
		put.Open, put.LastExecution, put.Failures = nil, "", 0
	}
	put.Kind, put.Target, put.Body, put.Problem = kind, target, body, ""
	if fired := !was.At.IsZero() && put.Reason != "" && put.Last.Equal(was.At); !same && fired {
		put.Disabled, put.Reason = false, "" // another one shot
	}
	if s.Disabled && !put.Disabled {
		put.Disabled, put.Reason = true, "it was disabled"+by.String()
	}
	if same && !put.Next.IsZero() && !put.Disabled {
		put.Due = store.TickAt(s.Name, put.Next, s.Jitter) // an engine that is firing it now is refused
		return put, nil
	}
	return put, begin(&put, s, c, now)
}

// begin lets a schedule go on with the first tick after now, unless it is
// disabled or paused.
func begin(put *store.Schedule, s *courier.Schedule, c store.Calendar, now time.Time) error {
	put.Waiting, put.Next, put.Due = false, time.Time{}, time.Time{}
	next := c(now)
	if next.IsZero() {
		p := courier.Problem{Step: -1, Field: "cron", Message: "it never fires: no day matches all fields"}
		switch {
		case !s.At.IsZero():
			p.Field, p.Message = "at", fmt.Sprintf("%s is in the past; by the store's clock it is %s", s.At.Format(time.RFC3339), now.Format(time.RFC3339))
		case !s.Ends.IsZero():
			p.Field, p.Message = "ends_at", fmt.Sprintf("there is no time to fire until %s; by the store's clock it is %s", s.Ends.Format(time.RFC3339), now.Format(time.RFC3339))
		}
		return &courier.ScheduleError{Schedule: s.Name, Problems: []courier.Problem{p}}
	}
	if !put.Disabled && !put.Paused {
		put.Next, put.Due = next, store.TickAt(s.Name, next, s.Jitter)
	}
	return nil
}

// maxChanges is how often a change is tried again when there was another one meanwhile.
const maxChanges = 20

// changeSchedule saves what change makes of a schedule, which is nil if there is
// none, again if it was changed meanwhile.
func (v *Service) changeSchedule(ctx context.Context, a store.Schedules, name string, change func(old *store.Schedule, now time.Time) (store.Schedule, error)) (courier.Schedule, error) {
	for n := 1; ; n++ {
		t, err := a.Schedules(ctx, store.ScheduleFilter{Name: name})
		if err != nil {
			return courier.Schedule{}, err
		}
		var old *store.Schedule
		if len(t.List) > 0 {
			old = &t.List[0]
		}
		put, err := change(old, t.Now)
		if errors.Is(err, errUnchanged) {
			return publicSchedule(&put), nil
		}
		if err != nil {
			return courier.Schedule{}, err
		}
		put, err = a.PutSchedule(ctx, put)
		if errors.Is(err, courier.ErrConflict) && n < maxChanges {
			continue
		}
		if err != nil {
			return courier.Schedule{}, err
		}
		return publicSchedule(&put), nil
	}
}

// publicSchedule is what a store keeps of a schedule, as users see it: with the
// values that hold where none was given.
func publicSchedule(s *store.Schedule) courier.Schedule {
	var p courier.Schedule
	if err := json.Unmarshal(s.Body, &p); err != nil {
		p = courier.Schedule{Problem: fmt.Sprintf("it can't be read: %v", err)}
		if p.Name = s.Name; s.Kind == store.Job {
			p.Job = s.Target
		} else {
			p.Chain = s.Target
		}
	}
	p = p.WithDefaults()
	p.Disabled, p.Paused, p.Reason, p.Waiting = s.Disabled, s.Paused, s.Reason, s.Waiting
	p.NextFire, p.LastFire, p.LastExecution = s.Next, s.Last, s.LastExecution
	p.Failures, p.SavedAt = s.Failures, s.SavedAt
	if s.Problem != "" {
		p.Problem = s.Problem
	}
	return p
}

// targetOf returns what a schedule starts.
func targetOf(s *courier.Schedule) (store.Kind, string) {
	if s.Chain != "" {
		return store.Chain, s.Chain
	}
	return store.Job, s.Job
}

// checkTarget finds what is wrong with the job or chain that a schedule starts, and
// with its params.
func (v *Service) checkTarget(ctx context.Context, s *courier.Schedule) ([]courier.Problem, error) {
	if s.Job == "" && s.Chain == "" {
		return nil, nil // which Check reports
	}
	problem := func(field string, err error) []courier.Problem {
		return []courier.Problem{{Step: -1, Field: field, Message: text.Plain(err)}}
	}
	field := "job"
	if s.Job == "" {
		field = "chain"
	}
	t, err := v.opt.Targets.Target(ctx, s.Job, s.Chain)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return problem(field, err), nil
	case err != nil:
		return nil, err
	}
	if _, err := t.Prepare(ctx, core.Start{Params: s.Params}); err != nil {
		return core.ParamProblems(err), nil
	}
	return nil, nil
}

// Enable lets a schedule that was disabled or paused fire again, from
// the first tick after now on; the count of its failures begins anew. Of one
// that is neither, it changes nothing. The error of a
// schedule that has no tick any more is a *[courier.ScheduleError].
func (v *Service) Enable(ctx context.Context, name string, by courier.By) (courier.Schedule, error) {
	return v.switchSchedule(ctx, "enable", name, by, func(s *store.Schedule, now time.Time) error {
		if !s.Disabled && !s.Paused {
			return errUnchanged
		}
		var def courier.Schedule
		if err := json.Unmarshal(s.Body, &def); err != nil {
			return err
		}
		c, problems := v.newCalendar(&def)
		if len(problems) > 0 {
			return &courier.ScheduleError{Schedule: name, Problems: problems}
		}
		s.Disabled, s.Paused, s.Reason, s.Failures, s.Problem = false, false, "", 0, ""
		return begin(s, &def, c, now)
	})
}

// Disable keeps a schedule from firing until it is enabled. Ticks that
// come meanwhile are not made up for.
func (v *Service) Disable(ctx context.Context, name string, by courier.By) (courier.Schedule, error) {
	return v.switchSchedule(ctx, "disable", name, by, func(s *store.Schedule, _ time.Time) error {
		if s.Disabled {
			return errUnchanged
		}
		s.Disabled, s.Waiting, s.Next, s.Due = true, false, time.Time{}, time.Time{}
		s.Reason = "it was disabled" + by.String()
		return nil
	})
}

// switchSchedule changes a schedule that must be there.
func (v *Service) switchSchedule(ctx context.Context, verb, name string, by courier.By, change func(*store.Schedule, time.Time) error) (courier.Schedule, error) {
	fail := func(err error) (courier.Schedule, error) {
		return courier.Schedule{}, fmt.Errorf("%s schedule %q: %w", verb, name, err)
	}
	a, err := v.opt.Roles.Schedules()
	if err != nil {
		return fail(err)
	}
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	changed := false
	got, err := v.changeSchedule(ctx, a, name, func(old *store.Schedule, now time.Time) (store.Schedule, error) {
		if old == nil {
			return store.Schedule{}, v.unknownSchedule(ctx, a, name)
		}
		put := *old
		err := change(&put, now)
		changed = err == nil
		return put, err
	})
	if err != nil {
		return fail(err)
	}
	if changed {
		v.opt.Changed(ctx, core.Change{Kind: "schedule", Name: name, Verb: verb + "d", By: by})
	}
	return got, nil
}

// Remove removes a schedule. What it has started goes on.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	a, err := v.opt.Roles.Schedules()
	if err == nil {
		err = text.Check(text.By(by))
	}
	if err == nil {
		err = a.RemoveSchedule(ctx, name)
	}
	if errors.Is(err, courier.ErrNotFound) {
		err = v.unknownSchedule(ctx, a, name)
	}
	if err != nil {
		return fmt.Errorf("remove schedule %q: %w", name, err)
	}
	v.opt.Changed(ctx, core.Change{Kind: "schedule", Name: name, Verb: "removed", By: by})
	return nil
}

// Get returns a schedule as it stands, with a value in every field that has a
// default.
func (v *Service) Get(ctx context.Context, name string) (courier.Schedule, error) {
	list, err := v.List(ctx, store.ScheduleFilter{Name: name})
	if err != nil {
		return courier.Schedule{}, err
	}
	if len(list) == 0 {
		a, err := v.opt.Roles.Schedules()
		if err == nil {
			err = v.unknownSchedule(ctx, a, name)
		}
		return courier.Schedule{}, fmt.Errorf("schedule: %w", err)
	}
	return list[0], nil
}

// List returns a page of schedules, in byte order of their names.
func (v *Service) List(ctx context.Context, f store.ScheduleFilter) ([]courier.Schedule, error) {
	a, err := v.opt.Roles.Schedules()
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	t, err := a.Schedules(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	list := make([]courier.Schedule, len(t.List))
	for i := range t.List {
		list[i] = publicSchedule(&t.List[i])
	}
	return list, nil
}

func (v *Service) unknownSchedule(ctx context.Context, a store.Schedules, name string) error {
	var names []string
	t, _ := a.Schedules(ctx, store.ScheduleFilter{})
	for i := range t.List {
		names = append(names, t.List[i].Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no schedule %q; %s", name, nearest.DidYouMean(name, names))
}
