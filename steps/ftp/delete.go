package ftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Delete is the step "ftp.delete". It deletes a file, or the files below a directory that match a
// pattern.
type Delete struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.DeleteConfig, fileserver.DeleteOutput] = Delete{}
	_ courier.Validator[fileserver.DeleteConfig]                     = Delete{}
)

// Execute deletes the files. The files that an earlier attempt has found and written down are
// deleted, unless another file has the name by now.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg fileserver.DeleteConfig) (fileserver.DeleteOutput, error) {
	return remote.Delete(ctx, account(job, d.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg fileserver.DeleteConfig) error {
	a := account(job, d.Connections, cfg.ConnectionID)
	if err := remote.CheckDelete(a, cfg); err != nil {
		return err
	}
	return a.Validate(ctx, nil)
}
