package memstore

import (
	"context"

	"github.com/courierhq/courier/store"
)

var _ store.Journal = (*Store)(nil)

// Note adds an entry to the journal.
func (s *Store) Note(ctx context.Context, a store.Action) (store.Action, error) {
	if err := ctx.Err(); err != nil {
		return store.Action{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.ID, a.At = int64(len(s.journal))+1, s.clock()
	s.journal = append(s.journal, a)
	if a.Of > 0 {
		s.told[a.Of] = true
	}
	return a, nil
}

// Actions returns a page of the journal, the newest first.
func (s *Store) Actions(ctx context.Context, f store.ActionFilter) ([]store.Action, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := int64(len(s.journal))
	if f.Before > 0 {
		last = min(last, f.Before-1)
	}
	var list []store.Action
	for i := last - 1; i >= 0 && len(list) < limit; i-- {
		a := s.journal[i]
		if (f.Kind == "" || a.Kind == f.Kind) && (f.Name == "" || a.Name == f.Name) && (f.By == "" || a.By == f.By) && !(f.Acts && s.told[a.ID]) {
			list = append(list, a)
		}
	}
	return list, nil
}
