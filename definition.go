package courier

import "time"

// DefineOptions are the settings with which a definition of a job or a chain is saved. The
// zero value is the default.
type DefineOptions struct {
	By By // who defines it, and why
	// Base, if not nil, is the version that was edited, 0 for none. If the latest
	// version is another, nothing is saved, and the error is [ErrConflict]. The
	// comparison is part of the transaction that saves.
	Base *int
	// KeepNewer keeps a newer definition: if the definition equals an earlier
	// version, nothing is saved, and the result is the latest version, with
	// Superseded set. Set it in programs that define their jobs when they start, so
	// that in a rolling deployment the old program does not replace what the new one
	// has defined. Leave it out to go back to an earlier definition.
	KeepNewer bool
	// CheckQueue also warns of a queue of the job that no present worker serves. It costs
	// one read of the store, and is for people who edit jobs: when a program defines its
	// jobs, its own workers have not started yet. Chains have no queue.
	CheckQueue bool
}

// A DefinedJob is a version of a job in the store. Superseded and Warnings are set only
// when it was defined, not when it was read.
type DefinedJob struct {
	Job     Job       // as it is in the store, with its version
	SavedBy string    // who saved that version
	SavedAt time.Time // when, by the store's clock
	// Superseded says that the job equals an earlier version, and that Job is a
	// newer one, which was left alone; see [DefineOptions].KeepNewer.
	Superseded bool
	// Warnings are what looks doubtful in the job that was given, each with what
	// to do.
	Warnings []Problem
}
