package ftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Rename is the step "ftp.rename". It renames or moves a file or directory.
//
// If the server refuses to rename onto an existing file, that file is moved aside just before, so
// that for a moment no file has the name; if the renaming fails, it is moved back.
type Rename struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.RenameConfig, fileserver.RenameOutput] = Rename{}
	_ courier.Validator[fileserver.RenameConfig]                     = Rename{}
	_ courier.Cleaner[fileserver.RenameConfig]                       = Rename{}
)

// Execute renames.
func (r Rename) Execute(ctx context.Context, job *courier.Context, cfg fileserver.RenameConfig) (fileserver.RenameOutput, error) {
	if err := checkTarget("source_path", cfg.SourcePath); err != nil {
		return fileserver.RenameOutput{}, err
	}
	return remote.Rename(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in and checks that the source and the target directory exist.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg fileserver.RenameConfig) error {
	if !job.Unresolved("source_path") {
		if err := checkTarget("source_path", cfg.SourcePath); err != nil {
			return err
		}
	}
	return remote.ValidateRename(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}

// Cleanup moves back a file that an interrupted attempt has moved aside, unless the new file is
// in place.
func (r Rename) Cleanup(ctx context.Context, job *courier.Context, cfg fileserver.RenameConfig) error {
	return remote.CleanupRename(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}
