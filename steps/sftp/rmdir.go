package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/remote"
)

// Rmdir is the step "sftp.rmdir". It removes an empty directory or, if
// recursive is set, one with all that is in it. Links are removed, and never
// followed.
//
// A retry doesn't remove a directory that has come to exist since an earlier
// attempt was done with the removal.
type Rmdir struct {
	Connections Connections // must not be nil
}

// RmdirConfig is the configuration of [Rmdir].
type RmdirConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the directory to remove; taken from the login directory unless it begins with a slash"`
	Recursive     bool   `json:"recursive,omitempty" doc:"remove all that is in it too; otherwise it must be empty"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"that there is no such directory is no error"`
}

// RmdirOutput is the output of [Rmdir].
type RmdirOutput remote.RmdirOutput

var (
	_ courier.Step[RmdirConfig, RmdirOutput] = Rmdir{}
	_ courier.Validator[RmdirConfig]         = Rmdir{}
)

func (cfg RmdirConfig) check() error {
	return connfile.Permanent(checkPath("remote_path", cfg.RemotePath), remote.RmdirConfig(cfg).Check())
}

// Execute removes the directory.
func (r Rmdir) Execute(ctx context.Context, job *courier.Context, cfg RmdirConfig) (RmdirOutput, error) {
	if err := cfg.check(); err != nil {
		return RmdirOutput{}, err
	}
	out, err := remote.Rmdir(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RmdirConfig(cfg))
	return RmdirOutput(out), err
}

// Validate logs in and checks that the path is one of a directory.
func (r Rmdir) Validate(ctx context.Context, job *courier.Context, cfg RmdirConfig) error {
	if !job.Unresolved("remote_path") {
		if err := cfg.check(); err != nil {
			return err
		}
	}
	return remote.ValidateRmdir(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RmdirConfig(cfg))
}
