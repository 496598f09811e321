package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/transfer"
)

// A Server is a login at a file server of some protocol. What the steps for all
// protocols do is written with it. Its methods return when ctx ends, with its cause.
// Whether they may be called by several goroutines, Traits says.
type Server interface {
	Looker
	Lister
	Changer
	Mover

	// Traits are what differs between protocols and servers.
	Traits() Traits
	// Refused reports whether err is the answer of the server, so that the
	// connection is in order.
	Refused(err error) bool
	// Missing reports whether err says that there is nothing, as far as the server
	// can be understood. An error that matches [fs.ErrNotExist] may mean that the
	// account may not look.
	Missing(err error) bool
	// Cause returns what the connection has ended with; nil while it lives.
	Cause() error
	// Again calls f with a new connection after the end of this one.
	Again(ctx context.Context, f func(Server) error) error
}

// Traits are what differs between servers.
type Traits struct {
	Replaces    bool   // Rename with replace puts a file in the place of another at once
	Overwrites  bool   // Rename may do so without being asked
	ComparesEnd bool   // Retrieve and ResumeAt compare the end of what is there before they go on
	OneLine     bool   // a name with control characters can't be sent
	Requests    int    // how many requests may be under way
	Addr        string // "host:port"

	Limits transfer.Limits // of what the server may cost
}

// A Looker tells about files and directories. An error for what doesn't exist
// matches [fs.ErrNotExist].
type Looker interface {
	// Stat follows links.
	Stat(ctx context.Context, path string) (Info, error)
	// Lstat doesn't, where the protocol can tell them.
	Lstat(ctx context.Context, path string) (Info, error)
	// CheckDirectory returns as a Fault why a directory can't be listed.
	CheckDirectory(ctx context.Context, dir string) error
	// CheckFile returns why a file can't be read, as far as that can be told without
	// reading it.
	CheckFile(ctx context.Context, path string) error
}

// A Changer changes files and directories as a whole.
type Changer interface {
	// Remove removes a file or a link.
	Remove(ctx context.Context, path string) error
	// Mkdir makes a directory in one that is there.
	Mkdir(ctx context.Context, path string) error
	// Rmdir removes an empty directory.
	Rmdir(ctx context.Context, path string) error
	// Rename renames. Replace is set only where Traits.Replaces is. Gone reports that
	// the server has been seen to have no file called from any more.
	Rename(ctx context.Context, from, to string, replace bool) (gone bool, err error)
	// Preserve gives a file the time and the mode of a local one, those that are
	// asked for.
	Preserve(ctx context.Context, path string, local fs.FileInfo, times, modes bool) error
}

// A Mover moves the content of files.
type Mover interface {
	// Retrieve writes a remote file to a local one. It fails with an error that
	// matches connerr.ErrChanged if the file is not what r.Before says, before,
	// during and after, and with [ErrNoResume] if it can't begin at r.From.
	Retrieve(ctx context.Context, r Retrieval) error
	// RetrieveSmall calls use with what a file is and its content, in as few round
	// trips as possible. It reports false, and has not called use, if the file has
	// more than limit bytes, or the server has no such way.
	RetrieveSmall(ctx context.Context, path string, limit int64, use func(before Info, content []byte)) (bool, error)
	// Store writes a remote file, and makes sure that the server has all of it, as
	// far as it lets itself be told. Acked is how many bytes the server has
	// confirmed, also with an error. One that matches [ErrOtherContent] says that
	// the server has something else.
	Store(ctx context.Context, w Storing) (acked int64, err error)
	// ResumeAt returns how much of what an earlier attempt has stored is right.
	ResumeAt(ctx context.Context, w Storing, acked int64) (int64, error)
	// Same reports whether a remote file has the content of a local one of size
	// bytes. It has not if the server refuses to send it.
	Same(ctx context.Context, path string, local io.ReaderAt, size int64, compared func(int64)) (bool, error)
}

// A Retrieval is what Retrieve does.
type Retrieval struct {
	Path     string
	Before   Info
	From     int64 // offset, up to which To has the content
	To       Destination
	Limit    *bandwidth.Limiter
	At       func(done int64) // told how far To has got
	Compared func(done int64) // told how far comparing has got
}

// A Storing is what Store does.
type Storing struct {
	Path    string
	Content io.ReaderAt
	From    int64 // offset, up to which the server has the content
	Size    int64 // of the whole content
	Limit   *bandwidth.Limiter
	Meter   *Meter // told how far the server has got; its While keeps the stall timeout from firing
}

// ErrNoResume is the error of a transfer that must begin at the beginning.
var ErrNoResume = errors.New("the transfer can't go on where an earlier attempt stopped")

// ErrOtherContent says that what the server has is not what was sent or received.
var ErrOtherContent = errors.New("the content differs when it is read again")

// An Info is what a server tells of a file or directory.
type Info struct {
	Size     int64     // bytes; -1 if it can't be used or is not told
	Unsized  error     // why Size is -1; nil means that it is not told
	Modified time.Time // in UTC; zero if it is not told
	Kind     Kind
	Mode     fs.FileMode // permissions, in the bits of Unix
	HasMode  bool        // Mode is told
}

// A Kind is what has a path.
type Kind uint8

// The kinds.
const (
	KindUnknown Kind = iota // the server doesn't tell; taken for what is asked for
	KindFile
	KindDirectory
	KindLink
	KindOther
)

// IsDir reports whether the server says that it is a directory.
func (i Info) IsDir() bool { return i.Kind == KindDirectory }

// MayBeDir reports whether it is a directory, or the server doesn't tell.
func (i Info) MayBeDir() bool { return i.Kind == KindDirectory || i.Kind == KindUnknown }

// MayBeFile reports whether it is a regular file, or the server doesn't tell.
func (i Info) MayBeFile() bool { return i.Kind == KindFile || i.Kind == KindUnknown }

// FileSize returns the size, or an error if there is none that can be used.
func (i Info) FileSize() (int64, error) {
	switch {
	case i.Unsized != nil:
		return 0, i.Unsized
	case i.Size < 0:
		return 0, errors.New("the server doesn't tell its size, so whether all of it has come could not be told")
	}
	return i.Size, nil
}

// Same reports whether two looks at a path, at different times, saw the same
// content, as far as size and time tell.
func (i Info) Same(other Info) bool {
	return i.Size == other.Size && i.Modified.Equal(other.Modified) && i.IsDir() == other.IsDir()
}

// Identity returns the identity of what has the path.
func (i Info) Identity() Identity { return Identity{i.Size, i.Modified.UTC(), i.Kind} }

// An Identity tells a remote file from another that has its name at another time,
// as far as size and time can.
type Identity struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Kind     Kind      `json:"kind"`
}

// An Account is the connection that a step names, for one execution of the step.
type Account struct {
	Job    *courier.Context
	Family string // of the step types, such as "sftp"; part of the notes' names
	ID     string // of the connection

	// Persists says that a lost connection is replaced in all of a step that resumes,
	// and not only for files of which a part is kept.
	Persists bool

	// CheckPath reports a path that the protocol can't send. Field is the field of the
	// configuration that has it.
	CheckPath func(field, path string) error
	// Use calls f with a login, which is opened if there is none. It ends with ctx.
	Use func(ctx context.Context, f func(Server) error) error
	// Each moves several files; see [Batch].
	Each func(ctx context.Context, b Batch) error
	// IsLost reports whether an error is the end of a connection, so that another may
	// do better.
	IsLost func(error) bool
	// Test says in the log what is known of the server, or why it can't be used.
	Test func(ctx context.Context, s Server) error
}

// A Batch is several files that are moved, some of them at a time.
type Batch struct {
	Sizes   []int64
	Storing bool // the files go to the server
	// Resumes reports whether file i goes on with another connection after the loss of
	// the first.
	Resumes func(i int) bool
	// Move moves file i. It is not called again for a file that it has moved.
	Move func(ctx context.Context, s Server, i int) error
}

// use is Use for a step that resumes, if that is set, what a lost connection has
// interrupted.
func (a Account) use(ctx context.Context, resumes bool, f func(Server) error) error {
	use := func() error { return a.Use(ctx, f) }
	if !resumes || !a.Persists {
		return use()
	}
	return Reconnecting(ctx, a.Job, a.ID, a.IsLost, use)
}

// produced notes down that the step has made a remote file or directory, and so what
// was missing above it, for steps of the same attempt of the execution that take it
// away, and have already taken away one of that name in a former attempt. It costs
// nothing in the first attempt of an execution.
func (a Account) produced(p string) error { return a.Job.Produced(a.subject(p)) }

// remade reports whether a step of this attempt of the execution has made the remote
// file or directory p. Anything else under the name has come from elsewhere.
func (a Account) remade(p string) (bool, error) { return a.Job.WasProduced(a.subject(p)) }

func (a Account) subject(p string) string { return a.Family + ":" + a.ID + ":" + path.Clean(p) }

// Validate connects, and calls f, if not nil, for further checks of a
// configuration. It is what an operator knows as "test the connection", and is
// done once for all steps of an execution, also if it fails.
func (a Account) Validate(ctx context.Context, f func(Server) error) error {
	if a.Job.Unresolved("connection_id") {
		return nil
	}
	return TestOnce(ctx, a.Job, a.Family+" test:"+a.ID, func(first bool) (passed bool, err error) {
		passed = !first
		err = a.Use(ctx, func(s Server) error {
			if first {
				if err := a.Test(ctx, s); err != nil {
					return err
				}
				passed = true
			}
			if f == nil {
				return nil
			}
			return f(s)
		})
		return passed, err
	})
}

// ValidatePath is Validate for a step that needs remote_path and nothing else.
func (a Account) ValidatePath(ctx context.Context, p string) error {
	if err := a.CheckPath("remote_path", p); err != nil {
		return err
	}
	return a.Validate(ctx, nil)
}

// removeGone removes a file. That it is gone is no error: whether it is, is asked,
// since a refusal alone may mean something else.
func removeGone(ctx context.Context, s Server, p string) error {
	err := s.Remove(ctx, p)
	if err == nil || !s.Refused(err) {
		return err
	}
	if _, e := s.Lstat(ctx, p); errors.Is(e, fs.ErrNotExist) {
		return nil
	} else if e != nil && !s.Refused(e) {
		return e
	}
	return err
}

// TrimSlashes removes slashes at the end that mean nothing.
func TrimSlashes(p string) string {
	for len(p) > 1 && p[len(p)-1] == '/' {
		p = p[:len(p)-1]
	}
	return p
}
