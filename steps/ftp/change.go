package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// Delete is the step "ftp.delete". It deletes a file, or those files below a
// directory that match a pattern.
type Delete struct {
	Connections Connections // must not be nil
}

// DeleteConfig is the configuration of [Delete].
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, delete the files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob          *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"nothing to delete is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries of the directory that can't be used: skip or fail"`
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

// A deletePlan is what is written down before files are deleted.
type deletePlan struct {
	Path    string            `json:"path"`
	Pattern string            `json:"pattern,omitempty"`
	Items   []plannedDeletion `json:"items"`
	Attempt int               `json:"attempt"` // of the execution
}

// A plannedDeletion is a file and what it was when that was decided.
type plannedDeletion struct {
	Path string `json:"path"`
	Was  fileID `json:"was"`
}

// A fileID tells a remote file from another that has its name at another time, as
// far as size and time can.
type fileID struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

func identify(n ftpclient.Info) fileID { return fileID{n.Size, n.Modified.UTC()} }

// Execute deletes the files. What an earlier attempt has found and written down is
// deleted, unless another file has its name by now.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg DeleteConfig) (DeleteOutput, error) {
	out := DeleteOutput{DeletedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	var plan deletePlan
	ledger := lastingNote(job, "deleted")
	known, err := ledger.read(&plan)
	if err != nil {
		return out, err
	}
	known = known && plan.Path == cfg.RemotePath && plan.Pattern == cfg.Pattern.String()
	err = use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		if !known || plan.Attempt < job.ExecutionAttempt() {
			if plan, err = s.planDeletion(ctx, job, cfg, plan, known); err != nil {
				return err
			}
			if err := errors.Join(job.HoldAll(), ledger.write(plan)); err != nil {
				return err
			}
		}
		for _, it := range plan.Items {
			job.Progress(0, -1, it.Path)
			if err := s.deleteOne(ctx, job, it, known); err != nil {
				return s.fault("delete", it.Path, err)
			}
		}
		return nil
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

// planDeletion decides what is deleted. What an earlier attempt of the execution
// has decided, of which former tells if known is set, stays as it is, but for what
// the job has made again.
func (s *session) planDeletion(ctx context.Context, job *courier.Context, cfg DeleteConfig, former deletePlan, known bool) (deletePlan, error) {
	if !known {
		former = deletePlan{Path: cfg.RemotePath, Pattern: cfg.Pattern.String(), Items: []plannedDeletion{}}
	}
	cfg.IgnoreMissing = cfg.IgnoreMissing || known
	former.Attempt = job.ExecutionAttempt()
	found, err := s.toDelete(ctx, job, cfg)
	if err != nil || !known {
		former.Items = append(former.Items, found...)
		return former, err
	}
	at := make(map[string]int)
	for i, it := range former.Items {
		at[it.Path] = i
	}
	for _, it := range found {
		i, planned := at[it.Path]
		if planned && former.Items[i].Was == it.Was {
			continue
		}
		if remade, err := remote.Remade(job, "ftp", cfg.ConnectionID, it.Path); err != nil {
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
		n, err := s.Stat(ctx, it.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // or it is a link that leads nowhere
		case err != nil:
			return err
		case identify(n) != it.Was:
			job.Log().Warn("a file has changed, or another has taken its place, since it was to be deleted; it stays", "connection", s.id, "file", safename.Quote(it.Path))
			return nil
		}
	}
	return s.delete(ctx, it.Path)
}

// toDelete finds the files.
func (s *session) toDelete(ctx context.Context, job *courier.Context, cfg DeleteConfig) ([]plannedDeletion, error) {
	var files []plannedDeletion
	if cfg.Pattern == "" {
		n, err := s.Stat(ctx, cfg.RemotePath)
		switch {
		case ftpclient.IsMissing(err) && cfg.IgnoreMissing:
			return files, nil
		case err == nil && n.IsDir:
			err = courier.Permanent(errors.New("is a directory; to delete files in it set pattern, to remove it use ftp.rmdir"))
		}
		return append(files, plannedDeletion{cfg.RemotePath, identify(n)}), s.fault("delete", cfg.RemotePath, err)
	}
	found, _, err := cfg.search().Find(ctx, job, lister{s}, cfg.RemotePath)
	switch {
	case ftpclient.IsMissing(err) && cfg.IgnoreMissing:
		return files, nil
	case err != nil:
		return nil, s.fault("delete", cfg.RemotePath, err)
	case len(found) == 0 && !cfg.IgnoreMissing:
		return nil, s.fault("delete", cfg.RemotePath, remote.NothingFound(cfg.Pattern, 0))
	}
	for _, f := range found {
		job.Progress(0, -1, f.Path)
		n, err := s.Stat(ctx, f.Path) // a listing may tell another time
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, s.fault("delete", f.Path, err)
		}
		files = append(files, plannedDeletion{f.Path, identify(n)})
	}
	return files, nil
}

// delete deletes a file. That it is gone is no error.
func (s *session) delete(ctx context.Context, p string) error {
	err := s.Remove(ctx, p)
	if !ftpclient.IsReply(err) {
		return err
	}
	if _, e := s.Stat(ctx, p); errors.Is(e, fs.ErrNotExist) {
		return nil
	} else if e != nil && !ftpclient.IsReply(e) {
		return e
	}
	return err
}

// Validate logs in.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg DeleteConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, d.Connections, cfg.ConnectionID, nil)
}

// Rename is the step "ftp.rename". It renames or moves a file or directory.
//
// Where a server refuses to rename onto an existing file, that file is deleted
// just before, so that for a moment there is none.
type Rename struct {
	Connections Connections // must not be nil
}

// RenameConfig is the configuration of [Rename].
type RenameConfig struct {
	ConnectionID    string `json:"connection_id" courier:"required" doc:"the connection to use"`
	SourcePath      string `json:"source_path" courier:"required,path" doc:"the remote file or directory; taken from the login directory unless it begins with a slash"`
	DestinationPath string `json:"destination_path" courier:"required,path" doc:"its new remote path; an existing directory or a path that ends in / gets the file under its old name"`
	IfExists        string `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if there is a file with the new name: overwrite, skip, which leaves both files as they are, or fail"`
	IgnoreMissing   bool   `json:"ignore_missing,omitempty" doc:"nothing to rename is no error"`
}

// RenameOutput is the output of [Rename].
type RenameOutput struct {
	RenamedFile string `json:"renamed_file,omitempty" doc:"the new remote path, unless there was nothing to rename"`
	Skipped     bool   `json:"skipped" doc:"whether nothing was renamed because there was a file with the new name"`
	Reason      string `json:"reason,omitempty" doc:"file_exists when skipped is true"`
}

var (
	_ courier.Step[RenameConfig, RenameOutput] = Rename{}
	_ courier.Validator[RenameConfig]          = Rename{}
)

func (cfg RenameConfig) check() error {
	return remote.Permanent(checkPath("source_path", cfg.SourcePath), checkPath("destination_path", cfg.DestinationPath),
		checkTarget("source_path", cfg.SourcePath))
}

// A renaming is what is written down before the renaming.
type renaming struct {
	From    string    `json:"from"`
	Path    string    `json:"path"` // as configured
	To      string    `json:"to"`
	Dir     bool      `json:"dir"`
	Size    int64     `json:"size"`
	Time    time.Time `json:"time"`
	Over    bool      `json:"over,omitempty"` // what has the new path is of an earlier attempt of the execution
	Skipped bool      `json:"skipped,omitempty"`
	Done    bool      `json:"done,omitempty"`
	Attempt int       `json:"attempt"` // of the execution
}

// is reports whether n is what was to be renamed, as far as the server tells.
func (r renaming) is(n ftpclient.Info) bool {
	return n.IsDir == r.Dir && (n.IsDir || n.Size == r.Size && n.Modified.Equal(r.Time))
}

// Execute renames.
func (r Rename) Execute(ctx context.Context, job *courier.Context, cfg RenameConfig) (RenameOutput, error) {
	var out RenameOutput
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) (err error) {
		out, err = s.renameStep(ctx, job, cfg)
		return s.fault("rename", cfg.SourcePath, err)
	})
	return out, err
}

func (s *session) renameStep(ctx context.Context, job *courier.Context, cfg RenameConfig) (RenameOutput, error) {
	var was renaming
	ledger := lastingNote(job, "renamed")
	known, err := ledger.read(&was)
	if err != nil {
		return RenameOutput{}, err
	}
	known = known && was.From == cfg.SourcePath && was.Path == cfg.DestinationPath
	from, err := s.Stat(ctx, cfg.SourcePath)
	gone := errors.Is(err, fs.ErrNotExist)
	switch {
	case ftpclient.IsMissing(err) && !known && cfg.IgnoreMissing:
		return RenameOutput{}, nil
	case err != nil && !(gone && known):
		return RenameOutput{}, err
	}
	if known {
		done, err := s.wasRenamed(ctx, job, cfg, &was, from, gone)
		if done || err != nil {
			return was.output(), err
		}
	}
	now, err := s.planRename(ctx, job, cfg, from, known && was.Over)
	if err != nil || now.Skipped {
		return now.output(), err
	}
	if err := ledger.write(now); err != nil {
		return now.output(), err
	}
	if path.Clean(now.To) != path.Clean(cfg.SourcePath) {
		err = s.Rename(ctx, cfg.SourcePath, now.To)
		if ftpclient.IsReply(err) {
			_, e := s.Stat(ctx, now.To)
			switch {
			case e == nil:
				if err = s.Remove(ctx, now.To); err == nil {
					err = s.Rename(ctx, cfg.SourcePath, now.To)
				}
			case !ftpclient.IsReply(e) && !errors.Is(e, fs.ErrNotExist):
				err = e // the step was interrupted, or the session is lost
			}
		}
	}
	if err == nil {
		now.Done = true
		err = ledger.write(now)
	}
	if err == nil {
		err = remote.Produced(job, "ftp", cfg.ConnectionID, now.To)
	}
	return now.output(), err
}

func (r renaming) output() RenameOutput {
	out := RenameOutput{RenamedFile: r.To, Skipped: r.Skipped}
	if r.Skipped {
		out.Reason = transfer.ReasonExists
	}
	return out
}

// wasRenamed reports whether the renaming that was written down took place, and
// need not be done again. If it is to be done again although it took place, it
// sets Over if what has the new path is still what was renamed.
func (s *session) wasRenamed(ctx context.Context, job *courier.Context, cfg RenameConfig, was *renaming, from ftpclient.Info, gone bool) (bool, error) {
	former := was.Attempt < job.ExecutionAttempt()
	to, err := s.Stat(ctx, was.To)
	if err != nil && !ftpclient.IsReply(err) && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	there := err == nil && was.is(to)
	if gone {
		if there || former && was.Done {
			return true, nil // by an earlier attempt; whoever it was for may have taken it
		}
		return false, fmt.Errorf("it is gone, and what an earlier attempt was about to make of it, %s, is not there: %w", safename.Quote(was.To), fs.ErrNotExist)
	}
	if !former {
		return was.Done && there, nil // what has come since stays
	}
	remade, err := remote.Remade(job, "ftp", cfg.ConnectionID, cfg.SourcePath)
	if err != nil {
		return false, err
	}
	was.Over = remade && there
	return was.Done && !remade, nil
}

// planRename finds out what renaming comes to. Over says that what has the new path
// may be replaced.
func (s *session) planRename(ctx context.Context, job *courier.Context, cfg RenameConfig, from ftpclient.Info, over bool) (renaming, error) {
	now := renaming{
		From: cfg.SourcePath, Path: cfg.DestinationPath, To: cfg.DestinationPath, Dir: from.IsDir, Size: from.Size, Time: from.Modified,
		Over: over, Attempt: job.ExecutionAttempt(),
	}
	target, err := s.Stat(ctx, cfg.DestinationPath)
	if strings.HasSuffix(cfg.DestinationPath, "/") || err == nil && target.IsDir {
		now.To = remote.Join(cfg.DestinationPath, path.Base(cfg.SourcePath))
		target, err = s.Stat(ctx, now.To)
	}
	switch exists := err == nil; {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return now, err
	case exists && path.Clean(now.To) == path.Clean(cfg.SourcePath):
	case exists && !over && cfg.IfExists == transfer.IfExistsSkip:
		now.Skipped = true
	case exists && !over && cfg.IfExists == transfer.IfExistsFail:
		return now, transfer.ErrExists(now.To)
	case exists && (target.IsDir || from.IsDir):
		return now, courier.Permanent(fmt.Errorf("%s exists: %w", safename.Quote(now.To), fs.ErrExist))
	}
	return now, nil
}

// Validate logs in and checks that there is something to rename.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if job.Unresolved("source_path") || job.Unresolved("destination_path") {
		return test(ctx, job, r.Connections, cfg.ConnectionID, nil)
	}
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		_, err := s.Stat(ctx, cfg.SourcePath)
		if ftpclient.IsMissing(err) && cfg.IgnoreMissing {
			return nil
		}
		return s.fault("rename", cfg.SourcePath, err)
	})
}
