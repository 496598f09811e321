package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Delete is the step "sftp.delete". It deletes one file, or those files of a
// directory whose names match a pattern. Directories are never deleted, and
// links without what they lead to.
//
// What will be deleted is decided once, and noted down before anything
// happens. So a retry doesn't delete a file that has come since under the name
// of one that is deleted already, as far as its size and time tell.
type Delete struct {
	Connections Connections // must not be nil
}

// DeleteConfig is the configuration of [Delete].
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file to delete, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, delete the files whose names match, such as *.csv or {a,b}-*"`
	Glob          *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"nothing to delete is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about names in the directory that can't be used: skip or fail"`
}

// DeleteOutput is the output of [Delete].
type DeleteOutput remote.DeleteOutput

var (
	_ courier.Step[DeleteConfig, DeleteOutput] = Delete{}
	_ courier.Validator[DeleteConfig]          = Delete{}
)

// Execute deletes the files.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg DeleteConfig) (DeleteOutput, error) {
	out, err := remote.Delete(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DeleteConfig(cfg))
	return DeleteOutput(out), err
}

// Validate logs in and checks the path.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg DeleteConfig) error {
	return remote.ValidateDelete(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DeleteConfig(cfg))
}
