package courier

import (
	"context"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// A Lister lists directories for monitors: those of one kind of server, or of
// the machine. Engines know listers by name; see Options.Listers of package
// engine. Its methods may be called by several goroutines.
type Lister interface {
	// Check reports what is wrong with a target in itself, without a look at it,
	// as an error that names connection_id or path.
	Check(t MonitorTarget) error
	// List returns the files of a directory, or an error: never a part of them.
	// An error that matches [ErrLogin] says that the credentials are wrong. The
	// job stands for no execution: it has secrets, which are kept out of all that
	// is stored or logged, a log, and what [Keep] opens is closed after the call.
	List(ctx context.Context, job *Context, t MonitorTarget) (Listing, error)
	// Least is the shortest time between two listings of a directory.
	Least() time.Duration
}

// A Watcher is a [Lister] that can tell of changes before the next listing. That
// is a hint only: what counts is the listing.
type Watcher interface {
	Lister
	// Watch calls changed, in its own goroutine, when something may have changed
	// in the directory, until ctx ends. It returns ctx's error then, and any other
	// if it can't watch, or no longer.
	Watch(ctx context.Context, t MonitorTarget, changed func()) error
}

// ErrLogin is matched by the errors of listers whose credentials are refused.
// Repeating can't cure it, and may lock the account.
var ErrLogin = failure.ErrLogin

// LoginRefused marks err as one that matches [ErrLogin]; its text stays as it
// is. LoginRefused(nil) is nil.
func LoginRefused(err error) error { return failure.LoginRefused(err) }

// A MonitorTarget is a directory. Which form a path has, its lister says.
type MonitorTarget struct {
	Connection string // the id of a connection; empty for the machine itself
	Path       string
}

// A Listing is what a directory held.
type Listing struct {
	Files []ListedFile // in any order; regular files only
	// Refused is how many entries were left out because their names can't be
	// used, and Example says which and why, of one of them, fit to be shown.
	Refused int
	Example string
}

// A ListedFile is a file of a listing.
type ListedFile struct {
	Name     string    `json:"name"` // within its directory
	Path     string    `json:"path"` // for use in steps
	Size     int64     `json:"size"` // in bytes
	Modified time.Time `json:"modified,omitzero"`
}
