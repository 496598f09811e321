package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Jobs are the definitions of jobs in the engine's store. Jobs, [Executions] and [Limits]
// are handles of an engine: small values that need not be kept. Their methods may be called
// by several goroutines.
type Jobs struct{ e *Engine }

// Jobs returns the handle for the definitions of jobs in the engine's store.
func (e *Engine) Jobs() Jobs { return Jobs{e} }

// Define checks a job and saves it as a new version of its name. If it equals the latest
// version, Define returns that version and saves nothing. If the job can't run, the error
// is a *[courier.DefinitionError], which lists everything that is wrong. Doubtful places
// are returned as warnings, and written to Options.Log. A nil opt means the defaults.
func (h Jobs) Define(ctx context.Context, job courier.Job, opt *courier.DefineOptions) (courier.DefinedJob, error) {
	return h.e.definitions.DefineJob(ctx, job, opt)
}

// Get returns a version of a job as it was written; version 0 means the latest. It also
// returns a job that this engine can't run, for example because a step type is not
// registered, so that it can be corrected. If there is no such job, the error matches
// [courier.ErrNotFound] and suggests the nearest name.
func (h Jobs) Get(ctx context.Context, name string, version int) (courier.Job, error) {
	p, err := h.e.programs.Load(ctx, name, version)
	if err != nil {
		return courier.Job{}, err
	}
	return p.Definition(), nil
}

// List returns a page of the latest versions of jobs, in byte order of their names. The
// kind in the filter is not used.
func (h Jobs) List(ctx context.Context, f store.DefinitionFilter) ([]courier.DefinedJob, error) {
	return h.e.definitions.Jobs(ctx, f)
}

// Names returns a page of the names of jobs, in byte order. The kind in the filter is not
// used.
func (h Jobs) Names(ctx context.Context, f store.DefinitionFilter) ([]string, error) {
	return h.e.definitions.JobNames(ctx, f)
}

// Versions returns a page of the versions of a job, the newest first, without those that
// retention has removed. If there is no such job, the error matches
// [courier.ErrNotFound].
func (h Jobs) Versions(ctx context.Context, name string, f store.VersionFilter) ([]courier.DefinedJob, error) {
	return h.e.definitions.JobVersions(ctx, name, f)
}
