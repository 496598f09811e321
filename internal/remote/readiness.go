package remote

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
	"github.com/courierhq/courier/internal/wakeup"
)

// A Readiness says when remote files may be downloaded.
type Readiness struct {
	StableSeconds float64         // for how long size and time have not changed
	DoneFile      courier.Pattern // name of the companion that a file must have; empty means none
	Checksum      string          // a value of checksum: files that hold checksums are not files of their own
}

// Stable lists files twice, if they must not change for a time, and returns
// those of the second listing that were the same in the first. Directories need
// only be in both.
func (r Readiness) stable(ctx context.Context, job *courier.Context, dir string, list func() ([]Entry, int, error)) (all, same []Entry, skipped int, err error) {
	all, skipped, err = list()
	if err != nil || r.StableSeconds == 0 || len(all) == 0 {
		return all, all, skipped, err
	}
	if err := WaitStable(ctx, job, r.StableSeconds, dir); err != nil {
		return nil, nil, 0, err
	}
	before := make(map[string]Entry, len(all))
	for _, f := range all {
		before[f.Below] = f
	}
	if all, skipped, err = list(); err != nil {
		return nil, nil, 0, err
	}
	same = []Entry{}
	for _, f := range all {
		old, ok := before[f.Below]
		if ok && old.IsDir == f.IsDir && (f.IsDir || old.Size == f.Size && old.Modified.Equal(f.Modified)) {
			same = append(same, f)
		}
	}
	return all, same, skipped, nil
}

// Find is Search.Find for what is ready, and counts what isn't. A listing can
// name a companion, or a file with a checksum, itself.
func (r Readiness) Find(ctx context.Context, job *courier.Context, q Search, l Lister, dir string) (found []Entry, skipped, notReady int, err error) {
	wider := q
	if r.DoneFile != "" {
		wider.also = func(name string) bool { return IsDoneName(r.DoneFile, name) }
	}
	all, same, skipped, err := r.stable(ctx, job, dir, func() ([]Entry, int, error) { return wider.Find(ctx, job, l, dir) })
	if err != nil {
		return nil, 0, 0, err
	}
	there := make(map[string]bool, len(all))
	for _, f := range all {
		there[f.Below] = true
	}
	counts := func(f Entry) bool {
		return q.Matches(f.Below) && !(r.DoneFile != "" && IsDoneName(r.DoneFile, f.Name)) &&
			!(r.Checksum == ChecksumSidecar && strings.HasSuffix(f.Name, SidecarSuffix))
	}
	for _, f := range all {
		if counts(f) {
			notReady++
		}
	}
	found = []Entry{}
	for _, f := range same {
		if counts(f) && (r.DoneFile == "" || there[DonePath(r.DoneFile, f.Below)]) {
			found = append(found, f)
			notReady--
		}
	}
	return found, skipped, notReady, nil
}

// Await reports why a single file can't be downloaded yet. Exists tells whether
// there is something with a path, and same whether the file is still what it was
// before.
func (r Readiness) Await(ctx context.Context, job *courier.Context, file string, exists func(p string) (bool, error), same func() (bool, error)) error {
	if r.DoneFile != "" {
		done := DonePath(r.DoneFile, file)
		if there, err := exists(done); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("is not ready: its done_file %s is not there yet", safename.Quote(done))
		}
	}
	if r.StableSeconds == 0 {
		return nil
	}
	if err := WaitStable(ctx, job, r.StableSeconds, file); err != nil {
		return err
	}
	ok, err := same()
	if err == nil && !ok {
		err = fmt.Errorf("is not ready: it has changed within the %v seconds of stable_seconds", r.StableSeconds)
	}
	return err
}

// WaitStable waits for so many seconds, and keeps the stall timeout from firing
// meanwhile.
func WaitStable(ctx context.Context, job *courier.Context, seconds float64, item string) error {
	left := time.Duration(seconds * float64(time.Second))
	for ; left > 0; left -= transfer.BeatEvery {
		job.Progress(0, -1, item)
		if err := wakeup.Sleep(ctx, min(left, transfer.BeatEvery)); err != nil {
			return err
		}
	}
	return nil
}
