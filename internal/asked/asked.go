// Package asked carries, in a context, the number of the entry of the journal that says that a
// change was asked for: so the entry that says that it was made can name it.
package asked

import "context"

type key struct{}

// With returns a context of the change that an entry has asked for.
func With(ctx context.Context, entry int64) context.Context {
	return context.WithValue(ctx, key{}, entry)
}

// In returns the number of the entry; 0 if there is none.
func In(ctx context.Context) int64 {
	entry, _ := ctx.Value(key{}).(int64)
	return entry
}
