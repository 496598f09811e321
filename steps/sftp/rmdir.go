package sftp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/steps/fileserver"
)

// Rmdir is the step "sftp.rmdir". It removes an empty directory or, if
// recursive is set, one with all its content. Links are removed, and never
// followed.
//
// A retry does not remove a directory that was made after an earlier attempt
// had completed the removal.
type Rmdir struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.RmdirConfig, fileserver.RmdirOutput] = Rmdir{}
	_ courier.Validator[fileserver.RmdirConfig]                    = Rmdir{}
)

// checkDirectory refuses paths that can only be a mistake.
func checkDirectory(p string) error {
	err := checkPath("remote_path", p)
	if dir := remote.TrimSlashes(p); dir == "/" || slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool { return part == "." || part == ".." }) {
		err = errors.Join(err, fmt.Errorf("remote_path: %s is not removed; name one directory, with neither \".\" nor \"..\" in its path", safename.Quote(p)))
	}
	return courier.Permanent(err)
}

// Execute removes the directory.
func (r Rmdir) Execute(ctx context.Context, job *courier.Context, cfg fileserver.RmdirConfig) (fileserver.RmdirOutput, error) {
	if err := checkDirectory(cfg.RemotePath); err != nil {
		return fileserver.RmdirOutput{}, err
	}
	return remote.Rmdir(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in and checks that the path is a directory.
func (r Rmdir) Validate(ctx context.Context, job *courier.Context, cfg fileserver.RmdirConfig) error {
	if !job.Unresolved("remote_path") {
		if err := checkDirectory(cfg.RemotePath); err != nil {
			return err
		}
	}
	return remote.ValidateRmdir(ctx, account(job, r.Connections, cfg.ConnectionID), cfg)
}
