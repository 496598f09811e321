// Package definitions checks jobs, and saves and reads definitions of jobs and of chains by
// version. What is right in a chain is decided by package chain. The package also checks
// definitions that are not saved, in place of those in the store.
package definitions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// A Service is the definitions of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	roles    core.Roles
	registry *courier.Registry
	programs *program.Cache // of the jobs in the store
	queues   []string       // that the engine serves when it is started
	log      *slog.Logger
}

// New returns the service of an engine that serves queues when it is started.
func New(roles core.Roles, r *courier.Registry, p *program.Cache, queues []string, log *slog.Logger) *Service {
	return &Service{roles, r, p, queues, log}
}

// Unsaved returns a service that checks definitions as this one does, and reads jobs and
// chains in place of those in the store with the same names.
func (v *Service) Unsaved(jobs []courier.Job, chains []chain.Chain) *Service {
	s := NewUnsaved(v.roles.Store, nil, false)
	s.Add(jobs, chains)
	return New(core.Roles{Store: s, Behind: s}, v.registry, program.NewCache(s, v.registry), v.queues, v.log)
}

// DefineJob checks a job and saves it as a new version of its name, unless it equals
// the latest version. The error of a job that can't run is a *[courier.DefinitionError].
// A nil opt means the defaults.
func (v *Service) DefineJob(ctx context.Context, job courier.Job, opt *courier.DefineOptions) (courier.DefinedJob, error) {
	c, err := v.CheckJob(ctx, job)
	if err != nil {
		return courier.DefinedJob{}, err
	}
	if opt != nil && opt.CheckQueue {
		w, _ := v.roles.Workers() // without them no queue is doubtful
		workers, err := core.PresentWorkers(ctx, w)
		if err != nil {
			return courier.DefinedJob{}, fmt.Errorf("define job %q: %w", job.Name, err)
		}
		c.Warnings = append(c.Warnings, core.UnservedQueue(&c.Job, workers, v.queues)...)
	}
	return v.DefineChecked(ctx, c, opt)
}

// DefineChecked saves a job that was checked, as DefineJob does.
func (v *Service) DefineChecked(ctx context.Context, c core.CheckedJob, opt *courier.DefineOptions) (courier.DefinedJob, error) {
	job := &c.Job
	d, kept, err := v.Save(ctx, store.Job, job.Name, c.Job, c.Warnings, opt)
	if cycle, ok := errors.AsType[*courier.CycleError](err); ok { // the rest of it was saved meanwhile
		return courier.DefinedJob{}, &courier.DefinitionError{Job: job.Name, Problems: []courier.Problem{{Step: -1, Field: "depends_on", Message: cycle.Error()}}}
	}
	if err != nil {
		return courier.DefinedJob{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	p := program.Compile(c.Job, d.Version, c.Tree, v.registry)
	if kept {
		if p, err = v.programs.Of(&d); err != nil {
			return courier.DefinedJob{}, fmt.Errorf("load job %q version %d: %w", d.Name, d.Version, err)
		}
	}
	v.programs.KeepLatest(p)
	return courier.DefinedJob{Job: p.Definition(), SavedBy: d.By, SavedAt: d.SavedAt, Superseded: kept, Warnings: c.Warnings}, nil
}

// Save saves a definition that was checked as a new version of its name, unless it equals
// the latest one. Kept says that a newer version was left alone, which it returns.
func (v *Service) Save(ctx context.Context, kind store.Kind, name string, def any, warnings []courier.Problem, opt *courier.DefineOptions) (d store.Definition, kept bool, err error) {
	if opt == nil {
		opt = &courier.DefineOptions{}
	}
	if err := text.Check(text.By(opt.By)); err != nil {
		return d, false, err
	}
	if opt.Base != nil && *opt.Base < 0 {
		return d, false, courier.Errorf(courier.ErrInvalid, "Base: %d is negative; 0 means that there is no version yet", *opt.Base)
	}
	for _, w := range warnings {
		v.log.Warn(string(kind)+" definition", string(kind), name, "warning", w.String())
	}
	body, err := jsontext.Append(nil, def)
	if err != nil {
		return d, false, err
	}
	d, err = v.roles.Catalog().Save(ctx, store.Definition{Kind: kind, Name: name, Body: body, By: opt.By.Actor, Base: opt.Base, KeepNewer: opt.KeepNewer})
	if err != nil {
		return d, false, err
	}
	if d.Removed() { // by a newer program, which KeepNewer leaves alone
		return d, false, courier.Errorf(courier.ErrConflict, "%w; without KeepNewer it is made again", d.ErrRemoved())
	}
	core.Explained(v.log, string(kind), name, "defined", opt.By, slog.Int("version", d.Version))
	return d, !bytes.Equal(d.Body, body), nil
}
