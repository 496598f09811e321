package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// A Cache keeps the programs in use, so that each is compiled once. Its methods may
// be called by several goroutines.
type Cache struct {
	catalog store.Catalog
	reg     *courier.Registry

	mu  sync.Mutex
	all map[cacheKey]*Program
	// newest are the latest versions, as far as this process has seen them.
	newest map[string]*Program
}

type cacheKey struct {
	name    string
	version int
}

// maxPrograms bounds the programs that are kept.
const maxPrograms = 256

// NewCache returns an empty cache of the programs of jobs in a catalog, with the step
// types of r.
func NewCache(catalog store.Catalog, r *courier.Registry) *Cache {
	return &Cache{catalog: catalog, reg: r}
}

// Load returns the program of a version of a job, or of the latest for version 0. A
// version never changes, so one that is kept is not read again. The error of a job or a
// version that does not exist matches [courier.ErrNotFound] and names the nearest.
func (c *Cache) Load(ctx context.Context, name string, version int) (*Program, error) {
	if p := c.kept(name, version); p != nil {
		return p, nil
	}
	d, err := c.catalog.Load(ctx, store.Job, name, version)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, Unknown(ctx, c.catalog, store.Job, name, version)
	}
	if err != nil {
		return nil, fmt.Errorf("load job %q: %w", name, err)
	}
	if err := NotRemoved(&d, version); err != nil {
		return nil, err
	}
	p, err := c.Of(&d)
	if err != nil {
		return nil, fmt.Errorf("load job %q version %d: %w", name, d.Version, err)
	}
	if version == 0 {
		c.setLatest(p)
	}
	return p, nil
}

// NotRemoved returns the error of a version that removes its definition, which was asked for by
// its number, or as the latest for version 0; nil for any other version.
func NotRemoved(d *store.Definition, version int) error {
	switch {
	case !d.Removed():
		return nil
	case version != 0:
		return courier.Errorf(courier.ErrNotFound, "version %d of %s %q is its removal; version %d is the one before", version, d.Kind, d.Name, version-1)
	}
	return d.ErrRemoved()
}

// Unknown returns the error of a definition that does not exist, which names the latest
// version, or the nearest name.
func Unknown(ctx context.Context, catalog store.Catalog, kind store.Kind, name string, version int) error {
	const most = 1000
	if version != 0 {
		if d, err := catalog.Load(ctx, kind, name, 0); err == nil {
			return courier.Errorf(courier.ErrNotFound, "%s %q has no version %d; the latest is %d", kind, name, version, d.Version)
		}
	}
	var names []string
	list, _ := catalog.List(ctx, store.DefinitionFilter{Kind: kind, Limit: most})
	for _, d := range list {
		names = append(names, d.Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no %s %q; %s", kind, name, nearest.DidYouMean(name, names))
}

// Of returns the program of a definition. It may be one that can't be executed here.
func (c *Cache) Of(d *store.Definition) (*Program, error) {
	if p := c.kept(d.Name, d.Version); p != nil {
		return p, nil
	}
	var job courier.Job
	if err := json.Unmarshal(d.Body, &job); err != nil {
		return nil, err
	}
	p := Compile(job, d.Version, nil, c.reg)
	c.keep(p)
	return p, nil
}

// ToRun returns the program of a definition, if it can be executed here. One that could
// not be is compiled again, since step types may have been registered meanwhile.
func (c *Cache) ToRun(d *store.Definition) (*Program, error) {
	p, err := c.Of(d)
	if err != nil {
		return nil, err
	}
	if p.NotRunnable != nil {
		p = Compile(p.Definition(), p.Version, p.Tree, c.reg)
		c.keep(p)
	}
	return p, p.NotRunnable
}

// KeepLatest keeps the program of a version that was the latest when it was saved or
// read.
func (c *Cache) KeepLatest(p *Program) {
	c.keep(p)
	c.setLatest(p)
}

// Latest returns the latest version of a job that this process has seen, or nil. There
// may be a newer one in the store.
func (c *Cache) Latest(name string) *Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest[name]
}

func (c *Cache) kept(name string, version int) *Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[cacheKey{name, version}]
}

func (c *Cache) keep(p *Program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxPrograms {
		c.all = make(map[cacheKey]*Program)
	}
	c.all[cacheKey{p.Job.Name, p.Version}] = p
}

func (c *Cache) setLatest(p *Program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == nil || len(c.newest) >= maxPrograms {
		c.newest = make(map[string]*Program)
	}
	if last := c.newest[p.Job.Name]; last == nil || last.Version < p.Version {
		c.newest[p.Job.Name] = p
	}
}
