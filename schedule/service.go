package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/named"
	"github.com/courierhq/courier/internal/target"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Targets are the jobs and chains that schedules start.
type Targets interface {
	// CheckStart returns the problems of an execution of the latest version of a job, or of a
	// chain if job is empty, with these parameters. The field of a problem is job, chain, params
	// or the name of a parameter, such as params.day. The error is from the store.
	CheckStart(ctx context.Context, job, chain string, params map[string]any) ([]courier.Problem, error)
	// Prepare adds a new execution of the job or chain of d to a firing, and returns its id. The
	// execution has the parameters and the priority of s, and the idempotency key. Its requester
	// is f.By.
	Prepare(ctx context.Context, f *Firing, d *store.Definition, s *Schedule, key string) (courier.ExecutionID, error)
}

// Options are the parts of the engine that a [Service] uses. All must be set.
type Options struct {
	// Store returns the store's role that keeps schedules. If the store does not have the role,
	// the error matches [errors.ErrUnsupported].
	Store   func() (Store, error)
	Targets Targets
	// Calendar returns the days of a calendar. If there is no calendar of that name, the error
	// matches [courier.ErrNotFound].
	Calendar func(ctx context.Context, name string) (*calendar.Days, error)
	// Changed is called after somebody has changed a schedule. The entry is for the
	// journal, without the actor; the attributes are for the log.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
	// Fired is called after firings were carried out.
	Fired func([]Fired)
	// Awaited is called when [Store.AwaitSchedules] has returned. Stores also use it to announce
	// changes of monitors and deadlines.
	Awaited func()
	Log     *slog.Logger  // of [Service.Run]
	Poll    time.Duration // the delay before Run repeats a failed call to the store
}

// A Service manages the schedules of one store. Its methods may be called by several goroutines.
// If the store keeps no schedules, the errors of methods that need it match
// [errors.ErrUnsupported].
type Service struct {
	opt     Options
	records named.Records[Store, Record, Record]
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service {
	return &Service{opt: opt, records: named.Records[Store, Record, Record]{
		Kind: "schedule", Store: opt.Store, Changed: opt.Changed,
		List: func(ctx context.Context, a Store, name, after string) ([]Record, time.Time, error) {
			t, err := a.Schedules(ctx, Filter{Name: name, After: after})
			return t.List, t.Now, err
		},
		Name: func(r *Record) string { return r.Name }, Write: Store.PutSchedule, Delete: Store.RemoveSchedule,
	}}
}

// Set checks a schedule and saves it under its name. Started engines on the same store then fire
// it. If it equals the saved schedule, Set returns the saved one and writes nothing, so a program
// may set its schedules at each start. Otherwise it replaces the saved schedule and keeps its
// state. If the ticks change, the next tick is the first after now. If the schedule can't be
// saved, the error is an *[Error], which lists all problems.
func (v *Service) Set(ctx context.Context, s Schedule, by courier.By) (Schedule, error) {
	s.At, s.Starts, s.Ends = plainTime(s.At), plainTime(s.Starts), plainTime(s.Ends)
	fail := func(err error) (Schedule, error) {
		return Schedule{}, fmt.Errorf("set schedule %q: %w", s.Name, err)
	}
	if _, err := v.opt.Store(); err != nil {
		return fail(err)
	}
	body, t, problems, err := v.checkSchedule(ctx, &s)
	if err != nil {
		return fail(err)
	}
	if len(problems) > 0 {
		return Schedule{}, &Error{Schedule: s.Name, Problems: problems}
	}
	var missed []ClosedDay
	got, err := v.records.Change(ctx, "set", store.Action{Name: s.Name, Verb: "set", Job: s.Job, Now: body}, by, func(old *Record, now time.Time) (put Record, err error) {
		put, missed, err = v.setSchedule(ctx, old, &s, body, t, now, by)
		return put, err
	})
	if problems, ok := errors.AsType[*Error](err); ok {
		return Schedule{}, problems
	}
	if err != nil {
		return Schedule{}, err
	}
	v.note(ctx, s.Name, missed, by)
	return publicSchedule(got), nil
}

// checkSchedule returns the problems of a schedule, and the body that the store keeps. The error
// is from the store.
func (v *Service) checkSchedule(ctx context.Context, s *Schedule) (body json.RawMessage, t *Timetable, problems []courier.Problem, err error) {
	problems = s.Check()
	t, more, err := v.timetable(ctx, s, make(map[string]*calendar.Days))
	if err != nil {
		return nil, nil, nil, err
	}
	problems = append(problems, more...)
	if s.Job != "" || s.Chain != "" { // otherwise Check has reported it
		more, err := v.opt.Targets.CheckStart(ctx, s.Job, s.Chain, s.Params)
		if err != nil {
			return nil, nil, nil, err
		}
		problems = append(problems, more...)
	}
	body, err = jsontext.Append(nil, s.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Field: "params", Message: err.Error()})
	}
	return body, t, problems, nil
}

// Check returns the problems and the warnings of a schedule that is to be set, by the clock of
// this process. It saves nothing. The error is from the store.
func (v *Service) Check(ctx context.Context, s Schedule) (problems, warnings []courier.Problem, err error) {
	_, t, problems, err := v.checkSchedule(ctx, &s)
	if err != nil || len(problems) > 0 {
		return problems, nil, err
	}
	if t.days != nil && s.Cron != "" && t.days.Zone().String() != t.zone() {
		warnings = append(warnings, courier.Problem{Step: -1, Field: "calendar", Message: fmt.Sprintf("the days of calendar %q are those of %s, and the times of cron are those of %s; give both the same time zone unless that is meant", s.Calendar, t.days.Zone(), t.zone())})
	}
	never := begin(new(Record), t, time.Now())
	if bad, ok := errors.AsType[*Error](never); ok {
		if !s.At.IsZero() || !s.Ends.IsZero() { // it may have fired
			return nil, append(warnings, bad.Problems...), nil
		}
		return bad.Problems, warnings, nil
	}
	return nil, warnings, never
}

// Compare returns, as JSON, the schedule that is saved under the name, nil if there is none, and
// the schedule that Set would save. Same reports whether Set would change nothing. Compare checks
// nothing else.
func (v *Service) Compare(ctx context.Context, s Schedule) (was, now json.RawMessage, same bool, err error) {
	s.At, s.Starts, s.Ends = plainTime(s.At), plainTime(s.Starts), plainTime(s.Ends)
	old, err := v.records.Look(ctx, s.Name)
	if err == nil {
		now, err = jsontext.Append(nil, s.Definition())
	}
	if err != nil || old == nil {
		return nil, now, false, err
	}
	var kept Schedule
	same = json.Unmarshal(old.Body, &kept) == nil && sameSchedule(old, &kept, &s)
	return old.Body, now, same, nil
}

// plainTime returns t in the form in which the store keeps it.
func plainTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}

// setSchedule returns the record to save in place of old, which may be nil. It also returns the
// closed days whose ticks could be moved only to a time that has passed.
func (v *Service) setSchedule(ctx context.Context, old *Record, s *Schedule, body json.RawMessage, t *Timetable, now time.Time, by courier.By) (Record, []ClosedDay, error) {
	kind, name := target.Of(s.Job, s.Chain)
	put := Record{Name: s.Name}
	var was Schedule
	same := false // whether the ticks are the same
	if old != nil {
		put = *old
		same = json.Unmarshal(old.Body, &was) == nil && was.SameTicks(s)
		if sameSchedule(old, &was, s) {
			return put, nil, named.ErrUnchanged
		}
	}
	if put.Kind != kind || put.Target != name {
		put.Open, put.LastExecution, put.Failures = nil, "", 0
	}
	put.Kind, put.Target, put.Body, put.Problem = kind, name, body, ""
	if fired := !was.At.IsZero() && put.Reason != "" && put.Last.Equal(was.At); !same && fired {
		put.Disabled, put.Reason = false, "" // it has a new At
	}
	if s.Disabled && !put.Disabled {
		put.Disabled, put.Reason = true, "it was disabled"+by.String()
	}
	if same && !put.Next.IsZero() && !put.Disabled {
		put.Due = TickAt(s.Name, put.Next, s.Jitter) // the firing of an engine that is firing it now is refused
		return put, nil, nil
	}
	var missed []ClosedDay
	if !put.Disabled && !put.Paused {
		var before *Timetable
		if old != nil {
			was.MovesFrom = old.MovesFrom
			var err error
			if before, _, err = v.timetable(ctx, &was, make(map[string]*calendar.Days)); err != nil {
				return put, nil, err
			}
		}
		missed = put.moves(t, before, now)
	}
	return put, missed, begin(&put, t.since(put.MovesFrom), now)
}

// moves changes MovesFrom if ticks of closed days could be moved only to a time that has passed,
// and returns these days. Was is the timetable before the change; nil if there was none.
func (s *Status) moves(t, was *Timetable, now time.Time) []ClosedDay {
	missed := t.missed(was, now)
	if len(missed) > 0 {
		s.MovesFrom = now
	}
	return missed
}

// since returns the timetable with [Status].MovesFrom.
func (t *Timetable) since(from time.Time) *Timetable {
	c := *t
	c.from = from
	return &c
}

// note adds an entry to the journal about ticks of closed days that could be moved only to a time
// that has passed, and so are moved to a later open day.
func (v *Service) note(ctx context.Context, schedule string, missed []ClosedDay, by courier.By) {
	if len(missed) == 0 {
		return
	}
	list := make([]string, len(missed))
	for i := range missed {
		list[i] = missed[i].Text
	}
	now, err := jsontext.Append(nil, list)
	if err == nil {
		v.opt.Changed(ctx, by, store.Action{Kind: "schedule", Name: schedule, Verb: "moved", Now: now})
	}
}

// sameSchedule reports whether a record, whose definition is was, has the effective values of s.
func sameSchedule(old *Record, was, s *Schedule) bool {
	return text.SameJSON(was.WithDefaults().Definition(), s.WithDefaults().Definition()) && (old.Disabled || !s.Disabled)
}

// begin sets the next tick to the first tick after now, unless the schedule is disabled or
// paused.
func begin(put *Record, t *Timetable, now time.Time) error {
	s := &t.def
	put.Waiting, put.Next, put.Due = false, time.Time{}, time.Time{}
	next := t.Next(now)
	if next.IsZero() {
		p := courier.Problem{Step: -1, Field: "cron", Message: "it never fires: no day matches all fields"}
		switch {
		case !s.At.IsZero():
			p.Field, p.Message = "at", fmt.Sprintf("%s is in the past; by the store's clock it is %s", s.At.Format(time.RFC3339), now.Format(time.RFC3339))
		case !s.Ends.IsZero():
			p.Field, p.Message = "ends_at", fmt.Sprintf("there is no time to fire until %s; by the store's clock it is %s", s.Ends.Format(time.RFC3339), now.Format(time.RFC3339))
		case t.days != nil && !t.raw(now).IsZero():
			p.Field, p.Message = "calendar", fmt.Sprintf("it never fires: all its ticks are on days that %q closes", s.Calendar)
		}
		return &Error{Schedule: s.Name, Problems: []courier.Problem{p}}
	}
	if !put.Disabled && !put.Paused {
		put.Next, put.Due = next, TickAt(s.Name, next, s.Jitter)
	}
	return nil
}

// publicSchedule returns a saved schedule as users see it, with the default in every field that
// was not set.
func publicSchedule(s *Record) Schedule {
	var p Schedule
	if err := json.Unmarshal(s.Body, &p); err != nil {
		p = Schedule{Name: s.Name, Problem: fmt.Sprintf("it can't be read: %v", err)}
		p.Job, p.Chain = target.Names(s.Kind, s.Target)
	}
	p = p.WithDefaults()
	p.Disabled, p.Paused, p.Reason, p.Waiting = s.Disabled, s.Paused, s.Reason, s.Waiting
	p.NextFire, p.LastFire, p.LastExecution = s.Next, s.Last, s.LastExecution
	p.Failures, p.SavedAt, p.MovesFrom = s.Failures, s.SavedAt, s.MovesFrom
	if s.Problem != "" {
		p.Problem = s.Problem
	}
	return p
}

// Enable makes a disabled or paused schedule fire again, from the first tick after now, and
// resets the count of failures. It changes nothing for a schedule that is neither. If the
// schedule has no further tick, the error is an *[Error].
func (v *Service) Enable(ctx context.Context, name string, by courier.By) (Schedule, error) {
	return v.switchSchedule(ctx, "enable", name, by, func(s *Record, now time.Time) error {
		if !s.Disabled && !s.Paused {
			return named.ErrUnchanged
		}
		var def Schedule
		if err := json.Unmarshal(s.Body, &def); err != nil {
			return err
		}
		def.MovesFrom = s.MovesFrom
		t, err := v.Timetables(ctx)(&def)
		if err != nil {
			return err
		}
		s.Disabled, s.Paused, s.Reason, s.Failures, s.Problem = false, false, "", 0, ""
		return begin(s, t, now)
	})
}

// Disable stops a schedule from firing until it is enabled. Ticks that come in the meantime do
// not fire later.
func (v *Service) Disable(ctx context.Context, name string, by courier.By) (Schedule, error) {
	return v.switchSchedule(ctx, "disable", name, by, func(s *Record, _ time.Time) error {
		if s.Disabled {
			return named.ErrUnchanged
		}
		s.Disabled, s.Waiting, s.Next, s.Due = true, false, time.Time{}, time.Time{}
		s.Reason = "it was disabled" + by.String()
		return nil
	})
}

// switchSchedule changes the status of an existing schedule.
func (v *Service) switchSchedule(ctx context.Context, verb, name string, by courier.By, change func(*Record, time.Time) error) (Schedule, error) {
	got, err := v.records.Change(ctx, verb, store.Action{Name: name, Verb: verb + "d"}, by, func(old *Record, now time.Time) (Record, error) {
		if old == nil {
			return Record{}, courier.ErrNotFound
		}
		put := *old
		return put, change(&put, now)
	})
	if err != nil {
		return Schedule{}, err
	}
	return publicSchedule(got), nil
}

// Remove removes a schedule. Executions that it has started continue.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	return v.records.Remove(ctx, name, by)
}

// Get returns a schedule in its present state. Every field that has a default is set.
// If there is no such schedule, the error matches [courier.ErrNotFound].
func (v *Service) Get(ctx context.Context, name string) (Schedule, error) {
	s, err := v.records.Get(ctx, name)
	if err != nil {
		return Schedule{}, err
	}
	return publicSchedule(s), nil
}

// List returns a page of schedules, in byte order of their names.
func (v *Service) List(ctx context.Context, f Filter) ([]Schedule, error) {
	a, err := v.opt.Store()
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	t, err := a.Schedules(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	list := make([]Schedule, len(t.List))
	for i := range t.List {
		list[i] = publicSchedule(&t.List[i])
	}
	return list, nil
}
