package sftp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
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

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg ListConfig) (ListOutput, error) {
	found, skipped, notReady, err := remote.List(ctx, account(job, l.Connections, cfg.ConnectionID), cfg.RemotePath, cfg.search(), cfg.StableSeconds)
	return ListOutput{asFiles(found), len(found), skipped, notReady}, err
}

// Validate logs in and checks that the directory is there.
func (l List) Validate(ctx context.Context, job *courier.Context, cfg ListConfig) error {
	return remote.ValidateList(ctx, account(job, l.Connections, cfg.ConnectionID), cfg.RemotePath, cfg.search())
}

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
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

// checkPath reports a remote path that no server can understand.
func checkPath(field, p string) error {
	if strings.ContainsRune(p, 0) {
		return courier.Permanent(fmt.Errorf("%s: %s contains a NUL character", field, safename.Quote(p)))
	}
	return nil
}
