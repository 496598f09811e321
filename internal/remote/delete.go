package remote

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/steps/fileserver"
)

// CheckDelete reports what is wrong with cfg.
func CheckDelete(a Account, cfg fileserver.DeleteConfig) error {
	return a.checkSearch(cfg.RemotePath, deleteSearch(cfg))
}

// search says which files are meant.
func deleteSearch(cfg fileserver.DeleteConfig) Search {
	return Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Unsafe: cfg.OnUnsafeName, Links: true}
}

// A deletePlan is what is noted down before anything is deleted.
type deletePlan struct {
	Path    string            `json:"path"`
	Pattern string            `json:"pattern,omitempty"`
	Items   []plannedDeletion `json:"items"`
	Attempt int               `json:"attempt"` // of the execution
}

// A plannedDeletion is a file and what it was when that was decided.
type plannedDeletion struct {
	Path string   `json:"path"`
	Was  Identity `json:"was"`
}

// A deleting is one execution of the step.
type deleting struct {
	Account
	cfg    fileserver.DeleteConfig
	former bool // the plan is that of an earlier attempt
}

// Delete deletes the files.
func Delete(ctx context.Context, a Account, cfg fileserver.DeleteConfig) (fileserver.DeleteOutput, error) {
	out := fileserver.DeleteOutput{DeletedFiles: []string{}}
	if err := CheckDelete(a, cfg); err != nil {
		return out, err
	}
	notes, err := a.lastingNotes(ctx, "delete")
	if err != nil {
		return out, err
	}
	d := deleting{Account: a, cfg: cfg}
	var plan deletePlan
	noted, err := notes.read(&plan)
	if err != nil {
		return out, err
	}
	d.former = noted && plan.Path == cfg.RemotePath && plan.Pattern == cfg.Pattern.String()
	err = a.Use(ctx, func(s Server) error {
		if !d.former || plan.Attempt < a.Job.ExecutionAttempt() {
			if plan, err = d.plan(ctx, s, plan); err != nil {
				return s.Fault("delete", cfg.RemotePath, err)
			}
			plan.Attempt = a.Job.ExecutionAttempt()
			if err := errors.Join(stepcontext.Of(a.Job).HoldAll(), notes.write(plan)); err != nil {
				return err
			}
		}
		var done atomic.Int64
		return parallel.Do(ctx, len(plan.Items), s.Traits().Requests, func(ctx context.Context, i int) error {
			err := d.one(ctx, s, plan.Items[i])
			a.Job.SetProgress(done.Add(1), int64(len(plan.Items)), cfg.RemotePath)
			return s.Fault("delete", plan.Items[i].Path, err)
		})
	})
	if err != nil {
		return out, err
	}
	for _, it := range plan.Items {
		out.DeletedFiles = append(out.DeletedFiles, it.Path)
		if err := a.Job.Files().ReportRemote(courier.File{Path: it.Path, Removed: true, Connection: a.ID}); err != nil {
			return out, err
		}
	}
	if out.DeletedCount = len(plan.Items); out.DeletedCount > 0 {
		out.DeletedFile, out.Existed = out.DeletedFiles[0], true
	}
	return out, nil
}

// plan decides what is deleted. What an earlier attempt of the execution has
// decided stays as it is, but for what the job has made again.
func (d deleting) plan(ctx context.Context, s Server, former deletePlan) (deletePlan, error) {
	now := deletePlan{Path: d.cfg.RemotePath, Pattern: d.cfg.Pattern.String(), Items: []plannedDeletion{}}
	found, err := d.find(ctx, s)
	if now.Items = append(now.Items, found...); err != nil || !d.former {
		return now, err
	}
	known := make(map[string]int)
	for i, it := range former.Items {
		known[it.Path] = i
	}
	for _, it := range now.Items {
		i, planned := known[it.Path]
		if planned && former.Items[i].Was == it.Was {
			continue
		}
		if remade, err := d.remade(it.Path); err != nil {
			return former, err
		} else if !remade {
			continue
		}
		if planned {
			former.Items[i] = it
		} else {
			former.Items = append(former.Items, it)
		}
	}
	return former, nil
}

// find finds out which files are to be deleted.
func (d deleting) find(ctx context.Context, s Server) ([]plannedDeletion, error) {
	cfg := d.cfg
	ignores := cfg.IgnoreMissing || d.former
	if cfg.Pattern == "" {
		info, err := s.Lstat(ctx, cfg.RemotePath)
		switch {
		case s.Missing(err) && ignores:
			return nil, nil
		case err != nil:
			return nil, err
		case info.IsDir():
			return nil, d.errDirectory()
		}
		return []plannedDeletion{{cfg.RemotePath, info.Identity()}}, nil
	}
	found, _, err := deleteSearch(cfg).Find(ctx, d.Job, s, cfg.RemotePath)
	switch {
	case s.Missing(err) && ignores:
		return nil, nil
	case err != nil:
		return nil, err
	case len(found) == 0 && !ignores:
		return nil, NothingFound(cfg.Pattern, 0)
	}
	items := make([]plannedDeletion, len(found))
	return items, parallel.Do(ctx, len(found), s.Traits().Requests, func(ctx context.Context, i int) error {
		d.Job.Progress(0, -1, found[i].Path)
		info, err := s.Lstat(ctx, found[i].Path) // a listing may tell another time
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // somebody else was faster
		}
		items[i] = plannedDeletion{found[i].Path, info.Identity()}
		return err
	})
}

func (d deleting) errDirectory() error {
	return courier.Permanent(errors.New("is a directory; set pattern to delete files in it, or use " + d.Family + ".rmdir"))
}

// one deletes a file. If an earlier attempt may have done so, only the very file
// that was to be deleted then.
func (d deleting) one(ctx context.Context, s Server, it plannedDeletion) error {
	if d.former {
		info, err := s.Lstat(ctx, it.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // or it is a link that leads nowhere
		case err != nil:
			return err
		case info.Identity() != it.Was:
			d.Job.Log().Warn("a file has changed, or another has taken its place, since it was to be deleted; it stays", "connection", d.ID, "file", safename.Quote(it.Path))
			return nil
		}
	}
	return removeGone(ctx, s, it.Path)
}

// ValidateDelete logs in and checks the path.
func ValidateDelete(ctx context.Context, a Account, cfg fileserver.DeleteConfig) error {
	if err := CheckDelete(a, cfg); err != nil {
		return err
	}
	return a.Validate(ctx, func(s Server) error {
		switch {
		case a.Job.Unresolved("remote_path"):
			return nil
		case cfg.Pattern != "" || a.Job.Unresolved("pattern"):
			return s.CheckDirectory(ctx, cfg.RemotePath)
		}
		info, err := s.Lstat(ctx, cfg.RemotePath)
		switch {
		case s.Missing(err) && cfg.IgnoreMissing:
			return nil
		case err == nil && info.IsDir():
			err = deleting{Account: a}.errDirectory()
		}
		return s.Fault("delete", cfg.RemotePath, err)
	})
}

// removeGone removes a file. That it is gone is no error: whether it is, is asked,
// since a refusal alone may mean something else.
func removeGone(ctx context.Context, s Server, p string) error {
	err := s.Remove(ctx, p)
	if err == nil || !s.Refused(err) {
		return err
	}
	if _, e := s.Lstat(ctx, p); errors.Is(e, fs.ErrNotExist) {
		return nil
	} else if e != nil && !s.Refused(e) {
		return e
	}
	return err
}
