package definitions

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/store"
)

// Jobs returns a page of the latest versions of jobs, in byte order of their names.
// The kind in the filter is not used.
func (v *Service) Jobs(ctx context.Context, f store.DefinitionFilter) ([]courier.DefinedJob, error) {
	f.Kind, f.Brief = store.Job, false
	list, err := v.roles.Catalog().List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return v.jobs(list)
}

// JobNames returns a page of the names of jobs, in byte order. The kind in the filter is not
// used.
func (v *Service) JobNames(ctx context.Context, f store.DefinitionFilter) ([]string, error) {
	f.Kind, f.Brief = store.Job, true
	list, err := v.roles.Catalog().List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("names of jobs: %w", err)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names, nil
}

// JobVersions returns a page of the versions of a job, the newest first. Those that
// retention has removed are left out. The error of a job that isn't there matches
// [courier.ErrNotFound].
func (v *Service) JobVersions(ctx context.Context, name string, f store.VersionFilter) ([]courier.DefinedJob, error) {
	list, err := v.Versions(ctx, store.Job, name, f)
	if err != nil {
		return nil, err
	}
	return v.jobs(list)
}

// jobs returns definitions of jobs as users see them.
func (v *Service) jobs(list []store.Definition) ([]courier.DefinedJob, error) {
	jobs := make([]courier.DefinedJob, len(list))
	for i := range list {
		d := &list[i]
		p, err := v.programs.Of(d)
		if err != nil {
			return nil, fmt.Errorf("load job %q version %d: %w", d.Name, d.Version, err)
		}
		jobs[i] = courier.DefinedJob{Job: p.Definition(), SavedBy: d.By, SavedAt: d.SavedAt}
	}
	return jobs, nil
}

// Load returns a version of a definition; version 0 means the latest. The error of one that
// does not exist matches [courier.ErrNotFound] and names the nearest.
func (v *Service) Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error) {
	d, err := v.roles.Catalog().Load(ctx, kind, name, version)
	if errors.Is(err, courier.ErrNotFound) {
		return d, program.Unknown(ctx, v.roles.Catalog(), kind, name, version)
	}
	if err != nil {
		return d, fmt.Errorf("load %s %q: %w", kind, name, err)
	}
	return d, program.NotRemoved(&d, version)
}

// List returns a page of the latest versions of definitions, in byte order of their names.
func (v *Service) List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error) {
	return v.roles.Catalog().List(ctx, f)
}

// Versions returns a page of the versions of a definition, the newest first. Those that
// retention has removed are left out, and so are those that remove the definition. The error of a definition that does not exist matches
// [courier.ErrNotFound] and names the nearest.
func (v *Service) Versions(ctx context.Context, kind store.Kind, name string, f store.VersionFilter) ([]store.Definition, error) {
	const usual, most = 100, 1000
	limit := usual
	if f.Limit > 0 {
		limit = min(f.Limit, most)
	}
	latest, err := v.roles.Catalog().Load(ctx, kind, name, 0)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, program.Unknown(ctx, v.roles.Catalog(), kind, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of %s %q: %w", kind, name, err)
	}
	var list []store.Definition
	first := latest.Version
	if f.Before > 0 {
		first = min(first, f.Before-1)
	}
	for version := first; version > 0 && len(list) < limit; version-- {
		d := latest
		if version != latest.Version {
			d, err = v.roles.Catalog().Load(ctx, kind, name, version)
		}
		if errors.Is(err, courier.ErrNotFound) || err == nil && d.Removed() {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("versions of %s %q: %w", kind, name, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// Job returns a version of a job as chains check it; version 0 means the latest.
func (v *Service) Job(ctx context.Context, name string, version int) (*chain.Job, error) {
	p, err := v.programs.Load(ctx, name, version)
	if err != nil {
		return nil, err
	}
	return p.Member(), nil
}

// Program returns the program of a version of a job; version 0 means the latest.
func (v *Service) Program(ctx context.Context, name string, version int) (*program.Program, error) {
	return v.programs.Load(ctx, name, version)
}

// CheckChain is [chain.Check] with the jobs of the store.
func (v *Service) CheckChain(ctx context.Context, c chain.Chain) (chain.Checked, error) {
	return chain.Check(ctx, c, v.Job)
}
