package file

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// made is an archive that was made.
type made struct {
	path    string
	entries int
	size    int64
}

// archive makes the archive: write gets what was collected.
func (p packing) archive(ctx context.Context, job *courier.Context, write func(*archiveFile, []packed) error) (out made, err error) {
	dst, err := p.place(job)
	if err != nil {
		return out, err
	}
	items, err := p.collect(ctx, job, dst)
	if err != nil {
		return out, err
	}
	if _, err := dst.replaceable(); err != nil {
		return out, err
	}
	w, err := job.Create(dst.name)
	if err != nil {
		return out, fault(dst.name, err)
	}
	defer w.Close()
	a := newArchiveFile(job, w, dst.name)
	if err = write(a, items); err == nil {
		err = a.b.Flush()
	}
	if err != nil {
		return out, fmt.Errorf("%q: %w", dst.name, fault(dst.name, err))
	}
	if out.size, err = a.readBack(ctx); err != nil {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("%q: %w", dst.name, fault(dst.name, err))
	}
	out.path, out.entries = dst.name, len(items)
	return out, nil
}

// An archiveFile is a file that is being packed to. It knows what it was given
// and compares it with what it holds.
type archiveFile struct {
	job    *courier.Context
	name   string
	file   *courier.PendingFile
	b      *bufio.Writer
	size   int64
	sum    uint32
	synced int64 // source bytes since the file was last made durable
}

func newArchiveFile(job *courier.Context, w *courier.PendingFile, name string) *archiveFile {
	a := &archiveFile{job: job, name: name, file: w}
	a.b = bufio.NewWriterSize(summed{a}, 256<<10)
	return a
}

// Write writes to the file through a buffer.
func (a *archiveFile) Write(p []byte) (int, error) { return a.b.Write(p) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A summed writes to the file and sums up what it writes.
type summed struct{ *archiveFile }

func (s summed) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.size += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	return n, err
}

// add reads one source and gives it to to.
func (a *archiveFile) add(ctx context.Context, f *os.File, from identity, name string, to io.Writer) error {
	size := from.Size
	a.job.Progress(0, size, name)
	var syncErr error
	var before int64
	n, err := transfer.Copy(ctx, to, io.LimitReader(f, size+1), func(done int64) {
		if a.synced += done - before; a.synced >= syncEvery && syncErr == nil {
			a.synced, syncErr = 0, a.file.Sync()
		}
		before = done
		a.job.Progress(done, max(size, done), name)
	})
	if err = cmp.Or(err, syncErr); err != nil {
		return fmt.Errorf("pack %q: %w", name, fault(name, err))
	}
	after, err := f.Stat()
	if err != nil {
		return fault(name, err)
	}
	if n != size || identify(after) != from {
		return fmt.Errorf("%q changed while it was being packed: it had %d bytes, %d were read, now it has %d; nothing was made of it", name, size, n, after.Size())
	}
	return nil
}

// readBack reads the file and compares it with what was written. It returns
// its size.
func (a *archiveFile) readBack(ctx context.Context) (int64, error) {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return 0, fault(a.name, err)
	}
	sum := crc32.New(castagnoli)
	n, err := transfer.Copy(ctx, sum, a.file.File, func(int64) { a.job.Progress(0, -1, a.name) })
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err == nil && (n != a.size || sum.Sum32() != a.sum):
		err = errors.New("its bytes are others than those that were written")
	}
	if err != nil {
		return 0, fmt.Errorf("%q can't be read back as it was written, and was discarded: %w", a.name, fault(a.name, err))
	}
	return n, nil
}
