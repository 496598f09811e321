package ftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Rename is the step "ftp.rename". It renames or moves a file or directory.
//
// Where a server refuses to rename onto an existing file, that file is moved aside
// just before, so that for a moment there is none; if the renaming fails, it is
// moved back.
type Rename struct {
	Connections Connections // must not be nil
}

// RenameConfig is the configuration of [Rename].
type RenameConfig remote.RenameConfig

// RenameOutput is the output of [Rename].
type RenameOutput remote.RenameOutput

var (
	_ courier.Step[RenameConfig, RenameOutput] = Rename{}
	_ courier.Validator[RenameConfig]          = Rename{}
	_ courier.Cleaner[RenameConfig]            = Rename{}
)

// Execute renames.
func (r Rename) Execute(ctx context.Context, job *courier.Context, cfg RenameConfig) (RenameOutput, error) {
	if err := checkTarget("source_path", cfg.SourcePath); err != nil {
		return RenameOutput{}, err
	}
	out, err := remote.Rename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
	return RenameOutput(out), err
}

// Validate logs in and checks that there is something to rename, and a directory for it.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if !job.Unresolved("source_path") {
		if err := checkTarget("source_path", cfg.SourcePath); err != nil {
			return err
		}
	}
	return remote.ValidateRename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
}

// Cleanup moves back what an interrupted attempt has moved aside, unless its
// successor is in place.
func (r Rename) Cleanup(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	return remote.CleanupRename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
}
