// Package inside is what the steps of this module use of a courier.Context beyond its
// exported methods. Package courier puts it into the context.Context with which it calls a
// step.
package inside

import (
	"context"
	"encoding/json"
	"os"
)

// A Context is the inside of a courier.Context. Its methods may be called by several
// goroutines.
type Context interface {
	// Root returns the root that confines the path name, and the path below it.
	Root(name string) (root *os.Root, rel string, err error)
	// Attempt returns the number of the step's attempt.
	Attempt() int
	// StartNumber returns a number that no other start of the step has in this iteration and
	// attempt of the execution: the attempt. In a loop that was started again, the attempt is
	// added to the highest number of an earlier start.
	StartNumber() int
	// Snapshot returns all values in scope by key. The caller must not change the values.
	Snapshot() map[string]any

	// StepDir returns the directory that the attempts of the step share.
	StepDir() string
	// NoteDir returns the directory for notes about effects that can't be had twice, such as a
	// file that the step removes from its place. It is relative to the workspace, with slashes.
	// Unlike StepDir it is the same in all attempts of the execution, so that a step can read
	// what it did in an earlier attempt. If an operator starts a loop again, its steps get new
	// directories, which later attempts of the execution use too. Without a workspace there is
	// no such directory, and NoteDir returns "".
	NoteDir() string

	// SideName returns the name that a file called base has while this attempt writes it: base,
	// ".courier-tmp", and a suffix unique to execution, step, iteration and start, which ends
	// with StartNumber. Names that would be too long are shortened and hashed.
	SideName(base string) string
	// IsSideName reports whether the file called base is a side file of an attempt of the step
	// for the final name final. This attempt counts too.
	IsSideName(final, base string) bool

	// Hold marks files that may be the only copies of their content, because the step removes
	// the source. If the job begins again, Courier keeps them although it empties the workspace.
	// Hold is durable when it returns, so a step calls it before it removes the source. Names
	// outside of the workspace are ignored, since Courier does not remove those files. A step
	// that replaces files by other means than courier.Files calls SetAside first.
	Hold(names ...string) error
	// HoldAll is Hold for all files in the workspace, now and later. A step calls it before it
	// removes for good something that other steps may have read: the files that they made of it
	// may be all that is left.
	HoldAll() error
	// HoldMoved is for a file called from that is about to be moved to the name to: it calls
	// SetAside for the file at to, and Hold for to if from lies outside of the workspace or was
	// held.
	HoldMoved(from, to string) error
	// HoldDeleted calls HoldAll if the file called name, which is about to be deleted, lies
	// outside of the workspace or was held.
	HoldDeleted(name string) error
	// Held reports whether Hold was called for the file called name, by this step or an earlier
	// one.
	Held(name string) (bool, error)
	// SetAside is called before the file called name is replaced by the one called by.
	//
	// It keeps the file if that may be the only copy of its content, and no step has delivered
	// it: the file was held when the execution stopped at a step, which failed, was skipped, or
	// had not begun; that step has not completed since; and the other file has other content.
	// The step goes on as if nothing had been there, and the execution keeps both: when it ends,
	// the first one is among its kept files. Names outside of the workspace are ignored.
	//
	// Without SetAside, an execution that goes on with the next file under the same name would
	// destroy the one that it could not deliver.
	SetAside(name, by string) error

	// Produced notes down that the step has made the thing that subject names, such as a file on
	// a server. Files that are reported as written count as produced.
	Produced(subject string) error
	// WasProduced reports whether a step in this attempt of the execution has called Produced
	// with subject. It is for a step that has noted in an earlier attempt of the execution that
	// it has taken something away, and now finds something in its place. If the job has made it
	// again, the step takes it away again; otherwise it comes from elsewhere, and the step leaves
	// it. A subject is a path, perhaps after a prefix. A directory counts as produced if anything
	// in it was, because steps make missing directories. In the first attempt of an execution the
	// result is always false.
	WasProduced(subject string) (bool, error)
	// Remade is WasProduced for the file called name. A file in the workspace was always made in
	// this attempt of the execution, unless it was held, because the workspace is empty when the
	// attempt begins.
	Remade(name string) (bool, error)

	// Unlink removes the file or empty directory called name and reports that, whatever an
	// earlier attempt has done. If it does not exist, that is no error.
	Unlink(name string) error
	// Removed reports that the step has removed the file called name, so that a resume does not
	// expect it.
	Removed(name string) error
}

// A Report is a report that a step makes to a courier.Context, or that the Context makes by
// itself. One of the things in it is set. P, F and E are the courier.Progress, courier.File
// and courier.StepEvent of package courier. It can be sent to another process as JSON.
type Report[P, F, E any] struct {
	Progress *P              `json:"progress,omitempty"`
	File     *F              `json:"file,omitempty"`
	Event    *E              `json:"event,omitempty"`
	Cursor   json.RawMessage `json:"cursor,omitempty"` // of SaveCursor; empty if it was removed
	Saved    bool            `json:"saved,omitempty"`  // SaveCursor was called
	// Secret is the name of one of AddSecret, and Value the secret.
	Secret string `json:"secret,omitempty"`
	Value  []byte `json:"value,omitempty"`
	// Workspace says that the step uses the workspace.
	Workspace bool `json:"workspace,omitempty"`
}

type key struct{}

// With returns a context with the inside of the courier.Context of a call.
func With(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the inside that a context has; nil if it has none.
func From(ctx context.Context) Context {
	c, _ := ctx.Value(key{}).(Context)
	return c
}
