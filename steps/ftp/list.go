package ftp

import (
	"context"
	"path"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
)

// List is the step "ftp.list". It lists a directory, or what a pattern finds
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
	OnUnsafeName       string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
	StableSeconds      float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"list only files whose size and time have not changed for so many seconds"`
}

// ListOutput is the output of [List].
type ListOutput struct {
	FileList    []File `json:"file_list" doc:"the files, in the order of their paths"`
	FileCount   int    `json:"file_count" doc:"length of file_list"`
	UnsafeCount int    `json:"unsafe_count" doc:"entries left out because they can't be used or understood"`
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

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg ListConfig) (ListOutput, error) {
	found, skipped, notReady, err := remote.List(ctx, account(job, l.Connections, cfg.ConnectionID), cfg.RemotePath, cfg.search(), cfg.StableSeconds)
	return ListOutput{asFiles(found), len(found), skipped, notReady}, err
}

// Validate logs in and checks that the directory can be listed.
func (l List) Validate(ctx context.Context, job *courier.Context, cfg ListConfig) error {
	return remote.ValidateList(ctx, account(job, l.Connections, cfg.ConnectionID), cfg.RemotePath, cfg.search())
}

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it; without MLSD only to the minute or day, and in the server's time zone as if that were UTC"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

// asFiles gives entries the form in which they are put out.
func asFiles(entries []remote.Entry) []File {
	files := make([]File, len(entries))
	for i, e := range entries {
		files[i] = File{e.Name, e.Path, e.Size, e.Modified, e.IsDir}
	}
	return files
}

// checkPath reports a remote path that can't be sent.
func checkPath(field, p string) error { return failure.Permanent(ftpclient.CheckArgument(field, p)) }

// Stat is the step "ftp.stat". It looks at one path.
type Stat struct {
	Connections Connections // must not be nil
}

// StatConfig is the configuration of [Stat].
type StatConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"file or directory; taken from the login directory unless it begins with a slash"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"that there is nothing is no error; see exists"`
}

// StatOutput is the output of [Stat].
type StatOutput struct {
	Exists      bool      `json:"exists" doc:"whether there is something with that path"`
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, as configured"`
	Size        int64     `json:"size" doc:"bytes; 0 for a directory"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

var (
	_ courier.Step[StatConfig, StatOutput] = Stat{}
	_ courier.Validator[StatConfig]        = Stat{}
)

// Execute asks for the path. It changes nothing.
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
func (st Stat) Validate(ctx context.Context, job *courier.Context, cfg StatConfig) error {
	return account(job, st.Connections, cfg.ConnectionID).ValidatePath(ctx, cfg.RemotePath)
}
