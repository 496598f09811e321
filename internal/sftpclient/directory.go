package sftpclient

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// List calls f with every entry of a directory except "." and "..". Names are passed as the
// server sends them, also invalid ones. List calls part with the number of bytes so far for each
// part of the listing, from another goroutine. More than limit bytes are an error; an entry
// counts as at least 128 bytes.
func (c *Client) List(ctx context.Context, dir string, limit int, f func(Entry) error, part func(bytes int)) error {
	cl, err := c.readDir(ctx, dir, listing{limit: limit, part: part})
	if err != nil {
		return err
	}
	for i, info := range cl.infos {
		e, noted := cl.notes[i]
		if !noted {
			e = Entry{Name: info.Name(), Attrs: attrsOf(info, AttrSize|AttrPermissions|AttrTimes)}
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// Peek returns the number of entries of a directory in the server's first answer, including "."
// and "..".
func (c *Client) Peek(ctx context.Context, dir string) (int, error) {
	cl, err := c.readDir(ctx, dir, listing{few: true})
	if err != nil {
		return 0, err
	}
	return cl.names, nil
}

// errEnough ends the reading of a directory when enough entries have arrived.
var errEnough = errors.New("enough has come")

// readDir reads a directory, up to the limits of the listing. The library closes the directory.
// readDir waits for that, even if ctx has ended, as long as the connection is open.
func (c *Client) readDir(ctx context.Context, dir string, l listing) (*call, error) {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l.stop = stop
	cl := &call{typ: fxpOpendir, path: dir, listing: l}
	err := c.start(ctx, cl, func() (_ int, err error) {
		cl.infos, err = c.sftp.ReadDirContext(reading, dir)
		return 0, err
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-cl.done:
	case <-reading.Done():
	}
	closing, cancel := Detached(ctx)
	defer cancel()
	err = c.await(closing, cl.done)
	if closing.Err() != nil {
		c.fail(errBusy)
	}
	if cause := context.Cause(reading); cause != nil && cause != errEnough {
		return nil, cause
	} else if err != nil {
		return nil, err
	} else if cause == nil {
		err = c.result(cl)
	}
	if IsStatus(err) { // servers have many words for a file in the place of a directory
		if a, e := c.Stat(ctx, dir); e == nil && a.Mode&ModeType != 0 && !a.IsDir() {
			return nil, failure.Permanent(errors.New("is not a directory"))
		}
	}
	return cl, err
}

// cleanupTimeout is the time limit for cleanup.
const cleanupTimeout = 5 * time.Second

// Detached returns a context for cleanup after the end of ctx. If the whole step has ended, its
// connection has ended too, and nothing waits.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
