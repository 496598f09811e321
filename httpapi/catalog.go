package httpapi

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A defined is a job or a chain, with what the store knows of the version.
type defined struct {
	definition courier.Definition // a *courier.Job or a *courier.Chain
	by         string
	at         time.Time
	warnings   []courier.Problem
}

func (d *defined) name() *string {
	if j, ok := d.definition.(*courier.Job); ok {
		return &j.Name
	}
	return &d.definition.(*courier.Chain).Name
}

func (d *defined) version() *int {
	if j, ok := d.definition.(*courier.Job); ok {
		return &j.Version
	}
	return &d.definition.(*courier.Chain).Version
}

func (d *defined) view() DefinitionView {
	v := DefinitionView{SavedBy: d.by, SavedAt: d.at, Warnings: itemsOf(d.warnings)}
	v.Job, _ = d.definition.(*courier.Job)
	v.Chain, _ = d.definition.(*courier.Chain)
	return v
}

func (d *defined) entry() DefinitionEntry {
	e := DefinitionEntry{Name: *d.name(), Version: *d.version(), SavedBy: d.by, SavedAt: d.at}
	switch v := d.definition.(type) {
	case *courier.Job:
		e.Queue, e.Steps = v.Queue, len(v.Steps)
	case *courier.Chain:
		e.About, e.Members = v.Description, len(v.Members)
	}
	return e
}

// A catalog is the jobs or the chains of an engine.
type catalog struct {
	kind     string // "job" or "chain"
	none     func() defined
	get      func(ctx context.Context, name string, version int) (defined, error) // without what the store knows
	page     func(ctx context.Context, f store.DefinitionFilter) ([]defined, error)
	versions func(ctx context.Context, name string, f engine.VersionFilter) ([]defined, error)
	define   func(ctx context.Context, d *defined, opt *engine.DefineOptions) (defined, error)
	dryRun   func(ctx context.Context, d *defined, opt *engine.DryRunOptions) (any, error)
	unread   func(name string, problems []courier.Problem) any                // the report of a definition that can't be read
	shows    func(c *call, name string) bool                                  // whether the visitor may see one; that it may see any is known
	failed   func(name string, problems []courier.Problem) (definition error) // the error of one that was not saved
}

// catalog returns the definitions of a kind.
func (c *call) catalog(kind string) catalog {
	if kind == "chain" {
		return chainCatalog(c.h.e.Chains())
	}
	return jobCatalog(c.h.e.Jobs())
}

// saved returns a version of a definition, the latest for version 0.
func (d catalog) saved(ctx context.Context, name string, version int) (defined, error) {
	x, err := d.get(ctx, name, version) // its error names the nearest
	if err != nil {
		return x, err
	}
	list, err := d.versions(ctx, name, engine.VersionFilter{Before: *x.version() + 1, Limit: 1})
	if err == nil && len(list) > 0 && *list[0].version() == *x.version() {
		return list[0], nil
	}
	return x, err
}

func jobCatalog(h engine.Jobs) catalog {
	of := func(j engine.DefinedJob) defined { return defined{&j.Job, j.SavedBy, j.SavedAt, j.Warnings} }
	job := func(d *defined) courier.Job { return *d.definition.(*courier.Job) }
	return catalog{
		kind: "job",
		none: func() defined { return defined{definition: new(courier.Job)} },
		get: func(ctx context.Context, name string, version int) (defined, error) {
			j, err := h.Get(ctx, name, version)
			return defined{definition: &j}, err
		},
		page: func(ctx context.Context, f store.DefinitionFilter) ([]defined, error) {
			list, err := h.List(ctx, f)
			return mapped(list, of), err
		},
		versions: func(ctx context.Context, name string, f engine.VersionFilter) ([]defined, error) {
			list, err := h.Versions(ctx, name, f)
			return mapped(list, of), err
		},
		define: func(ctx context.Context, d *defined, opt *engine.DefineOptions) (defined, error) {
			j, err := h.Define(ctx, job(d), opt)
			return of(j), err
		},
		dryRun: func(ctx context.Context, d *defined, opt *engine.DryRunOptions) (any, error) {
			return h.DryRun(ctx, job(d), opt)
		},
		unread: func(name string, problems []courier.Problem) any { return engine.Report{Job: name, Problems: problems} },
		shows:  func(c *call, name string) bool { return c.Role(c.ctx(), name) >= desk.Viewer },
		failed: func(name string, problems []courier.Problem) error {
			return &courier.DefinitionError{Job: name, Problems: problems}
		},
	}
}

func chainCatalog(h engine.Chains) catalog {
	of := func(x engine.DefinedChain) defined { return defined{&x.Chain, x.SavedBy, x.SavedAt, x.Warnings} }
	chain := func(d *defined) courier.Chain { return *d.definition.(*courier.Chain) }
	return catalog{
		kind: "chain",
		none: func() defined { return defined{definition: new(courier.Chain)} },
		get: func(ctx context.Context, name string, version int) (defined, error) {
			x, err := h.Get(ctx, name, version)
			return defined{definition: &x}, err
		},
		page: func(ctx context.Context, f store.DefinitionFilter) ([]defined, error) {
			list, err := h.List(ctx, f)
			return mapped(list, of), err
		},
		versions: func(ctx context.Context, name string, f engine.VersionFilter) ([]defined, error) {
			list, err := h.Versions(ctx, name, f)
			return mapped(list, of), err
		},
		define: func(ctx context.Context, d *defined, opt *engine.DefineOptions) (defined, error) {
			x, err := h.Define(ctx, chain(d), opt)
			return of(x), err
		},
		dryRun: func(ctx context.Context, d *defined, opt *engine.DryRunOptions) (any, error) {
			return h.DryRun(ctx, chain(d), opt)
		},
		unread: func(name string, problems []courier.Problem) any {
			return engine.ChainReport{Chain: name, Problems: problems}
		},
		shows: func(*call, string) bool { return true },
		failed: func(name string, problems []courier.Problem) error {
			return &courier.DefinitionError{Chain: name, Problems: problems}
		},
	}
}

// mapped returns what f makes of the elements of a list.
func mapped[A, B any](list []A, f func(A) B) []B {
	all := make([]B, len(list))
	for i := range list {
		all[i] = f(list[i])
	}
	return all
}
