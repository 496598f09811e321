package desk

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/store"
)

// A Defined is a job or a chain, with the store's data about the version.
type Defined struct {
	Definition courier.Definition // a *courier.Job or a *chain.Chain
	By         string             // who has saved it
	At         time.Time
	Warnings   []courier.Problem // of a definition that was just saved
}

// Name points to the name in the definition.
func (d *Defined) Name() *string {
	if j, ok := d.Definition.(*courier.Job); ok {
		return &j.Name
	}
	return &d.Definition.(*chain.Chain).Name
}

// Version points to the version in the definition.
func (d *Defined) Version() *int {
	if j, ok := d.Definition.(*courier.Job); ok {
		return &j.Version
	}
	return &d.Definition.(*chain.Chain).Version
}

// A Catalog is the jobs or the chains of an engine.
type Catalog struct {
	Kind     string // "job" or "chain"
	None     func() Defined
	Get      func(ctx context.Context, name string, version int) (Defined, error) // without the store's data
	Page     func(ctx context.Context, f store.DefinitionFilter) ([]Defined, error)
	Versions func(ctx context.Context, name string, f store.VersionFilter) ([]Defined, error)
	Define   func(ctx context.Context, d *Defined, opt *courier.DefineOptions) (Defined, error)
	Remove   func(ctx context.Context, name string, by courier.By) error
	DryRun   func(ctx context.Context, d *Defined, opt *dryrun.Options) (any, error) // a dryrun.Report or a dryrun.ChainReport
	Unread   func(name string, problems []courier.Problem) any                       // the report of a definition that can't be read
	Shows    func(ctx context.Context, name string) bool                             // whether the visitor may see one; the caller has checked that it may see any
	Failed   func(name string, problems []courier.Problem) error                     // the error of a definition that was not saved
}

// Catalog returns the definitions of a kind, "job" or "chain".
func (v *Visit) Catalog(kind string) Catalog {
	if kind == "chain" {
		return chainCatalog(v.d.e)
	}
	c := jobCatalog(v.d.e.Jobs())
	c.Shows = func(ctx context.Context, name string) bool { return v.Can(ctx, name, access.RightSee) }
	return c
}

// Saved returns a version of a definition, the latest for version 0.
func (c Catalog) Saved(ctx context.Context, name string, version int) (Defined, error) {
	f := store.VersionFilter{Limit: 1}
	if version != 0 {
		f.Before = version + 1
	} else if d, err := c.Get(ctx, name, 0); err != nil { // it may be removed, and still have versions
		return d, err
	}
	list, err := c.Versions(ctx, name, f)
	if err == nil && len(list) > 0 && (version == 0 || *list[0].Version() == version) {
		return list[0], nil
	}
	return c.Get(ctx, name, version) // its error names the nearest
}

func jobCatalog(h engine.Jobs) Catalog {
	of := func(j courier.DefinedJob) Defined { return Defined{&j.Job, j.SavedBy, j.SavedAt, j.Warnings} }
	job := func(d *Defined) courier.Job { return *d.Definition.(*courier.Job) }
	return Catalog{
		Kind: "job",
		None: func() Defined { return Defined{Definition: new(courier.Job)} },
		Get: func(ctx context.Context, name string, version int) (Defined, error) {
			j, err := h.Get(ctx, name, version)
			return Defined{Definition: &j}, err
		},
		Page: func(ctx context.Context, f store.DefinitionFilter) ([]Defined, error) {
			list, err := h.List(ctx, f)
			return mapped(list, of), err
		},
		Versions: func(ctx context.Context, name string, f store.VersionFilter) ([]Defined, error) {
			list, err := h.Versions(ctx, name, f)
			return mapped(list, of), err
		},
		Define: func(ctx context.Context, d *Defined, opt *courier.DefineOptions) (Defined, error) {
			j, err := h.Define(ctx, job(d), opt)
			return of(j), err
		},
		Remove: h.Remove,
		DryRun: func(ctx context.Context, d *Defined, opt *dryrun.Options) (any, error) {
			return h.DryRun(ctx, job(d), opt)
		},
		Unread: func(name string, problems []courier.Problem) any { return dryrun.Report{Job: name, Problems: problems} },
		Failed: func(name string, problems []courier.Problem) error {
			return &courier.DefinitionError{Job: name, Problems: problems}
		},
	}
}

func chainCatalog(e *engine.Engine) Catalog {
	h := e.Chains()
	of := func(x chain.Defined) Defined { return Defined{&x.Chain, x.SavedBy, x.SavedAt, x.Warnings} }
	given := func(d *Defined) chain.Chain { return *d.Definition.(*chain.Chain) }
	return Catalog{
		Kind: "chain",
		None: func() Defined { return Defined{Definition: new(chain.Chain)} },
		Get: func(ctx context.Context, name string, version int) (Defined, error) {
			x, err := h.Get(ctx, name, version)
			return Defined{Definition: &x}, err
		},
		Page: func(ctx context.Context, f store.DefinitionFilter) ([]Defined, error) {
			list, err := h.List(ctx, f)
			return mapped(list, of), err
		},
		Versions: func(ctx context.Context, name string, f store.VersionFilter) ([]Defined, error) {
			list, err := h.Versions(ctx, name, f)
			return mapped(list, of), err
		},
		Define: func(ctx context.Context, d *Defined, opt *courier.DefineOptions) (Defined, error) {
			x, err := h.Define(ctx, given(d), opt)
			return of(x), err
		},
		Remove: h.Remove,
		DryRun: func(ctx context.Context, d *Defined, opt *dryrun.Options) (any, error) {
			return e.DryRunChain(ctx, given(d), opt)
		},
		Unread: func(name string, problems []courier.Problem) any {
			return dryrun.ChainReport{Chain: name, Problems: problems}
		},
		Shows: func(context.Context, string) bool { return true },
		Failed: func(name string, problems []courier.Problem) error {
			return &chain.Error{Chain: name, Problems: problems}
		},
	}
}

// mapped returns the results of f for the elements of a list.
func mapped[A, B any](list []A, f func(A) B) []B {
	all := make([]B, len(list))
	for i := range list {
		all[i] = f(list[i])
	}
	return all
}
