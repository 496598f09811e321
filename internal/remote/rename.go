package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
	"github.com/courierhq/courier/steps/fileserver"
)

func checkRename(a Account, cfg fileserver.RenameConfig) error {
	return courier.Permanent(errors.Join(a.CheckPath("source_path", cfg.SourcePath), a.CheckPath("destination_path", cfg.DestinationPath)))
}

// A renameNote is what is noted down before anything is renamed.
type renameNote struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"` // as configured
	Target      string   `json:"target"`      // as it was resolved
	Was         Identity `json:"was"`
	Skipped     bool     `json:"skipped,omitempty"`
	Attempt     int      `json:"attempt"` // of the execution
	Done        bool     `json:"done,omitempty"`
	Over        bool     `json:"over,omitempty"` // what has the new name is of an earlier one
}

// A renameStep is one execution of the step.
type renameStep struct {
	Account
	cfg   fileserver.RenameConfig
	note  renameNote
	noted bool // by an earlier attempt
}

// former reports whether the note is of an earlier attempt of the execution.
func (r *renameStep) former() bool { return r.note.Attempt < r.Job.ExecutionAttempt() }

// Rename renames.
func Rename(ctx context.Context, a Account, cfg fileserver.RenameConfig) (out fileserver.RenameOutput, err error) {
	if err := checkRename(a, cfg); err != nil {
		return out, err
	}
	notes, err := a.lastingNotes(ctx, "rename")
	if err != nil {
		return out, err
	}
	r := &renameStep{Account: a, cfg: cfg}
	if r.noted, err = notes.read(&r.note); err != nil {
		return out, err
	}
	r.noted = r.noted && r.note.Source == cfg.SourcePath && r.note.Destination == cfg.DestinationPath
	err = a.Use(ctx, func(s Server) error {
		out, err = r.run(ctx, s, notes)
		return s.Fault("rename", cfg.SourcePath, err)
	})
	if out.Skipped {
		out.Reason = transfer.ReasonExists
	}
	return out, err
}

func (r *renameStep) run(ctx context.Context, s Server, notes *notebook) (fileserver.RenameOutput, error) {
	var out fileserver.RenameOutput
	over := false
	if r.noted && r.former() {
		own, err := r.again(ctx, s)
		if err != nil {
			return out, err
		}
		r.noted, over = own == renameNo, own == renameOver
	}
	if !r.noted {
		var err error
		if r.note, err = r.plan(ctx, s, over); err != nil {
			if r.cfg.IgnoreMissing && r.note.Was == (Identity{}) && s.Missing(err) {
				return out, nil
			}
			return out, err
		}
		r.note.Attempt, r.note.Over = r.Job.ExecutionAttempt(), over
		if err := notes.write(r.note); err != nil {
			return out, err
		}
	}
	done, err := r.note.Skipped, error(nil)
	if r.noted && !done {
		done, err = r.wasRenamed(ctx, s)
	}
	if err == nil && !done {
		err = r.move(ctx, s)
	}
	if err == nil && !r.note.Done {
		r.note.Done = true
		err = notes.write(r.note)
	}
	if err != nil {
		return out, err
	}
	if !done && !r.note.Skipped {
		err = r.produced(r.note.Target)
	}
	return fileserver.RenameOutput{RenamedFile: r.note.Target, Skipped: r.note.Skipped}, err
}

// move gives the file its new name.
func (r *renameStep) move(ctx context.Context, s Server) error {
	if path.Clean(r.note.Target) == path.Clean(r.note.Source) && s.Traits().Overwrites {
		return nil
	}
	size := r.note.Was.Size
	if r.note.Was.Kind == KindDirectory {
		size = -1
	}
	if dir, made := r.directory(r.note.Target); made {
		if err := makeDirectories(ctx, s, dir); err != nil {
			return fmt.Errorf("make directory %s: %w", safename.Quote(dir), err)
		}
	}
	m := renaming{account: r.Account, from: r.note.Source, to: r.note.Target, size: size, ifExists: r.cfg.IfExists, what: "the file"}
	if r.note.Over {
		m.ifExists = transfer.IfExistsOverwrite
	}
	err := m.run(ctx, s)
	r.note.Skipped = m.skipped
	return err
}

// directory is the directory that the file gets into, and whether it is made if it is
// missing.
func (r *renameStep) directory(target string) (dir string, made bool) {
	dir, _ = Split(TrimSlashes(target))
	return dir, r.cfg.MakeDirectories && dir != "." && dir != "/"
}

// checkDestination returns an error if the directory that the file gets into is not
// there and is not to be made. Directories that may not be looked at are taken to be
// there.
func (r *renameStep) checkDestination(ctx context.Context, s Server, target string) error {
	dir, made := r.directory(target)
	if from, _ := Split(TrimSlashes(r.cfg.SourcePath)); made || dir == "." || dir == "/" || dir == from {
		return nil
	}
	info, err := s.Stat(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return courier.Permanent(fmt.Errorf("destination_path: the remote directory %s doesn't exist; create it, set make_directories, or correct the path: %w", safename.Quote(dir), err))
	case err == nil && !info.MayBeDir():
		return courier.Permanent(fmt.Errorf("destination_path: %s is a file, where a directory should be", safename.Quote(dir)))
	case err != nil && !s.Refused(err):
		return err
	}
	return nil
}

// What a new attempt of the execution does about a renaming of an earlier one.
type renameAgainst int

const (
	renameNo   renameAgainst = iota // nothing, if it was done
	renameAnew                      // the source was made again
	renameOver                      // and what has the new name is what was renamed then
)

// again finds out whether the job has made the source again, and whether what has
// the new name is still what an earlier attempt of the execution has renamed.
func (r *renameStep) again(ctx context.Context, s Server) (renameAgainst, error) {
	remade, err := r.remade(r.note.Source)
	if err != nil || !remade {
		return renameNo, err
	}
	target, err := s.Lstat(ctx, r.note.Target)
	switch {
	case err == nil && target.Identity() == r.note.Was && !r.note.Skipped:
		return renameOver, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return renameNo, err
	}
	return renameAnew, nil
}

// plan finds out what is to be renamed, and how it shall be called. Over says that
// what has the new name may be replaced.
func (r *renameStep) plan(ctx context.Context, s Server, over bool) (renameNote, error) {
	cfg := r.cfg
	if over {
		cfg.IfExists = transfer.IfExistsOverwrite
	}
	n := renameNote{Source: cfg.SourcePath, Destination: cfg.DestinationPath}
	info, err := s.Lstat(ctx, cfg.SourcePath)
	if err != nil {
		return n, err
	}
	n.Was = info.Identity()
	if n.Target, err = renameTarget(ctx, s, cfg); err != nil {
		return n, err
	}
	if s.Traits().Overwrites && path.Clean(n.Target) == path.Clean(n.Source) {
		return n, nil // for such a server that is no change
	} else if TrimSlashes(n.Target) == TrimSlashes(n.Source) {
		return n, courier.Permanent(errors.New("the new name is the old one"))
	}
	there, err := s.Lstat(ctx, n.Target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, r.checkDestination(ctx, s, n.Target)
	case errors.Is(err, fs.ErrPermission) && cfg.IfExists == transfer.IfExistsOverwrite:
		return n, nil
	case err != nil:
		return n, err
	case cfg.IfExists == transfer.IfExistsSkip:
		n.Skipped = true
	case cfg.IfExists == transfer.IfExistsFail:
		return n, transfer.ErrExists(n.Target)
	case there.IsDir() != info.IsDir():
		return n, courier.Permanent(errors.New("a directory can't replace a file, nor a file a directory"))
	}
	return n, nil
}

func renameTarget(ctx context.Context, s Server, cfg fileserver.RenameConfig) (string, error) {
	_, name := Split(TrimSlashes(cfg.SourcePath))
	if strings.HasSuffix(cfg.DestinationPath, "/") {
		return Join(cfg.DestinationPath, name), nil
	}
	info, err := s.Stat(ctx, cfg.DestinationPath)
	switch {
	case err == nil && info.IsDir():
		return Join(cfg.DestinationPath, name), nil
	case err != nil && !s.Refused(err) && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return cfg.DestinationPath, nil
}

// wasRenamed reports whether an earlier attempt has renamed what it noted down. If
// it was one of an earlier attempt of the execution, a later step of that may have
// taken the file.
func (r *renameStep) wasRenamed(ctx context.Context, s Server) (bool, error) {
	note, former := r.note, r.former()
	source, sourceErr := s.Lstat(ctx, note.Source)
	if sourceErr != nil && !errors.Is(sourceErr, fs.ErrNotExist) {
		return false, sourceErr
	}
	target, err := s.Lstat(ctx, note.Target)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case err == nil && target.Identity() == note.Was:
		// If both are there and alike, renaming once more changes nothing.
		return sourceErr != nil || source.Identity() != note.Was, nil
	case sourceErr == nil:
		return former && source.Identity() != note.Was, nil
	case former && note.Done:
		return true, nil
	case err != nil:
		return false, courier.Permanent(fmt.Errorf("neither the old name nor the new one, %q, exists: somebody has taken the file: %w", note.Target, fs.ErrNotExist))
	}
	return false, courier.Permanent(fmt.Errorf("the file is gone, and another has the new name, %q: %w", note.Target, fs.ErrNotExist))
}

// ValidateRename logs in and checks that there is something to rename, and a directory
// for it.
func ValidateRename(ctx context.Context, a Account, cfg fileserver.RenameConfig) error {
	if err := checkRename(a, cfg); err != nil {
		return err
	}
	return a.Validate(ctx, func(s Server) error {
		var found error
		if a.Job.Unresolved("source_path") {
			cfg.SourcePath = "file" // some name, in the place of a file to come
		} else if _, found = s.Lstat(ctx, cfg.SourcePath); s.Missing(found) && cfg.IgnoreMissing {
			found = nil
		}
		if found == nil && !a.Job.Unresolved("destination_path") {
			var target string
			if target, found = renameTarget(ctx, s, cfg); found == nil {
				found = (&renameStep{Account: a, cfg: cfg}).checkDestination(ctx, s, target)
			}
		}
		return s.Fault("rename", cfg.SourcePath, found)
	})
}

// CleanupRename moves back what an interrupted attempt has moved aside, unless its
// successor is in place.
func CleanupRename(ctx context.Context, a Account, cfg fileserver.RenameConfig) error {
	if checkRename(a, cfg) != nil {
		return nil
	}
	notes, err := a.lastingNotes(ctx, "rename")
	if err != nil {
		return err
	}
	var n renameNote
	if noted, err := notes.read(&n); err != nil || !noted || n.Skipped || n.Source != cfg.SourcePath {
		return err
	}
	return a.Use(ctx, func(s Server) error {
		return s.Fault("clean up", n.Target, a.restore(ctx, s, []string{n.Target}, stepcontext.Of(a.Job).StartNumber()))
	})
}
