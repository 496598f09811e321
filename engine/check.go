package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// ReadFiles reads the files whose paths match one of the patterns, in the syntax of
// [fs.Glob]. It returns each file once, in the order of their names. A pattern that
// matches no file is an error.
func ReadFiles(fsys fs.FS, patterns ...string) ([]courier.Source, error) {
	var names []string
	for _, p := range patterns {
		found, err := fs.Glob(fsys, p)
		if err == nil && len(found) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, fmt.Errorf("read files %q: %w", p, err)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	var files []courier.Source
	for _, name := range slices.Compact(names) {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read files: %w", err)
		}
		files = append(files, courier.Source{File: name, Text: data})
	}
	return files, nil
}

// A Bundle is the result of [Check]: the definitions and their problems. The definitions
// are in the order of the files. They are valid if Err returns nil.
type Bundle struct {
	Jobs          []courier.Job
	Chains        []chain.Chain
	Schedules     []schedule.Schedule
	Monitors      []monitor.Monitor
	Calendars     []calendar.Calendar
	Expectations  []expectation.Expectation
	Subscriptions []notify.Subscription
	// Problems lists mistakes, and Warnings doubtful places, each with file, line and
	// column, and sorted by these.
	Problems, Warnings []courier.Problem
}

// Err returns nil if there are no problems. Otherwise the error lists at most 100 of
// them, one per line, and matches [courier.ErrInvalid].
func (b Bundle) Err() error {
	const most = 100
	var lines []string
	for i, p := range b.Problems {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(b.Problems)-i))
			break
		}
		lines = append(lines, p.String())
	}
	if len(lines) == 0 {
		return nil
	}
	return courier.Errorf(courier.ErrInvalid, "%s in the definitions:\n  %s", text.Count(len(b.Problems), "problem"), text.Lines(lines))
}

// Check reads definitions and checks them as a whole, without a store: definitions that they name
// must be among them. Each file is a JSON object that is a definition, or a list of such objects.
// The kind of a definition follows from its fields: a job has "steps", a chain "members", a
// subscription "kind", a monitor "path", an expectation "pattern", a schedule "cron",
// "every_seconds" or "at", and a calendar "weekend", "closed" or "open". The name of a file is
// used in problems, and may be empty.
//
// Check reports all mistakes at once, those of form together with those of content. Step
// types are those of r. Of opt, which may be nil, it uses Webhooks, Queues, Listers and
// Subscribers: if one of the last two is nil, Check does not check the directories of
// monitors, or the functions of subscriptions. A job whose queue differs from one of Queues, or
// from "default", by what may be a typing error gets a warning. Check does not connect to
// anything. It checks neither the versions in a store nor whether the hosts of webhooks are
// allowed.
func Check(files []courier.Source, r *courier.Registry, opt *Options) Bundle {
	if opt == nil {
		opt = &Options{}
	}
	c := opt.bundleCheck(definitions.NewUnsaved(nil, nil, true), r)
	c.alone, c.e.monitorNamed = true, c.monitorNamed(nil)
	b, _ := c.check(context.Background(), files) // no store can fail
	return b
}

// [Check] checks definitions as the function [Check] does, with the step types and
// options of the engine. It treats them as additions to the store, or as replacements of
// definitions with the same names: definitions that they name must be among them or in
// the store. A job gets a warning if none of the present workers serves its queue, or, if
// there are no workers, if its queue differs from one of Options.Queues or from "default"
// by what may be a typing error. Nothing is saved. To check a single definition, pass a
// [courier.Source] without a file: the result has all mistakes, by line and column, while
// json.Unmarshal reports only mistakes of form, and Define reports no positions. The
// error is one of the store or of ctx; mistakes in the definitions are in the Bundle.
func (e *Engine) Check(ctx context.Context, files []courier.Source) (Bundle, error) {
	var b Bundle
	c, err := e.bundleCheck(ctx, e.opt.bundleCheck)
	if err == nil {
		b, err = c.check(ctx, files)
	}
	if err != nil {
		return Bundle{}, fmt.Errorf("check definitions: %w", err)
	}
	return b, nil
}

// bundleCheck returns a check of additions to the store of the engine, made by one of the
// methods of its options.
func (e *Engine) bundleCheck(ctx context.Context, check func(*definitions.Unsaved, *courier.Registry) *bundleCheck) (*bundleCheck, error) {
	saved, _ := e.roles.Subscriptions() // without the role there are none
	c := check(definitions.NewUnsaved(e.store, saved, false), e.reg)
	w, _ := e.roles.Workers() // without them no queue is doubtful
	var err error
	c.workers, err = core.PresentWorkers(ctx, w)
	c.e.monitorNamed = c.monitorNamed(e)
	return c, err
}

// A bundleCheck is a check of files in progress.
type bundleCheck struct {
	Bundle
	e       *Engine              // by whose rules it checks; its store is the catalog
	catalog *definitions.Unsaved // what the files define, before what is saved
	workers []store.Worker       // that are present
	// alone says that nothing is saved: what the files have stands for all versions.
	alone bool
	// listers and subscribers say whether the directories of monitors and the functions of
	// subscriptions are checked.
	listers, subscribers bool
	// checkedJobs and checkedChains are those of the bundle as they will be saved, in its
	// order, where they have no problems.
	checkedJobs   []core.CheckedJob
	checkedChains []chain.Chain
	seen          map[string]courier.Problem // where the definitions are, by kind and name
	list          []func()                   // the checks, which begin when all is read
	failed        error                      // of the store
}

// bundleCheck returns a check with the options that checks use. Its engine looks up no names
// and asks for no secrets.
func (o *Options) bundleCheck(catalog *definitions.Unsaved, r *courier.Registry) *bundleCheck {
	offline := *o
	offline.Secrets = nil
	offline.Webhooks.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, errOffline }
	return offline.savingCheck(catalog, r)
}

// savingCheck returns a check that finds whatever Define and Set would refuse, as bundleCheck
// does, and that looks up names and asks for secrets as they do.
func (o *Options) savingCheck(catalog *definitions.Unsaved, r *courier.Registry) *bundleCheck {
	e := New(catalog, r, &Options{
		Listers: o.Listers, Subscribers: o.Subscribers, Queues: o.Queues, MaxParams: o.MaxParams, Secrets: o.Secrets, Webhooks: o.Webhooks, Observers: o.Observers,
	})
	return &bundleCheck{
		e: e, catalog: catalog, listers: o.Listers != nil, subscribers: o.Subscribers != nil, seen: make(map[string]courier.Problem),
	}
}

// errOffline is the error of looking up a name during a check.
var errOffline = errors.New("names are not looked up")

// check reads the definitions in files and checks them as a whole. Its error is one of the
// store or of ctx.
func (c *bundleCheck) check(ctx context.Context, files []courier.Source) (Bundle, error) {
	for _, f := range files {
		sources, problems := f.Split()
		c.Problems = append(c.Problems, problems...)
		for _, s := range sources {
			c.read(ctx, s)
		}
	}
	return c.result()
}

// result makes the checks on the list, and returns what they find. Its error is one of the
// store or of ctx.
func (c *bundleCheck) result() (Bundle, error) {
	for _, check := range c.list {
		check()
	}
	for _, list := range []*[]courier.Problem{&c.Problems, &c.Warnings} {
		slices.SortStableFunc(*list, func(a, b courier.Problem) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
	if c.failed != nil {
		return Bundle{}, c.failed
	}
	return c.Bundle, nil
}

// kinds are how definitions are told from each other: by a field that no other
// kind has.
var kinds = []struct{ field, kind string }{
	{"steps", "job"}, {"members", "chain"}, {"kind", "subscription"}, {"path", "monitor"}, {"pattern", "expectation"},
	{"cron", "schedule"}, {"every_seconds", "schedule"}, {"at", "schedule"},
	{"weekend", "calendar"}, {"closed", "calendar"}, {"open", "calendar"},
}

// kindOf returns what a text defines.
func (c *bundleCheck) kindOf(s *courier.Source) string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(s.Text, &object)
	var fields []string
	for _, k := range kinds {
		if _, ok := object[k.field]; ok {
			return k.kind
		}
		fields = append(fields, k.field)
	}
	message := `it is no definition: a job has "steps", a chain "members", a subscription "kind", a monitor "path", an expectation "pattern", a schedule "cron", "every_seconds" or "at", and a calendar "weekend", "closed" or "open"`
	for name := range object {
		if near := nearest.Name(name, fields); near != "" {
			message += fmt.Sprintf("; for %q, did you mean %q?", name, near)
			break
		}
	}
	c.found(s, nil, []courier.Problem{{Step: -1, Message: message}}, nil)
	return ""
}

// read reads a definition, and puts it on the list of those to check.
func (c *bundleCheck) read(ctx context.Context, s *courier.Source) {
	switch c.kindOf(s) {
	case "job":
		var j courier.Job
		form := s.Read(&j)
		c.job(ctx, s, form, j)
	case "chain":
		var x chain.Chain
		form := s.Read(&x)
		c.chain(ctx, s, form, x)
	case "schedule":
		var x schedule.Schedule
		form := s.Read(&x)
		c.schedule(ctx, s, form, x)
	case "monitor":
		var m monitor.Monitor
		form := s.Read(&m)
		c.monitor(ctx, s, form, m)
	case "expectation":
		var x expectation.Expectation
		form := s.Read(&x)
		c.expectation(ctx, s, form, x)
	case "calendar":
		var x calendar.Calendar
		form := s.Read(&x)
		c.calendar(s, form, x)
	case "subscription":
		var x notify.Subscription
		form := s.Read(&x)
		c.subscription(ctx, s, form, x)
	}
}

// add puts the definitions of a bundle on the list of those to check. Their problems have
// the kind and the name in place of a file.
func (c *bundleCheck) add(ctx context.Context, b *Bundle) {
	at := func(kind, name string) *courier.Source {
		return &courier.Source{File: fmt.Sprintf("%s %q", kind, name)}
	}
	for _, j := range b.Jobs {
		c.job(ctx, at("job", j.Name), nil, j)
	}
	for _, x := range b.Chains {
		c.chain(ctx, at("chain", x.Name), nil, x)
	}
	for _, x := range b.Calendars {
		c.calendar(at("calendar", x.Name), nil, x)
	}
	for _, x := range b.Schedules {
		c.schedule(ctx, at("schedule", x.Name), nil, x)
	}
	for _, m := range b.Monitors {
		c.monitor(ctx, at("monitor", m.Name), nil, m)
	}
	for _, x := range b.Expectations {
		c.expectation(ctx, at("expectation", x.Name), nil, x)
	}
	for _, x := range b.Subscriptions {
		c.subscription(ctx, at("subscription", x.Name), nil, x)
	}
}

func (c *bundleCheck) job(ctx context.Context, s *courier.Source, form []courier.Problem, j courier.Job) {
	c.Jobs = append(c.Jobs, j)
	c.catalog.Put(store.Job, j.Name, j)
	c.later(s, "job", j.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		checked, err := c.e.definitions.CheckJob(ctx, j)
		c.checkedJobs = append(c.checkedJobs, checked)
		if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
			return bad.Problems, nil, nil
		}
		return nil, append(checked.Warnings, core.UnservedQueue(&j, c.workers, c.e.opt.Queues)...), err
	})
}

func (c *bundleCheck) chain(ctx context.Context, s *courier.Source, form []courier.Problem, x chain.Chain) {
	c.Chains = append(c.Chains, x)
	c.catalog.Put(store.Chain, x.Name, x)
	c.later(s, "chain", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		checked, err := c.e.chains.Check(ctx, x)
		c.checkedChains = append(c.checkedChains, checked.Chain)
		if c.alone {
			checked.Warnings = append(checked.Warnings, pinned(&x)...)
		}
		return checked.Problems, checked.Warnings, err
	})
}

func (c *bundleCheck) calendar(s *courier.Source, form []courier.Problem, x calendar.Calendar) {
	c.Calendars = append(c.Calendars, x)
	c.catalog.Put(store.Calendar, x.Name, x.Definition())
	c.later(s, "calendar", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		return c.e.calendars.Check(x), nil, nil
	})
}

func (c *bundleCheck) schedule(ctx context.Context, s *courier.Source, form []courier.Problem, x schedule.Schedule) {
	c.Schedules = append(c.Schedules, x)
	c.later(s, "schedule", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		return c.e.schedules.Check(ctx, x)
	})
}

func (c *bundleCheck) monitor(ctx context.Context, s *courier.Source, form []courier.Problem, m monitor.Monitor) {
	c.Monitors = append(c.Monitors, m)
	c.later(s, "monitor", m.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		problems, err := c.e.monitors.Check(ctx, m, c.listers)
		return problems, nil, err
	})
}

func (c *bundleCheck) expectation(ctx context.Context, s *courier.Source, form []courier.Problem, x expectation.Expectation) {
	c.Expectations = append(c.Expectations, x)
	c.later(s, "expectation", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		return c.e.expectations.Check(ctx, x, c.listers)
	})
}

// monitorNamed returns the function that finds a monitor among those of the files, or in the
// store of the engine e, which is nil if nothing is saved.
func (c *bundleCheck) monitorNamed(e *Engine) func(context.Context, string) (monitor.Monitor, error) {
	return func(ctx context.Context, name string) (monitor.Monitor, error) {
		var names []string
		for _, m := range c.Monitors {
			if names = append(names, m.Name); m.Name == name {
				return m, nil
			}
		}
		if e != nil {
			m, err := e.monitors.Get(ctx, name)
			if !errors.Is(err, courier.ErrNotFound) || len(names) == 0 {
				return m, err
			}
		}
		return monitor.Monitor{}, courier.Errorf(courier.ErrNotFound, "there is no monitor %q; %s", name, nearest.DidYouMean(name, names))
	}
}

func (c *bundleCheck) subscription(ctx context.Context, s *courier.Source, form []courier.Problem, x notify.Subscription) {
	c.Subscriptions = append(c.Subscriptions, x)
	c.catalog.AddSubscription(x)
	c.later(s, "subscription", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
		problems, warnings, err := c.e.notifications.Check(ctx, x)
		if !c.subscribers {
			warnings = nil
		}
		return problems, warnings, err
	})
}

// later puts a definition on the list of those to check. Form is what was wrong
// when it was read.
func (c *bundleCheck) later(s *courier.Source, kind, name string, form []courier.Problem, check func() (problems, warnings []courier.Problem, err error)) {
	again := courier.Problem{Step: -1, Field: "name"}
	if first, ok := c.seen[kind+" "+name]; ok && name != "" {
		again.Message = fmt.Sprintf("there is another %s %q%s; leave one of them out", kind, name, placeOf(first))
	} else {
		place := []courier.Problem{{Step: -1, Field: "name", File: s.File}}
		if s.Text != nil {
			s.Locate(place)
		}
		c.seen[kind+" "+name] = place[0]
	}
	c.list = append(c.list, func() {
		problems, warnings, err := check()
		if err != nil && !c.alone && !errors.Is(err, courier.ErrInvalid) {
			c.failed = cmp.Or(c.failed, err)
			return
		}
		if err != nil { // of a definition that could not be read, which is reported there
			problems = append(problems, courier.Problem{Step: -1, Message: text.Plain(err)})
		}
		if again.Message != "" {
			problems = append([]courier.Problem{again}, problems...)
		}
		c.found(s, form, problems, warnings)
	})
}

// placeOf is the phrase that says where a definition is; empty if it has no text.
func placeOf(p courier.Problem) string {
	if p.Line == 0 {
		return ""
	}
	return fmt.Sprintf(", in %s, line %d", cmp.Or(p.File, "the same text"), p.Line)
}

// found notes what is wrong with a definition, but not what follows from its form.
func (c *bundleCheck) found(s *courier.Source, form, problems, warnings []courier.Problem) {
	problems = slices.DeleteFunc(problems, func(p courier.Problem) bool {
		return slices.ContainsFunc(form, func(f courier.Problem) bool { return follows(p, f) })
	})
	if s.Text != nil {
		s.Locate(problems)
		s.Locate(warnings)
	}
	for _, list := range [][]courier.Problem{problems, warnings} {
		for i := range list {
			list[i].File = s.File
		}
	}
	c.Problems = append(append(c.Problems, form...), problems...)
	c.Warnings = append(c.Warnings, warnings...)
}

// follows reports whether a problem is there since another one kept a field from
// being read.
func follows(p, form courier.Problem) bool {
	if p.Step != form.Step {
		return false
	}
	if near := fmt.Sprintf("did you mean %q?", p.Field[strings.LastIndexByte(p.Field, '.')+1:]); strings.HasSuffix(form.Message, near) {
		return true // it is missing, since its name was misspelled
	}
	rest, ok := strings.CutPrefix(p.Field, form.Field)
	return ok && form.Field != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// pinned warns of members with a version, since a bundle has none.
func pinned(c *chain.Chain) (warnings []courier.Problem) {
	for i, m := range c.Members {
		if m.Version > 0 {
			warnings = append(warnings, courier.Problem{
				Step: -1, Field: fmt.Sprintf("members[%d].version", i),
				Message: fmt.Sprintf("version %d of job %q is not known here; what there is of the job was checked in its place", m.Version, m.Job),
			})
		}
	}
	return warnings
}
