package memstore

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var _ store.Trail = (*Store)(nil)

// A trail has the entries of one key.
type trail struct {
	values  []string                      // sorted
	entries map[string][]store.TrailEntry // by value, in the order in which they were written
	newest  []store.TrailEntry            // the last ones that were written
}

// follow adds an entry to the trail.
func (s *Store) follow(key string, e store.TrailEntry) {
	t := s.trails[key]
	if t == nil {
		t = &trail{entries: make(map[string][]store.TrailEntry)}
		s.trails[key] = t
	}
	if _, ok := t.entries[e.Value]; !ok {
		i, _ := slices.BinarySearch(t.values, e.Value)
		t.values = slices.Insert(t.values, i, e.Value)
	}
	t.entries[e.Value] = append(t.entries[e.Value], e)
	if key == store.TrailFile {
		if len(t.newest) >= 2*store.MaxTrailWalk {
			t.newest = append([]store.TrailEntry{}, t.newest[store.MaxTrailWalk:]...)
		}
		t.newest = append(t.newest, e)
	}
}

// noteNames adds the files of records to the trail, and the items in which they have failed.
func (s *Store) noteNames(x *execution, from int) {
	for _, r := range x.steps[from:] {
		noted := make(map[string]bool)
		note := func(path string) {
			if name := store.TrailName(path); name != "" && !noted[name] {
				noted[name] = true
				s.follow(store.TrailFile, store.TrailEntry{Value: name, Execution: x.ID, Seq: r.Seq})
			}
		}
		for i := range r.Files {
			note(r.Files[i].Path)
		}
		if firstFrom(x.failed, r.Seq) < store.MaxTrailItems {
			for _, label := range r.ItemLabels {
				note(label)
			}
		}
	}
}

// Find returns a page of entries of the trail.
func (s *Store) Find(ctx context.Context, f store.TrailFilter) ([]store.TrailEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trails[f.Key]
	if t == nil {
		return nil, nil
	}
	if f.Part {
		var list []store.TrailEntry
		for _, e := range t.newest[max(0, len(t.newest)-store.MaxTrailWalk):] {
			if strings.Contains(e.Value, f.Value) {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, laterFirst)
		return list[:min(limit, len(list))], nil
	}
	from, _ := slices.BinarySearch(t.values, f.Value)
	to := from
	if f.Prefix {
		to += sort.Search(len(t.values)-from, func(i int) bool { return !strings.HasPrefix(t.values[from+i], f.Value) })
	} else if from < len(t.values) && t.values[from] == f.Value {
		to++
	}
	var list []store.TrailEntry
	for i := to - 1; i >= from && len(list) < limit; i-- {
		if f.Before != nil && t.values[i] > f.Before.Value {
			continue
		}
		entries := slices.Clone(t.entries[t.values[i]])
		slices.SortFunc(entries, laterFirst)
		for _, e := range entries {
			if len(list) < limit && (f.Before == nil || laterFirst(*f.Before, e) < 0) {
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// Reports returns the records that entries refer to.
func (s *Store) Reports(ctx context.Context, entries []store.TrailEntry) ([]courier.StepExecution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []courier.StepExecution
	for _, e := range entries[:min(len(entries), 1000)] {
		x := s.executions[e.Execution]
		if x == nil {
			continue
		}
		if i := firstFrom(x.steps, e.Seq); i < len(x.steps) && x.steps[i].Seq == e.Seq {
			list = append(list, withoutDetails(x.steps[i]))
			store.SetVersions(&x.Execution, list[len(list)-1:])
		}
	}
	return list, nil
}

// laterFirst is the order of entries in a page.
func laterFirst(a, b store.TrailEntry) int {
	return cmp.Or(strings.Compare(b.Value, a.Value), cmp.Compare(b.Execution, a.Execution), cmp.Compare(b.Seq, a.Seq))
}
