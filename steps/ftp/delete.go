package ftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Delete is the step "ftp.delete". It deletes a file, or those files below a
// directory that match a pattern.
type Delete struct {
	Connections Connections // must not be nil
}

// DeleteConfig is the configuration of [Delete].
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, delete the files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob          *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"nothing to delete is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries of the directory that can't be used: skip or fail"`
}

// DeleteOutput is the output of [Delete].
type DeleteOutput remote.DeleteOutput

var (
	_ courier.Step[DeleteConfig, DeleteOutput] = Delete{}
	_ courier.Validator[DeleteConfig]          = Delete{}
)

// Execute deletes the files. What an earlier attempt has found and written down is
// deleted, unless another file has its name by now.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg DeleteConfig) (DeleteOutput, error) {
	out, err := remote.Delete(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DeleteConfig(cfg))
	return DeleteOutput(out), err
}

// Validate logs in.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg DeleteConfig) error {
	a := account(job, d.Connections, cfg.ConnectionID)
	if err := remote.DeleteConfig(cfg).Check(a); err != nil {
		return err
	}
	return a.Validate(ctx, nil)
}
