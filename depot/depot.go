// Package depot stores the input and output files of executions: the files that a client uploads
// with a request, and the results that it downloads later.
//
// A [Depot] stores files by key. [Dir] opens a depot in a directory, which may be on storage that
// several hosts share. A depot in an object store takes about a hundred lines with [Spool],
// [NewObject] and [Listing]; examples/object-depot is one. Package depottest tests the contract.
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
// workspace, depot.keep copies files of the workspace to the results of its execution. A step has
// access only to the files of its own execution.
//
// # Retention
//
// Started engines remove the files of ended executions by age and by size, according to the
// [Retention] given to [Register]. They never remove the files of an execution that is created,
// queued, running or paused. A program without a started engine can do the same with [Clean].
//
// Several stores may share a [Directory]: if its own store does not have an execution but another
// store may have it, retention leaves the files alone. Any other depot belongs to one store:
// files without an execution in that store are removed after a day.
//
// # A directory on the disk
//
// A file in a [Directory] has its description after the content, so that one rename publishes
// both. It is about 200 bytes longer than the content. Names on the disk are hashes of keys.
// Sizes are rounded up to blocks of 4 KiB; each file counts 512 bytes more, and the first file of
// an execution 8 KiB more. Every write reserves room in the file ledger, in portions of 0.1
// percent of the limit, at most 8 MiB, and locks the ledger meanwhile. A write fails if its
// process has waited 10 s for the lock. The ledger is recomputed if it cannot be read or if one
// of its writers has died. Each process holds a lock that shows whether it lives.
//
// The cleaner writes a removal mark before it removes the first file, and then checks the
// execution again. A step is already running when it checks for the mark. So a resumed execution
// keeps all its files, or gets an error that says that they are removed. A step that finds a mark
// waits 3 s, so that the cleaner can remove a mark that it no longer needs.
package depot

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Depot stores files by key. Its methods are safe for concurrent use, and for use by several
// processes if they share the storage.
//
// The error for a key or prefix that breaks the rules matches [courier.ErrInvalid], for a key
// without a file [courier.ErrNotFound], and for a write for which the depot has no room
// [ErrFull]. If the context ends, the error is its cause or wraps it.
type Depot interface {
	// Create begins to write the file of a key. The file is invisible until its Commit.
	// The context applies to the whole write: once it has ended, Write and Commit fail.
	Create(ctx context.Context, key string) (Pending, error)
	// Open opens the file of a key for reading. The reads return one committed file from
	// beginning to end, even if the file is replaced or removed meanwhile; a depot that
	// can't return the rest then returns an error. The context applies to all reads.
	Open(ctx context.Context, key string) (Object, error)
	// List returns the files of all keys with a prefix, sorted by key, without pending files. A
	// prefix is a whole key, or the beginning of keys up to a slash, which may be omitted:
	// "x/out" matches x/out/a and x/out/b/c, but not x/outer. The empty prefix matches all keys.
	// A prefix without files is not an error.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Remove removes the files of all keys with a prefix, as in List. The error for the empty
	// prefix matches [courier.ErrInvalid]. Missing files are not an error, so Remove can be
	// repeated after an error. Remove does not affect pending files: their Commit creates the
	// file again.
	Remove(ctx context.Context, prefix string) error
}

// A Pending is a file that is being written. One goroutine at a time may use it.
type Pending interface {
	// Write appends to the file. After an error the file can no longer be committed.
	io.Writer
	// Commit makes the file visible as a whole under its key, and durable before it returns. It
	// replaces an existing file. If it fails, the key has its earlier file or none, or in rare
	// cases, such as a lost response, the new one, but never a part. Nothing can be written
	// afterwards.
	Commit() (Info, error)
	// Close discards the written data, unless it was committed, and frees its resources. It must
	// always be called, and may be called again.
	Close() error
}

// A Reserver is a [Pending] that can reserve room before anything is written. It shows a caller
// that has the whole file whether the file fits.
type Reserver interface {
	// Reserve reserves room for a file of this size. Its error is the error that a Write of that
	// size would return, and has the same consequences.
	Reserve(size int64) error
}

// An Object is a file that is being read. One goroutine at a time may use it.
type Object interface {
	io.ReadSeekCloser
	// Info describes the file.
	Info() Info
}

// Info describes a committed file.
type Info struct {
	Key  string    `json:"key"`
	Size int64     `json:"size"` // in bytes
	Time time.Time `json:"time"` // when it was committed, in UTC, by the clock of the process that did it
	// SHA256 is the hash of the content in 64 lower-case hexadecimal digits. The depot has
	// computed it from the written data.
	SHA256 string `json:"sha256"`
	// Store is the id of the store whose execution has the file, if the [Directory] knew it when
	// the file was written. It is empty otherwise.
	Store string `json:"store,omitempty"`
}

// ErrFull is matched by the error of a write for which a depot has no room: its limit is reached,
// or the disk is full. No part of the file is kept. The HTTP API responds 507.
var ErrFull = errors.New("depot: full")
