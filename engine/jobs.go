package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/store"
)

// Jobs are the definitions of jobs. Its methods may be called by several
// goroutines; so for the other handles, which are small values that belong to
// their engine and need not be kept.
type Jobs struct{ e *Engine }

// Jobs returns the definitions of jobs in the engine's store.
func (e *Engine) Jobs() Jobs { return Jobs{e} }

// DefineOptions are the settings of [Jobs.Define] and [Chains.Define]. The
// zero value is the default.
type DefineOptions struct {
	By courier.By // who defines it, and why
	// Base, if not nil, is the version that was edited, 0 for none. If the latest
	// version is another, nothing is saved, and the error is [courier.ErrConflict].
	// The comparison is part of the transaction that saves.
	Base *int
	// KeepNewer keeps a newer definition: if the definition equals an earlier
	// version, nothing is saved, and the result is the latest version, with
	// Superseded set. Set it in programs that define their jobs when they start, so
	// that in a rolling deployment the old program does not replace what the new one
	// has defined. Leave it out to go back to an earlier definition.
	KeepNewer bool
	// CheckQueue also warns of the queue of the job as [Engine.Check] does. It costs one read of the store, and is for people who edit jobs: when a
	// program defines its jobs, its own workers have not started yet. Chains have no queue.
	CheckQueue bool
}

// A DefinedJob is a version of a job in the store. Superseded and Warnings are set
// by [Jobs.Define] alone.
type DefinedJob struct {
	Job     courier.Job // as it is in the store, with its version
	SavedBy string      // who saved that version
	SavedAt time.Time   // when, by the store's clock
	// Superseded says that the job equals an earlier version, and that Job is a
	// newer one, which was left alone; see [DefineOptions].KeepNewer.
	Superseded bool
	// Warnings are what looks doubtful in the job that was given, each with what
	// to do.
	Warnings []courier.Problem
}

// A VersionFilter selects versions of a definition.
type VersionFilter struct {
	Before int // only those before this version; 0 means all
	Limit  int // 0 means 100, the most is 1000
}

// Define checks a job and saves it as a new version of its name. If it equals the
// latest version, that one is returned and nothing is saved. If the job can't run,
// the error is a *[courier.DefinitionError], which lists everything that is wrong.
// Doubtful places are returned as warnings, and written to Options.Log. A nil opt
// means the defaults.
func (h Jobs) Define(ctx context.Context, job courier.Job, opt *DefineOptions) (DefinedJob, error) {
	d, err := h.e.definitions.DefineJob(ctx, job, (*definitions.Options)(opt))
	return DefinedJob(d), err
}

// Get returns a version of a job as it was written; version 0 means the latest. Its
// step types need not be registered here, and the job need not be able to run, so
// that it can be read and corrected. If there is no such job, the error matches
// [courier.ErrNotFound] and suggests the nearest name.
func (h Jobs) Get(ctx context.Context, name string, version int) (courier.Job, error) {
	p, err := h.e.programs.Load(ctx, name, version)
	if err != nil {
		return courier.Job{}, err
	}
	return p.Definition(), nil
}

// List returns a page of the latest versions of jobs, in byte order of their names.
// The kind in the filter does not count.
func (h Jobs) List(ctx context.Context, f store.DefinitionFilter) ([]DefinedJob, error) {
	list, err := h.e.definitions.Jobs(ctx, f)
	return mapped(list, definedJob), err
}

// Names returns a page of the names of jobs, in byte order. The kind in the filter is not
// used.
func (h Jobs) Names(ctx context.Context, f store.DefinitionFilter) ([]string, error) {
	return h.e.definitions.JobNames(ctx, f)
}

// Versions returns a page of the versions of a job, the newest first. Those that
// retention has removed are left out. The error of a job that isn't there matches
// [courier.ErrNotFound].
func (h Jobs) Versions(ctx context.Context, name string, f VersionFilter) ([]DefinedJob, error) {
	list, err := h.e.definitions.JobVersions(ctx, name, definitions.VersionFilter(f))
	return mapped(list, definedJob), err
}

func definedJob(d definitions.Job) DefinedJob { return DefinedJob(d) }

// mapped returns what f makes of the elements of a list; nil for nil.
func mapped[A, B any](list []A, f func(A) B) []B {
	if list == nil {
		return nil
	}
	all := make([]B, len(list))
	for i := range list {
		all[i] = f(list[i])
	}
	return all
}
