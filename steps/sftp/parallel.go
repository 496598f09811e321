package sftp

import (
	"context"
	"errors"
	"sync"
)

const (
	// manyRequests is how many small requests are under way at a time.
	manyRequests = 16
	// manyFiles is how many files are transferred at a time where there are
	// several. Small ones, of which there may be manySmall more, spend most of
	// their time waiting for answers and for disks.
	manyFiles = 8
	manySmall = 32
	// smallFile is how many bytes a small file has at most.
	smallFile = 64 << 10
)

// eachFile calls f for each i below n in parallel, as inParallel does. A file
// takes memory by its size, so more small ones are under way than others.
func eachFile(ctx context.Context, n int, size func(i int) int64, f func(ctx context.Context, i int) error) error {
	var groups [2][]int
	for i := range n {
		g := 0
		if size(i) <= smallFile {
			g = 1
		}
		groups[g] = append(groups[g], i)
	}
	width := [2]int{manyFiles, manySmall}
	return inParallel(ctx, len(groups), len(groups), func(ctx context.Context, g int) error {
		return inParallel(ctx, len(groups[g]), width[g], func(ctx context.Context, i int) error { return f(ctx, groups[g][i]) })
	})
}

// errOther is the cause with which the rest of a group ends after its first
// error.
var errOther = errors.New("another file failed")

// inParallel calls f for each i below n, up to width at a time, and returns
// when all calls have. After the first error, which it returns, it starts no
// further ones and ends the context of those that run.
func inParallel(ctx context.Context, n, width int, f func(ctx context.Context, i int) error) error {
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
