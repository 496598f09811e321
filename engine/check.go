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
	"time"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A File is a text with definitions for [Check]: a JSON object that is one, or a
// list of such objects. What an object defines follows from its fields: a job has
// "steps", a chain "members", a subscription "kind", a monitor "path", and a
// schedule "cron", "every_seconds" or "at".
type File struct {
	Name string // for problems
	Data []byte
}

// ReadFiles reads the files whose paths match one of the patterns, as [fs.Glob]
// understands them, in the order of their names and each once. A pattern that
// matches nothing is an error.
func ReadFiles(fsys fs.FS, patterns ...string) ([]File, error) {
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
	var files []File
	for _, name := range slices.Compact(names) {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read files: %w", err)
		}
		files = append(files, File{name, data})
	}
	return files, nil
}

// A Bundle is what [Check] has read and found. The definitions are in the order of
// the files, and sound if Err returns nil.
type Bundle struct {
	Jobs          []courier.Job
	Chains        []courier.Chain
	Schedules     []courier.Schedule
	Monitors      []courier.Monitor
	Subscriptions []courier.Subscription
	// Problems are what is wrong, and Warnings what looks doubtful, each with file,
	// line and column, in that order.
	Problems, Warnings []courier.Problem
}

// Err is nil if there are no problems. Otherwise it lists them, one a line, at most
// 100, and matches [courier.ErrInvalid].
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
	return courier.Errorf(courier.ErrInvalid, "%s in the definitions:\n  %s", plural(len(b.Problems), "problem"), joinLines(lines))
}

// Check reads definitions and checks them as a whole, without a store: what they
// name must be among them, as all that is there will be. All mistakes come at once,
// those of the form with those of what it says. Step types are those of r. Of opt,
// which may be nil, it uses Listers and Subscribers: where one of them is nil, it
// takes the directories of monitors, or the functions of subscriptions, to be
// right. Check connects to nothing. What it can't know: the versions that a store
// has, and whether receivers of webhooks may be reached.
func Check(files []File, r *courier.Registry, opt *Options) Bundle {
	c := newBundleCheck(noCatalog{}, r, opt)
	c.catalog.anyVersion = true
	return c.files(context.Background(), files)
}

// Check reads definitions and checks them as [Check] does, with the engine's step
// types and options, as what is to be added to the store or take the place of what
// has the same names: what they name must be among them or saved. Nothing is saved.
// It is also the way to read one definition, by a [File] without a name, with all
// that is wrong at once, by line and column: an error of [json.Unmarshal] has only
// what is wrong with the form, and one of Define no places. The error is one of the
// store or of ctx; what is wrong with the definitions is in the Bundle.
func (e *Engine) Check(ctx context.Context, files []File) (Bundle, error) {
	c := newBundleCheck(e.store, e.reg, &e.opt)
	c.outbox.Outbox, _ = e.outbox() // without one there are no subscriptions
	b := c.files(ctx, files)
	if c.failed != nil {
		return Bundle{}, fmt.Errorf("check definitions: %w", c.failed)
	}
	return b, nil
}

// files reads the definitions in files and checks them.
func (c *bundleCheck) files(ctx context.Context, files []File) Bundle {
	for _, f := range files {
		sources, problems := (&courier.Source{File: f.Name, Text: f.Data}).Split()
		c.Problems = append(c.Problems, problems...)
		for _, s := range sources {
			c.read(ctx, s)
		}
	}
	for _, x := range c.list {
		x.check()
	}
	for _, list := range []*[]courier.Problem{&c.Problems, &c.Warnings} {
		slices.SortStableFunc(*list, func(a, b courier.Problem) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
	}
	return c.Bundle
}

// A bundleCheck checks a bundle.
type bundleCheck struct {
	Bundle
	engine  *Engine
	catalog *catalog
	outbox  subscribed
	opt     Options // as they were given
	seen    map[string]courier.Problem
	list    []bundled
	failed  error // of the store
}

// A bundled is a definition whose check is left for when all are read.
type bundled struct{ check func() }

func newBundleCheck(s store.Store, r *courier.Registry, opt *Options) *bundleCheck {
	c := &bundleCheck{catalog: newCatalog(s), seen: make(map[string]courier.Problem)}
	if opt != nil {
		c.opt = *opt
	}
	c.engine = New(c.catalog, r, &Options{
		Listers: c.opt.Listers, Subscribers: c.opt.Subscribers,
		Webhooks: WebhookOptions{
			Networks: c.opt.Webhooks.Networks, TrustedHosts: c.opt.Webhooks.TrustedHosts, AllowPlain: c.opt.Webhooks.AllowPlain,
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errOffline },
		},
	})
	return c
}

// errOffline says why a check finds no addresses.
var errOffline = errors.New("names are not looked up")

// kinds are how definitions are told from each other: by a field that no other
// kind has.
var kinds = []struct{ field, kind string }{
	{"steps", "job"}, {"members", "chain"}, {"kind", "subscription"}, {"path", "monitor"},
	{"cron", "schedule"}, {"every_seconds", "schedule"}, {"at", "schedule"},
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
	message := `it is no definition: a job has "steps", a chain "members", a subscription "kind", a monitor "path", and a schedule "cron", "every_seconds" or "at"`
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
		c.Jobs = append(c.Jobs, j)
		c.catalog.add(store.Job, j.Name, j)
		c.later(s, "job", j.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			_, _, warnings, err := c.engine.check(ctx, j)
			if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
				return bad.Problems, nil, nil
			}
			return nil, warnings, err
		})
	case "chain":
		var x courier.Chain
		form := s.Read(&x)
		c.Chains = append(c.Chains, x)
		c.catalog.add(store.Chain, x.Name, x)
		c.later(s, "chain", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			d, err := c.engine.checkChain(ctx, x)
			if c.catalog.anyVersion {
				d.warnings = append(d.warnings, pinned(&x)...)
			}
			return d.problems, d.warnings, err
		})
	case "schedule":
		var x courier.Schedule
		form := s.Read(&x)
		c.Schedules = append(c.Schedules, x)
		c.later(s, "schedule", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			return c.schedule(ctx, x)
		})
	case "monitor":
		var m courier.Monitor
		form := s.Read(&m)
		c.Monitors = append(c.Monitors, m)
		c.later(s, "monitor", m.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			_, problems, err := c.engine.checkMonitor(ctx, &m)
			if c.opt.Listers != nil {
				problems = append(problems, c.engine.checkLister(&m)...)
			}
			return problems, nil, err
		})
	case "subscription":
		var x courier.Subscription
		form := s.Read(&x)
		c.Subscriptions = append(c.Subscriptions, x)
		if body, err := jsontext.Append(nil, x); err == nil {
			c.outbox.list = append(c.outbox.list, store.Subscription{Name: x.Name, Body: body})
		}
		c.later(s, "subscription", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			check := subscriptionCheck{e: c.engine, ctx: ctx, o: &c.outbox, s: &x}
			err := check.all()
			if c.opt.Subscribers == nil {
				return check.found, nil, err
			}
			return check.found, check.warnings(), err
		})
	}
}

// later puts a definition on the list of those to check. Form is what was wrong
// when it was read.
func (c *bundleCheck) later(s *courier.Source, kind, name string, form []courier.Problem, check func() (problems, warnings []courier.Problem, err error)) {
	again := courier.Problem{Step: -1, Field: "name"}
	if first, ok := c.seen[kind+" "+name]; ok && name != "" {
		again.Message = fmt.Sprintf("there is another %s %q, in %s, line %d; leave one of them out", kind, name, cmp.Or(first.File, "the same text"), first.Line)
	} else {
		place := []courier.Problem{{Step: -1, Field: "name"}}
		s.Locate(place)
		c.seen[kind+" "+name] = place[0]
	}
	c.list = append(c.list, bundled{func() {
		problems, warnings, err := check()
		if err != nil && !c.catalog.anyVersion && !errors.Is(err, courier.ErrInvalid) {
			c.failed = cmp.Or(c.failed, err)
			return
		}
		if err != nil { // of a definition that could not be read, which is reported there
			problems = append(problems, courier.Problem{Step: -1, Message: plainMessage(err)})
		}
		if again.Message != "" {
			problems = append([]courier.Problem{again}, problems...)
		}
		c.found(s, form, problems, warnings)
	}})
}

// found notes what is wrong with a definition, but not what follows from its form.
func (c *bundleCheck) found(s *courier.Source, form, problems, warnings []courier.Problem) {
	problems = slices.DeleteFunc(problems, func(p courier.Problem) bool {
		return slices.ContainsFunc(form, func(f courier.Problem) bool { return follows(p, f) })
	})
	s.Locate(problems)
	s.Locate(warnings)
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

// schedule finds what is wrong with a schedule.
func (c *bundleCheck) schedule(ctx context.Context, s courier.Schedule) (problems, warnings []courier.Problem, err error) {
	_, calendar, problems, err := c.engine.checkSchedule(ctx, &s)
	if err != nil || len(problems) > 0 {
		return problems, nil, err
	}
	never := begin(new(store.Schedule), &s, calendar, time.Now())
	if bad, ok := errors.AsType[*courier.ScheduleError](never); ok {
		if !s.At.IsZero() || !s.Ends.IsZero() { // it may have fired
			return nil, bad.Problems, nil
		}
		return bad.Problems, nil, nil
	}
	return nil, nil, never
}

// pinned warns of members with a version, since a bundle has none.
func pinned(c *courier.Chain) (warnings []courier.Problem) {
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
