package sftpclient

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// List calls f with every entry of a directory but "." and "..", with any name, as the
// server has sent it. It calls part with the bytes so far for each part of the listing, from
// another goroutine. More than limit bytes are an error; an entry counts for 128 at least.
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

// Peek counts the first entries of a directory that the server tells in one answer, "." and
// ".." included.
func (c *Client) Peek(ctx context.Context, dir string) (int, error) {
	cl, err := c.readDir(ctx, dir, listing{few: true})
	if err != nil {
		return 0, err
	}
	return cl.names, nil
}

// errEnough ends the reading of a directory of which enough has come.
var errEnough = errors.New("enough has come")

// readDir reads a directory, up to the limits of the listing. The library closes it, which is
// waited for even if ctx has ended while the connection lives on.
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

// cleanupTimeout is how long tidying up may take.
const cleanupTimeout = 5 * time.Second

// Detached returns a context for tidying up after the end of ctx. If the whole
// step has ended, so has its connection, and nothing waits.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
