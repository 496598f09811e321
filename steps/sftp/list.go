package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
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
	StableSeconds      int    `json:"stable_seconds,omitempty" doc:"list only files whose size and time have not changed for so many seconds"`
}

// ListOutput is the output of [List].
type ListOutput struct {
	FileList     []File `json:"file_list" doc:"the files, in the order of their names"`
	FileCount    int    `json:"file_count" doc:"length of file_list"`
	SkippedCount int    `json:"skipped_count" doc:"entries left out because their names can't be used"`
	// NotReadyCount is 0 unless stable_seconds is set.
	NotReadyCount int `json:"not_ready_count" doc:"files left out because of stable_seconds"`
}

var (
	_ courier.Step[ListConfig, ListOutput] = List{}
	_ courier.Validator[ListConfig]        = List{}
)

func (cfg ListConfig) search() search {
	return search{cfg.Pattern, cfg.IncludeDirectories, cfg.OnUnsafeName}
}

func (cfg ListConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().check(), remote.CheckStable(cfg.StableSeconds))
}

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg ListConfig) (ListOutput, error) {
	var out ListOutput
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, l.Connections, cfg.ConnectionID, func(s *session) error {
		files, skipped, err := s.files(ctx, job, cfg.RemotePath, cfg.search())
		if err != nil {
			return err
		}
		ready := files
		if cfg.StableSeconds > 0 && len(files) > 0 {
			if err := remote.WaitStable(ctx, job, cfg.StableSeconds, cfg.RemotePath); err != nil {
				return err
			}
			if files, skipped, err = s.files(ctx, job, cfg.RemotePath, cfg.search()); err != nil {
				return err
			}
			ready = unchangedFiles(ready, files)
		}
		out = ListOutput{ready, len(ready), skipped, len(files) - len(ready)}
		return nil
	})
	return out, err
}

// unchangedFiles returns those files, of two listings, that are in both with
// the same size and time. Directories need only be in both.
func unchangedFiles(before, after []File) []File {
	old := make(map[string]File, len(before))
	for _, f := range before {
		old[f.Name] = f
	}
	same := []File{}
	for _, f := range after {
		o, ok := old[f.Name]
		if ok && o.IsDirectory == f.IsDirectory && (f.IsDirectory || o.Size == f.Size && o.Modified.Equal(f.Modified)) {
			same = append(same, f)
		}
	}
	return same
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
