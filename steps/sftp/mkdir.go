package sftp

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
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
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return MkdirOutput{}, err
	}
	dir := trimSlashes(cfg.RemotePath)
	err := use(ctx, job, m.Connections, cfg.ConnectionID, func(s *session) error {
		return s.fault("make directory", dir, s.makeDirectories(ctx, dir))
	})
	if err == nil {
		err = remote.Produced(job, "sftp", cfg.ConnectionID, dir)
	}
	if err != nil {
		return MkdirOutput{}, err
	}
	return MkdirOutput{CreatedDirectory: dir}, nil
}

// trimSlashes removes slashes at the end that mean nothing.
func trimSlashes(p string) string {
	if t := strings.TrimRight(p, "/"); t != "" || p == "" {
		return t
	}
	return "/"
}

// makeDirectories makes dir and what is missing above it.
func (s *session) makeDirectories(ctx context.Context, dir string) error {
	var missing []string // the lowest first
	for d := dir; ; {
		a, err := s.Stat(ctx, d)
		if err == nil {
			if !a.IsDir() && a.Mode&sftpclient.ModeType != 0 {
				return courier.Permanent(errors.New(notDirectory(d, dir)))
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, d)
		above, _ := remote.Split(d)
		if above = trimSlashes(above); above == "." || above == "/" || above == d {
			break
		}
		d = above
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := s.makeDirectory(ctx, missing[i]); err != nil {
			return err
		}
	}
	return nil
}

func notDirectory(what, wanted string) string {
	if what == wanted {
		return "is there, but is not a directory"
	}
	return "has a file above it where a directory should be"
}

// makeDirectory makes one directory. Somebody else may do so at the same time.
func (s *session) makeDirectory(ctx context.Context, dir string) error {
	err := s.Mkdir(ctx, dir)
	if !sftpclient.IsStatus(err) {
		return err
	}
	if a, e := s.Stat(ctx, dir); e == nil && (a.IsDir() || a.Mode&sftpclient.ModeType == 0) {
		return nil
	} else if !sftpclient.IsStatus(e) && e != nil {
		return e
	}
	return err
}

// Validate logs in and checks that no file is in the way.
func (m Mkdir) Validate(ctx context.Context, job *courier.Context, cfg MkdirConfig) error {
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return err
	}
	return test(ctx, job, m.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") {
			return nil
		}
		a, err := s.Stat(ctx, cfg.RemotePath)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && !a.IsDir() && a.Mode&sftpclient.ModeType != 0:
			err = courier.Permanent(errors.New("is there, but is not a directory"))
		}
		return s.fault("make directory", cfg.RemotePath, err)
	})
}
