package sftp

import (
	"context"
	"slices"

	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/transfer"
)

// isQuick reports whether a file is one to fetch with as few round trips as
// possible: small, and without anything special to be done about it.
func (t *downloading) isQuick(f *remoteFile, c *client) bool {
	return f.plain && f.size <= min(smallFile, int64(c.readChunk)) && t.limit == nil &&
		!t.cfg.keeps(f.size) && !t.cfg.SkipIfSame && t.cfg.IfExists == transfer.IfExistsOverwrite && t.cfg.Checksum == remote.ChecksumNone
}

// fetchAtOnce downloads a small file in two round trips. It does nothing if the
// file turns out not to be small, or the server not to send it as a whole.
func (t *downloading) fetchAtOnce(ctx context.Context, s *session, f *remoteFile, c *client) (done bool, err error) {
	before, handle, err := c.statAndOpen(ctx, f.remote)
	if err == nil {
		if err = t.describe(f, before); err != nil || f.size > smallFile {
			s.closeHandle(ctx, handle)
		}
	}
	if err != nil {
		return false, s.fault("download", f.remote, err)
	}
	if f.size > smallFile {
		return false, nil
	}
	ctx, guard := t.limits(s).Guard(ctx)
	defer guard.End()
	w, err := t.create(s, f, guard)
	if err != nil {
		s.closeHandle(ctx, handle)
		return false, err
	}
	defer w.Close()
	m := &remote.Meter{Job: t.job, Item: f.remote, Total: f.size}
	text := texts.Get().(*[]byte)
	data := slices.Grow((*text)[:0], int(f.size))[:f.size]
	n, err := c.readAll(ctx, lane{c, handle}, f.remote, data, before)
	if err != nil {
		return false, s.fault("download", f.remote, err) // an answer may still come into data
	}
	*text = data
	defer texts.Put(text)
	if n < len(data) {
		return false, nil
	}
	if _, err := w.Write(data); err != nil {
		return false, s.fault("download", f.remote, err)
	}
	return true, t.publish(ctx, f, before, w, m)
}

// statAndOpen looks at a file and opens it for reading.
func (c *client) statAndOpen(ctx context.Context, path string) (attrs, string, error) {
	var b batch
	b.add(pathPacket(fxpStat, path), nil)
	b.add(openPacket(path, flagRead), nil)
	calls, err := b.send(c)
	if err != nil {
		return attrs{}, "", err
	}
	a, failed := c.attrsOf(ctx, calls[0])
	h, err := c.handleOf(ctx, calls[1])
	if err == nil && failed != nil {
		alone(c, h).close(ctx)
	}
	if failed != nil {
		err = failed
	}
	return a, h, err
}

// readAll reads a file that has the attributes before, closes it, and makes
// sure that it ends where it should and has not changed. It returns how many
// bytes of data have come: the server may send fewer at once.
func (c *client) readAll(ctx context.Context, l lane, path string, data []byte, before attrs) (int, error) {
	var b batch
	var end [1]byte
	if len(data) > 0 {
		b.add(readPacket(l.handle, 0, len(data)), data)
	}
	b.add(readPacket(l.handle, int64(len(data)), len(end)), end[:])
	b.add(pathPacket(fxpClose, l.handle), nil)
	b.add(pathPacket(fxpStat, path), nil)
	calls, err := b.send(c)
	if err != nil {
		return 0, err
	}
	r := reading{size: int64(len(data))}
	n := 0
	for _, cl := range calls[:len(calls)-2] {
		p := &piece{call: cl, lane: l, buf: cl.data}
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
			err = errGrew
		default:
			n = a.n
		}
		if err != nil {
			return 0, err
		}
	}
	after, err := c.attrsOf(ctx, calls[len(calls)-1])
	return n, heldStill(before, after, err)
}
