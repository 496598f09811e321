package courier

import (
	"context"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// A Lister lists directories for monitors: on one kind of server, or on the machine. The
// families of steps implement it, so it is declared here and not in package monitor.
// Engines find listers by name; see Options.Listers of package engine. Its methods may be
// called by several goroutines.
type Lister interface {
	// Check returns an error if the directory can't be listed as it is given. It does not
	// connect. The error names connection_id or path.
	Check(d Directory) error
	// List returns all files of a directory, or an error. An error that matches
	// [ErrLogin] says that the credentials are wrong. The Context belongs to no
	// execution. It has a log, and secrets, which are removed from everything that is
	// stored or logged. Resources that [Keep] opens are closed after the call.
	List(ctx context.Context, job *Context, d Directory) (Listing, error)
	// Least returns the shortest time between two listings of a directory.
	Least() time.Duration
}

// A Connected is a [Lister] that can say whether a connection exists.
type Connected interface {
	Lister
	// CheckConnection returns nil if there is a connection called id. If there is none, the error
	// matches [ErrNotFound]. It does not connect.
	CheckConnection(ctx context.Context, id string) error
}

// A Watcher is a [Lister] that can report changes before the next listing is due. A
// report only causes an earlier listing; the listing decides what has changed.
type Watcher interface {
	Lister
	// Watch calls changed, from its own goroutine, whenever something may have changed in
	// the directory. It blocks until ctx ends, and then returns the error of ctx. If it
	// can't watch, or no longer can, it returns another error.
	Watch(ctx context.Context, d Directory, changed func()) error
}

// ErrLogin is matched by the error of a lister whose credentials are refused;
// [Errorf] makes such an error. Trying again does not help, and may lock the account.
var ErrLogin = failure.ErrLogin

// A Directory is a directory of the machine or of a server. Its [Lister] defines the
// form of the path.
type Directory struct {
	Connection string // the id of a connection; empty for the machine itself
	Path       string
}

// A Listing is the content of a directory.
type Listing struct {
	Files []ListedFile // in any order; regular files only
	// Refused is how many entries were left out because their names can't be used.
	// Example names one of them, and says why, as text for people.
	Refused int
	Example string
}

// A ListedFile is a file of a listing, as every [Lister] returns it. The entries that step
// types return have these and further fields.
type ListedFile struct {
	Name     string    `json:"name"` // within its directory
	Path     string    `json:"path"` // for the configuration of steps
	Size     int64     `json:"size"` // in bytes
	Modified time.Time `json:"modified,omitzero"`
}
