package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Mkdir is the step "sftp.mkdir". It makes a directory, and those above it that
// are missing. A directory that is there already is left as it is.
type Mkdir struct {
	Connections Connections // must not be nil
}

// MkdirConfig is the configuration of [Mkdir].
type MkdirConfig struct {
	ConnectionID string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath   string `json:"remote_path" courier:"required,path" doc:"the directory to make; taken from the login directory unless it begins with a slash"`
}

// MkdirOutput is the output of [Mkdir].
type MkdirOutput struct {
	CreatedDirectory string `json:"created_directory" doc:"remote path of the directory, whoever made it"`
}

var (
	_ courier.Step[MkdirConfig, MkdirOutput] = Mkdir{}
	_ courier.Validator[MkdirConfig]         = Mkdir{}
)

// Execute makes the directory.
func (m Mkdir) Execute(ctx context.Context, job *courier.Context, cfg MkdirConfig) (MkdirOutput, error) {
	return MkdirOutput{CreatedDirectory: remote.TrimSlashes(cfg.RemotePath)}, remote.Mkdir(ctx, account(job, m.Connections, cfg.ConnectionID), cfg.RemotePath)
}

// Validate logs in and checks that no file is in the way.
func (m Mkdir) Validate(ctx context.Context, job *courier.Context, cfg MkdirConfig) error {
	return remote.ValidateMkdir(ctx, account(job, m.Connections, cfg.ConnectionID), cfg.RemotePath)
}
