package memstore

import "context"

// StoreID implements [store.Identity]. Each Store has another id, since its executions do
// not survive it.
func (s *Store) StoreID(context.Context) (string, error) { return s.id, nil }
