package sftp

import (
	"context"

	"github.com/courierhq/courier"
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
	out, err := remote.Rename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
	return RenameOutput(out), err
}

// Validate logs in and checks that there is something to rename, and a directory for it.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	return remote.ValidateRename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
}

// Cleanup moves back what an interrupted attempt has moved aside, unless its
// successor is in place.
func (r Rename) Cleanup(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	return remote.CleanupRename(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RenameConfig(cfg))
}
