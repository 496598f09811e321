package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/remote"
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
	return connfile.Permanent(checkPath("source_path", cfg.SourcePath), checkPath("destination_path", cfg.DestinationPath))
}

// Execute renames.
func (r Rename) Execute(ctx context.Context, job *courier.Context, cfg RenameConfig) (RenameOutput, error) {
	if err := cfg.check(); err != nil {
		return RenameOutput{}, err
	}
	out, err := remote.Rename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
	return RenameOutput(out), err
}

// Validate logs in and checks that there is something to rename.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return remote.ValidateRename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
}

// Cleanup moves back what an interrupted attempt has moved aside, unless its
// successor is in place.
func (r Rename) Cleanup(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if cfg.check() != nil {
		return nil
	}
	return remote.CleanupRename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
}
