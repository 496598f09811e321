package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Delete is the step "sftp.delete". It deletes one file, or those files of a
// directory whose names match a pattern. It never deletes directories or the
// targets of links.
//
// The list of files to delete is made once, and noted down before anything is
// deleted. So a retry does not delete a new file that has the name of a file
// already deleted, as far as its size and time show that.
type Delete struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.DeleteConfig, fileserver.DeleteOutput] = Delete{}
	_ courier.Validator[fileserver.DeleteConfig]                     = Delete{}
)

// Execute deletes the files.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg fileserver.DeleteConfig) (fileserver.DeleteOutput, error) {
	return remote.Delete(ctx, account(job, d.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in and checks the path.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg fileserver.DeleteConfig) error {
	return remote.ValidateDelete(ctx, account(job, d.Connections, cfg.ConnectionID), cfg)
}
