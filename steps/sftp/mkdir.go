package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Mkdir is the step "sftp.mkdir". It makes a directory and its missing parent
// directories. An existing directory stays unchanged.
type Mkdir struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.MkdirConfig, fileserver.MkdirOutput] = Mkdir{}
	_ courier.Validator[fileserver.MkdirConfig]                    = Mkdir{}
)

// Execute makes the directory.
func (m Mkdir) Execute(ctx context.Context, job *courier.Context, cfg fileserver.MkdirConfig) (fileserver.MkdirOutput, error) {
	return fileserver.MkdirOutput{CreatedDirectory: remote.TrimSlashes(cfg.RemotePath)}, remote.Mkdir(ctx, account(job, m.Connections, cfg.ConnectionID), cfg.RemotePath)
}

// Validate logs in and checks that the path and its parents are not files.
func (m Mkdir) Validate(ctx context.Context, job *courier.Context, cfg fileserver.MkdirConfig) error {
	return remote.ValidateMkdir(ctx, account(job, m.Connections, cfg.ConnectionID), cfg.RemotePath)
}
