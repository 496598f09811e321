package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// Get returns a version of a job as it was written; version 0 means the latest.
// Its step types need not be registered here, and it need not be one that can
// run, so that it can be read and mended. The error of a
// job that isn't there matches [courier.ErrNotFound] and names the nearest.
func (h Jobs) Get(ctx context.Context, name string, version int) (courier.Job, error) {
	e := h.e
	p, err := e.program(ctx, name, version)
	if err != nil {
		return courier.Job{}, err
	}
	return p.public(), nil
}

// List returns a page of the latest versions of jobs, in byte order of their names.
// The kind in the filter does not count.
func (h Jobs) List(ctx context.Context, f store.DefinitionFilter) ([]DefinedJob, error) {
	f.Kind = store.Job
	list, err := h.e.store.List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return h.defined(list)
}

// Versions returns a page of the versions of a job, the newest first. Those that
// retention has removed are left out. The error of a job that isn't there matches
// [courier.ErrNotFound].
func (h Jobs) Versions(ctx context.Context, name string, f VersionFilter) ([]DefinedJob, error) {
	list, err := h.e.versions(ctx, store.Job, name, f)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, h.e.unknownJob(ctx, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of job %q: %w", name, err)
	}
	return h.defined(list)
}

// defined returns definitions of jobs as users see them.
func (h Jobs) defined(list []store.Definition) ([]DefinedJob, error) {
	jobs := make([]DefinedJob, len(list))
	for i := range list {
		d := &list[i]
		p, err := h.e.programs.of(d)
		if err != nil {
			return nil, fmt.Errorf("load job %q version %d: %w", d.Name, d.Version, err)
		}
		jobs[i] = DefinedJob{Job: p.public(), SavedBy: d.By, SavedAt: d.SavedAt}
	}
	return jobs, nil
}

// public is the job with its version.
func (p *program) public() courier.Job {
	job := p.job
	job.Version = p.version
	return job
}

// A program is a version of a job, as it was read. It is immutable. Reading needs
// neither step types nor a sound definition: whether the program can be executed
// here is what unfit says.
type program struct {
	job     courier.Job
	version int
	tree    *flow.Tree          // nil if the blocks of the job are broken
	types   []*courier.StepType // by index; nil for markers, and where the type is not registered here
	keys    []string            // of all step types, in order
	chain   []string            // the members of a chain whose outputs its steps refer to
	unfit   error               // why it can't be executed here; nil if it can
}

// template returns the configuration of a step, for its type.
func (p *program) template(step int) *flow.Template {
	return p.tree.Template(step).For(p.types[step].Config(), p.tree.Spec(step).AllowParent)
}

// compile returns the program of a job. The tree is made of its steps if it is nil.
func compile(job courier.Job, version int, tree *flow.Tree, reg *courier.Registry) *program {
	p := &program{job: job, version: version, tree: tree}
	if tree == nil {
		if p.tree, p.unfit = flow.Parse(job.Steps); p.unfit != nil {
			p.tree = nil
		}
	}
	p.types = make([]*courier.StepType, len(p.job.Steps))
	for i, s := range p.job.Steps {
		if isMarker(s.Type) {
			continue
		}
		key := strings.ToLower(s.Type) // workers claim by aliases too
		if t, ok := reg.Lookup(s.Type); ok {
			p.types[i], key = t, t.Key()
		} else if p.unfit == nil {
			p.unfit = fmt.Errorf("%s: the step type is not registered here; %s", courier.StepLabel(i, s.ID, s.Type), nearest.DidYouMean(s.Type, reg.Keys()))
		}
		p.keys = append(p.keys, key)
	}
	slices.Sort(p.keys)
	p.keys = slices.Compact(p.keys)
	for _, u := range chainUses(job.Steps) {
		if !slices.Contains(p.chain, u.ref.Name) {
			p.chain = append(p.chain, u.ref.Name)
		}
	}
	return p
}

// firstType is the key of the type of the first step; empty if that is a marker,
// or there is none.
func (p *program) firstType() string {
	switch {
	case len(p.job.Steps) == 0 || isMarker(p.job.Steps[0].Type):
		return ""
	case p.types[0] != nil:
		return p.types[0].Key()
	}
	return strings.ToLower(p.job.Steps[0].Type)
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

// of returns the program of a definition, which may be unfit.
func (p *programs) of(d *store.Definition) (*program, error) {
	if got := p.kept(d.Name, d.Version); got != nil {
		return got, nil
	}
	var job courier.Job
	if err := json.Unmarshal(d.Body, &job); err != nil {
		return nil, err
	}
	got := compile(job, d.Version, nil, p.reg)
	p.keep(got)
	return got, nil
}

// toRun returns the program of a definition, if it can be executed here. One that
// was unfit is looked at again, since step types may have been registered.
func (p *programs) toRun(d *store.Definition) (*program, error) {
	got, err := p.of(d)
	if err != nil {
		return nil, err
	}
	if got.unfit != nil {
		got = compile(got.job, got.version, got.tree, p.reg)
		p.keep(got)
	}
	return got, got.unfit
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
			return courier.Errorf(courier.ErrNotFound, "job %q has no version %d; the latest is %d", name, version, d.Version)
		}
	}
	var names []string
	list, _ := e.store.List(ctx, store.DefinitionFilter{Kind: store.Job, Limit: most})
	for _, d := range list {
		names = append(names, d.Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no job %q; %s", name, nearest.DidYouMean(name, names))
}

// isMarker reports whether a type is one of control flow, which no registry
// knows.
func isMarker(typ string) bool { return strings.HasPrefix(strings.ToLower(typ), "flow.") }
