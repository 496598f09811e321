package ftp

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Mkdir is the step "ftp.mkdir". It makes a directory and its parent
// directories.
type Mkdir struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.MkdirConfig, fileserver.MkdirOutput] = Mkdir{}
	_ courier.Validator[fileserver.MkdirConfig]                    = Mkdir{}
)

// Execute makes the directory.
func (m Mkdir) Execute(ctx context.Context, job *courier.Context, cfg fileserver.MkdirConfig) (fileserver.MkdirOutput, error) {
	return fileserver.MkdirOutput{CreatedDirectory: cfg.RemotePath}, remote.Mkdir(ctx, account(job, m.Connections, cfg.ConnectionID), path.Clean(cfg.RemotePath))
}

// Validate logs in.
func (m Mkdir) Validate(ctx context.Context, job *courier.Context, cfg fileserver.MkdirConfig) error {
	return account(job, m.Connections, cfg.ConnectionID).ValidatePath(ctx, cfg.RemotePath)
}

// Rmdir is the step "ftp.rmdir". It removes a directory.
type Rmdir struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.RmdirConfig, fileserver.RmdirOutput] = Rmdir{}
	_ courier.Validator[fileserver.RmdirConfig]                    = Rmdir{}
)

func checkDirectory(p string) error {
	return connfile.Permanent(checkPath("remote_path", p), checkTarget("remote_path", p))
}

// checkTarget refuses paths that can only be a mistake.
func checkTarget(field, p string) error {
	if clean := path.Clean(p); clean == "." || clean == "/" || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasSuffix(clean, "/..") {
		return courier.Permanent(fmt.Errorf("%s: is the login directory, the root directory or one above; name what is in it", field))
	}
	return nil
}

// Execute removes the directory. If an earlier attempt may have removed it, a
// missing directory is not an error, and a directory made since then stays.
func (r Rmdir) Execute(ctx context.Context, job *courier.Context, cfg fileserver.RmdirConfig) (fileserver.RmdirOutput, error) {
	if err := checkDirectory(cfg.RemotePath); err != nil {
		return fileserver.RmdirOutput{}, err
	}
	return remote.Rmdir(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in.
func (r Rmdir) Validate(ctx context.Context, job *courier.Context, cfg fileserver.RmdirConfig) error {
	if err := checkDirectory(cfg.RemotePath); err != nil {
		return err
	}
	return account(job, r.Connections, cfg.ConnectionID).Validate(ctx, nil)
}
