package ftp

import (
	"context"
	"path"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// List is the step "ftp.list". It lists a directory, or the matches of a
// pattern below it.
type List struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.ListConfig, fileserver.ListOutput] = List{}
	_ courier.Validator[fileserver.ListConfig]                   = List{}
)

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg fileserver.ListConfig) (fileserver.ListOutput, error) {
	return remote.List(ctx, account(job, l.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in and checks that the directory can be listed.
func (l List) Validate(ctx context.Context, job *courier.Context, cfg fileserver.ListConfig) error {
	return remote.ValidateList(ctx, account(job, l.Connections, cfg.ConnectionID), cfg)
}

// checkPath reports an error for a remote path that cannot be sent.
func checkPath(field, p string) error { return failure.Permanent(ftpclient.CheckArgument(field, p)) }

// Stat is the step "ftp.stat". It describes one path.
type Stat struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.StatConfig, fileserver.StatOutput] = Stat{}
	_ courier.Validator[fileserver.StatConfig]                   = Stat{}
)

// Execute asks for the path. It changes nothing.
func (st Stat) Execute(ctx context.Context, job *courier.Context, cfg fileserver.StatConfig) (fileserver.StatOutput, error) {
	out := fileserver.StatOutput{Path: cfg.RemotePath, Name: path.Base(cfg.RemotePath)}
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return out, err
	}
	err := account(job, st.Connections, cfg.ConnectionID).Use(ctx, func(s remote.Server) error {
		info, err := s.Stat(ctx, cfg.RemotePath)
		if s.Missing(err) && cfg.IgnoreMissing {
			return nil
		}
		if err != nil {
			return s.Fault("stat", cfg.RemotePath, err)
		}
		out.Exists, out.IsDirectory, out.Size, out.Modified = true, info.IsDir(), max(0, info.Size), info.Modified
		if out.IsDirectory {
			out.Size = 0 // whatever the server means by it
		}
		return nil
	})
	return out, err
}

// Validate logs in.
func (st Stat) Validate(ctx context.Context, job *courier.Context, cfg fileserver.StatConfig) error {
	return account(job, st.Connections, cfg.ConnectionID).ValidatePath(ctx, cfg.RemotePath)
}
