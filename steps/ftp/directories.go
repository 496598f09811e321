package ftp

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/remote"
)

// Mkdir is the step "ftp.mkdir". It makes a directory, and those above it.
type Mkdir struct {
	Connections Connections // must not be nil
}

// MkdirConfig is the configuration of [Mkdir].
type MkdirConfig struct {
	ConnectionID string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath   string `json:"remote_path" courier:"required,path" doc:"the directory, taken from the login directory unless it begins with a slash; that it exists is no error"`
}

// MkdirOutput is the output of [Mkdir].
type MkdirOutput struct {
	CreatedDirectory string `json:"created_directory" doc:"the directory, whether it was there before or not"`
}

var (
	_ courier.Step[MkdirConfig, MkdirOutput] = Mkdir{}
	_ courier.Validator[MkdirConfig]         = Mkdir{}
)

// Execute makes the directory.
func (m Mkdir) Execute(ctx context.Context, job *courier.Context, cfg MkdirConfig) (MkdirOutput, error) {
	return MkdirOutput{CreatedDirectory: cfg.RemotePath}, remote.Mkdir(ctx, account(job, m.Connections, cfg.ConnectionID), path.Clean(cfg.RemotePath))
}

// Validate logs in.
func (m Mkdir) Validate(ctx context.Context, job *courier.Context, cfg MkdirConfig) error {
	return account(job, m.Connections, cfg.ConnectionID).ValidatePath(ctx, cfg.RemotePath)
}

// Rmdir is the step "ftp.rmdir". It removes a directory.
type Rmdir struct {
	Connections Connections // must not be nil
}

// RmdirConfig is the configuration of [Rmdir].
type RmdirConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the directory, taken from the login directory unless it begins with a slash"`
	Recursive     bool   `json:"recursive,omitempty" doc:"remove everything in it too; without this it must be empty"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"that there is no such directory is no error"`
}

// RmdirOutput is the output of [Rmdir].
type RmdirOutput remote.RmdirOutput

var (
	_ courier.Step[RmdirConfig, RmdirOutput] = Rmdir{}
	_ courier.Validator[RmdirConfig]         = Rmdir{}
)

func (cfg RmdirConfig) check() error {
	return connfile.Permanent(checkPath("remote_path", cfg.RemotePath), checkTarget("remote_path", cfg.RemotePath))
}

// checkTarget refuses to remove what can only be meant by mistake.
func checkTarget(field, p string) error {
	if clean := path.Clean(p); clean == "." || clean == "/" || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasSuffix(clean, "/..") {
		return courier.Permanent(fmt.Errorf("%s: is the login directory, the root directory or one above; name what is in it", field))
	}
	return nil
}

// Execute removes the directory. If an earlier attempt may have done that, it
// is no error that there is none, and one that has come since stays.
func (r Rmdir) Execute(ctx context.Context, job *courier.Context, cfg RmdirConfig) (RmdirOutput, error) {
	if err := cfg.check(); err != nil {
		return RmdirOutput{}, err
	}
	out, err := remote.Rmdir(ctx, account(job, r.Connections, cfg.ConnectionID), remote.RmdirConfig(cfg))
	return RmdirOutput(out), err
}

// Validate logs in.
func (r Rmdir) Validate(ctx context.Context, job *courier.Context, cfg RmdirConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return account(job, r.Connections, cfg.ConnectionID).Validate(ctx, nil)
}
