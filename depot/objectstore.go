package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Spool returns a pending file that is kept in a temporary file of the host until its Commit. It
// is for depots that must know the size and the hash of a file before they store it, such as
// depots in object stores, whose uploads begin with both. The error of an invalid key matches
// [courier.ErrInvalid].
//
// Commit calls commit with ctx, the Info that [Depot].Open must return, and the content from its
// beginning, which is also an [io.ReaderAt]. The function must store both so that they become
// visible at once, and are durable before it returns. Commit returns its error. It is called at
// most once, and not after ctx has ended, after a Close, or after a failed write.
//
// If the disk with the temporary files is full, the error matches [ErrFull]. The temporary file
// is removed by Close, and on most systems also when the process dies before.
func Spool(ctx context.Context, key string, commit func(ctx context.Context, info Info, content io.ReadSeeker) error) (Pending, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s := &spool{ctx: ctx, info: Info{Key: key}, hash: sha256.New(), commit: commit}
	f, err := os.CreateTemp("", "courier-depot-")
	if err != nil {
		return nil, s.wrap(err)
	}
	s.file, s.named = f, os.Remove(f.Name()) != nil
	return s, nil
}

// A spool is the pending file that Spool returns.
type spool struct {
	ctx    context.Context
	info   Info // of what is written
	commit func(context.Context, Info, io.ReadSeeker) error
	hash   hash.Hash
	file   *os.File
	named  bool  // the file has its name until it is closed, as Windows needs it
	err    error // why nothing can be written or committed any more
	closed bool
}

// wrap adds the file to an error.
func (s *spool) wrap(err error) error {
	if diskFull(err) {
		err = full("the disk with the temporary files of this host is full (%v); remove files there, or set TMPDIR to a directory with more room", err)
	}
	return fmt.Errorf("depot: write %s: %w", safename.Quote(s.info.Key), err)
}

// usable reports whether the file can be written and committed; err says why not.
func (s *spool) usable() bool {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = s.wrap(context.Cause(s.ctx))
	}
	return s.err == nil
}

// Write implements [io.Writer].
func (s *spool) Write(b []byte) (int, error) {
	if !s.usable() {
		return 0, s.err
	}
	n, err := s.file.Write(b)
	s.hash.Write(b[:n])
	s.info.Size += int64(n)
	if err != nil {
		s.err = s.wrap(err)
	}
	return n, s.err
}

// Commit implements [Pending].
func (s *spool) Commit() (Info, error) {
	if !s.usable() {
		return Info{}, s.err
	}
	s.err = errCommitted
	info := s.info
	info.Time, info.SHA256 = time.Now().UTC(), hex.EncodeToString(s.hash.Sum(nil))
	if err := s.commit(s.ctx, info, io.NewSectionReader(s.file, 0, info.Size)); err != nil {
		return Info{}, err
	}
	return info, nil
}

// Close implements [Pending].
func (s *spool) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.err == nil {
		s.err = errCommitted
	}
	err := s.file.Close()
	if s.named {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	if err != nil {
		return s.wrap(err)
	}
	return nil
}

// NewObject returns an object that reads content, for [Depot].Open. After ctx has ended, Read
// returns the cause; other errors of Read name the key. Close closes content.
func NewObject(ctx context.Context, info Info, content io.ReadSeekCloser) Object {
	return &object{content, ctx, info}
}

// An object is the object that NewObject returns.
type object struct {
	io.ReadSeekCloser
	ctx  context.Context
	info Info
}

// Info implements [Object].
func (o *object) Info() Info { return o.info }

// Read implements [io.Reader].
func (o *object) Read(p []byte) (int, error) {
	if o.ctx.Err() != nil {
		return 0, context.Cause(o.ctx)
	}
	n, err := o.ReadSeekCloser.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case o.ctx.Err() != nil:
		return n, context.Cause(o.ctx)
	}
	return n, fmt.Errorf("depot: read %s: %w", safename.Quote(o.info.Key), err)
}

// A Listing is the listing of a storage: names, in any order, and errors. It may contain names
// that are not keys, such as names of other objects, and keys that do not have the requested
// prefix. Its methods ignore these. They return the first error of the listing. If ctx ends, they
// return its cause, even if the listing ends early without an error.
type Listing iter.Seq2[string, error]

// Infos implements [Depot].List for a prefix. It calls stat for each key, which describes the
// file. If the error of stat matches [courier.ErrNotFound], the file was removed after it was
// listed, and Infos leaves it out.
func (l Listing) Infos(ctx context.Context, prefix string, stat func(key string) (Info, error)) ([]Info, error) {
	var all []Info
	err := l.each(ctx, prefix, func(key string) error {
		info, err := stat(key)
		if err == nil {
			all = append(all, info)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Remove implements [Depot].Remove for a prefix. It calls remove for each key. An error of remove
// that matches [courier.ErrNotFound] counts as success.
func (l Listing) Remove(ctx context.Context, prefix string, remove func(key string) error) error {
	if prefix == "" {
		return errAll
	}
	return l.each(ctx, prefix, remove)
}

// errAll is the error of a request to remove all files.
var errAll = courier.Errorf(courier.ErrInvalid, "depot: the prefix is empty; name the execution whose files are to be removed")

// Executions implements [ExecutionLister], if the listing contains all names. With it, retention
// need not list every file in each run.
func (l Listing) Executions(ctx context.Context) ([]courier.ExecutionID, error) {
	var all []courier.ExecutionID
	err := l.each(ctx, "", func(key string) error {
		x, _ := SplitKey(key)
		all = append(all, x)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.Compact(all), nil
}

// each calls do once with each key that has a prefix, in order.
func (l Listing) each(ctx context.Context, prefix string, do func(key string) error) error {
	if err := CheckPrefix(prefix); err != nil {
		return err
	}
	var keys []string
	for key, err := range l {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if HasPrefix(key, prefix) && CheckKey(key) == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := do(key); err != nil && !errors.Is(err, courier.ErrNotFound) {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
