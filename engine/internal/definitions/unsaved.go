package definitions

import (
	"cmp"
	"context"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// Unsaved is a store with definitions that are not saved, in place of those with the
// same names. It is for checks, which read definitions and nothing else.
type Unsaved struct {
	store.Store
	chains // nil: checks ask whether chains are kept, and no more
	unsavedSubscriptions
	definitions map[store.Kind]map[string]store.Definition
	anyVersion  bool // what was added stands for all versions
}

// chains is the role by another name than that of the field Store.
type chains = chain.Store

// listPage is the number of definitions or subscriptions of a page without a limit.
const listPage = 1000

// NewUnsaved returns a store that has what s has, the subscriptions of n, and definitions
// that are added. A nil s or n has nothing. If anyVersion is true, what is added stands for
// all versions of its name.
func NewUnsaved(s store.Store, n notify.Store, anyVersion bool) *Unsaved {
	if s == nil {
		s = emptyStore{core.NoStore}
	}
	return &Unsaved{Store: s, unsavedSubscriptions: unsavedSubscriptions{Store: n}, definitions: map[store.Kind]map[string]store.Definition{store.Job: {}, store.Chain: {}, store.Calendar: {}}, anyVersion: anyVersion}
}

// Add adds jobs and chains, but for those that can't be stored and those whose name
// another one has, which their own checks report.
func (c *Unsaved) Add(jobs []courier.Job, chains []chain.Chain) {
	for _, j := range jobs {
		j.Version = 0
		c.Put(store.Job, j.Name, j)
	}
	for _, x := range chains {
		x.Version = 0
		c.Put(store.Chain, x.Name, x)
	}
}

// Put adds a definition of a kind, unless it can't be stored or another one has its name.
func (c *Unsaved) Put(kind store.Kind, name string, v any) {
	if _, taken := c.definitions[kind][name]; taken {
		return
	}
	if body, err := jsontext.Append(nil, v); err == nil {
		c.definitions[kind][name] = store.Definition{Kind: kind, Name: name, Body: body}
	}
}

// Load returns what was added, which is the latest version, or what is saved.
func (c *Unsaved) Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error) {
	if d, ok := c.definitions[kind][name]; ok && (version == 0 || c.anyVersion) {
		return d, nil
	}
	return c.Store.Load(ctx, kind, name, version)
}

// List returns what was added and what is saved.
func (c *Unsaved) List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error) {
	list, err := c.Store.List(ctx, f)
	if err != nil {
		return nil, err
	}
	full := "" // the last name of a page after which there may be more
	if n := len(list); n > 0 && n >= cmp.Or(f.Limit, listPage) {
		full = list[n-1].Name
	}
	list = slices.DeleteFunc(slices.Clone(list), func(d store.Definition) bool {
		_, ok := c.definitions[f.Kind][d.Name]
		return ok
	})
	for name, d := range c.definitions[f.Kind] {
		if name > f.After && (full == "" || name <= full) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b store.Definition) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// emptyStore is a store in which nothing is saved.
type emptyStore struct{ store.Store }

func (emptyStore) Load(_ context.Context, kind store.Kind, name string, version int) (d store.Definition, err error) {
	return d, courier.Errorf(courier.ErrNotFound, "there is no %s %q version %d", kind, name, version)
}

func (emptyStore) List(context.Context, store.DefinitionFilter) ([]store.Definition, error) {
	return nil, nil
}

// unsavedSubscriptions are subscriptions in place of those with the same names in a store,
// which is nil if it has none.
type unsavedSubscriptions struct {
	notify.Store
	added []notify.Record
}

// AddSubscription adds a subscription, unless it can't be stored.
func (s *unsavedSubscriptions) AddSubscription(x notify.Subscription) {
	if body, err := jsontext.Append(nil, x); err == nil {
		s.added = append(s.added, notify.Record{Name: x.Name, Body: body})
	}
}

// Subscriptions returns a page of the subscriptions that were added and of the others
// that are saved.
func (s *unsavedSubscriptions) Subscriptions(ctx context.Context, f notify.Filter) ([]notify.Record, error) {
	var saved []notify.Record
	if s.Store != nil {
		var err error
		if saved, err = s.Store.Subscriptions(ctx, f); err != nil {
			return nil, err
		}
	}
	full := "" // the last name of a page after which there may be more
	if n := len(saved); n > 0 && n >= cmp.Or(f.Limit, listPage) {
		full = saved[n-1].Name
	}
	var all []notify.Record
	for _, x := range s.added {
		if x.Name > f.After && (f.Name == "" || x.Name == f.Name) && (full == "" || x.Name <= full) {
			all = append(all, x)
		}
	}
	for _, x := range saved {
		if !slices.ContainsFunc(s.added, func(y notify.Record) bool { return y.Name == x.Name }) {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b notify.Record) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
