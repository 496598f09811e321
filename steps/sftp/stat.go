package sftp

import (
	"context"
	"fmt"
	"path"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Stat is the step "sftp.stat". It describes one file or directory, so that a
// flow.if can branch on the result. Links are followed.
type Stat struct {
	Connections Connections // must not be nil
}

// StatOutput is the output of [Stat].
type StatOutput struct {
	fileserver.StatOutput
	Mode string `json:"mode,omitempty" doc:"permissions in octal digits, such as 0640, if the server reports them"`
}

var (
	_ courier.Step[fileserver.StatConfig, StatOutput] = Stat{}
	_ courier.Validator[fileserver.StatConfig]        = Stat{}
)

// Execute describes the path. It changes nothing.
func (st Stat) Execute(ctx context.Context, job *courier.Context, cfg fileserver.StatConfig) (StatOutput, error) {
	var out StatOutput
	out.Path, out.Name = cfg.RemotePath, path.Base(cfg.RemotePath)
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return out, err
	}
	err := account(job, st.Connections, cfg.ConnectionID).Use(ctx, func(s remote.Server) error {
		info, err := s.Stat(ctx, cfg.RemotePath)
		if s.Missing(err) && cfg.IgnoreMissing {
			return nil
		}
		if err == nil {
			err = out.describe(info)
		}
		return s.Fault("look at", cfg.RemotePath, err)
	})
	return out, err
}

func (out *StatOutput) describe(info remote.Info) error {
	out.Exists, out.Modified, out.IsDirectory = true, info.Modified, info.IsDir()
	if info.HasMode {
		out.Mode = fmt.Sprintf("%04o", uint32(info.Mode))
	}
	if out.IsDirectory {
		return nil
	}
	size, err := info.FileSize()
	if err != nil {
		return courier.Permanent(err)
	}
	out.Size = size
	return nil
}

// Validate logs in. It does not check whether the path exists, since that is
// the result of Execute.
func (st Stat) Validate(ctx context.Context, job *courier.Context, cfg fileserver.StatConfig) error {
	return account(job, st.Connections, cfg.ConnectionID).ValidatePath(ctx, cfg.RemotePath)
}
