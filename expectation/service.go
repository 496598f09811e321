package expectation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/duepoll"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/named"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
)

// Options are the parts of the engine that a [Service] uses. All must be set.
type Options struct {
	// Store returns the store's role that keeps expectations. If the store does not have the
	// role, the error matches [errors.ErrUnsupported].
	Store func() (Store, error)
	// Calendar returns the days of a calendar. If there is no calendar of that name, the error
	// matches [courier.ErrNotFound]. The errors of the next two functions are like that.
	Calendar func(ctx context.Context, name string) (*calendar.Days, error)
	Monitor  func(ctx context.Context, name string) (monitor.Monitor, error)
	Job      func(ctx context.Context, name string) error // nil if there is a job of that name
	// Look returns the monitor of an expectation that polls a directory itself, and its problems;
	// see Look of package monitor.
	Look func(ctx context.Context, m monitor.Monitor) (monitor.Record, []courier.Problem)
	// PollSoon makes the monitors poll what is due, after the monitor of an expectation was
	// saved.
	PollSoon func()
	// Told returns a function that reports whether anybody is notified if files of the named
	// expectation are missing.
	Told func(ctx context.Context) (func(name string) bool, error)
	// Changed is called after somebody has changed an expectation. The entry is for the
	// journal, without the actor; the attributes are for the log.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
	// Happened is called with the events of looks that were written.
	Happened func([]Event)
	NewID    func() string // returns a new UUID
	// StoreWakes says that [Service.Wake] is called when any engine saves an expectation.
	// While there are none, Run then looks for one every 5 minutes; otherwise it looks every
	// 30 seconds.
	StoreWakes bool
	Log        *slog.Logger  // of Run
	Poll       time.Duration // the delay before Run repeats a failed call to the store
}

// A Service manages the expectations of one store. Its methods may be called by several
// goroutines. If the store keeps no expectations, the errors of methods that need it match
// [errors.ErrUnsupported].
type Service struct {
	opt     Options
	records named.Records[Store, Record, Put]
	loop    *duepoll.Loop
}

// NewService returns the service of an engine. It starts nothing.
func NewService(opt Options) *Service {
	v := &Service{opt: opt, loop: duepoll.New(duepoll.Options{What: "look at expectations", Log: opt.Log, Poll: opt.Poll, Wakes: opt.StoreWakes})}
	v.records = named.Records[Store, Record, Put]{
		Kind: "expectation", Store: opt.Store, Changed: opt.Changed,
		List: func(ctx context.Context, a Store, name, after string) ([]Record, time.Time, error) {
			list, err := a.Expectations(ctx, Filter{Name: name, After: after})
			return list.List, list.Now, err
		},
		Name: func(r *Record) string { return r.Name }, Delete: Store.RemoveExpectation,
		Write: func(a Store, ctx context.Context, p Put) (Record, error) {
			got, err := a.PutExpectation(ctx, p)
			if err == nil {
				v.loop.Now()
				if p.Look != nil {
					v.opt.PollSoon()
				}
			}
			return got, err
		},
	}
	return v
}

// A Saved is the result of [Service.Set].
type Saved struct {
	Expectation Expectation
	Warnings    []courier.Problem // doubtful settings, such as that nobody is notified
}

// Set checks an expectation and saves it under its name. Started engines on the same store then
// look for its files. If it equals the saved expectation, nothing is saved, so a program may set
// its expectations at each start. A change applies to days whose window has not ended. If the
// expectation can't be saved, the error is an *[Error], which lists all problems.
func (v *Service) Set(ctx context.Context, e Expectation, by courier.By) (Saved, error) {
	fail := func(err error) (Saved, error) { return Saved{}, fmt.Errorf("set expectation %q: %w", e.Name, err) }
	if _, err := v.opt.Store(); err != nil {
		return fail(err)
	}
	t, body, problems, warnings, err := v.check(ctx, &e)
	if err != nil {
		return fail(err)
	}
	look, more := v.look(ctx, t)
	if problems = append(problems, more...); len(problems) > 0 {
		return Saved{}, &Error{Expectation: e.Name, Problems: problems}
	}
	var now time.Time
	got, err := v.records.Change(ctx, "set", store.Action{Name: e.Name, Verb: "set", Now: body}, by, func(old *Record, at time.Time) (Put, error) {
		now = at
		return t.put(old, body, look, at)
	})
	if err != nil {
		return Saved{}, err
	}
	for _, w := range warnings {
		v.opt.Log.Warn("expectation", "expectation", e.Name, "warning", w.String())
	}
	return Saved{public(got, now), warnings}, nil
}

// put returns the expectation to save in place of old, which may be nil. Look is the monitor of
// an expectation that polls a directory itself.
func (t *Timetable) put(old *Record, body json.RawMessage, look *monitor.Record, now time.Time) (Put, error) {
	p := Put{Record: Record{Name: t.def.Name}}
	var was Expectation
	var m memory
	if old != nil {
		p.Record, m = *old, readMemory(old.Memory)
		if json.Unmarshal(old.Body, &was) == nil && text.SameJSON(was.Definition(), t.def.Definition()) {
			return p, named.ErrUnchanged
		}
	}
	if old == nil || was.Disabled && !t.def.Disabled {
		m.Since = now
		m.Through = (calendar.DateOf(now.In(t.zone)) - 3).String()
	}
	if old == nil || was.From.source() != t.def.From.source() || was.Pattern != t.def.Pattern || was.Disabled && !t.def.Disabled {
		m.FilesSince, m.SeenUntil, m.Taken, m.Gaps, m.LookedAt, m.MatchedAt, m.FirstLook = now, now.Add(-24*time.Hour), nil, nil, time.Time{}, time.Time{}, time.Time{}
	}
	if look != nil && (old == nil || was.From != t.def.From || was.Pattern != t.def.Pattern || was.Disabled) {
		p.Look = &monitor.Put{Record: *look, Forget: was.From.source() != t.def.From.source()}
	}
	m.Problem = ""
	p.Monitor, p.Job, p.Prefix, p.Body = t.def.monitor(), t.def.From.Job, t.pattern.prefix, body
	p.Progress = m.progress()
	if t.def.Disabled {
		p.After, p.Look = never, nil
		if t.def.From.looks() {
			p.Monitor = "" // nobody polls for it
		}
	}
	return p, nil
}

// never is the After of an expectation that is not due.
const never = -1

// progress returns the memory in the form in which a store keeps it.
func (m *memory) progress() Progress {
	raw, _ := jsontext.Append(nil, m)
	return Progress{SeenFrom: m.SeenUntil.Add(-overlap), ArrivalsFrom: (m.through() - remembered).String(), Memory: raw}
}

// check returns the problems and the warnings of an expectation. If there are no problems, it
// also returns the timetable and the body that the store keeps. The error is from the store.
func (v *Service) check(ctx context.Context, e *Expectation) (t *Timetable, body json.RawMessage, problems, warnings []courier.Problem, err error) {
	problem := func(list *[]courier.Problem, field, format string, args ...any) {
		*list = append(*list, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	// lookUp reports an unknown name. Its error is from the store.
	lookUp := func(field, name string, find func() error) error {
		if name == "" {
			return nil
		}
		err := find()
		if errors.Is(err, courier.ErrNotFound) || errors.Is(err, courier.ErrInvalid) {
			problem(&problems, field, "%s", strings.TrimPrefix(text.Plain(err), "monitor: "))
			return nil
		}
		return err
	}
	var days *calendar.Days
	if err := lookUp("calendar", e.Calendar, func() (err error) { days, err = v.opt.Calendar(ctx, e.Calendar); return err }); err != nil {
		return nil, nil, nil, nil, err
	}
	err = lookUp("from.monitor", e.From.Monitor, func() error {
		m, err := v.opt.Monitor(ctx, e.From.Monitor)
		if err == nil {
			warnings = append(warnings, ofMonitor(e, &m)...)
		}
		return err
	})
	if err == nil {
		err = lookUp("from.job", e.From.Job, func() error { return v.opt.Job(ctx, e.From.Job) })
	}
	if err != nil {
		return nil, nil, nil, nil, err
	}
	t, more := e.read(days)
	problems = append(more, problems...)
	if t.timed && len(problems) == 0 {
		wrong, doubtful := t.checkDays(calendar.DateOf(time.Now().In(t.zone)))
		problems, warnings = append(problems, wrong...), append(warnings, doubtful...)
	}
	told, err := v.opt.Told(ctx)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if !told(e.Name) {
		problem(&warnings, "name", "nobody is told if a file does not come: no subscription has the event %s of this expectation", courier.EventFileMissing)
	}
	if body, err = jsontext.Append(nil, e.Definition()); err != nil {
		problem(&problems, "", "%v", err)
	}
	return t, body, problems, warnings, nil
}

// ofMonitor returns warnings about the monitor from which files are expected.
func ofMonitor(e *Expectation, m *monitor.Monitor) (warnings []courier.Problem) {
	warn := func(field, format string, args ...any) {
		warnings = append(warnings, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if every := m.WithDefaults().Every; every > unseenFor {
		warn("from.monitor", "monitor %q polls every %s: a file may be seen that much later than it came", m.Name, short(every))
	}
	if p, err := readPattern(e.Pattern); err == nil && len(m.Patterns) > 0 {
		example := p.example()
		if !m.Selects(example) {
			warn("pattern", "monitor %q does not select files such as %q; its patterns are %s", m.Name, example, strings.Join(m.Patterns, ", "))
		}
	}
	return warnings
}

// example returns a name that the pattern matches.
func (p *pattern) example() string {
	name := p.text
	if from, to := strings.IndexByte(name, '{'), strings.IndexByte(name, '}'); from >= 0 && to > from {
		name = name[:from] + time.Date(2031, 1, 2, 0, 0, 0, 0, time.UTC).Format(p.layout) + name[to+1:]
	}
	return strings.NewReplacer("*", "1", "?", "1").Replace(name)
}

// look returns the monitor of an expectation that polls a directory itself, nil for any other,
// and the problems of its directory.
func (v *Service) look(ctx context.Context, t *Timetable) (*monitor.Record, []courier.Problem) {
	f := &t.def.From
	if !f.looks() {
		return nil, nil
	}
	m := monitor.Monitor{Expectation: t.def.Name, Lister: f.Lister, Connection: f.Connection, Path: f.Path, Every: t.every}
	if t.pattern != nil {
		m.Patterns = []string{t.pattern.glob()}
	}
	r, problems := v.opt.Look(ctx, m)
	for i := range problems {
		problems[i].Field = "from." + strings.TrimSuffix(problems[i].Field, "_seconds")
	}
	return &r, problems
}

// Check returns the problems and the warnings of an expectation that is to be set. It checks the
// directory of an expectation that polls it itself only if listers is true, because not every
// process has the listers. It saves nothing. The error is from the store.
func (v *Service) Check(ctx context.Context, e Expectation, listers bool) (problems, warnings []courier.Problem, err error) {
	t, _, problems, warnings, err := v.check(ctx, &e)
	if listers && err == nil {
		_, more := v.look(ctx, t)
		problems = append(problems, more...)
	}
	if len(problems) > 0 {
		warnings = nil
	}
	return problems, warnings, err
}

// Compare returns, as JSON, the expectation that is saved under the name, nil if there is none,
// and the expectation that Set would save. Same reports whether Set would change nothing. Compare
// checks nothing else.
func (v *Service) Compare(ctx context.Context, e Expectation) (was, now json.RawMessage, same bool, err error) {
	old, err := v.records.Look(ctx, e.Name)
	if err == nil {
		now, err = jsontext.Append(nil, e.Definition())
	}
	if err != nil || old == nil {
		return nil, now, false, err
	}
	var kept Expectation
	same = json.Unmarshal(old.Body, &kept) == nil && text.SameJSON(kept.Definition(), e.Definition())
	return old.Body, now, same, nil
}

// public returns a saved expectation as users see it.
func public(r *Record, now time.Time) Expectation {
	var e Expectation
	if err := json.Unmarshal(r.Body, &e); err != nil {
		e = Expectation{Name: r.Name, From: From{Monitor: r.Monitor, Job: r.Job}} // also of an expectation with a Path
		e.Health.Problem = fmt.Sprintf("the definition can't be read: %v", err)
	}
	m := readMemory(r.Memory)
	e.SavedAt = r.SavedAt
	e.Health.LookedAt, e.Health.MatchedAt = m.LookedAt, m.MatchedAt
	if m.Problem != "" {
		e.Health.Problem = m.Problem
	}
	quiet := m.FilesSince
	if m.MatchedAt.After(quiet) {
		quiet = m.MatchedAt
	}
	if !e.Disabled && !now.IsZero() && now.Sub(quiet) > quietFor {
		e.Health.Hint = fmt.Sprintf("no file of the pattern %s was seen in 30 days; compare it with the names of the files that come", e.Pattern)
	}
	return e
}

// Told returns a function that reports whether an observer of this engine or a subscription is
// notified if files of the named expectation are missing.
func (v *Service) Told(ctx context.Context) (func(name string) bool, error) { return v.opt.Told(ctx) }

// Remove removes an expectation and its arrivals.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	return v.records.Remove(ctx, name, by)
}

// Get returns an expectation. If there is no such expectation, the error matches
// [courier.ErrNotFound] and suggests the nearest name.
func (v *Service) Get(ctx context.Context, name string) (Expectation, error) {
	a, err := v.opt.Store()
	var found *Record
	var now time.Time
	if err == nil {
		found, now, err = v.records.Find(ctx, a, name)
	}
	if err == nil && found == nil {
		err = v.records.Unknown(ctx, a, name)
	}
	if err != nil {
		return Expectation{}, fmt.Errorf("expectation: %w", err)
	}
	return public(found, now), nil
}

// List returns a page of expectations, in byte order of their names.
func (v *Service) List(ctx context.Context, f Filter) ([]Expectation, error) {
	a, err := v.opt.Store()
	var got List
	if err == nil {
		got, err = a.Expectations(ctx, f)
	}
	if err != nil {
		return nil, fmt.Errorf("expectations: %w", err)
	}
	list := make([]Expectation, len(got.List))
	for i := range got.List {
		list[i] = public(&got.List[i], got.Now)
	}
	return list, nil
}

// Arrivals returns a page of arrivals, the latest date first. Arrivals of one date are in byte
// order of the names of their expectations.
func (v *Service) Arrivals(ctx context.Context, f ArrivalFilter) ([]Arrival, error) {
	a, err := v.opt.Store()
	var got []Kept
	if err == nil {
		got, err = a.Arrivals(ctx, f)
	}
	var list []Arrival
	for i := range got {
		var x Arrival
		if err == nil {
			x, err = got[i].arrival()
			list = append(list, x)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("arrivals: %w", err)
	}
	return list, nil
}

// arrival decodes the record of a row.
func (k *Kept) arrival() (a Arrival, err error) {
	if err := json.Unmarshal(k.Body, &a); err != nil {
		return a, fmt.Errorf("the arrival of %q on %s can't be read: %w", k.Expectation, k.Date, err)
	}
	a.ID = k.ID
	return a, nil
}

// Kept returns the arrival in the form in which a store keeps it, for example for
// [ArrivalFilter].After.
func (a *Arrival) Kept() Kept {
	return Kept{ID: a.ID, Expectation: a.Expectation, Date: a.Date, State: a.State, Body: json.RawMessage(body(a))}
}

// Count returns the number of arrivals in each state between two dates. Both dates are included,
// and have the form 2026-11-29.
func (v *Service) Count(ctx context.Context, from, to string) (map[State]int, error) {
	a, err := v.opt.Store()
	var n map[State]int
	if err == nil {
		n, err = a.CountArrivals(ctx, from, to)
	}
	if err != nil {
		return nil, fmt.Errorf("arrivals: %w", err)
	}
	return n, nil
}

// user returns a function that reports whether an expectation uses the calendar of that name.
func user(name string) func(*Record) bool {
	return func(r *Record) bool {
		var e Expectation
		return json.Unmarshal(r.Body, &e) == nil && e.Calendar == name
	}
}

// Using returns the names of the expectations that use a calendar. The list is empty if the store
// keeps no expectations.
func (v *Service) Using(ctx context.Context, name string) ([]string, error) {
	return v.records.Using(ctx, user(name))
}

// Follow applies a changed calendar to the expectations that use it: each becomes due at once.
// Future days that the calendar now closes are excused.
func (v *Service) Follow(ctx context.Context, name string) error {
	return v.records.Rewrite(ctx, user(name), func(a Store, r *Record, _ time.Time) error {
		if r.Due.IsZero() {
			return nil // it is disabled
		}
		if _, err := a.PutExpectation(ctx, Put{Record: *r}); err != nil {
			return fmt.Errorf("expectation %q: %w", r.Name, err)
		}
		v.loop.Now()
		return nil
	})
}

// maxWrites is the maximum number of attempts to write an expectation that others change at the
// same time.
const maxWrites = 20

// Excuse says that nothing is expected on a date any more, for example because a partner is
// closed that day. The reason by.Reason must not be empty. The date has the form 2026-11-29. It
// is the date of a record whose files are not there, or a future date. If files are there
// already, or the date does not count, the error matches [courier.ErrConflict].
func (v *Service) Excuse(ctx context.Context, name, date string, by courier.By) (Arrival, error) {
	fail := func(err error) (Arrival, error) {
		return Arrival{}, fmt.Errorf("excuse expectation %q on %s: %w", name, date, err)
	}
	day, err := calendar.ParseDate(date)
	if err != nil {
		return fail(courier.Errorf(courier.ErrInvalid, "%v", err))
	}
	if strings.TrimSpace(by.Reason) == "" {
		return fail(courier.Errorf(courier.ErrInvalid, "the reason is missing; say why nothing is expected, such as: closed today"))
	}
	s, err := v.records.Open(by)
	if err != nil {
		return fail(err)
	}
	for n := 1; ; n++ {
		r, now, err := v.records.Find(ctx, s, name)
		if err == nil && r == nil {
			err = v.records.Unknown(ctx, s, name)
		}
		if err != nil {
			return fail(err)
		}
		a, err := v.toExcuse(ctx, s, r, day, now)
		if err == nil {
			err = a.excuse(by.Actor, by.Reason, now)
		}
		if err != nil {
			return fail(err)
		}
		done, err := s.RecordLooks(ctx, []Look{{Expectation: name, Revision: r.Revision, Progress: r.Progress, Arrivals: []Kept{a.Kept()}}})
		if err != nil {
			return fail(err)
		}
		if !done[0] {
			if n == maxWrites {
				return fail(courier.Errorf(courier.ErrConflict, "it keeps being changed; try again"))
			}
			continue
		}
		v.loop.Now()
		raw, err := jsontext.Append(nil, map[string]string{"date": a.Date})
		if err == nil {
			v.opt.Changed(ctx, by, store.Action{Kind: "expectation", Name: name, Verb: "excused", Now: raw})
		}
		return *a, err
	}
}

// toExcuse returns the record of a day. It may be a new record of a future day.
func (v *Service) toExcuse(ctx context.Context, s Store, r *Record, day calendar.Date, now time.Time) (*Arrival, error) {
	list, err := s.Arrivals(ctx, ArrivalFilter{Expectations: []string{r.Name}, From: day.String(), To: day.String(), Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(list) == 1 {
		a, err := list[0].arrival()
		return &a, err
	}
	t, err := v.timetable(ctx, r, make(map[string]*calendar.Days))
	if err != nil {
		return nil, err
	}
	today := calendar.DateOf(now.In(t.zone))
	if why := t.Why(day); why != "" {
		return nil, courier.Errorf(courier.ErrConflict, "nothing is expected then: %s", why)
	}
	if day <= today-1 || day > today+366 {
		return nil, courier.Errorf(courier.ErrConflict, "there is no record of that day, and it is not one of the next 366")
	}
	return t.newArrival(v.opt.NewID(), day), nil
}

// timetable returns the timetable of a record. Known has the calendars that were read already.
func (v *Service) timetable(ctx context.Context, r *Record, known map[string]*calendar.Days) (*Timetable, error) {
	var e Expectation
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return nil, courier.Errorf(courier.ErrInvalid, "the definition can't be read: %v", err)
	}
	var days *calendar.Days
	if e.Calendar != "" {
		if days = known[e.Calendar]; days == nil {
			var err error
			if days, err = v.opt.Calendar(ctx, e.Calendar); err != nil {
				return nil, err
			}
			known[e.Calendar] = days
		}
	}
	return New(e, days)
}

// A Summary is a summary of the arrivals of an expectation.
type Summary struct {
	OnTime     int `json:"on_time"`
	Late       int `json:"late"`
	Missing    int `json:"missing"` // or incomplete
	Excused    int `json:"excused,omitempty"`
	MedianLate int `json:"median_seconds"` // the median of all arrivals, counted from Until; negative means before Until
	P95Late    int `json:"p95_seconds"`
}

// Summarize returns a summary of arrivals. Future arrivals do not count.
func Summarize(list []Arrival) (s Summary) {
	var after []int
	for i := range list {
		a := &list[i]
		switch a.State {
		case Arrived:
			s.OnTime++
		case Late:
			s.Late++
		case Missing, Incomplete:
			s.Missing++
		case Excused:
			s.Excused++
		}
		if a.State == Arrived || a.State == Late {
			after = append(after, int(a.ArrivedAt.Sub(a.Until)/time.Second))
		}
	}
	if len(after) > 0 {
		slices.Sort(after)
		s.MedianLate, s.P95Late = after[(len(after)-1)/2], after[(len(after)*95+99)/100-1]
	}
	return s
}
