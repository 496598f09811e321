package sftp

import (
	"context"

	"github.com/courierhq/courier/internal/parallel"
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

// eachFile calls f for each i below n in parallel, as parallel.Do does. A file
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
	return parallel.Do(ctx, len(groups), len(groups), func(ctx context.Context, g int) error {
		return parallel.Do(ctx, len(groups[g]), width[g], func(ctx context.Context, i int) error { return f(ctx, groups[g][i]) })
	})
}
