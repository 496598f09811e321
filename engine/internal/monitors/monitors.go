package monitors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Set checks a monitor and saves it under its name.
func (v *Service) Set(ctx context.Context, m courier.Monitor, by courier.By) (courier.Monitor, error) {
	fail := func(err error) (courier.Monitor, error) {
		return courier.Monitor{}, fmt.Errorf("set monitor %q: %w", m.Name, err)
	}
	role, err := v.opt.Roles.Monitors()
	if err != nil {
		return fail(err)
	}
	body, problems, err := v.checkMonitor(ctx, &m)
	if err != nil {
		return fail(err)
	}
	if problems = append(problems, v.checkLister(&m)...); len(problems) > 0 {
		return courier.Monitor{}, &courier.MonitorError{Monitor: m.Name, Problems: problems}
	}
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	changed := false
	got, err := v.changeMonitor(ctx, role, m.Name, func(old *store.Monitor) (store.MonitorPut, error) {
		put, err := setMonitor(old, &m, body, by)
		changed = err == nil
		return put, err
	})
	if err != nil {
		return fail(err)
	}
	if changed {
		v.opt.Changed(ctx, core.Change{Kind: "monitor", Name: m.Name, Verb: "set", By: by, Now: body})
	}
	return got, nil
}

// checkMonitor finds what is wrong with a monitor, all but its directory, and
// returns what is kept of it. Its error is one of the store.
func (v *Service) checkMonitor(ctx context.Context, m *courier.Monitor) (body json.RawMessage, problems []courier.Problem, err error) {
	problems = m.Check()
	target, err := v.checkMonitorTarget(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	problems = append(problems, target...)
	body, err = jsontext.Append(nil, m.Definition())
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Field: "params", Message: err.Error()})
	}
	return body, problems, nil
}

// Check returns what is wrong with a monitor, with its directory too if listed is
// set. Its error is one of the store's.
func (v *Service) Check(ctx context.Context, m *courier.Monitor, listed bool) ([]courier.Problem, error) {
	_, problems, err := v.checkMonitor(ctx, m)
	if listed {
		problems = append(problems, v.checkLister(m)...)
	}
	return problems, err
}

// setMonitor returns what is to be saved in place of old, which may be nil.
func setMonitor(old *store.Monitor, m *courier.Monitor, body json.RawMessage, by courier.By) (store.MonitorPut, error) {
	full := m.WithDefaults()
	put := store.MonitorPut{Monitor: store.Monitor{Name: m.Name, MonitorState: store.MonitorState{
		Status: courier.MonitorActive, Health: json.RawMessage("{}"),
	}}}
	if old != nil {
		put.Monitor = *old
		if sameMonitor(old.Body, m) && (old.Status == courier.MonitorDisabled || !m.Disabled) {
			return put, errSameMonitor
		}
		var was courier.Monitor
		put.Forget = json.Unmarshal(old.Body, &was) != nil || was.WithDefaults().Lister != full.Lister || was.Directory() != m.Directory()
	}
	put.Lister, put.Kind, put.Target, put.Body = full.Lister, store.Job, m.Job, body
	if m.Chain != "" {
		put.Kind, put.Target = store.Chain, m.Chain
	}
	if m.Disabled && put.Status != courier.MonitorDisabled {
		put.Status, put.Reason = courier.MonitorDisabled, "it was disabled"+by.String()
	}
	if !put.Status.Polls() {
		put.After = never
	}
	return put, nil
}

// sameMonitor reports whether what is kept of a monitor has the effective values of
// another, so that what [Monitors.Get] returns is the same as what was set.
func sameMonitor(body json.RawMessage, m *courier.Monitor) bool {
	var was courier.Monitor
	if json.Unmarshal(body, &was) != nil {
		return false
	}
	return text.SameJSON(was.WithDefaults().Definition(), m.WithDefaults().Definition())
}

// never is an After of what is not due.
const never = -1

// errSameMonitor says that there is nothing to save.
var errSameMonitor = errors.New("unchanged")

// changeMonitor saves what change makes of a monitor, which is nil if there is
// none, until nobody has changed it meanwhile.
func (v *Service) changeMonitor(ctx context.Context, role store.Monitors, name string, change func(old *store.Monitor) (store.MonitorPut, error)) (courier.Monitor, error) {
	const most = 20
	for n := 1; ; n++ {
		list, err := role.Monitors(ctx, store.MonitorFilter{Name: name})
		if err != nil {
			return courier.Monitor{}, err
		}
		var old *store.Monitor
		if len(list) > 0 {
			old = &list[0]
		}
		put, err := change(old)
		if errors.Is(err, errSameMonitor) {
			return publicMonitor(&put.Monitor), nil
		}
		if err != nil {
			return courier.Monitor{}, err
		}
		got, err := role.PutMonitor(ctx, put)
		if errors.Is(err, courier.ErrConflict) && n < most {
			continue
		}
		if err != nil {
			return courier.Monitor{}, err
		}
		v.pollNow(nil)
		return publicMonitor(&got), nil
	}
}

// publicMonitor is what a store keeps of a monitor, as users see it: with the values
// that hold where none was given.
func publicMonitor(m *store.Monitor) courier.Monitor {
	var p courier.Monitor
	unreadable := json.Unmarshal(m.Body, &p)
	if unreadable != nil {
		p = courier.Monitor{Name: m.Name, Lister: m.Lister}
		if p.Job = m.Target; m.Kind == store.Chain {
			p.Job, p.Chain = "", m.Target
		}
	}
	p = p.WithDefaults()
	p.Disabled = m.Status == courier.MonitorDisabled
	p.State, p.Reason, p.NextPoll, p.SavedAt = m.Status, m.Reason, m.Due, m.SavedAt
	p.Health = healthOf(m)
	if unreadable != nil {
		p.Health.Problem = fmt.Sprintf("the definition can't be read: %v", unreadable)
	}
	return p
}

// healthOf returns the health of a monitor; one that can't be read is new.
func healthOf(m *store.Monitor) courier.MonitorHealth {
	var h courier.MonitorHealth
	if json.Unmarshal(m.Health, &h) != nil {
		return courier.MonitorHealth{}
	}
	return h
}

// checkLister finds what is wrong with the directory of a monitor.
func (v *Service) checkLister(m *courier.Monitor) []courier.Problem {
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
		return found // which Check reports
	}
	if err := l.Check(m.Directory()); err != nil {
		found = append(found, problem("path", "%v", err)...)
	}
	return found
}

// checkMonitorTarget finds what is wrong with what a monitor starts, and with
// what it is given.
func (v *Service) checkMonitorTarget(ctx context.Context, m *courier.Monitor) ([]courier.Problem, error) {
	field, name := "job", m.Job
	if m.Job == "" {
		field, name = "chain", m.Chain
	}
	if name == "" {
		return nil, nil // which Check reports
	}
	problem := func(field string, err error) []courier.Problem {
		return []courier.Problem{{Step: -1, Field: field, Message: monitorMessage(err)}}
	}
	t, err := v.opt.Targets.Target(ctx, m.Job, m.Chain)
	if errors.Is(err, courier.ErrNotFound) {
		return problem(field, err), nil
	}
	if err != nil {
		return nil, err
	}
	if declared := t.Params(); declared != nil {
		if _, ok := declared["files"]; !ok {
			return problem(field, fmt.Errorf("%s %q has params, but not %q, which holds the files; add it with the value null", field, name, "files")), nil
		}
	}
	sample := []store.ReadyFile{{File: courier.ListedFile{Name: "file", Path: m.Path + "/file"}, Event: courier.FileCreated}}
	if _, err := t.Prepare(ctx, startOf(m, monitorParams(t.Params(), m, sample, time.Unix(0, 0).UTC()), "")); err != nil {
		return core.ParamProblems(err), nil
	}
	return nil, nil
}

// monitorMessage is the text of an error without the words that sentinels add.
func monitorMessage(err error) string {
	text, _ := text.OfError(err)
	for _, sentinel := range []error{courier.ErrNotFound, courier.ErrInvalid, courier.ErrConflict} {
		text = strings.ReplaceAll(text, ": "+sentinel.Error(), "")
	}
	return text
}

// Enable lets a monitor that was disabled or paused poll again.
func (v *Service) Enable(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return v.switchMonitor(ctx, "enable", name, by, func(m *store.Monitor) error {
		switch {
		case m.Status.Polls():
			return errSameMonitor
		case m.Status == courier.MonitorFailed:
			return courier.Errorf(courier.ErrConflict, "it is in the state error, since %s; acknowledge that", m.Reason)
		}
		m.Status, m.Reason = courier.MonitorActive, ""
		return nil
	})
}

// Pause keeps a monitor from polling until it is enabled.
func (v *Service) Pause(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return v.switchMonitor(ctx, "pause", name, by, func(m *store.Monitor) error {
		switch {
		case m.Status == courier.MonitorPaused:
			return errSameMonitor
		case !m.Status.Polls():
			return courier.Errorf(courier.ErrConflict, "it is in the state %s, and can't be paused", m.Status)
		}
		m.Status, m.Reason = courier.MonitorPaused, "it was paused"+by.String()
		return nil
	})
}

// Disable keeps a monitor from polling, whatever its state.
func (v *Service) Disable(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return v.switchMonitor(ctx, "disable", name, by, func(m *store.Monitor) error {
		if m.Status == courier.MonitorDisabled {
			return errSameMonitor
		}
		m.Status, m.Reason = courier.MonitorDisabled, "it was disabled"+by.String()
		return nil
	})
}

// Acknowledge lets a monitor in the state error poll again.
func (v *Service) Acknowledge(ctx context.Context, name string, by courier.By) (courier.Monitor, error) {
	return v.switchMonitor(ctx, "acknowledge", name, by, func(m *store.Monitor) error {
		if m.Status != courier.MonitorFailed {
			return errSameMonitor
		}
		m.Status, m.Reason = courier.MonitorActive, ""
		h := healthOf(m)
		h.Failures = 0
		health, err := jsontext.Append(nil, h)
		m.Health = health
		return err
	})
}

// switchMonitor changes the state of a monitor that must be there.
func (v *Service) switchMonitor(ctx context.Context, verb, name string, by courier.By, change func(*store.Monitor) error) (courier.Monitor, error) {
	fail := func(err error) (courier.Monitor, error) {
		return courier.Monitor{}, fmt.Errorf("%s monitor %q: %w", verb, name, err)
	}
	role, err := v.opt.Roles.Monitors()
	if err != nil {
		return fail(err)
	}
	if err := text.Check(text.By(by)); err != nil {
		return fail(err)
	}
	changed := false
	got, err := v.changeMonitor(ctx, role, name, func(old *store.Monitor) (store.MonitorPut, error) {
		if old == nil {
			return store.MonitorPut{}, unknownMonitor(ctx, role, name)
		}
		put := store.MonitorPut{Monitor: *old}
		err := change(&put.Monitor)
		changed = err == nil
		if !put.Status.Polls() {
			put.After = never
		}
		return put, err
	})
	if err != nil {
		return fail(err)
	}
	if changed {
		v.opt.Changed(ctx, core.Change{Kind: "monitor", Name: name, Verb: verb + "d", By: by})
	}
	return got, nil
}

// Remove removes a monitor and what it has seen.
func (v *Service) Remove(ctx context.Context, name string, by courier.By) error {
	role, err := v.opt.Roles.Monitors()
	if err == nil {
		err = text.Check(text.By(by))
	}
	if err == nil {
		err = role.RemoveMonitor(ctx, name)
	}
	if errors.Is(err, courier.ErrNotFound) {
		err = unknownMonitor(ctx, role, name)
	}
	if err != nil {
		return fmt.Errorf("remove monitor %q: %w", name, err)
	}
	v.opt.Changed(ctx, core.Change{Kind: "monitor", Name: name, Verb: "removed", By: by})
	return nil
}

// Get returns a monitor as it stands.
func (v *Service) Get(ctx context.Context, name string) (courier.Monitor, error) {
	role, err := v.opt.Roles.Monitors()
	if err != nil {
		return courier.Monitor{}, fmt.Errorf("monitor: %w", err)
	}
	list, err := role.Monitors(ctx, store.MonitorFilter{Name: name})
	if err == nil && len(list) == 0 {
		err = unknownMonitor(ctx, role, name)
	}
	if err != nil {
		return courier.Monitor{}, fmt.Errorf("monitor: %w", err)
	}
	return publicMonitor(&list[0]), nil
}

// List returns a page of monitors.
func (v *Service) List(ctx context.Context, f store.MonitorFilter) ([]courier.Monitor, error) {
	role, err := v.opt.Roles.Monitors()
	if err != nil {
		return nil, fmt.Errorf("monitors: %w", err)
	}
	got, err := role.Monitors(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("monitors: %w", err)
	}
	list := make([]courier.Monitor, len(got))
	for i := range got {
		list[i] = publicMonitor(&got[i])
	}
	return list, nil
}

// Files returns a page of the files that a monitor has seen.
func (v *Service) Files(ctx context.Context, f store.SeenFilter) ([]store.SeenFile, error) {
	role, err := v.opt.Roles.Monitors()
	if err != nil {
		return nil, fmt.Errorf("monitor files: %w", err)
	}
	list, err := role.Seen(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("monitor files: %w", err)
	}
	return list, nil
}

func unknownMonitor(ctx context.Context, role store.Monitors, name string) error {
	var names []string
	list, _ := role.Monitors(ctx, store.MonitorFilter{})
	for i := range list {
		names = append(names, list[i].Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no monitor %q; %s", name, nearest.DidYouMean(name, names))
}
