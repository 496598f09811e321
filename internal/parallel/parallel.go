// Package parallel calls a function for many items, several at a time.
package parallel

import (
	"context"
	"errors"
	"sync"
)

// errOther is the cause with which the rest of a group ends after its first
// error.
var errOther = errors.New("another file failed")

// Do calls f for each i below n, up to width at a time, and returns
// when all calls have. After the first error, which it returns, it starts no
// further ones and ends the context of those that run.
func Do(ctx context.Context, n, width int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex
		next  int
		first error
		wg    sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n && first == nil
	}
	for range min(n, width) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := f(ctx, i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					cancel(errOther)
				}
			}
		})
	}
	wg.Wait()
	return first
}
