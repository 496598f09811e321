package remote

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
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

// SingleTarget is where a single file goes, for the values of local_path and
// remote_path.
func SingleTarget(job *courier.Context, localPath, remotePath string) (string, error) {
	dir := localPath
	if dir == "" {
		dir = job.Dir()
	} else if !IsLocalDirectory(job, dir) {
		return dir, nil
	}
	_, name := Split(remotePath)
	if err := safename.Check(name); err != nil {
		return "", courier.Permanent(fmt.Errorf("%w, so it can't be the name of a local file; set local_path to a file", err))
	}
	return JoinLocal(dir, name), nil
}

// TargetDirectory is where the files of a directory go, for the value of
// local_path.
func TargetDirectory(job *courier.Context, localPath string) (string, error) {
	if localPath == "" {
		return job.Dir(), nil
	}
	if info, err := job.Stat(localPath); err == nil && !info.IsDir() {
		return "", courier.Permanent(fmt.Errorf("is a directory, so local_path must be one too, but %s is a file", safename.Quote(localPath)))
	}
	return localPath, nil
}

// Targets returns where each file goes below a local directory, and refuses
// files that would be the same there.
func Targets(dir string, found []Entry) ([]string, error) {
	targets := make([]string, len(found))
	taken := make(map[string]string)
	for i, f := range found {
		key := LocalKey(f.Below)
		if other, ok := taken[key]; ok {
			return nil, courier.Permanent(fmt.Errorf("%s and %s would be the same local file; download them with steps of their own", safename.Quote(other), safename.Quote(f.Below)))
		}
		taken[key] = f.Below
		targets[i] = JoinLocal(dir, f.Below)
	}
	return targets, nil
}

// NothingFound is the error of a directory without files to download, of which
// so many are not ready.
func NothingFound(pattern courier.Pattern, notReady int) error {
	what := "no files"
	if pattern != "" {
		what += " that match " + safename.Quote(pattern.String())
	}
	if notReady > 0 {
		return fmt.Errorf("the directory has %s that are ready, but %d that are not yet", what, notReady)
	}
	return courier.Permanent(fmt.Errorf("the directory has %s; if that is in order, set ignore_missing", what))
}

// NotAFile adds to the error that there is no file what a path with the
// characters of a pattern may have been meant to be.
func NotAFile(remotePath string, err error) error {
	if strings.ContainsAny(path.Base(remotePath), "*?{") {
		return courier.Permanent(fmt.Errorf("%w; for several files set remote_path to their directory, and pattern to the pattern of their names", err))
	}
	return err
}

// ErrNoDirectory is the error of a pattern for what is not a directory.
var ErrNoDirectory = courier.Permanent(errors.New("is not a directory, so there is nothing for pattern to choose from"))
