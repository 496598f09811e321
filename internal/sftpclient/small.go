package sftpclient

import (
	"context"
	"errors"
	"io/fs"

	"github.com/courierhq/courier/internal/connerr"
)

// StatAndOpen looks at a file and opens it for reading.
func (c *Client) StatAndOpen(ctx context.Context, path string) (Attrs, string, error) {
	var b batch
	b.add(pathPacket(fxpStat, path), nil)
	b.add(openPacket(path, FlagRead), nil)
	calls, err := b.send(c)
	if err != nil {
		return Attrs{}, "", err
	}
	a, failed := c.attrsOf(ctx, calls[0])
	h, err := c.handleOf(ctx, calls[1])
	if err == nil && failed != nil {
		OneWorker(c, h).Close(ctx)
	}
	if failed != nil {
		err = failed
	}
	return a, h, err
}

// ReadAll reads a file that has the attributes before, closes it, and makes
// sure that it ends where it should and has not changed. It returns how many
// bytes of data have come: the server may send fewer at once.
func (c *Client) ReadAll(ctx context.Context, l File, path string, data []byte, before Attrs) (int, error) {
	var b batch
	var end [1]byte
	if len(data) > 0 {
		b.add(readPacket(l.Handle, 0, len(data)), data)
	}
	b.add(readPacket(l.Handle, int64(len(data)), len(end)), end[:])
	b.add(pathPacket(fxpClose, l.Handle), nil)
	b.add(pathPacket(fxpStat, path), nil)
	calls, err := b.send(c)
	if err != nil {
		return 0, err
	}
	r := Reading{Size: int64(len(data))}
	n := 0
	for _, cl := range calls[:len(calls)-2] {
		p := &piece{call: cl, file: l, buf: cl.data}
		if &cl.data[0] == &end[0] {
			p.buf = nil
		}
		a, err := c.wait(ctx, cl)
		switch {
		case err != nil:
		case a.typ == fxpStatus:
			r.pieces = []*piece{p}
			err = r.settleStatus(p, a)
		case a.typ != fxpData:
			err = p.unexpected(a)
		case p.buf == nil:
			err = ErrGrew
		default:
			n = a.n
		}
		if err != nil {
			return 0, err
		}
	}
	after, err := c.attrsOf(ctx, calls[len(calls)-1])
	return n, HeldStill(before, after, err)
}

// HeldStill judges a second look at a file, which may have ended with err.
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
