package courier

import "time"

// DefineOptions are the settings with which a definition of a job or a chain is saved. The
// zero value is the default.
type DefineOptions struct {
	By By // who defines it, and why
	// Base, if not nil, is the version that was edited; 0 means that there was
	// none. If it is not the latest version, nothing is saved, and the error
	// matches [ErrConflict]. The comparison is part of the transaction that
	// saves.
	Base *int
	// KeepNewer keeps a newer definition: if the definition equals an earlier
	// version, nothing is saved, and the result is the latest version, with
	// Superseded set. Set it in programs that define their jobs when they start, so
	// that in a rolling deployment the old program does not replace what the new one
	// has defined. Leave it false to go back to an earlier definition.
	KeepNewer bool
	// CheckQueue also adds a warning if no present worker serves the job's queue. It
	// costs one read of the store. It is for editors: when a program defines its jobs,
	// its own workers have not started yet. It has no effect on chains.
	CheckQueue bool
}

// A DefinedJob is a version of a job in the store. Superseded and Warnings are set only
// when it was defined, not when it was read.
type DefinedJob struct {
	Job     Job       // as it is in the store, with its version
	SavedBy string    // who saved that version
	SavedAt time.Time // when, by the store's clock
	// Superseded says that the definition equals an earlier version and that
	// nothing was saved: Job is the newer version. See
	// [DefineOptions].KeepNewer.
	Superseded bool
	// Warnings list the doubtful places of the given definition, each with what
	// to do.
	Warnings []Problem
}
