// Package depot stores the input and output files of executions: the files that a client uploads
// with a request, and the results that it downloads later.
//
// A [Depot] is a store of files by key. [Dir] is one in a directory, which may be on
// storage that several hosts share. A depot in an object store takes about a hundred lines
// with [Spool], [NewObject] and [Listing] (examples/object-depot has one); package depottest has
// the contract as a test.
//
// # Keys
//
// There are three kinds of keys. For any other key a depot returns an error that matches
// [courier.ErrInvalid]; [CheckKey] has the rules.
//
//	<execution>/in/<name>     an input, put there before the execution is enqueued
//	<execution>/out/<name>    a result, put there by depot.keep
//	<execution>/removed       retention has removed the files of the execution
//
// The name of an input is one file name. The name of a result may have directories,
// separated by slashes.
//
// # Steps
//
// [Register] adds two step types. depot.fetch copies the inputs of its execution into the
// workspace, depot.keep copies files of the workspace to the results of its execution. A
// step reaches the files of its own execution only.
//
// # Retention
//
// Started engines remove the files of executions that have ended, by age and by size, as the
// [Retention] says that [Register] is given. They never remove the files of an execution that
// is created, queued, running or paused. A program without a started engine can do the same
// with [Clean].
//
// Several stores may share a [Directory]: retention leaves the files of executions alone that
// its own store does not know, if another store may. Any other depot belongs to one store:
// files of which the store has no execution are removed after a day.
//
// # A directory on the disk
//
// A file in a [Directory] has its description behind the content, so that both get their name in
// one rename; it is some 200 bytes longer than the content. Names on the disk are hashes of
// keys. Files count in blocks of 4 KiB, with 512 bytes each and 8 KiB for the first of an
// execution. Every write reserves room in the file ledger, which is locked meanwhile, once for
// each 0.1 percent of the limit, 8 MiB at most. A process waits 10 s for the lock, and then
// fails the write. The ledger is counted anew if it cannot be read or if one of its writers has
// died, which a lock for each process shows.
//
// The mark of a removal is written before the first file is removed, and then the cleaner looks
// at the execution again; a step is running already when it looks for the mark. So a resumed
// execution keeps all its files, or gets an error that says that they are gone. A step that
// finds a mark waits 3 s, in which the cleaner removes a mark that it no longer needs.
package depot

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Depot keeps files by key. Its methods may be called by any number of goroutines, and
// by several processes if the storage behind it is shared.
//
// Errors: a key or prefix that breaks the rules matches [courier.ErrInvalid], a key
// without a file [courier.ErrNotFound], and a write that the depot has no room for
// [ErrFull]. If the context ends, the error is its cause or wraps it.
type Depot interface {
	// Create begins to write the file of a key. The file is invisible until its Commit.
	// The context applies to the whole write: once it has ended, Write and Commit fail.
	Create(ctx context.Context, key string) (Pending, error)
	// Open opens the file of a key for reading. The reads return one committed file from
	// beginning to end, even if the file is replaced or removed meanwhile; a depot that
	// can't return the rest then returns an error. The context applies to all reads.
	Open(ctx context.Context, key string) (Object, error)
	// List returns the files of all keys with a prefix, sorted by key, without
	// pending files. A prefix is a whole key, or the beginning of keys up to a
	// slash, which may be left out: "x/out" stands for x/out/a and x/out/b/c, and not for
	// x/outer. Empty stands for all. A prefix without files gives no error.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Remove removes the files of all keys with a prefix, as List has it; the empty prefix
	// matches [courier.ErrInvalid]. Missing files are not an error, so Remove can be
	// repeated after an error. Remove does not affect pending files: their Commit creates
	// the file again.
	Remove(ctx context.Context, prefix string) error
}

// A Pending is a file that is being written. One goroutine at a time may use it.
type Pending interface {
	// Write appends to the file. After an error the file can't be committed any more.
	io.Writer
	// Commit makes the file visible as a whole under its key, and durable before it
	// returns. It replaces a file that was there. If it fails, the key has its earlier file
	// or none, or in rare cases, such as a lost answer, the new one; never a part. Nothing
	// can be written afterwards.
	Commit() (Info, error)
	// Close gives up what was written, unless it was committed, and frees what it took. It
	// must be called in any case, and may be called again.
	Close() error
}

// A Reserver is a [Pending] that can make room before anything is written. Who knows the size
// of a file, and has all of it, learns so whether it fits.
type Reserver interface {
	// Reserve makes room for a file of this size. Its error is that of a Write of as much,
	// and has the same consequences.
	Reserve(size int64) error
}

// An Object is a file that is being read. One goroutine at a time may use it.
type Object interface {
	io.ReadSeekCloser
	// Info describes the file that is being read.
	Info() Info
}

// Info describes a committed file.
type Info struct {
	Key  string    `json:"key"`
	Size int64     `json:"size"` // in bytes
	Time time.Time `json:"time"` // when it was committed, in UTC, by the clock of the process that did it
	// SHA256 is the hash of the content in 64 hexadecimal digits, in small letters. The
	// depot has computed it from what was written.
	SHA256 string `json:"sha256"`
	// Store is the id of the store whose execution the file is kept for, as far as a
	// [Directory] knew it; empty otherwise.
	Store string `json:"store,omitempty"`
}

// ErrFull is matched by the error of a write for which a depot has no room: its limit is
// reached, or the disk is full. No part of the file is kept. The HTTP API answers 507.
var ErrFull = errors.New("depot: full")
