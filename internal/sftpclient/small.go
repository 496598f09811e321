package sftpclient

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/courierhq/courier/internal/connerr"
)

// StatAndOpen asks for the attributes of a file and opens it for reading, in one round trip.
func (c *Client) StatAndOpen(ctx context.Context, path string) (Attrs, *File, error) {
	l, err := c.startLook(ctx, fxpStat, path)
	if err != nil {
		return Attrs{}, nil, err
	}
	f := &File{Client: c}
	opening := &call{typ: fxpOpen, path: path}
	if err := c.start(ctx, opening, func() (int, error) { return 0, f.open(path, os.O_RDONLY) }); err != nil {
		return Attrs{}, nil, err
	}
	a, failed := l.wait(ctx, c)
	err = c.wait(ctx, opening)
	if err == nil && failed != nil {
		f.Close(ctx)
	}
	if failed != nil {
		err = failed
	}
	return a, f, err
}

// ReadAll reads a file with the attributes before. In one round trip it checks that the file ends
// where it should and has not changed, and starts to close it. After an error data may still be
// written to.
func (f *File) ReadAll(ctx context.Context, path string, data []byte, before Attrs) error {
	r := Reading{Size: int64(len(data))}
	pieces := []*piece{{file: f, buf: data}, {file: f, off: int64(len(data))}}
	if len(data) == 0 {
		pieces = pieces[1:]
	}
	var err error
	for i, p := range pieces {
		if err = r.ask(ctx, p); err != nil {
			pieces = pieces[:i]
			break
		}
	}
	var l *look
	if err == nil { // sent behind the requests for data, so that the server looks when it has read
		l, err = f.startLook(ctx, fxpStat, path)
	}
	for _, p := range pieces {
		if err == nil {
			err = r.settle(p, f.wait(ctx, p.call))
		}
	}
	if err != nil {
		f.Close(ctx)
		return err
	}
	if _, err := f.startClose(ctx); err != nil {
		return err
	}
	after, err := l.wait(ctx, f.Client)
	return HeldStill(before, after, err)
}

// closeAndStat closes a file that was read, and then asks for its attributes, in one round trip.
func (f *File) closeAndStat(ctx context.Context, path string) (Attrs, error) {
	if _, err := f.startClose(ctx); err != nil {
		return Attrs{}, err
	}
	l, err := f.startLook(ctx, fxpStat, path)
	if err != nil {
		return Attrs{}, err
	}
	return l.wait(ctx, f.Client)
}

// HeldStill returns an error if a file has changed between the attributes before and after. Err
// is the error of the second request.
func HeldStill(before, after Attrs, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // some servers hand out a file only once; what was read is complete
	case err != nil:
		return err
	case !before.SameFile(after):
		return connerr.ErrChanged
	}
	return nil
}
