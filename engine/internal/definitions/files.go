package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A Bundle is the definitions in files, and what is wrong with them.
type Bundle struct {
	Jobs          []courier.Job
	Chains        []courier.Chain
	Schedules     []schedule.Schedule
	Monitors      []courier.Monitor
	Subscriptions []courier.Subscription
	// Problems and Warnings have file, line and column, and are in that order.
	Problems, Warnings []courier.Problem
}

// Err is nil if there are no problems. Otherwise it lists them, one a line, at most 100,
// and matches [courier.ErrInvalid].
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

// ReadFiles reads the files whose paths match one of the patterns, as [fs.Glob]
// understands them, in the order of their names and each once. A pattern that
// matches nothing is an error.
func ReadFiles(fsys fs.FS, patterns []string) ([]courier.Source, error) {
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

// Files says how files are checked.
type Files struct {
	// Definitions are those of an engine that reads definitions from Catalog, and the
	// functions check by the rules that hold when that engine saves. They return what is
	// wrong, and what looks doubtful. CheckMonitor calls the lister too if listers is true,
	// and CheckSubscription compares with those in o.
	Definitions       *Service
	CheckSchedule     func(ctx context.Context, s schedule.Schedule) (problems, warnings []courier.Problem, err error)
	CheckMonitor      func(ctx context.Context, m *courier.Monitor, listers bool) (problems []courier.Problem, err error)
	CheckSubscription func(ctx context.Context, s *courier.Subscription, o store.Outbox) (problems, warnings []courier.Problem, err error)
	// Catalog is where the jobs and chains of the files are added.
	Catalog *Unsaved
	// Outbox has the subscriptions beside those of the files; nil if there are none.
	Outbox store.Outbox
	// Workers has the present workers, for warnings of queues that none serves; nil if they
	// are not known.
	Workers store.Workers
	// Queues are those that the engine serves when it is started.
	Queues []string
	// Listers and Subscribers say whether the directories of monitors and the functions
	// of subscriptions are checked.
	Listers, Subscribers bool
}

// Check reads the definitions in files and checks them as a whole. Its error is one of
// the store or of ctx.
func (f *Files) Check(ctx context.Context, files []courier.Source) (Bundle, error) {
	workers, err := core.PresentWorkers(ctx, f.Workers)
	if err != nil {
		return Bundle{}, err
	}
	c := &bundleCheck{workers: workers, Files: f, outbox: subscribed{Outbox: f.Outbox}, seen: make(map[string]courier.Problem)}
	for i := range files {
		sources, problems := files[i].Split()
		c.Problems = append(c.Problems, problems...)
		for _, s := range sources {
			c.read(ctx, s)
		}
	}
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

// A bundleCheck is a check of files in progress.
type bundleCheck struct {
	Bundle
	*Files
	outbox  subscribed
	seen    map[string]courier.Problem // where the definitions are, by kind and name
	list    []func()                   // the checks, which begin when all is read
	failed  error                      // of the store
	workers []store.Worker             // that are present
}

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
		c.Catalog.add(store.Job, j.Name, j)
		c.later(s, "job", j.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			checked, err := c.Definitions.CheckJob(ctx, j)
			if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
				return bad.Problems, nil, nil
			}
			return nil, append(checked.Warnings, core.UnservedQueue(&j, c.workers, c.Queues)...), err
		})
	case "chain":
		var x courier.Chain
		form := s.Read(&x)
		c.Chains = append(c.Chains, x)
		c.Catalog.add(store.Chain, x.Name, x)
		c.later(s, "chain", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			checked, err := c.Definitions.CheckChain(ctx, x)
			if c.Catalog.anyVersion {
				checked.Warnings = append(checked.Warnings, pinned(&x)...)
			}
			return checked.Problems, checked.Warnings, err
		})
	case "schedule":
		var x schedule.Schedule
		form := s.Read(&x)
		c.Schedules = append(c.Schedules, x)
		c.later(s, "schedule", x.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			return c.CheckSchedule(ctx, x)
		})
	case "monitor":
		var m courier.Monitor
		form := s.Read(&m)
		c.Monitors = append(c.Monitors, m)
		c.later(s, "monitor", m.Name, form, func() ([]courier.Problem, []courier.Problem, error) {
			problems, err := c.CheckMonitor(ctx, &m, c.Listers)
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
			problems, warnings, err := c.CheckSubscription(ctx, &x, &c.outbox)
			if !c.Subscribers {
				warnings = nil
			}
			return problems, warnings, err
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
	c.list = append(c.list, func() {
		problems, warnings, err := check()
		if err != nil && !c.Catalog.anyVersion && !errors.Is(err, courier.ErrInvalid) {
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

// subscribed is the subscriptions of a bundle in place of those with the same names
// in an Outbox, nil for none, for checks.
type subscribed struct {
	store.Outbox
	list []store.Subscription
}

// Subscriptions returns a page of the subscriptions that were added and of the others
// that are saved.
func (s *subscribed) Subscriptions(ctx context.Context, f store.SubscriptionFilter) ([]store.Subscription, error) {
	var saved []store.Subscription
	if s.Outbox != nil {
		var err error
		if saved, err = s.Outbox.Subscriptions(ctx, f); err != nil {
			return nil, err
		}
	}
	full := "" // the last name of a page after which there may be more
	if n := len(saved); n > 0 && n >= cmp.Or(f.Limit, listPage) {
		full = saved[n-1].Name
	}
	var all []store.Subscription
	for _, x := range s.list {
		if x.Name > f.After && (full == "" || x.Name <= full) {
			all = append(all, x)
		}
	}
	for _, x := range saved {
		if !slices.ContainsFunc(s.list, func(y store.Subscription) bool { return y.Name == x.Name }) {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b store.Subscription) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
