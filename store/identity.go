package store

import "context"

// Identity is an optional role: a store that can be told from all others. What belongs to
// the executions of a store, and lies elsewhere, is marked with its id, such as files in a
// depot.
type Identity interface {
	// StoreID returns 1 to 64 letters, digits, "-" and "_". It stays the same as long as
	// the executions do, and no other store has it.
	StoreID(ctx context.Context) (string, error)
}
