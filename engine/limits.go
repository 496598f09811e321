package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/limits"
)

// Limits say how many executions may run at once. They hold for all engines on a
// store.
type Limits struct{ e *Engine }

// Limits returns the limits in the engine's store.
func (e *Engine) Limits() Limits { return Limits{e} }

// Set sets how many executions may run at once: of all, for the scope "global" or "";
// of one job, for "job:NAME"; of those that share a limit key, for "key:KEY"; of those
// that share any one key which begins with PREFIX, for "key:PREFIX*", unless the key has a
// limit of its own or a longer prefix has one. 0 means any number. The limit holds for
// all engines on the store, from the next claim on. A lower limit stops no running
// execution. Until a limit is set, the global one is 5, that of a job is the one in its
// definition, and keys have none.
func (h Limits) Set(ctx context.Context, scope string, n int, by courier.By) error {
	return h.e.limits.Set(ctx, scope, n, by)
}

// Remove takes back a limit that was set, so that what holds without it holds again; see
// Set. If none was set for the scope, the error matches [courier.ErrNotFound].
func (h Limits) Remove(ctx context.Context, scope string, by courier.By) error {
	return h.e.limits.Remove(ctx, scope, by)
}

// A Limit is how many executions of a scope may run at once.
type Limit struct {
	Scope string // "global", "job:NAME", "key:KEY" or "key:PREFIX*"
	Limit int    // 0 means any number
}

// A LimitFilter selects limits. Zero fields select all.
type LimitFilter struct {
	After string // those whose scopes come after it
	Limit int    // how many; 0 means 1000
}

// List returns a page of the limits that were set, in byte order of their scopes.
func (h Limits) List(ctx context.Context, f LimitFilter) ([]Limit, error) {
	list, err := h.e.limits.List(ctx, limits.Filter(f))
	return mapped(list, limit), err
}

func limit(l limits.Limit) Limit { return Limit(l) }
