package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// Define checks a job and saves it as a new version of its name. If it equals
// the latest version, that one is returned and nothing is saved. The error of a
// job that can't run is a *[courier.DefinitionError], which lists everything
// that is wrong with it. What only looks doubtful is written to [Options].Log;
// [Engine.DryRun] returns it as [Report].Warnings.
func (e *Engine) Define(ctx context.Context, job courier.Job) (courier.Job, error) {
	job, tree, warnings, err := e.check(ctx, job)
	if err != nil {
		return courier.Job{}, err
	}
	for _, w := range warnings {
		e.log.Warn("job definition", "job", job.Name, "warning", w.String())
	}
	body, err := courier.AppendJSON(nil, job)
	if err != nil {
		return courier.Job{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	d, err := e.store.Save(ctx, store.Definition{Kind: store.Job, Name: job.Name, Body: body})
	if cycle, ok := errors.AsType[*courier.CycleError](err); ok { // somebody else has saved the rest of it meanwhile
		return courier.Job{}, &courier.DefinitionError{Job: job.Name, Problems: []courier.Problem{{Step: -1, Field: "depends_on", Message: cycle.Error()}}}
	}
	if err != nil {
		return courier.Job{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	p, err := compile(job, d.Version, tree, e.reg)
	if err != nil {
		return courier.Job{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	e.programs.keep(p)
	e.programs.saw(p)
	job.Version = d.Version
	return job, nil
}

// check brings a job into the form that it will have after a restart, and
// checks it. Its error is a *[courier.DefinitionError], or one of the store.
func (e *Engine) check(ctx context.Context, job courier.Job) (courier.Job, *flow.Tree, []courier.Problem, error) {
	invalid := func(problems ...courier.Problem) (courier.Job, *flow.Tree, []courier.Problem, error) {
		return job, nil, nil, &courier.DefinitionError{Job: job.Name, Problems: problems}
	}
	job.Version = 0
	body, err := courier.AppendJSON(nil, job)
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
		if _, err := courier.AppendJSON(nil, s); err != nil {
			found = append(found, courier.Problem{Step: i, ID: s.ID, Type: s.Type, Message: err.Error()})
		}
	}
	if len(found) == 0 {
		found = append(found, courier.Problem{Step: -1, Message: err.Error()})
	}
	return found
}

// Job returns a version of a job; version 0 means the latest. The error of a
// job that isn't there matches [courier.ErrNotFound] and names the nearest.
func (e *Engine) Job(ctx context.Context, name string, version int) (courier.Job, error) {
	p, err := e.program(ctx, name, version)
	if err != nil {
		return courier.Job{}, err
	}
	job := p.job
	job.Version = p.version
	return job, nil
}

// A program is a version of a job, ready to run. It is immutable.
type program struct {
	job     courier.Job
	version int
	tree    *flow.Tree
	types   []*courier.StepType // by index; nil for markers
	keys    []string            // of all step types, in order
	chain   []string            // the members of a chain whose outputs its steps refer to
}

// template returns the configuration of a step, for its type.
func (p *program) template(step int) *flow.Template {
	return p.tree.Template(step).For(p.types[step].Config(), p.tree.Spec(step).AllowParent)
}

func compile(job courier.Job, version int, tree *flow.Tree, reg *courier.Registry) (*program, error) {
	p := &program{job: job, version: version, tree: tree}
	p.types = make([]*courier.StepType, len(p.job.Steps))
	for i, s := range p.job.Steps {
		if isMarker(s.Type) {
			continue
		}
		t, ok := reg.Lookup(s.Type)
		if !ok {
			return nil, fmt.Errorf("%s: the step type is not registered here; %s", courier.StepLabel(i, s.ID, s.Type), courier.DidYouMean(s.Type, reg.Keys()))
		}
		p.types[i] = t
		p.keys = append(p.keys, t.Key())
	}
	slices.Sort(p.keys)
	p.keys = slices.Compact(p.keys)
	for _, u := range chainUses(job.Steps) {
		if !slices.Contains(p.chain, u.ref.Name) {
			p.chain = append(p.chain, u.ref.Name)
		}
	}
	return p, nil
}

// programs keeps the programs in use, so that they are compiled once.
type programs struct {
	reg *courier.Registry
	mu  sync.Mutex
	all map[programKey]*program
	// newest are the latest versions, as far as known here.
	newest map[string]*program
}

type programKey struct {
	name    string
	version int
}

// maxPrograms bounds the programs that are kept.
const maxPrograms = 256

// of returns the program of a definition.
func (p *programs) of(d *store.Definition) (*program, error) {
	got := p.kept(d.Name, d.Version)
	if got != nil {
		return got, nil
	}
	var job courier.Job
	if err := json.Unmarshal(d.Body, &job); err != nil {
		return nil, err
	}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		return nil, err
	}
	if got, err = compile(job, d.Version, tree, p.reg); err != nil {
		return nil, err
	}
	p.keep(got)
	return got, nil
}

// kept returns a program that was made before, or nil.
func (p *programs) kept(name string, version int) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[programKey{name, version}]
}

func (p *programs) keep(got *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxPrograms {
		p.all = make(map[programKey]*program)
	}
	p.all[programKey{got.job.Name, got.version}] = got
}

// latest returns the latest version of a job that is known here, or nil.
func (p *programs) latest(name string) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest[name]
}

// saw notes that a program was the latest version.
func (p *programs) saw(got *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newest == nil || len(p.newest) >= maxPrograms {
		p.newest = make(map[string]*program)
	}
	if last := p.newest[got.job.Name]; last == nil || last.version < got.version {
		p.newest[got.job.Name] = got
	}
}

// program loads a version of a job, or the latest for version 0. A version never
// changes, so one that is known need not be asked for.
func (e *Engine) program(ctx context.Context, name string, version int) (*program, error) {
	if p := e.programs.kept(name, version); p != nil {
		return p, nil
	}
	d, err := e.store.Load(ctx, store.Job, name, version)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, e.unknownJob(ctx, name, version)
	}
	if err != nil {
		return nil, fmt.Errorf("load job %q: %w", name, err)
	}
	p, err := e.programs.of(&d)
	if err != nil {
		return nil, fmt.Errorf("load job %q version %d: %w", name, d.Version, err)
	}
	if version == 0 {
		e.programs.saw(p)
	}
	return p, nil
}

func (e *Engine) unknownJob(ctx context.Context, name string, version int) error {
	const most = 1000
	if version != 0 {
		if d, err := e.store.Load(ctx, store.Job, name, 0); err == nil {
			return fmt.Errorf("job %q has no version %d; the latest is %d: %w", name, version, d.Version, courier.ErrNotFound)
		}
	}
	var names []string
	list, _ := e.store.List(ctx, store.Job, "", most)
	for _, d := range list {
		names = append(names, d.Name)
	}
	return fmt.Errorf("there is no job %q; %s: %w", name, courier.DidYouMean(name, names), courier.ErrNotFound)
}

// isMarker reports whether a type is one of control flow, which no registry
// knows.
func isMarker(typ string) bool { return strings.HasPrefix(strings.ToLower(typ), "flow.") }
