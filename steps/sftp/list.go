package sftp

import (
	"context"

	"github.com/courierhq/courier"
)

// List is the step "sftp.list". It lists one directory.
type List struct {
	Connections Connections // must not be nil
}

// ListConfig is the configuration of [List].
type ListConfig struct {
	ConnectionID       string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath         string `json:"remote_path" default:"." doc:"directory; taken from the login directory unless it begins with a slash"`
	Pattern            string `json:"pattern,omitempty" doc:"list only names that match, such as *.csv or {a,b}-*"`
	IncludeDirectories bool   `json:"include_directories,omitempty" doc:"list directories as entries of their own"`
	OnUnsafeName       string `json:"on_unsafe_name" default:"skip" doc:"what to do about names that can't be used: skip or fail"`
}

// ListOutput is the output of [List].
type ListOutput struct {
	FileList     []File `json:"file_list" doc:"the files, in the order of their names"`
	FileCount    int    `json:"file_count" doc:"length of file_list"`
	SkippedCount int    `json:"skipped_count" doc:"entries left out because their names can't be used"`
}

var (
	_ courier.Step[ListConfig, ListOutput] = List{}
	_ courier.Validator[ListConfig]        = List{}
)

func (cfg ListConfig) search() search {
	return search{cfg.Pattern, cfg.IncludeDirectories, cfg.OnUnsafeName}
}

func (cfg ListConfig) check() error {
	return permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().check())
}

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg ListConfig) (ListOutput, error) {
	var out ListOutput
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, l.Connections, cfg.ConnectionID, func(s *session) error {
		files, skipped, err := s.files(ctx, job, cfg.RemotePath, cfg.search())
		out = ListOutput{files, len(files), skipped}
		return err
	})
	return out, err
}

// Validate logs in and checks that the directory is there.
func (l List) Validate(ctx context.Context, job *courier.Context, cfg ListConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, l.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") {
			return nil
		}
		return s.checkDirectory(ctx, cfg.RemotePath)
	})
}

// checkDirectory reports why dir can't be listed.
func (s *session) checkDirectory(ctx context.Context, dir string) error {
	h, err := s.openDirectory(ctx, dir)
	if err == nil {
		s.closeHandle(ctx, h)
	}
	return s.fault("list", dir, err)
}
