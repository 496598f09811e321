package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// errDifferent ends a comparison.
var errDifferent = errors.New("the contents differ")

// CompareRange compares a remote file with a local one from off to end. It returns the offset of
// the first packet with a difference, or end.
func CompareRange(ctx context.Context, f *File, src io.ReaderAt, off, end int64, progress func(int64)) (int64, error) {
	c := &comparer{src: src, off: off}
	r := Reading{Workers: OneWorker(f), Size: end, To: c, Progress: progress, Asked: off, Wrote: off, open: true}
	err := r.Run(ctx)
	switch {
	case errors.Is(err, errDifferent), errors.Is(err, ErrShrank):
		return c.off, nil
	case err != nil:
		return c.off, err
	}
	return end, nil
}

// SameContent reports whether the remote file path has the content of src, which has size bytes.
// It reports the number of compared bytes to progress. If the file cannot be opened, the result
// is false.
func (c *Client) SameContent(ctx context.Context, path string, src io.ReaderAt, size int64, progress func(int64)) (bool, error) {
	f, err := c.Open(ctx, path, os.O_RDONLY)
	if IsStatus(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close(ctx)
	r := Reading{Workers: OneWorker(f), Size: size, To: &comparer{src: src}, Progress: progress}
	err = r.Run(ctx)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errDifferent), errors.Is(err, ErrShrank), errors.Is(err, ErrGrew):
		return false, nil
	}
	return false, err
}

// A comparer accepts only the content of src.
type comparer struct {
	src io.ReaderAt
	off int64
	buf []byte
}

// Write fails with errDifferent at the first difference.
func (c *comparer) Write(p []byte) (int, error) {
	if cap(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	buf := c.buf[:len(p)]
	if n, err := c.src.ReadAt(buf, c.off); n < len(p) {
		return 0, err
	}
	if string(buf) != string(p) {
		return 0, errDifferent
	}
	c.off += int64(len(p))
	return len(p), nil
}

// SizeIs returns an error unless a has the size want.
func SizeIs(a Attrs, want int64) error {
	switch got, err := a.FileSize(); {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("the server has %d bytes of %d, although it confirmed all of them", got, want)
	}
	return nil
}
