package store

import "context"

// Identity is the optional role of a store with a unique id. Data outside the store that
// belongs to its executions is marked with the id, such as files in a depot.
type Identity interface {
	// StoreID returns 1 to 64 letters, digits, "-" and "_". It stays the same as long as
	// the executions do, and no other store has it.
	StoreID(ctx context.Context) (string, error)
}
