package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/duepoll"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/named"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/target"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Targets are the jobs and chains that monitors start.
type Targets interface {
	// CheckStart returns the problems of an execution of the latest version of a job, or of a
	// chain if job is empty, with these parameters. The field of a problem is job, chain, params
	// or the name of a parameter, such as params.day. The error is from the store.
	CheckStart(ctx context.Context, job, chain string, params map[string]any) ([]courier.Problem, error)
	// Latest returns the latest version of a job, or of a chain if job is empty. If there
	// is none, the error matches [courier.ErrNotFound].
	Latest(ctx context.Context, job, chain string) (Target, error)
}

// A Target is one version of a job or of a chain.
type Target interface {
	// Params returns the parameters that the target declares; nil if it takes any.
	Params() map[string]any
	// Prepare adds a new execution of the target to the result of a poll, and returns its
	// id.
	Prepare(ctx context.Context, r *PollResult, opt courier.EnqueueOptions) (courier.ExecutionID, error)
}

// Options are the parts of the engine that a [Service] uses. All must be set, except where a
// comment says otherwise.
type Options struct {
	// Store returns the store's role that keeps monitors. If the store does not have the role,
	// the error matches [errors.ErrUnsupported].
	Store   func() (Store, error)
	Targets Targets
	// Calendar returns the days of a calendar. If there is no calendar of that name, the error
	// matches [courier.ErrNotFound].
	Calendar func(ctx context.Context, name string) (*calendar.Days, error)
	// Listers list directories. The keys are the lister names that monitors use. If it is empty,
	// [Service.Run] polls nothing.
	Listers map[string]courier.Lister
	// NewContext returns the context of one listing for the monitor of that name, and the
	// redactor that has the secrets that the lister requests from the context. The service closes
	// the context.
	NewContext func(monitor string) (*courier.Context, *courier.Redactor)
	// Changed is called after somebody has changed a monitor. The entry is for the
	// journal, without the actor; the attributes are for the log.
	Changed func(ctx context.Context, by courier.By, a store.Action, more ...slog.Attr)
	// Recorded is called after the result of a poll was written.
	Recorded  func(Recorded)
	MaxParams int // bytes of the parameters of an execution
	// StoreWakes says that [Service.Wake] is called when any engine saves a monitor.
	// While there are no monitors, Run then looks for one every 5 minutes; otherwise it
	// looks every 30 seconds.
	StoreWakes bool
	Log        *slog.Logger  // of Run
	Poll       time.Duration // the delay before Run repeats a failed call to the store
}

// A Service manages the monitors of one store. Its methods may be called by several goroutines.
// If the store keeps no monitors, the errors of methods that need it match
// [errors.ErrUnsupported].
type Service struct {
	opt     Options
	records named.Records[Store, Record, Put]
	loop    *duepoll.Loop

	mu       sync.Mutex
	early    map[string]bool // monitors whose directories may have changed
	known    map[string]known
	watchers map[string]directoryWatcher
}

// New returns the service of an engine. It starts nothing.
func New(opt Options) *Service {
	v := &Service{
		opt: opt, loop: duepoll.New(duepoll.Options{What: "look for due monitors", Log: opt.Log, Poll: opt.Poll, Wakes: opt.StoreWakes}),
		early: make(map[string]bool), known: make(map[string]known), watchers: make(map[string]directoryWatcher),
	}
	v.records = named.Records[Store, Record, Put]{
		Kind: "monitor", Store: opt.Store, Changed: opt.Changed,
		List: func(ctx context.Context, a Store, name, after string) (list []Record, now time.Time, err error) {
			list, err = a.Monitors(ctx, Filter{Name: name, After: after})
			return list, now, err
		},
		Name: func(r *Record) string { return r.Name }, Delete: Store.RemoveMonitor,
		Write: func(a Store, ctx context.Context, p Put) (Record, error) {
			got, err := a.PutMonitor(ctx, p)
			if err == nil {
				v.loop.Now()
			}
			return got, err
		},
	}
	return v
}

// Set checks a monitor and saves it under its name. Started engines on the same store that have
// its lister then poll its directory. If it equals the saved monitor, Set returns the saved one
// and writes nothing, so a program may set its monitors at each start. Otherwise it replaces the
// saved monitor, and keeps the record of seen files unless the directory has changed. Files that
// are in the directory at the first poll count as created. If the monitor can't be saved, the
// error is an *[Error], which lists all problems.
func (v *Service) Set(ctx context.Context, m Monitor, by courier.By) (Monitor, error) {
	fail := func(err error) (Monitor, error) {
		return Monitor{}, fmt.Errorf("set monitor %q: %w", m.Name, err)
	}
	if _, err := v.opt.Store(); err != nil {
		return fail(err)
	}
	body, problems, err := v.checkMonitor(ctx, &m)
	if err != nil {
		return fail(err)
	}
	if problems = append(problems, v.checkLister(&m)...); len(problems) > 0 {
		return Monitor{}, &Error{Monitor: m.Name, Problems: problems}
	}
	got, err := v.records.Change(ctx, "set", store.Action{Name: m.Name, Verb: "set", Now: body}, by, func(old *Record, _ time.Time) (Put, error) {
		return setMonitor(old, &m, body, by)
	})
	if err != nil {
		return Monitor{}, err
	}
	return publicMonitor(got), nil
}

// checkMonitor returns the problems of a monitor, except those of its directory, and the body
// that the store keeps. The error is from the store.
func (v *Service) checkMonitor(ctx context.Context, m *Monitor) (body json.RawMessage, problems []courier.Problem, err error) {
	problems = m.Check()
	more, err := v.checkTarget(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	problems = append(problems, more...)
	if more, err = v.checkCalendar(ctx, m); err != nil {
		return nil, nil, err
	}
	problems = append(problems, more...)
	body, err = jsontext.Append(nil, m.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Field: "params", Message: err.Error()})
	}
	return body, problems, nil
}

// Check returns the problems of a monitor that is to be set. It checks the lister and the
// directory only if listers is true, because not every process has the listers. It saves nothing.
// The error is from the store.
func (v *Service) Check(ctx context.Context, m Monitor, listers bool) ([]courier.Problem, error) {
	_, problems, err := v.checkMonitor(ctx, &m)
	if listers {
		problems = append(problems, v.checkLister(&m)...)
	}
	return problems, err
}

// Compare returns, as JSON, the monitor that is saved under the name, nil if there is none, and
// the monitor that Set would save. Same reports whether Set would change nothing. Compare checks
// nothing else.
func (v *Service) Compare(ctx context.Context, m Monitor) (was, now json.RawMessage, same bool, err error) {
	old, err := v.records.Look(ctx, m.Name)
	if err == nil {
		now, err = jsontext.Append(nil, m.Definition())
	}
	if err != nil || old == nil {
		return nil, now, false, err
	}
	return old.Body, now, sameMonitor(old, &m), nil
}

// setMonitor returns the record to save in place of old, which may be nil.
func setMonitor(old *Record, m *Monitor, body json.RawMessage, by courier.By) (Put, error) {
	full := m.WithDefaults()
	put := Put{Record: Record{Name: m.Name, Status: Status{
		State: Active, Health: json.RawMessage("{}"),
	}}}
	if old != nil {
		put.Record = *old
		if sameMonitor(old, m) {
			return put, named.ErrUnchanged
		}
		var was Monitor
		put.Forget = json.Unmarshal(old.Body, &was) != nil || was.WithDefaults().Lister != full.Lister || was.Directory() != m.Directory()
	}
	put.Lister, put.Body = full.Lister, body
	put.Kind, put.Target = target.Of(m.Job, m.Chain)
	if m.Disabled && put.State != Disabled {
		put.State, put.Reason = Disabled, "it was disabled"+by.String()
	}
	if !put.State.Polls() {
		put.After = never
	}
	return put, nil
}

// sameMonitor reports whether a record has the effective values of a monitor, so that
// [Service.Get] returns what was set.
func sameMonitor(old *Record, m *Monitor) bool {
	var was Monitor
	if json.Unmarshal(old.Body, &was) != nil || m.Disabled && old.State != Disabled {
		return false
	}
	return text.SameJSON(was.WithDefaults().Definition(), m.WithDefaults().Definition())
}

// never is the After of a monitor that is not due.
const never = -1

// publicMonitor returns a saved monitor as users see it, with the default in every field that was
// not set.
func publicMonitor(m *Record) Monitor {
	var p Monitor
	unreadable := json.Unmarshal(m.Body, &p)
	if unreadable != nil {
		p = Monitor{Name: m.Name, Lister: m.Lister}
		if m.Kind == lookKind {
			p.Expectation = m.Target
		} else {
			p.Job, p.Chain = target.Names(m.Kind, m.Target)
		}
	}
	p = p.WithDefaults()
	p.Disabled = m.State == Disabled
	p.State, p.Reason, p.NextPoll, p.SavedAt = m.State, m.Reason, m.Due, m.SavedAt
	p.Health = healthOf(m)
	if unreadable != nil {
		p.Health.Problem = fmt.Sprintf("the definition can't be read: %v", unreadable)
	}
	return p
}

// healthOf returns the health of a monitor. If it can't be read, the result is the health of a
// new monitor.
func healthOf(m *Record) Health {
	var h Health
	if json.Unmarshal(m.Health, &h) != nil {
		return Health{}
	}
	return h
}

// checkLister returns the problems of a monitor's lister and directory.
func (v *Service) checkLister(m *Monitor) []courier.Problem {
	full := m.WithDefaults()
	problem := func(field, format string, args ...any) []courier.Problem {
		return []courier.Problem{{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)}}
	}
	l := v.opt.Listers[full.Lister]
	if l == nil {
		names := slices.Sorted(maps.Keys(v.opt.Listers))
		return problem("lister", "this engine has no lister %q; %s; see engine.Options.Listers", full.Lister, nearest.DidYouMean(full.Lister, names))
	}
	var found []courier.Problem
	if least := l.Least(); full.Every < least {
		found = problem("every_seconds", "%v is less than %v, the least with the lister %q", full.Every, least, full.Lister)
	}
	if m.Path == "" {
		return found // Check reports it
	}
	if err := l.Check(m.Directory()); err != nil {
		found = append(found, problem("path", "%v", err)...)
	}
	return found
}

// checkTarget returns the problems of a monitor's job or chain, and of its parameters.
func (v *Service) checkTarget(ctx context.Context, m *Monitor) ([]courier.Problem, error) {
	kind, name := target.Of(m.Job, m.Chain)
	if name == "" {
		return nil, nil // Check reports it
	}
	var declared map[string]any
	t, err := v.opt.Targets.Latest(ctx, m.Job, m.Chain)
	switch {
	case errors.Is(err, courier.ErrNotFound): // CheckStart reports it
	case err != nil:
		return nil, err
	default:
		declared = t.Params()
	}
	if _, ok := declared["files"]; declared != nil && !ok {
		return []courier.Problem{{Step: -1, Field: string(kind), Message: fmt.Sprintf("%s %q has params, but not %q, which holds the files; add it with the value null", kind, name, "files")}}, nil
	}
	sample := []readyFile{{file: courier.ListedFile{Name: "file", Path: m.Path + "/file"}, event: Created}}
	return v.opt.Targets.CheckStart(ctx, m.Job, m.Chain, monitorParams(declared, m, sample, time.Unix(0, 0).UTC()))
}

// Enable makes the engines poll the directory of a disabled or paused monitor again, at once.
// Files that came in the meantime are handed over. It changes nothing for a monitor that is
// polled. For a monitor in the state [Failed] the error matches [courier.ErrConflict]; use
// [Service.Acknowledge].
func (v *Service) Enable(ctx context.Context, name string, by courier.By) (Monitor, error) {
	return v.switchMonitor(ctx, "enable", name, by, func(m *Record) error {
		switch {
		case m.State.Polls():
			return named.ErrUnchanged
		case m.State == Failed:
			return courier.Errorf(courier.ErrConflict, "it is in the state error, since %s; acknowledge that", m.Reason)
		}
		m.State, m.Reason = Active, ""
		return nil
	})
}

// Pause stops the polling of a monitor until it is enabled. If the monitor is neither polled nor
// paused, the error matches [courier.ErrConflict].
func (v *Service) Pause(ctx context.Context, name string, by courier.By) (Monitor, error) {
	return v.switchMonitor(ctx, "pause", name, by, func(m *Record) error {
		switch {
		case m.State == Paused:
			return named.ErrUnchanged
		case !m.State.Polls():
			return courier.Errorf(courier.ErrConflict, "it is in the state %s, and can't be paused", m.State)
		}
		m.State, m.Reason = Paused, "it was paused"+by.String()
		return nil
	})
}

// Disable stops the polling of a monitor until it is enabled, whatever its state.
func (v *Service) Disable(ctx context.Context, name string, by courier.By) (Monitor, error) {
	return v.switchMonitor(ctx, "disable", name, by, func(m *Record) error {
		if m.State == Disabled {
			return named.ErrUnchanged
		}
		m.State, m.Reason = Disabled, "it was disabled"+by.String()
		return nil
	})
}

// Acknowledge makes the engines poll the directory of a monitor in the state [Failed] again, at
// once, and resets the count of failures. It changes nothing for a monitor in another state.
func (v *Service) Acknowledge(ctx context.Context, name string, by courier.By) (Monitor, error) {
	return v.switchMonitor(ctx, "acknowledge", name, by, func(m *Record) error {
		if m.State != Failed {
			return named.ErrUnchanged
		}
		m.State, m.Reason = Active, ""
		h := healthOf(m)
		h.Failures = 0
		health, err := jsontext.Append(nil, h)
		m.Health = health
		return err
	})
}

// switchMonitor changes the state of an existing monitor.
func (v *Service) switchMonitor(ctx context.Context, verb, name string, by courier.By, change func(*Record) error) (Monitor, error) {
	got, err := v.records.Change(ctx, verb, store.Action{Name: name, Verb: verb + "d"}, by, func(old *Record, _ time.Time) (Put, error) {
		if old == nil {
			return Put{}, courier.ErrNotFound
		}
		put := Put{Record: *old}
		err := change(&put.Record)
		if !put.State.Polls() {
			put.After = never
		}
		return put, err
	})
	if err != nil {
		return Monitor{}, err
	}
	return publicMonitor(got), nil
}

// Remove removes a monitor and its record of files. Executions that it has started continue. If
// the monitor is set again, it does not hand over an unchanged file again as long as the
// execution that got the file is in the store. The look of an expectation is removed with the
// expectation; here the error matches [courier.ErrConflict].
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	if err := refuseLook(name); err != nil {
		return fmt.Errorf("remove monitor %q: %w", name, err)
	}
	return v.records.Remove(ctx, name, by)
}

// Get returns a monitor in its present state. Every field that has a default is set. If
// there is no such monitor, the error matches [courier.ErrNotFound].
func (v *Service) Get(ctx context.Context, name string) (Monitor, error) {
	m, err := v.records.Get(ctx, name)
	if err != nil {
		return Monitor{}, err
	}
	return publicMonitor(m), nil
}

// List returns a page of monitors, in byte order of their names.
func (v *Service) List(ctx context.Context, f Filter) ([]Monitor, error) {
	a, err := v.opt.Store()
	if err != nil {
		return nil, fmt.Errorf("monitors: %w", err)
	}
	got, err := a.Monitors(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("monitors: %w", err)
	}
	list := make([]Monitor, len(got))
	for i := range got {
		list[i] = publicMonitor(&got[i])
	}
	return list, nil
}

// Files returns a page of the files that a monitor has seen, in byte order of their names. The
// list is empty if the monitor does not exist.
func (v *Service) Files(ctx context.Context, f SeenFilter) ([]SeenFile, error) {
	a, err := v.opt.Store()
	if err != nil {
		return nil, fmt.Errorf("monitor files: %w", err)
	}
	list, err := a.SeenFiles(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("monitor files: %w", err)
	}
	return list, nil
}
