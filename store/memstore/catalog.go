package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// page is how many entries a list has when no limit is given.
const page = 1000

// Save keeps d as the next version of its name.
func (s *Store) Save(ctx context.Context, d store.Definition) (store.Definition, error) {
	if err := ctx.Err(); err != nil {
		return store.Definition{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := s.definitions[d.Kind][d.Name]
	if n := len(versions); n > 0 && bytes.Equal(versions[n-1].Body, d.Body) {
		return versions[n-1], nil
	}
	equal := func(v store.Definition) bool { return bytes.Equal(v.Body, d.Body) }
	if d.KeepNewer && slices.ContainsFunc(versions, equal) {
		return versions[len(versions)-1], nil
	}
	if d.Base != nil && *d.Base != len(versions) && (*d.Base != 0 || s.latest(d.Kind, d.Name) != nil) {
		return store.Definition{}, d.ErrBase(len(versions))
	}
	d.Base, d.KeepNewer = nil, false
	if err := s.dependable(&d); err != nil {
		return store.Definition{}, err
	}
	if d.Removed() {
		if err := s.removable(&d); err != nil {
			return store.Definition{}, err
		}
	}
	d.Version, d.SavedAt = len(versions)+1, s.clock()
	if s.definitions[d.Kind] == nil {
		s.definitions[d.Kind] = make(map[string][]store.Definition)
	}
	s.definitions[d.Kind][d.Name] = append(versions, d)
	return d, nil
}

// latest returns the latest version of a definition that was not removed, or nil.
func (s *Store) latest(kind store.Kind, name string) *store.Definition {
	if d := s.definition(kind, name, len(s.definitions[kind][name])); d != nil && !d.Removed() {
		return d
	}
	return nil
}

// unknown returns why nothing can be created of a version of a definition; nil if it can.
func (s *Store) unknown(kind store.Kind, name string, version int) error {
	if s.definition(kind, name, version) == nil {
		return noVersion(kind, name, version)
	}
	if d := s.definition(kind, name, len(s.definitions[kind][name])); d.Removed() {
		return d.ErrRemoved()
	}
	return nil
}

func noVersion(kind store.Kind, name string, version int) error {
	return courier.Errorf(courier.ErrNotFound, "there is no %s %q version %d", kind, name, version)
}

// removable returns why a definition can't be removed; nil if it can.
func (s *Store) removable(d *store.Definition) error {
	if s.latest(d.Kind, d.Name) == nil {
		return courier.Errorf(courier.ErrNotFound, "there is no %s %q", d.Kind, d.Name)
	}
	for _, c := range s.chains.all {
		uses := d.Kind == store.Chain && c.Chain == d.Name || d.Kind == store.Job && slices.ContainsFunc(c.prepared, func(n store.NewExecution) bool { return n.Job == d.Name })
		if uses && !c.Progress.State.Ended() {
			return d.ErrNeeded(store.NeededByOpen("chain execution", string(c.ID), string(c.Progress.State)))
		}
	}
	if d.Kind != store.Job {
		return nil
	}
	for _, x := range s.executions {
		if x.Job == d.Name && !x.State.Ended() {
			return d.ErrNeeded(store.NeededByOpen("execution", string(x.ID), string(x.State)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.definitions[store.Job])) {
		if other := s.latest(store.Job, name); other != nil && name != d.Name && slices.Contains(store.Upstreams(other), d.Name) {
			return d.ErrNeeded(store.NeededByJob(name))
		}
	}
	return nil
}

// Load returns a version of a definition, the latest for version 0.
func (s *Store) Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error) {
	if err := ctx.Err(); err != nil {
		return store.Definition{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == 0 {
		version = len(s.definitions[kind][name])
	}
	if d := s.definition(kind, name, version); d != nil {
		return *d, nil
	}
	return store.Definition{}, noVersion(kind, name, version)
}

// definition returns a version that exists, or nil.
func (s *Store) definition(kind store.Kind, name string, version int) *store.Definition {
	versions := s.definitions[kind][name]
	if version < 1 || version > len(versions) {
		return nil
	}
	return &versions[version-1]
}

// List returns the latest versions of the definitions of a kind.
func (s *Store) List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := f.Limit
	if limit <= 0 {
		limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.Definition
	for _, name := range slices.Sorted(maps.Keys(s.definitions[f.Kind])) {
		if latest := s.latest(f.Kind, name); latest != nil && name > f.After && len(list) < limit {
			d := *latest
			if f.Brief {
				d.Body = nil
			}
			list = append(list, d)
		}
	}
	return list, nil
}

// Settings returns a page of settings.
func (s *Store) Settings(ctx context.Context, f store.SettingFilter) ([]store.Setting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.Setting
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		if name > f.After && strings.HasPrefix(name, f.Prefix) && len(list) < f.Limit {
			list = append(list, store.Setting{Name: name, Value: s.settings[name]})
		}
	}
	return list, nil
}

// Set changes a setting; an empty value removes it.
func (s *Store) Set(ctx context.Context, key, value string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.CheckSetting(key, value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, limits := store.LimitScope(key)
	if value == "" {
		delete(s.settings, key)
		if limits {
			delete(s.limits, scope)
		}
	} else {
		s.settings[key] = value
		if n, err := strconv.Atoi(value); limits && err == nil {
			s.limits[scope] = n
		}
	}
	s.patterns = nil
	for scope := range s.limits {
		if p, ok := store.KeyPattern(scope); ok {
			s.patterns = append(s.patterns, p)
		}
	}
	s.wakeAll()
	return nil
}
