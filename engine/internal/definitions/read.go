package definitions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
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
	list, err := v.versions(ctx, store.Job, name, f)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, program.Unknown(ctx, v.roles.Catalog(), store.Job, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of job %q: %w", name, err)
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

// Chain returns a version of a chain; version 0 means the latest. The error of
// a chain that isn't there matches [courier.ErrNotFound] and names the nearest.
func (v *Service) Chain(ctx context.Context, name string, version int) (courier.Chain, error) {
	d, err := v.roles.Catalog().Load(ctx, store.Chain, name, version)
	if errors.Is(err, courier.ErrNotFound) {
		return courier.Chain{}, program.Unknown(ctx, v.roles.Catalog(), store.Chain, name, version)
	}
	if err != nil {
		return courier.Chain{}, fmt.Errorf("load chain %q: %w", name, err)
	}
	return readChain(&d)
}

// Chains returns a page of the latest versions of chains, in byte order of their
// names. The kind in the filter is not used.
func (v *Service) Chains(ctx context.Context, f store.DefinitionFilter) ([]courier.DefinedChain, error) {
	f.Kind, f.Brief = store.Chain, false
	list, err := v.roles.Catalog().List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	return chainsOf(list)
}

// ChainVersions returns a page of the versions of a chain, the newest first. The error
// of a chain that isn't there matches [courier.ErrNotFound].
func (v *Service) ChainVersions(ctx context.Context, name string, f store.VersionFilter) ([]courier.DefinedChain, error) {
	list, err := v.versions(ctx, store.Chain, name, f)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, program.Unknown(ctx, v.roles.Catalog(), store.Chain, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of chain %q: %w", name, err)
	}
	return chainsOf(list)
}

// chainsOf returns definitions of chains as users see them.
func chainsOf(list []store.Definition) ([]courier.DefinedChain, error) {
	chains := make([]courier.DefinedChain, len(list))
	for i := range list {
		d := &list[i]
		c, err := readChain(d)
		if err != nil {
			return nil, err
		}
		chains[i] = courier.DefinedChain{Chain: c, SavedBy: d.By, SavedAt: d.SavedAt}
	}
	return chains, nil
}

// A storedChain is a chain as its definition has it in the store. It was checked before it
// was saved, so it is decoded without what reading the text of a person takes, which is ten
// times as long: a chain may have 10,000 members. It has the fields of [courier.Chain] without
// the method that does so.
type storedChain struct {
	Name        string         `json:"name"`
	Version     int            `json:"version"`
	Description string         `json:"description"`
	Params      map[string]any `json:"params"`
	Members     []storedMember `json:"members"`
}

// A storedMember is a [courier.ChainMember] without the method that reads it strictly.
type storedMember struct {
	Name      string             `json:"name"`
	Job       string             `json:"job"`
	Version   int                `json:"version"`
	Params    map[string]any     `json:"params"`
	Priority  int16              `json:"priority"`
	DependsOn []storedDependency `json:"depends_on"`
}

type storedDependency courier.Dependency

// readChain returns the chain of a definition. One with fields that this version of the
// library does not have is an error.
func readChain(d *store.Definition) (courier.Chain, error) {
	var s storedChain
	dec := json.NewDecoder(bytes.NewReader(d.Body))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return courier.Chain{}, fmt.Errorf("load chain %q version %d: %w", d.Name, d.Version, err)
	}
	c := courier.Chain{Name: s.Name, Version: d.Version, Description: s.Description, Params: s.Params, Members: make([]courier.ChainMember, len(s.Members))}
	for i := range s.Members {
		m := &s.Members[i]
		c.Members[i] = courier.ChainMember{Name: m.Name, Job: m.Job, Version: m.Version, Params: m.Params, Priority: m.Priority}
		for _, on := range m.DependsOn {
			c.Members[i].DependsOn = append(c.Members[i].DependsOn, courier.Dependency(on))
		}
	}
	return c, nil
}
