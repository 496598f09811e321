package transfer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// Limits are the limits of the transfer of one file whose size and rate the
// other side decides. A field that is 0 means the default, a field below 0
// means no limit.
type Limits struct {
	MaxBytes int64 // of a file that is fetched
	KeepFree int64 // bytes of the disk that stay free of what is written
	// KeptBy is the name of the setting for KeepFree in errors; empty means
	// keep_free_bytes.
	KeptBy  string
	MinRate int64 // bytes per second on average over each [RateWindow]
}

// The defaults of [Limits], and the period for the average rate.
const (
	DefaultMaxBytes = 1 << 40
	DefaultKeepFree = 16 << 20
	DefaultMinRate  = 1 << 10
	RateWindow      = 5 * time.Minute

	// ListingRate is the MinRate of a listing. It is low, since the server may
	// have to look up every entry.
	ListingRate = 64
)

// Capped returns l with a maximum file size of at most most bytes; 0 changes
// nothing.
func (l Limits) Capped(most int64) Limits {
	l = l.defaults()
	if most > 0 && (l.MaxBytes < 0 || most < l.MaxBytes) {
		l.MaxBytes = most
	}
	return l
}

// Slowed returns l for a transfer that is limited to bandwidth bytes per
// second, which several files may share; 0 changes nothing.
func (l Limits) Slowed(bandwidth int64) Limits {
	const sharers = 64
	l = l.defaults()
	if bandwidth > 0 {
		l.MinRate = min(l.MinRate, bandwidth/sharers)
	}
	return l
}

// Listing returns l for a listing, which is not stored.
func (l Limits) Listing() Limits {
	l = l.defaults()
	l.MinRate = min(l.MinRate, ListingRate)
	return l
}

func (l Limits) defaults() Limits {
	for _, f := range []struct {
		value *int64
		usual int64
	}{{&l.MaxBytes, DefaultMaxBytes}, {&l.KeepFree, DefaultKeepFree}, {&l.MinRate, DefaultMinRate}} {
		if *f.value == 0 {
			*f.value = f.usual
		}
	}
	return l
}

// A Guard keeps the transfer of one file within its [Limits]. It is safe for
// concurrent use. A nil Guard allows everything.
type Guard struct {
	limits Limits
	cancel context.CancelCauseFunc
	free   func(root *os.Root, dir string) (uint64, bool) // [Room]

	mu     sync.Mutex
	began  time.Time // of the present window; zero before anything is moved
	mark   int64     // what was done then
	last   int64     // what was done at last
	root   *os.Root  // of the file that is written; nil means none
	dir    string    // below root
	looked int64     // done when the disk was last looked at
}

// lookEvery is the number of bytes written between two checks of the free
// space.
const lookEvery = 16 << 20

// Space returns limits for output that a step makes itself rather than fetches:
// only the disk limits it. KeptBy is as in Limits.
func Space(keepFree int64, keptBy string) Limits {
	return Limits{MaxBytes: -1, MinRate: -1, KeepFree: keepFree, KeptBy: keptBy}
}

// Guard returns a guard, and a context that ends with the reason when a limit
// is exceeded. End must be called.
func (l Limits) Guard(ctx context.Context) (context.Context, *Guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Guard{limits: l.defaults(), cancel: cancel, free: Room}
}

// End ends the guard.
func (g *Guard) End() {
	if g != nil {
		g.cancel(nil)
	}
}

// Fits returns nil if a file of size bytes, of which have are already present,
// may be written to the directory dir below root. From then on it checks the
// disk of dir. A size below 0 means unknown. The error of a file that is too
// large is permanent.
func (g *Guard) Fits(size, have int64, root *os.Root, dir string) error {
	if g == nil {
		return nil
	}
	if err := g.Allows(size); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.root, g.dir, g.looked, g.began, g.mark = root, dir, have, time.Now(), have
	return g.room(max(0, size-have))
}

// Watch checks the disk of the directory dir below root from now on, whenever
// enough has been written. Unlike Fits it makes no check at the beginning:
// small files may be written to a nearly full disk.
func (g *Guard) Watch(root *os.Root, dir string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.root, g.dir = root, dir
}

// Allows returns nil if a file may have size bytes, whatever its destination.
func (g *Guard) Allows(size int64) error {
	if g == nil || g.limits.MaxBytes < 0 || size <= g.limits.MaxBytes {
		return nil
	}
	most := g.limits.MaxBytes
	return failure.Permanent(fmt.Errorf("has %d bytes, and max_bytes allows %d; raise max_bytes, of the step and of the connection, if the file is as large as it should be", size, most))
}

// room returns nil if the disk has room for more bytes.
func (g *Guard) room(more int64) error {
	if g.root == nil || g.limits.KeepFree < 0 {
		return nil
	}
	free, ok := g.free(g.root, g.dir)
	if !ok || uint64(more)+uint64(g.limits.KeepFree) <= free {
		return nil
	}
	by := g.limits.KeptBy
	if by == "" {
		by = "keep_free_bytes"
	}
	return failure.WithClass(fmt.Errorf("the file system of %s has %d bytes left, of which %d are kept free (%s), and %d more are needed; make room, then try again",
		filepath.Join(g.root.Name(), g.dir), free, g.limits.KeepFree, by, more), failure.Space)
}

// At reports the number of bytes transferred. If done is lower than before,
// another file is being transferred.
func (g *Guard) At(done int64) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if done < g.last || g.began.IsZero() {
		g.began, g.mark, g.looked = time.Now(), done, min(g.looked, done)
	}
	g.last = done
	if done-g.looked >= lookEvery {
		g.looked = done
		if err := g.room(0); err != nil {
			g.cancel(err)
		}
	}
	took := time.Since(g.began)
	if took < RateWindow {
		return
	}
	if moved := done - g.mark; g.limits.MinRate > 0 && float64(moved) < float64(g.limits.MinRate)*took.Seconds() {
		g.cancel(fmt.Errorf("only %d bytes were moved within %v, and min_bytes_per_second demands %d per second; lower it if the connection is that slow",
			moved, took.Round(time.Second), g.limits.MinRate))
	}
	g.began, g.mark = time.Now(), done
}
