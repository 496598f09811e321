package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// A putting is the upload of one file.
type putting struct {
	job  *courier.Context
	cfg  UploadConfig
	file *localFile

	limit *bandwidth.Limiter

	src   *os.File
	meter *remote.Meter
	side  string // remote path until the file is complete
}

func (p *putting) run(ctx context.Context, s *session) error {
	src, err := p.cfg.sources().Open(p.job, p.file.local)
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	defer src.Close()
	before, err := src.Stat()
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	p.src, p.file.size, p.file.was = src, before.Size(), remote.Identify(before)
	ctx, guard := s.limits.Slowed(p.cfg.BandwidthLimit).Guard(ctx)
	defer guard.End()
	p.meter = &remote.Meter{Job: p.job, Item: p.file.final, Total: p.file.size, Guard: guard}
	dir, name := remote.Split(p.file.final)
	p.side = remote.Join(dir, p.job.SideName(name))
	if p.cfg.Resume {
		p.side = remote.Join(dir, partName(p.job, name))
	}
	if done, err := p.consult(ctx, s, before); done || err != nil {
		return s.fault("upload", p.file.final, err)
	}
	err = p.write(ctx, s, before)
	keep := err != nil && p.cfg.Resume && !isWrong(err)
	if err == nil {
		err = remote.Unchanged(src, before)
	}
	if err == nil && p.cfg.Checksum == remote.ChecksumReadBack {
		err = p.readBack(ctx, s)
	}
	if err == nil && remote.Times(p.cfg.Preserve) {
		err = p.setTime(ctx, s, before)
	}
	if err == nil {
		err = p.publish(ctx, s)
		keep = false
	}
	if (err != nil || p.file.skipped) && !keep && s.Cause() == nil {
		s.Remove(ctx, p.side) // where that is no longer possible, Cleanup will
	}
	if err != nil {
		return s.fault("upload", p.file.final, err)
	}
	p.meter.Finish()
	return nil
}

// consult looks at what has the final name, and decides whether there is
// nothing to do.
func (p *putting) consult(ctx context.Context, s *session, local fs.FileInfo) (done bool, err error) {
	n, err := s.Stat(ctx, p.file.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case n.IsDir:
		return false, courier.Permanent(errors.New("is a directory"))
	case p.cfg.SkipIfSame && n.Size == local.Size() && !n.Modified.IsZero() && n.Modified.Unix() == local.ModTime().Unix():
		return true, nil
	case p.cfg.IfExists == transfer.IfExistsOverwrite:
		return false, nil
	}
	if p.job.Repeated() {
		// An earlier start may have finished without anybody getting to know.
		// Nothing but the content tells.
		if same, err := p.sameContent(ctx, s, p.file.final, n.Size); same || err != nil {
			return same, err
		}
	}
	if p.cfg.IfExists == transfer.IfExistsSkip {
		p.file.skipped = true
		return true, nil
	}
	return false, transfer.ErrExists("")
}

// errDifferent ends a comparison.
var errDifferent = errors.New("the contents differ")

// sameContent reports whether a remote file, which has size bytes, has the
// content of the local one.
func (p *putting) sameContent(ctx context.Context, s *session, file string, size int64) (bool, error) {
	if size >= 0 && size != p.file.size {
		return false, nil
	}
	return s.compare(ctx, file, p.src, p.meter)
}

// compare reports whether a remote file has the content of the local one that m
// is about. If the server refuses to send it, it has not.
func (s *session) compare(ctx context.Context, file string, local io.ReaderAt, m *remote.Meter) (bool, error) {
	c := &comparer{src: local}
	err := s.Retrieve(ctx, file, 0, func(content io.Reader) error {
		_, err := transfer.Copy(ctx, c, content, m.Compared)
		return err
	})
	switch {
	case err == nil:
		return c.off == m.Total, nil
	case errors.Is(err, errDifferent) && ctx.Err() == nil: // the session has ended in the middle
		return false, s.Reconnect(ctx)
	case ftpclient.IsReply(err):
		return false, nil
	}
	return false, err
}

// A comparer accepts only what src holds.
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
	n, err := c.src.ReadAt(buf, c.off)
	if n < len(p) && err != io.EOF {
		return 0, err
	}
	if string(buf[:n]) != string(p) {
		return 0, errDifferent
	}
	c.off += int64(len(p))
	return len(p), nil
}

// A wrong is the error that what the server has is of no use.
type wrong struct{ err error }

func (e *wrong) Error() string { return e.err.Error() }
func (e *wrong) Unwrap() error { return e.err }

func isWrong(err error) bool {
	_, ok := errors.AsType[*wrong](err)
	return ok
}

// write writes the side file, and makes sure that the server has all of it. If
// going on with what an earlier attempt left leads to something else, because
// the server was still writing that, it begins anew.
func (p *putting) write(ctx context.Context, s *session, info fs.FileInfo) error {
	offset, err := p.begin(ctx, s, info)
	if err == nil {
		err = p.complete(ctx, s, offset)
	}
	if offset == 0 || !isWrong(err) {
		return err
	}
	if err := s.Remove(ctx, p.side); err != nil {
		return err
	}
	return p.complete(ctx, s, 0)
}

// complete sends what lies behind offset, and compares the sizes.
func (p *putting) complete(ctx context.Context, s *session, offset int64) error {
	p.meter.At(offset)
	if offset < p.file.size || offset == 0 {
		if err := p.send(ctx, s, offset); ftpclient.IsReply(err) {
			return p.explainRefusal(ctx, s, err)
		} else if err != nil {
			return err
		}
	}
	return p.meter.While(func() error {
		n, err := s.Stat(ctx, p.side)
		if err != nil {
			return fmt.Errorf("the size of what was written: %w", err)
		}
		if n.Size != p.file.size {
			return &wrong{fmt.Errorf("the server has %d bytes of %d, although it confirmed all of them", n.Size, p.file.size)}
		}
		return nil
	})
}

// begin returns how much of the side file the server has from an earlier
// attempt, of the same local file as it is now.
func (p *putting) begin(ctx context.Context, s *session, info fs.FileInfo) (int64, error) {
	if !p.cfg.Resume {
		return 0, nil
	}
	var then proof
	now := proof{Server: s.addr, Path: p.side, Size: info.Size(), Modified: info.ModTime()}
	n := noteOn(p.job, p.side)
	known, err := n.read(&then)
	if err != nil {
		return 0, err
	}
	if known && then.equal(now) {
		there, err := s.Stat(ctx, p.side)
		if err == nil && !there.IsDir && there.Size >= 0 && there.Size <= now.Size {
			return there.Size, nil
		}
		if err != nil && !ftpclient.IsReply(err) {
			return 0, err
		}
	}
	if err := s.Remove(ctx, p.side); err != nil && !ftpclient.IsReply(err) {
		return 0, err
	}
	return 0, n.write(now)
}

// send sends the content from offset on.
func (p *putting) send(ctx context.Context, s *session, offset int64) error {
	if _, err := p.src.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	content := io.Reader(p.src)
	if p.limit != nil {
		content = p.limit.Reader(ctx, p.src)
	}
	return s.Store(ctx, p.side, offset > 0, func(to io.Writer) error {
		_, err := transfer.Copy(ctx, to, content, func(done int64) { p.meter.At(offset + done) })
		return err
	})
}

// explainRefusal says whether the directory is there.
func (p *putting) explainRefusal(ctx context.Context, s *session, err error) error {
	dir, _ := remote.Split(p.file.final)
	if s.Cause() != nil || dir == "." || dir == "/" {
		return err
	}
	if there, e := s.IsDirectory(ctx, dir); e == nil && !there {
		return courier.Permanent(fmt.Errorf("the remote directory %s doesn't exist, or is out of reach; have it made, or correct remote_path: %w", safename.Quote(dir), err))
	}
	return err
}

// readBack compares what the server has with what was sent.
func (p *putting) readBack(ctx context.Context, s *session) error {
	same, err := p.sameContent(ctx, s, p.side, p.file.size)
	if err == nil && !same {
		err = &wrong{errors.New("the server has other content than was sent, although it confirmed all of it")}
	}
	return err
}

// setTime sets the side file's time. That the server can't is no error.
func (p *putting) setTime(ctx context.Context, s *session, info fs.FileInfo) error {
	err := s.SetTime(ctx, p.side, info.ModTime())
	if err == ftpclient.ErrNoMFMT || ftpclient.IsReply(err) {
		p.job.Log().Debug("the time of a file can't be set", "file", p.file.final, "reason", err.Error())
		return nil
	}
	return err
}
