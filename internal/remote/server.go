package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/transfer"
)

// Times reports whether a value of preserve includes times.
func Times(preserve string) bool { return preserve == "times" || preserve == "all" }

// Modes reports whether a value of preserve includes modes.
func Modes(preserve string) bool { return preserve == "modes" || preserve == "all" }

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
	// the server has something else, and one that matches [ErrNoResume] that it refuses to
	// go on at w.From and has taken nothing.
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
var ErrNoResume = errors.New("the transfer can't continue where an earlier attempt stopped")

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
		return 0, errors.New("the server doesn't report its size, so whether it has arrived completely could not be checked")
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
