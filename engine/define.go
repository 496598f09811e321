package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// DefineOptions are the settings of [Jobs.Define] and [Chains.Define]. The
// zero value is the default.
type DefineOptions struct {
	By courier.By // who defines it, and why
	// Base, if not nil, is the version that the definition was made from, 0 for
	// none. If the latest version is another, nothing is saved, and the error is
	// [courier.ErrConflict]: somebody else was faster. It is compared in the
	// transaction that saves.
	Base *int
	// KeepNewer leaves a newer definition alone: one that equals an earlier
	// version is not saved again, and the result is the latest version, with
	// Superseded set. It is for programs that define their jobs when they start,
	// so that in a rolling deployment the old binary does not undo what the new
	// one has defined. To go back to an earlier definition, leave it out.
	KeepNewer bool
}

// A DefinedJob is a version of a job in the store. Superseded and Warnings are set
// by [Jobs.Define] alone.
type DefinedJob struct {
	Job     courier.Job // as it is in the store, with its version
	SavedBy string      // who saved that version
	SavedAt time.Time   // when, by the store's clock
	// Superseded says that the job equals an earlier version, and that Job is a
	// newer one, which was left alone; see [DefineOptions].KeepNewer.
	Superseded bool
	// Warnings are what looks doubtful in the job that was given, each with what
	// to do.
	Warnings []courier.Problem
}

// A DefinedChain is a version of a chain in the store. Its fields mean
// what those of [DefinedJob] mean.
type DefinedChain struct {
	Chain      courier.Chain
	SavedBy    string
	SavedAt    time.Time
	Superseded bool
	Warnings   []courier.Problem
}

// Define checks a job and saves it as a new version of its name. If it equals
// the latest version, that one is returned and nothing is saved. The error of a
// job that can't run is a *[courier.DefinitionError], which lists everything
// that is wrong with it. What only looks doubtful is returned as warnings, and
// written to [Options].Log. A nil opt means the defaults.
func (h Jobs) Define(ctx context.Context, job courier.Job, opt *DefineOptions) (DefinedJob, error) {
	e := h.e
	checked, tree, warnings, err := e.check(ctx, job)
	if err != nil {
		return DefinedJob{}, err
	}
	d, kept, err := e.save(ctx, store.Job, job.Name, checked, warnings, opt)
	if cycle, ok := errors.AsType[*courier.CycleError](err); ok { // somebody else has saved the rest of it meanwhile
		return DefinedJob{}, &courier.DefinitionError{Job: job.Name, Problems: []courier.Problem{{Step: -1, Field: "depends_on", Message: cycle.Error()}}}
	}
	if err != nil {
		return DefinedJob{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	p := compile(checked, d.Version, tree, e.reg)
	if kept {
		if p, err = e.programs.of(&d); err != nil {
			return DefinedJob{}, fmt.Errorf("load job %q version %d: %w", d.Name, d.Version, err)
		}
	}
	e.programs.keep(p)
	e.programs.saw(p)
	return DefinedJob{Job: p.public(), SavedBy: d.By, SavedAt: d.SavedAt, Superseded: kept, Warnings: warnings}, nil
}

// A VersionFilter selects versions of a definition.
type VersionFilter struct {
	Before int // only those before this version; 0 means all
	Limit  int // 0 means 100, the most is 1000
}

// versions returns versions of a definition, the newest first.
func (e *Engine) versions(ctx context.Context, kind store.Kind, name string, f VersionFilter) ([]store.Definition, error) {
	const usual, most = 100, 1000
	limit := usual
	if f.Limit > 0 {
		limit = min(f.Limit, most)
	}
	latest, err := e.store.Load(ctx, kind, name, 0)
	if err != nil {
		return nil, err
	}
	var list []store.Definition
	first := latest.Version
	if f.Before > 0 {
		first = min(first, f.Before-1)
	}
	for v := first; v > 0 && len(list) < limit; v-- {
		d := latest
		if v != latest.Version {
			d, err = e.store.Load(ctx, kind, name, v)
		}
		if errors.Is(err, courier.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// save saves a definition that was checked. Kept says that a newer version was
// left alone, which is what it returns.
func (e *Engine) save(ctx context.Context, kind store.Kind, name string, v any, warnings []courier.Problem, opt *DefineOptions) (d store.Definition, kept bool, err error) {
	if opt == nil {
		opt = &DefineOptions{}
	}
	if err := core.CheckText(core.Texts(opt.By)); err != nil {
		return d, false, err
	}
	if opt.Base != nil && *opt.Base < 0 {
		return d, false, courier.Errorf(courier.ErrInvalid, "Base: %d is negative; 0 means that there is no version yet", *opt.Base)
	}
	for _, w := range warnings {
		e.log.Warn(string(kind)+" definition", string(kind), name, "warning", w.String())
	}
	body, err := jsontext.Append(nil, v)
	if err != nil {
		return d, false, err
	}
	d, err = e.store.Save(ctx, store.Definition{Kind: kind, Name: name, Body: body, By: opt.By.Actor, Base: opt.Base, KeepNewer: opt.KeepNewer})
	if err != nil {
		return d, false, err
	}
	e.explained(string(kind), name, "defined", opt.By, slog.Int("version", d.Version))
	return d, !bytes.Equal(d.Body, body), nil
}

// check brings a job into the form that it will have after a restart, and
// checks it. Its error is a *[courier.DefinitionError], or one of the store.
func (e *Engine) check(ctx context.Context, job courier.Job) (courier.Job, *flow.Tree, []courier.Problem, error) {
	invalid := func(problems ...courier.Problem) (courier.Job, *flow.Tree, []courier.Problem, error) {
		return job, nil, nil, &courier.DefinitionError{Job: job.Name, Problems: problems}
	}
	job.Version = 0
	body, err := jsontext.Append(nil, job)
	var found []courier.Problem
	if err != nil {
		found = unstorable(job, err)
		if body, err = json.Marshal(job); err != nil {
			return invalid(found...)
		}
	}
	plain, err := reread(body, job)
	if err != nil {
		return invalid(courier.Problem{Step: -1, Message: err.Error()})
	}
	tree, err := flow.Parse(plain.Steps)
	if p, ok := errors.AsType[*flow.ParseError](err); ok {
		found = append(found, p.Problems...)
	} else if err != nil {
		return invalid(courier.Problem{Step: -1, Message: err.Error()})
	}
	problems, warnings := flow.Check(tree, &plain, e.reg)
	doubts, err := e.checkMember(ctx, &plain)
	if err != nil {
		return job, nil, nil, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	warnings = append(warnings, doubts...)
	slices.SortStableFunc(warnings, func(a, b courier.Problem) int { return a.Step - b.Step })
	if len(plain.Steps) == 0 {
		problems = append(problems, courier.Problem{Step: -1, Field: "steps", Message: "there are none; a job needs at least one"})
	}
	depends, err := e.checkDependencies(ctx, &plain)
	if err != nil {
		return job, nil, nil, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	problems = append(problems, depends...)
	if found = distinct(append(found, problems...)); len(found) > 0 {
		slices.SortStableFunc(found, func(a, b courier.Problem) int { return a.Step - b.Step })
		return invalid(found...)
	}
	return plain, tree, warnings, nil
}

// reread returns a job as it will be read from its JSON, but for a failure policy and
// durations that JSON does not take: they are as they were given, for the check to
// report them beside all else.
func reread(body []byte, job courier.Job) (plain courier.Job, err error) {
	if err = json.Unmarshal(body, &plain); err == nil {
		return plain, nil
	}
	rest := job
	rest.FailurePolicy, rest.Steps = courier.FailurePolicy{}, slices.Clone(job.Steps)
	for i := range rest.Steps {
		rest.Steps[i].Timeout, rest.Steps[i].StallTimeout = nil, nil
	}
	if body, again := json.Marshal(rest); again != nil || json.Unmarshal(body, &plain) != nil {
		return job, err
	}
	plain.FailurePolicy = job.FailurePolicy
	for i := range plain.Steps {
		plain.Steps[i].Timeout, plain.Steps[i].StallTimeout = job.Steps[i].Timeout, job.Steps[i].StallTimeout
	}
	return plain, nil
}

// distinct drops repetitions: the check of a definition also reports what the
// parser has found.
func distinct(problems []courier.Problem) []courier.Problem {
	seen := make(map[courier.Problem]bool, len(problems))
	return slices.DeleteFunc(problems, func(p courier.Problem) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
}

// unstorable finds the text in a job that no store can keep, or that JSON can't
// hold; err is what the job as a whole gave.
func unstorable(job courier.Job, err error) (found []courier.Problem) {
	for i, s := range job.Steps {
		if _, err := jsontext.Append(nil, s); err != nil {
			found = append(found, courier.Problem{Step: i, ID: s.ID, Type: s.Type, Message: err.Error()})
		}
	}
	if len(found) == 0 {
		found = append(found, courier.Problem{Step: -1, Message: err.Error()})
	}
	return found
}
