package sftp

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
)

// Delete is the step "sftp.delete". It deletes one file, or those files of a
// directory whose names match a pattern. Directories are never deleted, and
// links without what they lead to.
//
// What will be deleted is decided once, and noted down before anything
// happens. So a retry doesn't delete a file that has come since under the name
// of one that is deleted already, as far as its size and time tell.
type Delete struct {
	Connections Connections // must not be nil
}

// DeleteConfig is the configuration of [Delete].
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file to delete, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, delete the files whose names match, such as *.csv or {a,b}-*"`
	Glob          *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"nothing to delete is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about names in the directory that can't be used: skip or fail"`
}

// DeleteOutput is the output of [Delete].
type DeleteOutput struct {
	DeletedFile  string   `json:"deleted_file,omitempty" doc:"remote path of what was deleted, the first if there are several"`
	DeletedFiles []string `json:"deleted_files" doc:"remote paths of all that was deleted"`
	DeletedCount int      `json:"deleted_count" doc:"length of deleted_files"`
	Existed      bool     `json:"existed" doc:"whether there was anything to delete"`
}

var (
	_ courier.Step[DeleteConfig, DeleteOutput] = Delete{}
	_ courier.Validator[DeleteConfig]          = Delete{}
)

func (cfg DeleteConfig) search() remote.Search {
	return remote.Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Unsafe: cfg.OnUnsafeName, Links: true}
}

func (cfg DeleteConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().Check())
}

// A deletePlan is what sftp.delete notes down.
type deletePlan struct {
	Path    string            `json:"path"`
	Pattern string            `json:"pattern,omitempty"`
	Items   []plannedDeletion `json:"items"`
	Attempt int               `json:"attempt"` // of the execution
}

// A plannedDeletion is a file and what it was when that was decided.
type plannedDeletion struct {
	Path string   `json:"path"`
	Was  identity `json:"was"`
}

// Execute deletes the files.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg DeleteConfig) (DeleteOutput, error) {
	out := DeleteOutput{DeletedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	notes, err := openLasting(ctx, job, "delete")
	if err != nil {
		return out, err
	}
	var plan deletePlan
	noted, err := notes.read(&plan)
	if err != nil {
		return out, err
	}
	noted = noted && plan.Path == cfg.RemotePath && plan.Pattern == cfg.Pattern.String()
	err = use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		if former := plan; !noted || plan.Attempt < job.ExecutionAttempt() {
			again := cfg
			again.IgnoreMissing = cfg.IgnoreMissing || noted
			if plan, err = s.planDeletion(ctx, job, again); err == nil && noted {
				plan, err = s.renewDeletion(job, former, plan)
			}
			if err != nil {
				return s.fault("delete", cfg.RemotePath, err)
			}
			plan.Attempt = job.ExecutionAttempt()
			if err := errors.Join(job.HoldAll(), notes.write(plan)); err != nil {
				return err
			}
		}
		var done atomic.Int64
		return parallel.Do(ctx, len(plan.Items), manyRequests, func(ctx context.Context, i int) error {
			err := s.deleteOne(ctx, job, plan.Items[i], noted)
			job.Progress(done.Add(1), int64(len(plan.Items)), cfg.RemotePath)
			return s.fault("delete", plan.Items[i].Path, err)
		})
	})
	if err != nil {
		return out, err
	}
	for _, it := range plan.Items {
		out.DeletedFiles = append(out.DeletedFiles, it.Path)
	}
	if out.DeletedCount = len(plan.Items); out.DeletedCount > 0 {
		out.DeletedFile, out.Existed = out.DeletedFiles[0], true
	}
	return out, nil
}

// planDeletion finds out which files to delete.
func (s *session) planDeletion(ctx context.Context, job *courier.Context, cfg DeleteConfig) (deletePlan, error) {
	plan := deletePlan{Path: cfg.RemotePath, Pattern: cfg.Pattern.String(), Items: []plannedDeletion{}}
	if cfg.Pattern == "" {
		a, err := s.Lstat(ctx, cfg.RemotePath)
		switch {
		case errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing:
			return plan, nil
		case err != nil:
			return plan, err
		case a.IsDir():
			return plan, courier.Permanent(errors.New("is a directory; set pattern to delete files in it, or use sftp.rmdir"))
		}
		plan.Items = append(plan.Items, plannedDeletion{cfg.RemotePath, identify(a)})
		return plan, nil
	}
	found, _, err := cfg.search().Find(ctx, job, lister{s}, cfg.RemotePath)
	switch {
	case errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing:
		return plan, nil
	case err != nil:
		return plan, err
	case len(found) == 0 && !cfg.IgnoreMissing:
		return plan, remote.NothingFound(cfg.Pattern, 0)
	}
	plan.Items = make([]plannedDeletion, len(found))
	return plan, parallel.Do(ctx, len(found), manyRequests, func(ctx context.Context, i int) error {
		a, err := s.Lstat(ctx, found[i].Path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // somebody else was faster
		}
		plan.Items[i] = plannedDeletion{found[i].Path, identify(a)}
		return err
	})
}

// renewDeletion fits the plan of an earlier attempt of the execution to this one,
// which would delete what now says: what the job has made again is deleted again.
// All else is as it was decided.
func (s *session) renewDeletion(job *courier.Context, former, now deletePlan) (deletePlan, error) {
	known := make(map[string]int)
	for i, it := range former.Items {
		known[it.Path] = i
	}
	for _, it := range now.Items {
		i, planned := known[it.Path]
		if planned && former.Items[i].Was == it.Was {
			continue
		}
		if remade, err := remote.Remade(job, "sftp", s.id, it.Path); err != nil {
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

// deleteOne deletes a file. If an earlier attempt may have done so, only the
// very file that was to be deleted then.
func (s *session) deleteOne(ctx context.Context, job *courier.Context, it plannedDeletion, again bool) error {
	if again {
		a, err := s.Lstat(ctx, it.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case identify(a) != it.Was:
			job.Log().Warn("a file has changed, or another has taken its place, since it was to be deleted; it stays", "connection", s.id, "file", it.Path)
			return nil
		}
	}
	err := s.Remove(ctx, it.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Validate logs in and checks the path.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg DeleteConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		switch {
		case job.Unresolved("remote_path"):
			return nil
		case cfg.Pattern != "" || job.Unresolved("pattern"):
			return s.checkDirectory(ctx, cfg.RemotePath)
		}
		a, err := s.Lstat(ctx, cfg.RemotePath)
		switch {
		case errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing:
			return nil
		case err == nil && a.IsDir():
			err = courier.Permanent(errors.New("is a directory; set pattern to delete files in it, or use sftp.rmdir"))
		}
		return s.fault("delete", cfg.RemotePath, err)
	})
}
