package sftp

import (
	"context"
	"slices"

	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// isQuick reports whether a file is one to fetch with as few round trips as
// possible: small, and without anything special to be done about it.
func (t *downloading) isQuick(f *remoteFile, c *sftpclient.Client) bool {
	return f.plain && f.size <= min(smallFile, int64(c.ReadChunk)) && t.limit == nil &&
		!t.cfg.keeps(f.size) && !t.cfg.SkipIfSame && t.cfg.IfExists == transfer.IfExistsOverwrite && t.cfg.Checksum == remote.ChecksumNone
}

// fetchAtOnce downloads a small file in two round trips. It does nothing if the
// file turns out not to be small, or the server not to send it as a whole.
func (t *downloading) fetchAtOnce(ctx context.Context, s *session, f *remoteFile, c *sftpclient.Client) (done bool, err error) {
	before, handle, err := c.StatAndOpen(ctx, f.remote)
	if err == nil {
		if err = t.describe(f, before); err != nil || f.size > smallFile {
			s.CloseHandle(ctx, handle)
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
		s.CloseHandle(ctx, handle)
		return false, err
	}
	defer w.Close()
	m := &remote.Meter{Job: t.job, Item: f.remote, Total: f.size}
	text := sftpclient.Texts.Get().(*[]byte)
	data := slices.Grow((*text)[:0], int(f.size))[:f.size]
	n, err := c.ReadAll(ctx, sftpclient.File{Client: c, Handle: handle}, f.remote, data, before)
	if err != nil {
		return false, s.fault("download", f.remote, err) // an answer may still come into data
	}
	*text = data
	defer sftpclient.Texts.Put(text)
	if n < len(data) {
		return false, nil
	}
	if _, err := w.Write(data); err != nil {
		return false, s.fault("download", f.remote, err)
	}
	return true, t.publish(ctx, f, before, w, m)
}
