package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// Rename is the step "sftp.rename". It gives a remote file or directory another
// name, in the same directory or in another one.
//
// An existing file is replaced without a moment in which there is none, if the
// server offers posix-rename@openssh.com. Otherwise it is moved aside just
// before, so that for a moment there is none under the name; if the renaming
// fails, it is moved back.
//
// What is renamed is noted down before. So a retry knows that an earlier
// attempt was done, even if a new file has come under the old name since.
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
	_ courier.Cleaner[RenameConfig]            = Rename{}
)

func (cfg RenameConfig) check() error {
	return remote.Permanent(checkPath("source_path", cfg.SourcePath), checkPath("destination_path", cfg.DestinationPath))
}

// A renameNote is what sftp.rename notes down before it renames.
type renameNote struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"` // as configured
	Target      string   `json:"target"`      // as it was resolved
	Was         identity `json:"was"`
	Skipped     bool     `json:"skipped,omitempty"`
	Attempt     int      `json:"attempt"` // of the execution
	Done        bool     `json:"done,omitempty"`
	Over        bool     `json:"over,omitempty"` // what has the new name is of an earlier one
}

// Execute renames.
func (r Rename) Execute(ctx context.Context, job *courier.Context, cfg RenameConfig) (RenameOutput, error) {
	if err := cfg.check(); err != nil {
		return RenameOutput{}, err
	}
	notes, err := openLasting(ctx, job, "rename")
	if err != nil {
		return RenameOutput{}, err
	}
	var note renameNote
	noted, err := notes.read(&note)
	if err != nil {
		return RenameOutput{}, err
	}
	noted = noted && note.Source == cfg.SourcePath && note.Destination == cfg.DestinationPath
	var out RenameOutput
	err = use(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		ifExists := cfg.IfExists
		if noted && note.Attempt < job.ExecutionAttempt() {
			own, err := s.renameAgain(ctx, job, note)
			if err != nil {
				return s.fault("rename", cfg.SourcePath, err)
			}
			if own != renameNo {
				noted = false
			}
			if own == renameOver {
				ifExists = transfer.IfExistsOverwrite
			}
		}
		if !noted {
			again := cfg
			again.IfExists = ifExists
			note, err = s.planRename(ctx, again)
			switch {
			case cfg.IgnoreMissing && note.Was == (identity{}) && errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return s.fault("rename", cfg.SourcePath, err)
			}
			note.Attempt, note.Over = job.ExecutionAttempt(), ifExists != cfg.IfExists
			if err := notes.write(note); err != nil {
				return err
			}
		}
		if note.Over {
			ifExists = transfer.IfExistsOverwrite
		}
		done, err := note.Skipped, error(nil)
		if noted && !done {
			done, err = s.wasRenamed(ctx, note, note.Attempt < job.ExecutionAttempt())
		}
		if err == nil && !done {
			size := int64(note.Was.Size)
			if note.Was.Mode == sftpclient.ModeDir || size < 0 {
				size = -1
			}
			move := renaming{
				connections: r.Connections, job: job, id: cfg.ConnectionID,
				from: note.Source, to: note.Target, size: size, ifExists: ifExists, what: "the file",
			}
			err = move.run(ctx, s)
			note.Skipped = move.skipped
		}
		if err == nil && !note.Done {
			note.Done = true
			err = notes.write(note)
		}
		if err == nil {
			out = RenameOutput{RenamedFile: note.Target, Skipped: note.Skipped}
			if !done && !note.Skipped {
				err = remote.Produced(job, "sftp", cfg.ConnectionID, note.Target)
			}
		}
		return s.fault("rename", cfg.SourcePath, err)
	})
	if out.Skipped {
		out.Reason = transfer.ReasonExists
	}
	return out, err
}

// What a new attempt of the execution does about a renaming of an earlier one.
type renameAgainst int

const (
	renameNo   renameAgainst = iota // nothing, if it was done
	renameAnew                      // the source was made again
	renameOver                      // and what has the new name is what was renamed then
)

// renameAgain finds out whether the job has made the source again, and whether what
// has the new name is still what an earlier attempt of the execution has renamed.
func (s *session) renameAgain(ctx context.Context, job *courier.Context, note renameNote) (renameAgainst, error) {
	remade, err := remote.Remade(job, "sftp", s.id, note.Source)
	if err != nil || !remade {
		return renameNo, err
	}
	target, err := s.Lstat(ctx, note.Target)
	switch {
	case err == nil && identify(target) == note.Was && !note.Skipped:
		return renameOver, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return renameNo, err
	}
	return renameAnew, nil
}

// planRename finds out what is to be renamed, and how it shall be called.
func (s *session) planRename(ctx context.Context, cfg RenameConfig) (renameNote, error) {
	note := renameNote{Source: cfg.SourcePath, Destination: cfg.DestinationPath}
	a, err := s.Lstat(ctx, cfg.SourcePath)
	if err != nil {
		return note, err
	}
	note.Was = identify(a)
	if note.Target, err = s.renameTarget(ctx, cfg); err != nil {
		return note, err
	}
	if note.Target == trimSlashes(note.Source) {
		return note, courier.Permanent(errors.New("the new name is the old one"))
	}
	there, err := s.Lstat(ctx, note.Target)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission) && cfg.IfExists == transfer.IfExistsOverwrite:
		return note, nil
	case err != nil:
		return note, err
	case cfg.IfExists == transfer.IfExistsSkip:
		note.Skipped = true
	case cfg.IfExists == transfer.IfExistsFail:
		return note, transfer.ErrExists(note.Target)
	case there.IsDir() != a.IsDir():
		return note, courier.Permanent(errors.New("a directory can't replace a file, nor a file a directory"))
	}
	return note, nil
}

func (s *session) renameTarget(ctx context.Context, cfg RenameConfig) (string, error) {
	_, name := remote.Split(trimSlashes(cfg.SourcePath))
	if strings.HasSuffix(cfg.DestinationPath, "/") {
		return remote.Join(cfg.DestinationPath, name), nil
	}
	a, err := s.Stat(ctx, cfg.DestinationPath)
	switch {
	case err == nil && a.IsDir():
		return remote.Join(cfg.DestinationPath, name), nil
	case err != nil && !sftpclient.IsStatus(err):
		return "", err
	}
	return cfg.DestinationPath, nil
}

// wasRenamed reports whether an earlier attempt has renamed what it noted down. If
// former is set, it was one of an earlier attempt of the execution, of which a
// later step may have taken the file.
func (s *session) wasRenamed(ctx context.Context, note renameNote, former bool) (bool, error) {
	source, sourceErr := s.Lstat(ctx, note.Source)
	if sourceErr != nil && !errors.Is(sourceErr, fs.ErrNotExist) {
		return false, sourceErr
	}
	target, err := s.Lstat(ctx, note.Target)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case err == nil && identify(target) == note.Was:
		// If both are there and alike, renaming once more changes nothing.
		return sourceErr != nil || identify(source) != note.Was, nil
	case sourceErr == nil:
		return former && identify(source) != note.Was, nil
	case former && note.Done:
		return true, nil
	case err != nil:
		return false, courier.Permanent(fmt.Errorf("there is neither the old name nor the new one, %q: somebody has taken the file: %w", note.Target, fs.ErrNotExist))
	}
	return false, courier.Permanent(fmt.Errorf("the file is gone, and another has the new name, %q: %w", note.Target, fs.ErrNotExist))
}

// Validate logs in and checks that there is something to rename.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("source_path") {
			return nil
		}
		_, err := s.Lstat(ctx, cfg.SourcePath)
		if errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing {
			return nil
		}
		return s.fault("rename", cfg.SourcePath, err)
	})
}

// Cleanup moves back what an interrupted attempt has moved aside, unless its
// successor is in place.
func (r Rename) Cleanup(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if cfg.check() != nil {
		return nil
	}
	notes, err := openLasting(ctx, job, "rename")
	if err != nil {
		return err
	}
	var note renameNote
	if noted, err := notes.read(&note); err != nil || !noted || note.Skipped || note.Source != cfg.SourcePath {
		return err
	}
	return use(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		if s.CanReplace() {
			return nil
		}
		return s.fault("clean up", note.Target, s.restore(ctx, job, []localFile{{final: note.Target}}, job.Attempt()))
	})
}
