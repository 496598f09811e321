package sftpclient

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Texts are used again, for what they hold are whole files where these are
// small.
var Texts = sync.Pool{New: func() any { return new([]byte) }}

// Finish makes durable what was written to the remote file path, closes it, and
// compares its size. Open are the channels on which it is open. With from, which has the
// whole content of at most WriteChunk bytes, the file is written before. Some servers write
// in earnest, and report a full disk, only when a file is closed.
func Finish(ctx context.Context, open []*File, path string, size int64, from io.ReaderAt) error {
	first := open[0]
	closed, err := closeOthers(ctx, open[1:])
	if err == nil && from != nil && size > 0 {
		err = first.writeAll(ctx, size, from)
	}
	if err == nil && first.canSync() {
		err = first.syncNow(ctx, from != nil)
	}
	if err != nil {
		first.Close(ctx)
		return err
	}
	cl, err := first.startClose(ctx)
	if err != nil {
		return err
	}
	look, failed := first.startLook(ctx, fxpStat, path)
	for i, cl := range closed {
		if err := open[i+1].wait(ctx, cl); err != nil {
			return err
		}
	}
	if err := first.wait(ctx, cl); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	a, err := look.wait(ctx, first.Client)
	if err == nil && SizeIs(a, size) == nil {
		return nil
	}
	// Perhaps the server has looked before it was done.
	if a, err = first.Stat(ctx, path); err != nil {
		return fmt.Errorf("the size of what was written: %w", err)
	}
	return SizeIs(a, size)
}

// closeOthers begins to close the further channels.
func closeOthers(ctx context.Context, open []*File) ([]*call, error) {
	var calls []*call
	for _, f := range open {
		cl, err := f.startClose(ctx)
		if err != nil {
			return nil, err
		}
		calls = append(calls, cl)
	}
	return calls, nil
}

// writeAll writes all of a file in one request.
func (f *File) writeAll(ctx context.Context, size int64, from io.ReaderAt) error {
	text := Texts.Get().(*[]byte)
	data := slices.Grow((*text)[:0], int(size))[:size]
	*text = data
	if got, err := from.ReadAt(data, 0); got < len(data) && err == io.EOF {
		return ErrShrank
	} else if got < len(data) {
		return err
	}
	cl, err := f.write(ctx, data, 0)
	if err != nil {
		return err
	}
	Texts.Put(text)
	return f.wait(ctx, cl)
}

// syncNow makes durable what was written, and notes how long that took for a small file.
func (f *File) syncNow(ctx context.Context, small bool) error {
	cl := &call{typ: fxpExtended}
	began := time.Now()
	if err := f.start(ctx, cl, func() (int, error) { return 0, f.file.Sync() }); err != nil {
		return err
	}
	err := unlessUnsupported(f.wait(ctx, cl))
	if small {
		f.synced(time.Since(began))
	}
	return err
}
