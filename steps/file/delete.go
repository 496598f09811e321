package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
)

// Delete is the step type file.delete. The zero Delete has the default limits.
//
// It deletes files and links, but not the targets of links. It deletes a directory, with
// everything in it, only if recursive is set. The workspace, the allowed directories and their
// parent directories are refused.
//
// The list of files to delete is made once, and written to the journal before anything is
// deleted. So a retry does not delete a new file that has the name of a file already deleted.
type Delete struct {
	Limits Limits // of which Delete uses MaxDeletes

	// Files.Remove does not take the place of the code below. It removes a single file, and
	// has no plan for all files of a pattern, and no directories that disappear as a whole.

	before func(effect string) // for tests: called before each effect
}

// DeleteConfig is the configuration of file.delete.
type DeleteConfig struct {
	Path          courier.Pattern `json:"path" courier:"required" doc:"the file to delete, or a pattern"`
	Recursive     bool            `json:"recursive,omitempty" doc:"delete directories too, with everything in them"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"a missing file is no error"`
	Glob          *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
}

// DeleteOutput is the output of file.delete.
type DeleteOutput struct {
	DeletedFile  string   `json:"deleted_file,omitempty" doc:"path of what was deleted, the first if there are several"`
	DeletedFiles []string `json:"deleted_files" doc:"paths of everything deleted; a directory stands for its content"`
	DeletedCount int      `json:"deleted_count" doc:"number of deleted files and links, those in directories included"`
	Existed      bool     `json:"existed" doc:"whether there was anything to delete"`
}

// Execute deletes.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg DeleteConfig) (DeleteOutput, error) {
	out := DeleteOutput{DeletedFiles: []string{}}
	j, err := openJournal(ctx, job, "delete")
	if err != nil {
		return out, err
	}
	defer j.Close()
	r := &remover{Delete: d, job: job, cfg: cfg, journal: j, done: make(map[int]bool)}
	if err := r.resume(ctx); err != nil {
		return out, err
	}
	for i, it := range r.plan.Items {
		err := stepcontext.Of(job).HoldDeleted(it.Path)
		if err == nil {
			err = r.one(ctx, i, it)
		}
		if err != nil {
			// From here on nothing was touched.
			return out, errors.Join(err, j.add(deleteMark{Open: &i}, false))
		}
		out.DeletedFiles = append(out.DeletedFiles, it.Path)
		out.DeletedCount += it.count()
	}
	if len(out.DeletedFiles) > 0 {
		out.DeletedFile, out.Existed = out.DeletedFiles[0], true
	}
	r.effect("sync")
	return out, syncDirsOf(r.dirs)
}

// Validate checks the path.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg DeleteConfig) error {
	if job.Unresolved("path") {
		return nil
	}
	given := glob.Whole(cfg.Path, cfg.Glob)
	p, pattern := given.String(), glob.Looks(given, cfg.Glob)
	if err := checkDangerous(given, pattern); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if pattern {
		p, _ = glob.Split(given)
	}
	if err := checkPath(job, "path", p, true); err != nil || pattern || !filepath.IsAbs(p) {
		return err
	}
	at, err := at(job, p)
	if err == nil && at.rel == "." {
		err = fmt.Errorf("path: %w", errWhole(p))
	}
	return err
}

// checkDangerous refuses paths that are an obvious mistake.
func checkDangerous(p courier.Pattern, pattern bool) error {
	given := p.String()
	switch {
	case given == "":
		return courier.Permanent(errors.New("the path is empty"))
	case path.Clean(filepath.ToSlash(given)) == "." || isTop(given):
		return errWhole(given)
	case slices.Contains(strings.Split(filepath.ToSlash(given), "/"), ".."):
		return courier.Permanent(fmt.Errorf("%q: file.delete takes no path with .. in it; write the path that it leads to", localfile.Shorten(given)))
	}
	if pattern {
		if err := globmatch.Check(p); err != nil {
			return err
		}
		if base, _ := glob.Split(p); isTop(base) {
			return courier.Permanent(fmt.Errorf("%q: file.delete does not take a pattern for the top of the file system", localfile.Shorten(given)))
		}
	}
	return nil
}

// isTop reports whether name is the top of a file system.
func isTop(name string) bool {
	volume := filepath.ToSlash(filepath.VolumeName(name))
	name = path.Clean(filepath.ToSlash(name))
	return name == volume+"/" || name == volume
}

func errWhole(name string) error {
	return courier.Permanent(fmt.Errorf("%q is the workspace or an allowed directory itself, which no step may delete; name what is in it", localfile.Shorten(name)))
}

// A deletePlan is the first line of the journal of file.delete.
type deletePlan struct {
	Path      string            `json:"path"`
	Recursive bool              `json:"recursive,omitempty"`
	Attempt   int               `json:"attempt"` // of the execution
	Items     []plannedDeletion `json:"items"`
}

// A plannedDeletion is a file, a link or a whole directory.
type plannedDeletion struct {
	Path      string             `json:"path"`
	Was       localfile.Identity `json:"was"`
	Directory bool               `json:"directory,omitempty"`
	Contents  []string           `json:"contents,omitempty"` // files and links in the directory
	// Side is the name that the directory has while it is being deleted.
	Side string `json:"side,omitempty"`
}

// count returns the number of files and links that are deleted with the item.
func (it *plannedDeletion) count() int {
	if it.Directory {
		return len(it.Contents)
	}
	return 1
}

// A deleteMark is a further line. It says that an item is deleted, or that an attempt ended
// before it reached the item Open.
type deleteMark struct {
	Done *int `json:"done,omitempty"`
	Open *int `json:"open,omitempty"`
}

// A remover deletes the files of one step.
type remover struct {
	Delete
	job     *courier.Context
	cfg     DeleteConfig
	journal *journal
	plan    deletePlan
	done    map[int]bool
	open    int // no earlier attempt has touched this item and those after it
	dirs    []place
}

// resume continues the plan of an earlier attempt, or makes a new plan.
func (r *remover) resume(ctx context.Context) error {
	if len(r.journal.lines) > 0 {
		if err := json.Unmarshal(r.journal.lines[0], &r.plan); err != nil {
			return err
		}
	}
	if len(r.journal.lines) > 0 && r.plan.Path == r.cfg.Path.String() && r.plan.Recursive == r.cfg.Recursive {
		r.open = len(r.plan.Items)
		for _, line := range r.journal.lines[1:] {
			var mark deleteMark
			if err := json.Unmarshal(line, &mark); err != nil {
				return err
			}
			if mark.Done != nil {
				r.done[*mark.Done] = true
			}
			if mark.Open != nil {
				r.open = *mark.Open
			}
		}
		if r.plan.Attempt < r.job.ExecutionAttempt() {
			return r.renew(ctx)
		}
		if end := len(r.plan.Items); r.open < end {
			return r.journal.add(deleteMark{Open: &end}, true)
		}
		return nil
	}
	if err := r.makePlan(ctx); err != nil || len(r.plan.Items) == 0 {
		return err
	}
	r.effect("plan")
	return r.journal.start(r.plan)
}

// renew adapts the plan of an earlier attempt of the execution to this one. The new plan has the
// items of the old plan that still exist, and those that the job has made again. Nothing else is
// added.
func (r *remover) renew(ctx context.Context) error {
	former := r.plan
	r.cfg.IgnoreMissing = true
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	known := make(map[string]int)
	for i, it := range former.Items {
		known[it.Path] = i
		r.done[i] = true
	}
	for _, it := range r.plan.Items {
		i, planned := known[it.Path]
		same := planned && former.Items[i].Was == it.Was
		if !same {
			if remade, err := stepcontext.Of(r.job).Remade(it.Path); err != nil {
				return err
			} else if !remade {
				r.job.Log().Warn("a file has come since an earlier attempt of the execution has deleted what was to be deleted; it stays", "path", it.Path)
				continue
			}
		}
		if !planned {
			former.Items = append(former.Items, it)
			continue
		}
		former.Items[i] = it
		delete(r.done, i)
	}
	r.plan.Items, r.open = former.Items, 0
	if len(r.plan.Items) == 0 {
		return nil
	}
	lines := []any{r.plan}
	for i := range r.done {
		lines = append(lines, deleteMark{Done: &i})
	}
	return r.journal.start(lines...)
}

// effect lets tests stop the process here.
func (r *remover) effect(name string) {
	if r.before != nil {
		r.before(name)
	}
}

func (r *remover) makePlan(ctx context.Context) error {
	r.plan = deletePlan{Path: r.cfg.Path.String(), Recursive: r.cfg.Recursive, Attempt: r.job.ExecutionAttempt()}
	limits := r.Limits.withDefaults()
	given := glob.Whole(r.cfg.Path, r.cfg.Glob)
	pattern, err := isPattern(r.job, given, r.cfg.Glob)
	if err == nil {
		err = checkDangerous(given, pattern)
	}
	if err != nil {
		return err
	}
	s := search{job: r.job, most: limits.MaxDeletes, paths: limits.MaxPathBytes, kind: func(m fs.FileMode) bool { return !m.IsDir() || r.cfg.Recursive }}
	found, _, err := s.find(ctx, given, &pattern)
	if localfile.Missing(err) {
		err = nil
	}
	if err != nil {
		return err
	}
	if len(found) == 0 && !r.cfg.IgnoreMissing {
		return courier.Permanent(fmt.Errorf("%q: nothing to delete; if that is not an error, set ignore_missing: %w", localfile.Shorten(r.cfg.Path.String()), fs.ErrNotExist))
	}
	total := 0
	left := limits.MaxPathBytes
	var above string // the last directory that will be deleted as a whole
	for _, m := range found {
		if above != "" && strings.HasPrefix(m.name, above) {
			continue
		}
		it, err := r.planOne(ctx, m, limits.MaxDeletes-total, &left)
		if err != nil {
			return err
		}
		if it.Directory {
			above = filepath.ToSlash(m.name) + "/"
		}
		if total += 1 + len(it.Contents); total > limits.MaxDeletes {
			return errTooMany(r.cfg.Path.String(), limits.MaxDeletes)
		}
		r.plan.Items = append(r.plan.Items, it)
	}
	return nil
}

func errTooMany(name string, most int) error {
	return courier.Permanent(fmt.Errorf("%q stands for more than %d files, more than one file.delete may remove; nothing was deleted. Narrow it, or raise MaxDeletes in file.Options", localfile.Shorten(name), most))
}

// planOne plans the deletion of one match; for a directory it also reads the content. The paths
// in the directory may take left bytes.
func (r *remover) planOne(ctx context.Context, m match, most int, left *int) (plannedDeletion, error) {
	it := plannedDeletion{Path: m.name, Was: localfile.Identify(m.info), Directory: m.info.IsDir()}
	if it.Directory {
		it.Side = stepcontext.Of(r.job).SideName(m.base())
	}
	switch {
	case m.rel == ".":
		return it, errWhole(m.name)
	case !it.Directory:
		return it, nil
	case !r.cfg.Recursive:
		return it, courier.Permanent(fmt.Errorf("%q is a directory; set recursive to delete it with its content", m.name))
	case r.holdsNotes(m.place):
		return it, courier.Permanent(fmt.Errorf("%q holds the records of this step for its retries, so it can't delete it", m.name))
	}
	seen := 0
	err := walk(ctx, r.job, m.place, -1, func(below string, typ fs.FileMode) error {
		p, err := m.in(r.job, below)
		if err != nil {
			return err
		}
		if p.rel == "." {
			return courier.Permanent(fmt.Errorf("%q holds %q, which is the workspace or an allowed directory; nothing was deleted", m.name, p.name))
		}
		if seen++; seen >= most {
			return errTooMany(r.cfg.Path.String(), r.Limits.withDefaults().MaxDeletes)
		}
		if *left -= len(below); *left < 0 {
			return courier.Permanent(fmt.Errorf("%q stands for files whose paths have more than %d bytes; nothing was deleted. Narrow it, or raise MaxPathBytes in file.Options", localfile.Shorten(r.cfg.Path.String()), r.Limits.withDefaults().MaxPathBytes))
		}
		if !typ.IsDir() {
			it.Contents = append(it.Contents, below)
		}
		return nil
	})
	slices.Sort(it.Contents)
	return it, err
}

// holdsNotes reports whether the directory p contains the notes of the step.
func (r *remover) holdsNotes(p place) bool {
	own := stepcontext.Of(r.job)
	notes := own.NoteDir()
	return notes != "" && (p.holds(notes) || p.holds(own.StepDir()))
}

// one deletes item i of the plan, unless an earlier attempt has deleted it.
func (r *remover) one(ctx context.Context, i int, it plannedDeletion) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p, err := at(r.job, it.Path)
	if err != nil {
		return err
	}
	if err := r.removeSide(p, it); err != nil {
		return err
	}
	info, err := p.look()
	switch {
	case err != nil:
		return err
	case info == nil || r.done[i] && !it.Was.Is(info):
		return r.report(p, it)
	case i < r.open && !it.Was.Is(info):
		// Either it came after ours was deleted, or it took the place of ours
		// before. Nobody has decided that it shall go.
		r.job.Log().Warn("a file has changed, or another has taken its place, since it was to be deleted; it stays", "path", it.Path)
		return r.report(p, it)
	case info.IsDir() && !(it.Directory && r.cfg.Recursive):
		return courier.Permanent(fmt.Errorf("%q is now a directory; set recursive to delete it with its content", it.Path))
	}
	if err := r.remove(p, it, info.IsDir()); err != nil {
		return err
	}
	r.effect("mark removed")
	if err := r.journal.add(deleteMark{Done: &i}, false); err != nil {
		return err
	}
	r.dirs = append(r.dirs, p)
	return r.report(p, it)
}

// remove deletes the file or directory at p. A directory is first renamed as a whole, so that
// nobody sees half of it, and a later attempt can distinguish it from a new directory at the same
// place.
func (r *remover) remove(p place, it plannedDeletion, dir bool) error {
	r.effect("remove")
	if !dir {
		if err := p.root.Remove(p.rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete %w", localfile.Error(p.name, err))
		}
		return nil
	}
	if p.root.Rename(p.rel, filepath.Join(p.dir(), it.Side)) == nil {
		r.effect("remove side")
		return r.removeSide(p, it)
	}
	// It can't be renamed, such as where something is mounted.
	if err := p.root.RemoveAll(p.rel); err != nil {
		return fmt.Errorf("delete %w", localfile.Error(p.name, err))
	}
	return nil
}

// removeSide deletes a directory that has already been renamed.
func (r *remover) removeSide(p place, it plannedDeletion) error {
	if it.Side == "" {
		return nil
	}
	if err := p.root.RemoveAll(filepath.Join(p.dir(), it.Side)); err != nil {
		return fmt.Errorf("delete %w", localfile.Error(p.name, err))
	}
	return nil
}

// report reports the deleted item.
func (r *remover) report(p place, it plannedDeletion) error {
	own := stepcontext.Of(r.job)
	for _, below := range it.Contents {
		if err := own.Removed(filepath.Join(p.name, filepath.FromSlash(below))); err != nil {
			return err
		}
	}
	return own.Removed(p.name)
}
