package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Rename is the step "sftp.rename". It gives a remote file or directory another
// name, in the same directory or in another one.
//
// An existing file is replaced atomically if the server offers posix-rename@openssh.com.
// Otherwise it is moved aside just before, so that for a moment no file has the name; if the
// renaming fails, it is moved back.
//
// The file to rename is noted down before. So a retry recognizes that an earlier attempt has
// renamed it, even if a new file has the old name by then.
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
	return remote.Rename(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in and checks that the source and the target directory exist.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg fileserver.RenameConfig) error {
	return remote.ValidateRename(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}

// Cleanup moves back a file that an interrupted attempt has moved aside, unless the new file is
// in place.
func (r Rename) Cleanup(ctx context.Context, job *courier.Context, cfg fileserver.RenameConfig) error {
	return remote.CleanupRename(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}
