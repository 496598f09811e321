package memstore

import (
	"context"
	"maps"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var _ store.Acknowledgements = (*Store)(nil)

// Acknowledge saves an acknowledgement.
func (s *Store) Acknowledge(ctx context.Context, a store.Acknowledgement) (store.Acknowledgement, error) {
	if err := ctx.Err(); err != nil {
		return store.Acknowledgement{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.At, a.Until = s.clock(), a.Until.UTC()
	hold := 0
	for key, other := range s.acknowledged {
		if key != a.Key && other.Until.After(a.At) {
			hold++
		}
	}
	if hold >= store.MaxAcknowledgements {
		return store.Acknowledgement{}, courier.Errorf(courier.ErrConflict, "%d acknowledgements hold, and there can be no more", hold)
	}
	s.acknowledged[a.Key] = a
	maps.DeleteFunc(s.acknowledged, func(_ string, other store.Acknowledgement) bool {
		return a.At.Sub(other.Until) > store.AcknowledgementsKept
	})
	return a, nil
}

// Withdraw removes an acknowledgement.
func (s *Store) Withdraw(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.acknowledged[key]; !ok {
		return courier.ErrNotFound
	}
	delete(s.acknowledged, key)
	return nil
}

// Acknowledgements returns the acknowledgements that hold or ended lately.
func (s *Store) Acknowledgements(ctx context.Context) ([]store.Acknowledgement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []store.Acknowledgement
	for _, key := range slices.Sorted(maps.Keys(s.acknowledged)) {
		if a := s.acknowledged[key]; s.clock().Sub(a.Until) <= store.AcknowledgementsKept && len(list) < 2*store.MaxAcknowledgements {
			list = append(list, a)
		}
	}
	return list, nil
}
