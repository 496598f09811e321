// Package transfer copies bytes for the built-in steps: in bounded memory, with progress reports,
// and so that a cancelled step stops soon.
//
// A [Guard] limits the transfer of a file from outside: its size, the space that stays free,
// which is checked before and every 16 MiB, and the average rate over five minutes. The kernel
// starts to write large files to the disk every 8 MiB (sync_file_range, Linux), so that the final
// fsync is short.
package transfer

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/localfile"
)

const (
	// blockSize is the size of a pooled buffer, and so the memory of one Copy.
	blockSize = 256 << 10
	// kernelChunk is the number of bytes that the kernel copies between two checks of ctx.
	kernelChunk = 4 << 20
	// WriteBehind is the number of bytes written to a file between two calls of
	// [localfile.StartWriting].
	WriteBehind = 8 << 20
)

// blocks holds buffers of blockSize bytes. There are never more than twice as
// many as there are copies at the same time.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// Copy copies from src to dst until src ends, and returns the number of bytes written to dst. The
// error is nil when src ended.
//
// Copy checks ctx before every block. When ctx is done it stops and returns the cause. An error
// that src or dst returns at that time is treated as a consequence and replaced by the cause. The
// caller must end a blocked Read or Write by closing its source or destination.
//
// After every block that was written to dst, report is called in the calling goroutine with the
// number of bytes so far; report may be nil.
//
// Between two regular files the kernel copies if it can, so src and dst must not be wrapped
// without need, except src in an [io.LimitedReader]. Otherwise Copy uses one pooled buffer of 256
// KiB; WriteTo and ReadFrom of src and dst are not used.
func Copy(ctx context.Context, dst io.Writer, src io.Reader, report func(done int64)) (int64, error) {
	if report == nil {
		report = func(int64) {}
	}
	limit, ok := src.(*io.LimitedReader)
	if !ok {
		limit = &io.LimitedReader{R: src, N: math.MaxInt64}
	}
	from, ok1 := limit.R.(*os.File)
	to, ok2 := dst.(*os.File)
	var n int64
	var err error
	if ok1 && ok2 {
		n, err = copyFile(ctx, to, from, &limit.N, report)
	} else {
		n, err = copyBlocks(ctx, dst, src, report)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}

func copyFile(ctx context.Context, dst, src *os.File, left *int64, report func(int64)) (int64, error) {
	var done int64
	for {
		if err := ctx.Err(); err != nil || *left <= 0 {
			return done, err
		}
		n, err := io.CopyN(dst, src, min(*left, kernelChunk))
		if done += n; done/WriteBehind != (done-n)/WriteBehind {
			localfile.StartWriting(dst)
		}
		*left -= n
		if n > 0 {
			report(done)
		}
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
}

func copyBlocks(ctx context.Context, dst io.Writer, src io.Reader, report func(int64)) (int64, error) {
	block := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	var done int64
	for {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		n, readErr := src.Read(block[:])
		if n < 0 || n > blockSize {
			return done, errors.New("transfer: the source reports an impossible count of bytes read")
		}
		if n > 0 {
			w, err := dst.Write(block[:n])
			done += int64(max(0, min(w, n)))
			if err == nil && w != n {
				err = io.ErrShortWrite
			}
			if err != nil {
				return done, err
			}
			report(done)
		}
		if readErr == io.EOF {
			return done, nil
		}
		if readErr != nil {
			return done, readErr
		}
	}
}

// NewReader returns a reader of r for code that copies itself. Its Read returns the cause of ctx
// when ctx is done, also in place of an error of r, and calls report, which may be nil, with the
// number of bytes read so far.
func NewReader(ctx context.Context, r io.Reader, report func(done int64)) io.Reader {
	return &reader{ctx: ctx, r: r, report: report}
}

type reader struct {
	ctx    context.Context
	r      io.Reader
	report func(int64)
	done   int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.r.Read(p)
	r.done += int64(n)
	if n > 0 && r.report != nil {
		r.report(r.done)
	}
	if err != nil && err != io.EOF && r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	return n, err
}

// BeatEvery is how often a waiting step reports progress.
const BeatEvery = 15 * time.Second

// maxBeats limits the number of progress reports of KeepAlive.
const maxBeats = 20

// KeepAlive calls f, and meanwhile calls beat every 15 seconds, for up to five minutes. Finishing
// a file takes time without progress, such as when it is made durable; beat prevents that the
// stall timeout ends the step.
func KeepAlive(beat func(), f func() error) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(BeatEvery)
		defer tick.Stop()
		for range maxBeats {
			select {
			case <-tick.C:
				beat()
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return f()
}
