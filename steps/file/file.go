// Package file has the steps that work on local files: file.copy, file.move,
// file.delete, file.list, file.mkdir and file.wait; file.zip, file.unzip,
// file.tar, file.untar, file.gzip, file.gunzip, file.zstd and file.unzstd;
// file.hash, file.verify, file.split and file.join.
//
// All of them reach files through [courier.Context] only: below the workspace
// and the directories that the host allowed, and never through a link that
// leads out of these. Pipes, devices and sockets are refused.
//
// # Paths and patterns
//
// A path is relative to the workspace, or absolute below an allowed directory. Where a step also
// accepts a pattern, a path with * or ? is a pattern, unless a file has exactly that name. The
// field glob overrides this in either direction. In a pattern * and ? stand for characters within
// a name, ** for directories at any depth, [a-z] for a character and {a,b} for alternatives.
// Patterns find regular files; they do not find the temporary files of transfers in progress.
//
// A target that is an existing directory, or ends in a slash, means a file in that directory with
// the source's name. A file found by a pattern keeps its path below the fixed part of the
// pattern: in/*/*.csv puts in/may/a.csv into the target as may/a.csv.
//
// # Repetition
//
// Each step can be killed at any point and executed again, and its effect still appears once. If
// the effect of a step, such as a missing file, looks the same as a change by somebody else, the
// step keeps a journal in the workspace. In a context without a workspace the journal lasts only
// as long as the context.
package file

import (
	"context"
	"path/filepath"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/transfer"
)

// Options are what the steps need from the host application. The zero value is
// the default.
type Options struct {
	Limits Limits
}

// Limits bound what a step may do, so that a hostile archive or a slip in a definition has
// bounded consequences. A field that is not positive means its default, unless its comment says
// otherwise.
type Limits struct {
	// MaxFiles is the maximum number of files and directories in an archive, including
	// directories that are only part of a name. It is also the maximum number of parts of a split
	// file. The default is 10,000.
	MaxFiles      int
	MaxBytes      int64 // unpacked size of an archive; 10 GiB
	MaxEntryBytes int64 // size of one entry or file when it is unpacked or joined; 10 GiB
	// MaxRatio is the maximum ratio of the unpacked to the packed size, for an entry and for an
	// archive, beyond the first MiB. The default is 200.
	MaxRatio   int
	MaxDeletes int // files and directories that one file.delete removes; 10,000
	MaxMatches int // files that a pattern or a listing may find, or a manifest name; 100,000
	// MaxPathBytes is the maximum total length of all paths that a pattern or a listing finds, a
	// manifest names, an archive holds with its directories, or one file.delete removes. The
	// default is 64 MiB.
	MaxPathBytes int
	// KeepFree is the number of bytes of the disk that stay free while files are unpacked,
	// copied, split or joined. The default is 16 MiB; below 0 means none. The free space is
	// checked after every 16 MiB.
	KeepFree int64
}

// guard returns a guard of the disk of dst, and a context that ends with the reason when too
// little space is free. End must be called.
func (l Limits) guard(ctx context.Context, dst place) (context.Context, *transfer.Guard) {
	disk, g := transfer.Space(l.KeepFree, "KeepFree in file.Options").Guard(ctx)
	g.Watch(dst.root, filepath.Dir(dst.rel))
	return watched{disk, ctx}, g
}

// watched is a context that also calls Err of its parent: that call may end the context.
type watched struct {
	context.Context
	parent context.Context
}

// Err implements context.Context.
func (w watched) Err() error {
	w.parent.Err()
	return w.Context.Err()
}

// withDefaults returns l with a value in every field.
func (l Limits) withDefaults() Limits {
	l.MaxFiles = orDefault(l.MaxFiles, 10_000)
	l.MaxBytes = orDefault(l.MaxBytes, 10<<30)
	l.MaxEntryBytes = orDefault(l.MaxEntryBytes, 10<<30)
	l.MaxRatio = orDefault(l.MaxRatio, 200)
	l.MaxDeletes = orDefault(l.MaxDeletes, 10_000)
	l.MaxMatches = orDefault(l.MaxMatches, 100_000)
	l.MaxPathBytes = orDefault(l.MaxPathBytes, 64<<20)
	return l
}

// archive returns the limits for an archive.
func (l Limits) archive() archive.Limits {
	return archive.Limits{
		MaxFiles: l.MaxFiles, MaxBytes: l.MaxBytes, MaxEntryBytes: l.MaxEntryBytes, MaxRatio: l.MaxRatio, MaxPathBytes: l.MaxPathBytes,
		SetBy: "file.Options",
	}
}

func orDefault[T int | int64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Register adds all steps of this package to r. A nil opt means the defaults.
//
// The steps that move bytes have no timeout by default. They end when they make no progress for
// 60 seconds. file.wait has neither limit; it has its own timeout.
func Register(r *courier.Registry, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	none, stall := time.Duration(0), time.Minute
	plain := func(verb, doc string) *courier.TypeOptions {
		r := repetitions[verb]
		return &courier.TypeOptions{Doc: doc, RepeatDoc: r.repeat, CleanupDoc: r.cleanup}
	}
	bytes := func(verb, doc string, aliases ...string) *courier.TypeOptions {
		o := plain(verb, doc)
		o.Timeout, o.Stall, o.Aliases = &none, &stall, aliases
		return o
	}
	waiting := func(verb, doc string) *courier.TypeOptions {
		o := plain(verb, doc)
		o.Timeout = &none
		return o
	}
	courier.Register(r, "file.copy", Copy{Limits: opt.Limits},
		bytes("copy", "Copies a file, or the files that a pattern finds into a directory."))
	courier.Register(r, "file.move", Move{Limits: opt.Limits},
		bytes("move", "Moves or renames a file, or moves the files that a pattern finds into a directory.", "file.rename"))
	courier.Register(r, "file.delete", Delete{Limits: opt.Limits},
		plain("delete", "Deletes a file, the files that a pattern finds, or a directory. The attempt is recorded with 0 bytes."))
	courier.Register(r, "file.list", List{Limits: opt.Limits},
		plain("list", "Lists the files of a directory."))
	courier.Register(r, "file.zip", Zip{Limits: opt.Limits},
		bytes("zip", "Packs files into a zip archive."))
	courier.Register(r, "file.unzip", Unzip{Limits: opt.Limits},
		bytes("unzip", "Unpacks a zip archive into a directory of its own."))
	courier.Register(r, "file.gzip", Gzip{},
		bytes("gzip", "Packs a file in the gzip format."))
	courier.Register(r, "file.gunzip", Gunzip{Limits: opt.Limits},
		bytes("gunzip", "Unpacks a file in the gzip format."))
	courier.Register(r, "file.zstd", Zstd{},
		bytes("zstd", "Packs a file in the Zstandard format."))
	courier.Register(r, "file.unzstd", Unzstd{Limits: opt.Limits},
		bytes("unzstd", "Unpacks a file in the Zstandard format."))
	courier.Register(r, "file.tar", Tar{Limits: opt.Limits},
		bytes("tar", "Packs files into a tar archive, plain or compressed by gzip or Zstandard."))
	courier.Register(r, "file.untar", Untar{Limits: opt.Limits},
		bytes("untar", "Unpacks a tar archive, plain or compressed, into a directory of its own."))
	courier.Register(r, "file.hash", Hash{Limits: opt.Limits},
		bytes("hash", "Writes a manifest of checksums of files, as sha256sum does."))
	courier.Register(r, "file.verify", Verify{Limits: opt.Limits},
		bytes("verify", "Checks files against a manifest of checksums."))
	courier.Register(r, "file.split", Split{Limits: opt.Limits},
		bytes("split", "Splits a file into parts, with a manifest."))
	courier.Register(r, "file.join", Join{Limits: opt.Limits},
		bytes("join", "Joins the parts of a file, and checks them against the manifest."))
	courier.Register(r, "file.mkdir", Mkdir{},
		plain("mkdir", "Makes a directory, with those above it."))
	courier.Register(r, "file.wait", Wait{Limits: opt.Limits},
		waiting("wait", "Waits until a file, or what a pattern finds, exists and no longer changes."))
}
