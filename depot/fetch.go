package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// Fetch is the step type depot.fetch. It copies inputs of its own execution only.
//
// A copy appears under its name when it is complete and its size and SHA-256 match the depot's.
// 16 MiB of the disk stay free.
type Fetch struct {
	Depot Depot // must not be nil
}

// FetchConfig is the configuration of depot.fetch.
type FetchConfig struct {
	Names           []string `json:"names,omitempty" doc:"the files to copy; all by default"`
	OutputDirectory string   `json:"output_directory,omitempty" courier:"path" doc:"directory for the copies; by default the attempt's own"`
	IgnoreMissing   bool     `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
}

// FetchOutput is the output of depot.fetch.
type FetchOutput struct {
	FetchedDirectory string   `json:"fetched_directory" doc:"directory of the copies"`
	FetchedFiles     []string `json:"fetched_files" file:"output_directory" doc:"paths of the copies, sorted by name"`
	FileCount        int      `json:"file_count" doc:"number of files"`
	Size             int64    `json:"size" doc:"of what was written, in bytes"`
}

// Execute copies the files. A second attempt copies them again.
func (s Fetch) Execute(ctx context.Context, job *courier.Context, cfg FetchConfig) (FetchOutput, error) {
	out := FetchOutput{FetchedFiles: []string{}}
	dir, err := cfg.directory(job)
	if err != nil {
		return out, err
	}
	files, err := s.inputs(ctx, job, cfg)
	if err != nil {
		return out, err
	}
	out.FetchedDirectory = dir
	for _, f := range files {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		_, name := SplitKey(f.Key)
		target, err := job.Files().Path(filepath.Join(dir, name))
		if err == nil {
			err = s.one(ctx, job, f.Key, target)
		}
		if err != nil {
			return out, err
		}
		out.FetchedFiles, out.Size = append(out.FetchedFiles, target), out.Size+f.Size
	}
	out.FileCount = len(files)
	return out, nil
}

// directory returns the directory for the copies, in the form used in values.
func (cfg FetchConfig) directory(job *courier.Context) (string, error) {
	if cfg.OutputDirectory == "" {
		return job.Files().Dir(), nil
	}
	return job.Files().Path(cfg.OutputDirectory)
}

// inputs returns the files to copy, sorted by name.
func (s Fetch) inputs(ctx context.Context, job *courier.Context, cfg FetchConfig) ([]Info, error) {
	if err := checkNames(cfg.Names); err != nil {
		return nil, err
	}
	if err := usable(ctx, s.Depot, job.Execution()); err != nil {
		return nil, permanent(err)
	}
	all, err := s.Depot.List(ctx, InputKey(job.Execution(), ""))
	if err != nil {
		return nil, permanent(err)
	}
	if len(cfg.Names) > 0 {
		if all, err = cfg.choose(all); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 && !cfg.IgnoreMissing {
		return nil, courier.Permanent(courier.Errorf(courier.ErrNotFound, "the execution has no input files; put files into the depot before it is enqueued, or set ignore_missing"))
	}
	// A file system may take two names for one.
	seen := make(map[string]string)
	for _, f := range all {
		_, name := SplitKey(f.Key)
		if other, ok := seen[safename.Fold(name)]; ok {
			return nil, courier.Permanent(fmt.Errorf("the names %s and %s are the same for some file systems; rename one of the files", safename.Quote(other), safename.Quote(name)))
		}
		seen[safename.Fold(name)] = name
	}
	return all, nil
}

// checkNames returns all errors in the field names.
func checkNames(names []string) error {
	var bad []error
	for i, name := range names {
		if err := safename.Portable(name); err != nil {
			bad = append(bad, fmt.Errorf("names[%d]: %s: %w", i, safename.Quote(name), err))
		}
	}
	return courier.Permanent(errors.Join(bad...))
}

// choose returns the files with the given names.
func (cfg FetchConfig) choose(all []Info) ([]Info, error) {
	byName := make(map[string]Info, len(all))
	for _, f := range all {
		_, name := SplitKey(f.Key)
		byName[name] = f
	}
	var chosen []Info
	var missing []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(cfg.Names))) {
		if f, ok := byName[name]; ok {
			chosen = append(chosen, f)
		} else {
			missing = append(missing, safename.Quote(name))
		}
	}
	if len(missing) > 0 && !cfg.IgnoreMissing {
		const most = 20
		list := strings.Join(missing[:min(most, len(missing))], ", ")
		if len(missing) > most {
			list += fmt.Sprintf(" and %d more", len(missing)-most)
		}
		return nil, courier.Permanent(courier.Errorf(courier.ErrNotFound, "names: the execution has no input file named %s; it has %d input files", list, len(all)))
	}
	return chosen, nil
}

// one copies one file.
func (s Fetch) one(ctx context.Context, job *courier.Context, key, target string) error {
	o, err := s.Depot.Open(ctx, key)
	if err != nil {
		return err
	}
	defer o.Close()
	info := o.Info()
	w, err := job.Files().Create(target)
	if err != nil {
		return localfile.Error(target, err)
	}
	defer w.Close()
	root, rel, err := job.Files().Root(target)
	if err != nil {
		return err
	}
	guarded, guard := transfer.Space(0, "the step depot.fetch").Guard(ctx)
	defer guard.End()
	if err := guard.Fits(info.Size, 0, root, filepath.Dir(rel)); err != nil {
		return err
	}
	sum, report := sha256.New(), progressOf(job, target, info.Size)
	n, err := transfer.Copy(guarded, io.MultiWriter(w, sum), io.LimitReader(o, info.Size+1), func(done int64) {
		guard.At(done)
		report(done)
	})
	if err == nil && (n != info.Size || hex.EncodeToString(sum.Sum(nil)) != info.SHA256) {
		err = courier.WithClass(fmt.Errorf("%d bytes were read that are not the content of the file, which has %d; check the depot's storage", n, info.Size), courier.ReasonIntegrity)
	}
	if err != nil {
		return fmt.Errorf("fetch %s to %q: %w", safename.Quote(key), target, localfile.Error(target, err))
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("fetch %s to %q: %w", safename.Quote(key), target, localfile.Error(target, err))
	}
	return job.Files().ReportRemote(courier.File{Path: key, Size: n, Connection: connection, Received: true})
}

// Validate checks the names and the directory, and that the depot responds.
func (s Fetch) Validate(ctx context.Context, job *courier.Context, cfg FetchConfig) error {
	var bad []error
	if !job.Unresolved("names") {
		bad = append(bad, checkNames(cfg.Names))
	}
	if cfg.OutputDirectory != "" && !job.Unresolved("output_directory") {
		_, err := job.Files().Path(cfg.OutputDirectory)
		bad = append(bad, err)
	}
	return errors.Join(append(bad, reachable(ctx, s.Depot))...)
}

// Cleanup removes unfinished copies. Finished ones stay.
func (s Fetch) Cleanup(ctx context.Context, job *courier.Context, cfg FetchConfig) error {
	if cfg.OutputDirectory == "" {
		return removeSides(job)
	}
	dir, err := cfg.directory(job)
	if err != nil {
		return err
	}
	all, err := s.Depot.List(ctx, InputKey(job.Execution(), ""))
	for _, f := range all {
		_, name := SplitKey(f.Key)
		if err == nil {
			err = job.Files().RemoveSideFiles(filepath.Join(dir, name))
		}
	}
	return err
}

// sideMark is part of the names of unfinished files.
const sideMark = ".courier-tmp"

// removeSides removes unfinished copies from the directories of earlier attempts.
func removeSides(job *courier.Context) error {
	if job.Files().StepDir() == "" {
		return nil
	}
	for n := 1; n <= job.Attempt(); n++ {
		root, rel, err := job.Files().Root(path.Join(job.Files().StepDir(), strconv.Itoa(n)))
		if localfile.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		d, err := root.OpenFile(rel, localfile.OpenDirectory, 0)
		if localfile.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		names, err := d.Readdirnames(-1)
		d.Close()
		for _, name := range names {
			if err == nil && strings.Contains(name, sideMark) {
				err = root.Remove(filepath.Join(rel, name))
			}
		}
		if err != nil && !localfile.Missing(err) {
			return err
		}
	}
	return nil
}
