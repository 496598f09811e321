package sftpclient

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Texts pools buffers, which hold whole small files.
var Texts = sync.Pool{New: func() any { return new([]byte) }}

// Finish makes the data written to the remote file path durable, closes the file, and compares
// its size. Open are the channels on which the file is open. If from is not nil, it has the whole
// content of at most WriteChunk bytes, which Finish writes first. Some servers write the data to
// disk, and report a full disk, only when a file is closed.
func Finish(ctx context.Context, open []*File, path string, size int64, from io.ReaderAt) error {
	first := open[0]
	closed, err := closeOthers(ctx, open[1:])
	var writing *call
	if err == nil && from != nil && size > 0 {
		writing, err = first.startAll(ctx, size, from)
	}
	var syncing *question
	if err == nil && first.canSync() { // sent behind what is written, without waiting for that
		syncing = first.guard.ask(extFsync, first.handle)
	}
	if writing != nil && err == nil {
		err = first.wait(ctx, writing)
	}
	began := time.Now()
	if err != nil {
		first.Close(ctx)
		return err
	}
	closing, err := first.startClose(ctx)
	if err != nil {
		return err
	}
	look, failed := first.startLook(ctx, fxpStat, path)
	if syncing != nil {
		if err := first.synced(ctx, syncing); err != nil {
			return err
		}
		if writing != nil {
			first.noteSync(time.Since(began))
		}
	}
	for i, cl := range closed {
		if err := open[i+1].wait(ctx, cl); err != nil {
			return err
		}
	}
	if err := first.wait(ctx, closing); err != nil {
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

// closeOthers starts to close the file on the other channels.
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

// startAll starts to write the whole file in one request.
func (f *File) startAll(ctx context.Context, size int64, from io.ReaderAt) (*call, error) {
	text := Texts.Get().(*[]byte)
	data := slices.Grow((*text)[:0], int(size))[:size]
	*text = data
	if got, err := from.ReadAt(data, 0); got < len(data) && err == io.EOF {
		return nil, ErrShrank
	} else if got < len(data) {
		return nil, err
	}
	cl, err := f.write(ctx, data, 0)
	if err == nil {
		Texts.Put(text)
	}
	return cl, err
}

// synced waits until the written data is durable.
func (f *File) synced(ctx context.Context, syncing *question) error {
	if err := f.await(ctx, syncing.done); err != nil {
		return err
	}
	s := &scanner{rest: syncing.body}
	switch code := s.uint32(); {
	case syncing.typ != fxpStatus || s.bad:
		err := &protocolError{"it answers without a status"}
		f.fail(err)
		return err
	case code == statusOK, code == StatusUnsupported: // it has advertised what it doesn't do
		return nil
	default:
		return &StatusError{code, s.string()}
	}
}
