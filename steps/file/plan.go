package file

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/stepcontext"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/transfer"
)

// IfExists says what a step does if the target already exists. The empty IfExists is the default
// of the step: Overwrite for file.copy and file.move, Fail for file.unzip and file.untar.
type IfExists string

// The values of IfExists.
const (
	// Overwrite replaces the existing file. file.unzip and file.untar replace the files that are
	// also in the archive, and leave the other files in the directory.
	Overwrite IfExists = transfer.IfExistsOverwrite
	// Skip leaves the existing file, and doesn't copy or move the source. file.unzip
	// and file.untar refuse it.
	Skip IfExists = transfer.IfExistsSkip
	// Fail is a permanent error. file.unzip and file.untar treat an empty directory as one that
	// does not exist.
	Fail IfExists = transfer.IfExistsFail
)

// UnmarshalText refuses everything but the three values and the empty text.
func (i *IfExists) UnmarshalText(text []byte) error {
	return oneOf(i, string(text), "", Overwrite, Skip, Fail)
}

func oneOf[S ~string](to *S, given string, values ...S) error {
	for _, v := range values {
		if given == string(v) {
			*to = v
			return nil
		}
	}
	return fmt.Errorf("%q is not one of the possible values; %s", localfile.Shorten(given), nearest.DidYouMean(given, values[1:]))
}

// Permissions are the permission bits of a file, such as 0640. In JSON they are
// a string of octal digits.
type Permissions fs.FileMode

// UnmarshalText takes up to four octal digits. Anything but the permissions of
// owner, group and others is refused.
func (p *Permissions) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is not a set of permissions; give them as octal digits, such as 0640, 0777 at most", localfile.Shorten(string(text)))
	}
	*p = Permissions(n)
	return nil
}

// MarshalText returns four octal digits.
func (p Permissions) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(p)), nil }

// A request holds the fields that copying and moving have in common.
type request struct {
	source        courier.Pattern // see [glob.Whole]
	destination   string
	glob          *bool
	ignoreMissing bool
}

// A pair is a file and its target.
type pair struct {
	src match
	dst place
}

// plan finds the files and their targets, sorted by the files' paths.
func (r request) plan(ctx context.Context, job *courier.Context, limits Limits) (pairs []pair, pattern bool, err error) {
	s := search{job: job, most: limits.MaxMatches, paths: limits.MaxPathBytes}
	found, pattern, err := s.find(ctx, r.source, r.glob)
	if localfile.Missing(err) && r.ignoreMissing {
		return nil, pattern, nil
	}
	if err != nil {
		return nil, pattern, err
	}
	if pattern {
		pairs, err = r.into(job, found)
		if err == nil && len(pairs) == 0 && !r.ignoreMissing {
			err = fmt.Errorf("no file matches %q; if that is not an error, set ignore_missing", localfile.Shorten(r.source.String()))
		}
		return pairs, true, err
	}
	dst, err := target(job, r.destination, found[0].base())
	if err != nil {
		return nil, false, err
	}
	return []pair{{found[0], dst}}, false, nil
}

// into gives the matches of a pattern their targets below the destination. It leaves out files
// that already lie in the destination, or a second attempt would copy the copies of the first.
func (r request) into(job *courier.Context, found []match) ([]pair, error) {
	dir, err := at(job, r.destination)
	if err != nil {
		return nil, err
	}
	if info, err := dir.root.Stat(dir.rel); err == nil && !info.IsDir() {
		return nil, courier.Permanent(fmt.Errorf("destination %q is %s; what a pattern finds needs a directory", dir.name, localfile.Kind(info.Mode())))
	}
	fixed, _ := glob.Split(r.source)
	base, err := at(job, fixed)
	if err != nil {
		return nil, err
	}
	inside := base.name != dir.name && base.holds(dir.name)
	var pairs []pair
	for _, m := range found {
		if inside && dir.holds(m.name) {
			continue
		}
		dst, err := dir.in(job, m.below)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{m, dst})
	}
	return pairs, nil
}

// holds reports whether name, in the form of [courier.Files.Path], is the
// directory p or lies in it.
func (p place) holds(name string) bool {
	if p.name == "." {
		return !filepath.IsAbs(name)
	}
	dir := strings.TrimSuffix(filepath.ToSlash(p.name), "/")
	name = filepath.ToSlash(name)
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// validate checks the paths as far as Validate can.
func (r request) validate(job *courier.Context) error {
	if err := r.validateSource(job, "source_path"); err != nil {
		return err
	}
	return checkTarget(job, "destination_path", r.destination)
}

// validateSource checks, as far as Validate can, a path that may be a pattern.
func (r request) validateSource(job *courier.Context, field string) error {
	if job.Unresolved(field) {
		return nil
	}
	source := r.source.String()
	if glob.Looks(r.source, r.glob) {
		if err := globmatch.Check(r.source); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		source, _ = glob.Split(r.source)
	}
	return checkPath(job, field, source, r.ignoreMissing)
}

// cleanup removes the unfinished files of earlier attempts beside the targets.
func (r request) cleanup(ctx context.Context, job *courier.Context, limits Limits) error {
	pattern, err := isPattern(job, r.source, r.glob)
	if err != nil {
		return err
	}
	if !pattern {
		src, err := at(job, r.source.String())
		if err != nil {
			return err
		}
		dst, err := target(job, r.destination, src.base())
		if err != nil {
			return err
		}
		return localfile.Error(dst.name, job.Files().RemoveSideFiles(dst.name))
	}
	r.ignoreMissing = true
	pairs, _, err := r.plan(ctx, job, limits)
	for _, p := range pairs {
		if err == nil {
			err = localfile.Error(p.dst.name, job.Files().RemoveSideFiles(p.dst.name))
		}
	}
	return err
}

// itself refuses a file as its own target.
func (p pair) itself() error {
	src, err := p.src.root.Stat(p.src.rel)
	if err != nil {
		return localfile.Error(p.src.name, err)
	}
	dst, err := p.dst.root.Stat(p.dst.rel)
	if err == nil && os.SameFile(src, dst) {
		return courier.Permanent(fmt.Errorf("%q and %q are the same file", p.src.name, p.dst.name))
	}
	return nil
}

// syncEvery is the number of bytes after which written data is made durable, so that the end of a
// large file does not look like a stall.
const syncEvery = 256 << 20

// stage copies the source to a pending file for the target: content, modification time, and
// permissions unless perm is set. It returns the description of the copied source.
func (p pair) stage(ctx context.Context, job *courier.Context, perm *Permissions, limits Limits) (w *courier.PendingFile, from fs.FileInfo, err error) {
	f, from, err := p.src.source(job)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if p.src.info != nil && p.src.info.Mode().IsRegular() && !os.SameFile(p.src.info, from) {
		return nil, nil, fmt.Errorf("%q was replaced by another file after it was found; nothing was written to %q", p.src.name, p.dst.name)
	}
	if w, err = job.Files().Create(p.dst.name); err != nil {
		return nil, nil, localfile.Error(p.dst.name, err)
	}
	if err = p.fill(ctx, job, w, f, from, perm, limits); err != nil {
		w.Close()
		return nil, nil, err
	}
	return w, from, nil
}

func (p pair) fill(ctx context.Context, job *courier.Context, w *courier.PendingFile, f *os.File, from fs.FileInfo, perm *Permissions, limits Limits) error {
	size := from.Size()
	disk, guard := limits.guard(ctx, p.dst)
	defer guard.End()
	job.Progress(0, size, p.src.name)
	var synced int64
	var syncErr error
	// One byte more would show that the file grows, perhaps without end.
	n, err := transfer.Copy(disk, w.File, &io.LimitedReader{R: f, N: size + 1}, func(done int64) {
		if done-synced >= syncEvery && syncErr == nil {
			synced, syncErr = done, w.Sync()
		}
		guard.At(done)
		job.Progress(done, max(size, done), p.src.name)
	})
	if err == nil {
		err = syncErr
	}
	if err != nil {
		at := p.dst.name
		if e, ok := err.(*fs.PathError); ok && e.Op == "read" {
			at = p.src.name
		}
		return fmt.Errorf("copy %q to %q: %w", p.src.name, p.dst.name, localfile.Error(at, err))
	}
	after, err := f.Stat()
	if err != nil {
		return localfile.Error(p.src.name, err)
	}
	if n != size || localfile.Identify(after) != localfile.Identify(from) {
		return fmt.Errorf("%q changed while it was being read: it had %d bytes, %d were read, now it has %d; nothing was written to %q", p.src.name, size, n, after.Size(), p.dst.name)
	}
	mode := from.Mode().Perm()
	if perm != nil {
		mode = fs.FileMode(*perm)
	}
	if err := w.Chmod(mode); err != nil {
		return localfile.Error(p.dst.name, err)
	}
	return p.setModified(job, from.ModTime())
}

// setModified gives the unfinished output the source's modification time.
func (p pair) setModified(job *courier.Context, t time.Time) error {
	side := filepath.Join(p.dst.dir(), stepcontext.Of(job).SideName(p.dst.base()))
	return localfile.Error(p.dst.name, p.dst.root.Chtimes(side, time.Time{}, t))
}
