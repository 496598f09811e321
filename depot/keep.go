package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// Keep is the step type depot.keep. It makes files the results of its own execution.
//
// If source is a path, the name of the result is the base name of the file. If it is a pattern,
// the name of each result is the path of the file below the fixed part of the pattern: "out/**"
// keeps out/a/b.csv as a/b.csv. A result is always replaced as a whole, also by the next attempt.
// While the depot is full, the step waits for room, for up to 15 minutes per file, or until its
// timeout.
type Keep struct {
	Depot Depot // must not be nil
}

// maxKept is the maximum number of files of one depot.keep.
const maxKept = 100_000

// KeepConfig is the configuration of depot.keep. It names at least one source.
type KeepConfig struct {
	SourcePath    courier.Pattern   `json:"source_path,omitempty" courier:"any_of=source" doc:"a file to keep, or a pattern"`
	SourcePaths   []courier.Pattern `json:"source_paths,omitempty" courier:"any_of=source" doc:"several of them"`
	Prefix        string            `json:"prefix,omitempty" doc:"directory that the names of the results begin with, such as reports/may; none by default"`
	Glob          *bool             `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
	IgnoreMissing bool              `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
}

// KeepOutput is the output of depot.keep.
type KeepOutput struct {
	ResultNames []string `json:"result_names" doc:"names of the results, sorted"`
	FileCount   int      `json:"file_count" doc:"number of files"`
	Size        int64    `json:"size" doc:"of what was written, in bytes"`
}

// A kept is a file that becomes a result.
type kept struct {
	path string // in the form of [courier.Files.Path]
	name string // of the result
	size int64  // when it was found
}

// Execute keeps the files. A second attempt recognizes the results of the first, and does not
// change them.
func (s Keep) Execute(ctx context.Context, job *courier.Context, cfg KeepConfig) (KeepOutput, error) {
	out := KeepOutput{ResultNames: []string{}}
	files, err := cfg.find(ctx, job)
	if err != nil {
		return out, err
	}
	if err := usable(ctx, s.Depot, job.Execution()); err != nil {
		return out, permanent(err)
	}
	there, err := s.there(ctx, job, files)
	if err != nil {
		return out, permanent(err)
	}
	for _, f := range files {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		key := ResultKey(job.Execution(), f.name)
		n, err := s.one(ctx, job, f, key, there[key])
		if err == nil {
			err = job.Files().ReportRemote(courier.File{Path: key, Size: n, Connection: connection})
		}
		if err != nil {
			return out, fmt.Errorf("keep %q as the result %s: %w", localfile.Shorten(f.path), safename.Quote(f.name), err)
		}
		out.ResultNames, out.Size = append(out.ResultNames, f.name), out.Size+n
	}
	out.FileCount = len(files)
	return out, nil
}

// there returns the existing results by key. It refuses names that conflict with existing results
// in one directory.
func (s Keep) there(ctx context.Context, job *courier.Context, files []kept) (map[string]Info, error) {
	all, err := s.Depot.List(ctx, ResultKey(job.Execution(), ""))
	if err != nil {
		return nil, err
	}
	byKey := make(map[string]Info, len(all))
	names := make([]string, 0, len(all)+len(files))
	for _, info := range all {
		byKey[info.Key] = info
		_, name := SplitKey(info.Key)
		names = append(names, name)
	}
	for _, f := range files {
		names = append(names, f.name)
	}
	return byKey, checkTree(names)
}

// checkTree refuses names if one of them would be both a file and a directory.
func checkTree(names []string) error {
	isFile := make(map[string]bool, len(names))
	for _, name := range names {
		isFile[name] = true
	}
	for _, name := range names {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if isFile[dir] {
				return courier.Permanent(fmt.Errorf("the result %s can't be a file and the directory of %s; choose another prefix", safename.Quote(dir), safename.Quote(name)))
			}
		}
	}
	return nil
}

// one keeps one file, unless a result with the same content already exists.
func (s Keep) one(ctx context.Context, job *courier.Context, f kept, key string, there Info) (int64, error) {
	src, err := job.Files().Open(f.path)
	if err != nil {
		return 0, localfile.Error(f.path, err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	report := progressOf(job, f.path, info.Size())
	if there.Key != "" && there.Size == info.Size() {
		sum := sha256.New()
		n, err := transfer.Copy(ctx, sum, src, func(done int64) { job.SetProgress(done, info.Size(), f.path) })
		if err != nil {
			return 0, localfile.Error(f.path, err)
		}
		if n == there.Size && hex.EncodeToString(sum.Sum(nil)) == there.SHA256 {
			report(n)
			return n, nil
		}
		if _, err := src.Seek(0, 0); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		n, err := s.copy(ctx, src, info, key, report)
		if !errors.Is(err, ErrFull) {
			return n, localfile.Error(f.path, permanent(err))
		}
		if waited := time.Since(began); waited+wait > roomWait {
			return 0, fmt.Errorf("no room after a wait of %v: %w", waited.Round(time.Second), err)
		}
		report(0) // it waits, and is not stalled
		select {
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), err)
		case <-time.After(wait):
		}
		if _, err := src.Seek(0, 0); err != nil {
			return 0, err
		}
	}
}

// roomWait is how long depot.keep waits for room for a file, unless its timeout is shorter.
// Retention runs every minute.
const roomWait = 15 * time.Minute

// copy copies an open file to a result.
func (s Keep) copy(ctx context.Context, src *os.File, info fs.FileInfo, key string, report func(int64)) (int64, error) {
	w, err := s.Depot.Create(ctx, key)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	if r, ok := w.(Reserver); ok {
		if err := r.Reserve(info.Size()); err != nil {
			return 0, err
		}
	}
	n, err := transfer.Copy(ctx, w, src, report)
	if err != nil {
		return 0, err
	}
	if err := unchanged(src, info, n); err != nil {
		return 0, err
	}
	_, err = w.Commit()
	return n, err
}

// unchanged refuses a file that has changed while it was being read.
func unchanged(f *os.File, was fs.FileInfo, n int64) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if n != was.Size() || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) {
		return fmt.Errorf("the file changed while it was read; keep it when it is complete")
	}
	return nil
}

// Validate checks the sources and the prefix, and that the depot responds.
func (s Keep) Validate(ctx context.Context, job *courier.Context, cfg KeepConfig) error {
	bad := []error{cfg.checkPrefix(job)}
	for i, given := range cfg.sources() {
		if field := cfg.field(i); !job.Unresolved(field) {
			if err := cfg.checkSource(job, given); err != nil {
				bad = append(bad, fmt.Errorf("%s: %w", field, err))
			}
		}
	}
	return errors.Join(append(bad, reachable(ctx, s.Depot))...)
}

// field returns the name of the field with the i-th source.
func (cfg KeepConfig) field(i int) string {
	if i == 0 && cfg.SourcePath != "" {
		return "source_path"
	}
	return "source_paths"
}

func (cfg KeepConfig) checkPrefix(job *courier.Context) error {
	if cfg.Prefix == "" || job.Unresolved("prefix") {
		return nil
	}
	if err := checkResult(strings.TrimSuffix(cfg.Prefix, "/")); err != nil {
		return courier.Permanent(fmt.Errorf("prefix: %s: %w", safename.Quote(cfg.Prefix), err))
	}
	return nil
}

func (cfg KeepConfig) checkSource(job *courier.Context, given courier.Pattern) error {
	base := given.String()
	if glob.Looks(given, cfg.Glob) {
		if err := checkPattern(given); err != nil {
			return err
		}
		base, _ = glob.Split(given)
	}
	_, err := job.Files().Path(base)
	return err
}

// sources returns all sources.
func (cfg KeepConfig) sources() []courier.Pattern {
	all := slices.Clone(cfg.SourcePaths)
	if cfg.SourcePath != "" {
		all = append([]courier.Pattern{cfg.SourcePath}, all...)
	}
	for i := range all {
		all[i] = glob.Whole(all[i], cfg.Glob)
	}
	return all
}

// find returns the files to keep, sorted by the names of the results.
func (cfg KeepConfig) find(ctx context.Context, job *courier.Context) ([]kept, error) {
	if err := cfg.checkPrefix(job); err != nil {
		return nil, err
	}
	f := &finder{job: job, cfg: cfg, byName: make(map[string]kept)}
	for i, given := range cfg.sources() {
		if err := f.find(ctx, given); err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.field(i), err)
		}
	}
	all := make([]kept, 0, len(f.byName))
	for _, k := range f.byName {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kept) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// A finder collects the files to keep.
type finder struct {
	job    *courier.Context
	cfg    KeepConfig
	byName map[string]kept
}

// find adds the files of one source.
func (f *finder) find(ctx context.Context, given courier.Pattern) error {
	text := given.String()
	info, err := f.job.Files().Stat(text)
	missing := localfile.Missing(err)
	if glob.Looks(given, f.cfg.Glob) && (missing || f.cfg.Glob != nil) {
		n, err := f.matches(ctx, given)
		if err == nil && n == 0 && !f.cfg.IgnoreMissing {
			err = courier.Permanent(fmt.Errorf("no file matches %s; if that is not an error, set ignore_missing", safename.Quote(text)))
		}
		return err
	}
	switch {
	case missing && f.cfg.IgnoreMissing:
		return nil
	case err != nil:
		return localfile.Error(text, err)
	case info.IsDir():
		return courier.Permanent(fmt.Errorf("%s is a directory; for all files in it add /**", safename.Quote(text)))
	}
	return f.add(text, path.Base(filepath.ToSlash(text)), info.Size())
}

// add adds a file. Its result is called below, under the prefix of the configuration.
func (f *finder) add(name, below string, size int64) error {
	p, err := f.job.Files().Path(name)
	if err != nil {
		return err
	}
	result := path.Join(f.cfg.Prefix, below)
	if err := CheckKey(ResultKey(f.job.Execution(), result)); err != nil && f.job.Execution() != "" {
		return courier.Permanent(fmt.Errorf("file %s: %w", safename.Quote(p), err))
	}
	if other, ok := f.byName[result]; ok && other.path != p {
		return courier.Permanent(fmt.Errorf("the files %s and %s would both be the result %s; keep them by two steps with different prefixes", safename.Quote(other.path), safename.Quote(p), safename.Quote(result)))
	}
	if len(f.byName) == maxKept {
		return courier.Permanent(fmt.Errorf("there are more than %d files; pack them into an archive, and keep that", maxKept))
	}
	f.byName[result] = kept{p, result, size}
	return nil
}

// matches adds the regular files that match a pattern, and returns their number. It does not
// follow links.
func (f *finder) matches(ctx context.Context, given courier.Pattern) (n int, err error) {
	if err := checkPattern(given); err != nil {
		return 0, err
	}
	base, rest := glob.Split(given)
	root, rel, err := f.job.Files().Root(base)
	if err != nil {
		return 0, err
	}
	m := newMatcher(rest)
	dir := glob.Dir{Root: root, Rel: rel, Name: base, Fault: func(below string, err error) error {
		return localfile.Error(path.Join(base, below), err)
	}}
	err = glob.Walk(ctx, f.job, dir, glob.Depth(rest), func(below string, typ fs.FileMode) error {
		if !typ.IsRegular() || strings.Contains(below, sideMark) || !m.match(below) || f.isNote(path.Join(base, below)) {
			return nil
		}
		info, err := root.Lstat(filepath.Join(rel, filepath.FromSlash(below)))
		if localfile.Missing(err) {
			return nil // gone since
		}
		if err != nil {
			return localfile.Error(path.Join(base, below), err)
		}
		n++
		return f.add(path.Join(base, below), below, info.Size())
	})
	if localfile.Missing(err) {
		err = nil
	}
	return n, err
}

// isNote reports whether a path is in the directory for the notes of steps.
func (f *finder) isNote(name string) bool {
	return name == note.Top || strings.HasPrefix(name, note.Top+"/")
}
