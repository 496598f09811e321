package sftp

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Stat is the step "sftp.stat". It looks at one file or directory, so that a
// flow.if can decide what to do about it. Links are followed.
type Stat struct {
	Connections Connections // must not be nil
}

// StatConfig is the configuration of [Stat].
type StatConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the file or directory; taken from the login directory unless it begins with a slash"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"that there is nothing is no error; see exists"`
}

// StatOutput is the output of [Stat].
type StatOutput struct {
	Exists      bool      `json:"exists" doc:"whether there is a file or directory"`
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, as configured"`
	Size        int64     `json:"size" doc:"bytes of the file; 0 for a directory"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
	Mode        string    `json:"mode,omitempty" doc:"permissions in octal digits, such as 0640, if the server tells them"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

var (
	_ courier.Step[StatConfig, StatOutput] = Stat{}
	_ courier.Validator[StatConfig]        = Stat{}
)

// Execute looks. It changes nothing.
func (st Stat) Execute(ctx context.Context, job *courier.Context, cfg StatConfig) (StatOutput, error) {
	out := StatOutput{Path: cfg.RemotePath, Name: path.Base(cfg.RemotePath)}
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

// Validate logs in. Whether there is something is for Execute to find out.
func (st Stat) Validate(ctx context.Context, job *courier.Context, cfg StatConfig) error {
	return account(job, st.Connections, cfg.ConnectionID).ValidatePath(ctx, cfg.RemotePath)
}
