package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
)

// List is the step "sftp.list". It lists a directory, or what a pattern finds
// below it.
type List struct {
	Connections Connections // must not be nil
}

// ListConfig is the configuration of [List].
type ListConfig struct {
	ConnectionID       string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath         string          `json:"remote_path" courier:"path" default:"." doc:"directory; taken from the login directory unless it begins with a slash"`
	Pattern            courier.Pattern `json:"pattern,omitempty" doc:"list only what matches, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob               *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	FollowLinks        bool            `json:"follow_links,omitempty" doc:"links to files in the directory count as files; by default they are left out, since who may make a link could so name files of others"`
	IncludeDirectories bool            `json:"include_directories,omitempty" doc:"list directories as entries of their own"`
	OnUnsafeName       string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about names that can't be used: skip or fail"`
	StableSeconds      float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"list only files whose size and time have not changed for so many seconds"`
}

// ListOutput is the output of [List].
type ListOutput struct {
	FileList    []File `json:"file_list" doc:"the files, in the order of their paths"`
	FileCount   int    `json:"file_count" doc:"length of file_list"`
	UnsafeCount int    `json:"unsafe_count" doc:"entries left out because their names can't be used"`
	// NotReadyCount is 0 unless stable_seconds is set.
	NotReadyCount int `json:"not_ready_count" doc:"files left out because of stable_seconds"`
}

var (
	_ courier.Step[ListConfig, ListOutput] = List{}
	_ courier.Validator[ListConfig]        = List{}
)

func (cfg ListConfig) search() remote.Search {
	return remote.Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Directories: cfg.IncludeDirectories, Unsafe: cfg.OnUnsafeName, Links: cfg.FollowLinks}
}

func (cfg ListConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().Check())
}

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg ListConfig) (ListOutput, error) {
	var out ListOutput
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, l.Connections, cfg.ConnectionID, func(s *session) error {
		ready := remote.Readiness{StableSeconds: cfg.StableSeconds}
		found, skipped, notReady, err := ready.Find(ctx, job, cfg.search(), lister{s}, cfg.RemotePath)
		out = ListOutput{asFiles(found), len(found), skipped, notReady}
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
	h, err := s.OpenDirectory(ctx, dir)
	if err == nil {
		s.CloseHandle(ctx, h)
	}
	return s.fault("list", dir, err)
}
