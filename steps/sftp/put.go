package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// A putting is the upload of one file.
type putting struct {
	connections Connections
	job         *courier.Context
	cfg         UploadConfig
	file        *localFile
	client      *client // over which to move it; more may join
	limit       *bandwidth.Limiter

	src   *os.File
	meter *remote.Meter
	side  string      // remote path until the file is complete
	part  *uploadPart // of resume; nil without
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
	if done, err := p.consult(ctx, s, before); done || err != nil {
		return s.fault("upload", p.file.final, err)
	}
	if p.cfg.Resume && p.job.StepDir() != "" {
		if p.part, err = p.openPart(ctx, s); err != nil {
			return s.fault("upload", p.file.final, err)
		}
		p.side = p.part.note.Part
	}
	err = p.write(ctx, s)
	if err == nil {
		err = remote.Unchanged(src, before)
	}
	if err == nil && p.cfg.Checksum == remote.ChecksumReadBack {
		err = p.readBack(ctx, s)
	}
	if err == nil {
		err = p.preserve(ctx, s, before)
	}
	if err == nil {
		err = p.publish(ctx, s)
	}
	if p.part != nil && err != nil && isWorthKeeping(err) {
		err = errors.Join(err, p.part.keep())
	} else if err != nil || p.file.skipped {
		err = errors.Join(err, p.part.forget())
		p.discard(ctx, s)
	}
	if err != nil {
		return s.fault("upload", p.file.final, err)
	}
	p.meter.Finish()
	return nil
}

// publish gives the side file its final name.
func (p *putting) publish(ctx context.Context, s *session) error {
	r := renaming{
		connections: p.connections, job: p.job, id: p.cfg.ConnectionID, via: p.client,
		from: p.side, to: p.file.final, size: p.file.size, ifExists: p.cfg.IfExists, what: "the complete file",
	}
	err := r.run(ctx, s)
	p.file.skipped = r.skipped
	return err
}

// consult looks at what has the final name, and decides whether there is
// nothing to do.
//
// A small file that will replace what is there is sent without looking: what
// can't be replaced shows when it is renamed.
func (p *putting) consult(ctx context.Context, s *session, local fs.FileInfo) (done bool, err error) {
	if p.cfg.IfExists == transfer.IfExistsOverwrite && !p.cfg.SkipIfSame && s.canReplace() && p.file.size <= defaultChunk {
		return false, nil
	}
	a, err := s.stat(ctx, p.file.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission) && p.cfg.IfExists == transfer.IfExistsOverwrite:
		return false, nil // perhaps files may only be written here
	case err != nil:
		return false, err
	case a.isDir():
		return false, courier.Permanent(errors.New("is a directory"))
	case p.cfg.SkipIfSame && a.isFile() && a.flags&attrSize != 0 && a.size == uint64(local.Size()) &&
		!a.modified().IsZero() && a.modified().Unix() == local.ModTime().Unix():
		return true, nil
	case p.cfg.IfExists == transfer.IfExistsOverwrite:
		return false, nil
	}
	if p.job.Repeated() {
		// An earlier start may have finished without anybody getting to know.
		// Nothing but the content tells.
		if same, err := p.sameContent(ctx, s, p.file.final, a); same || err != nil {
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

// sameContent reports whether a remote file has the content of the local one.
func (p *putting) sameContent(ctx context.Context, s *session, remote string, a attrs) (bool, error) {
	size := p.file.size
	if n, err := a.fileSize(); err != nil || n != size || !a.isFile() {
		return false, nil
	}
	h, err := s.open(ctx, remote, flagRead)
	if isStatus(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer s.closeHandle(ctx, h)
	r := reading{crew: alone(s.client, h), size: size, to: &comparer{src: p.src}, progress: p.meter.Compared}
	err = r.run(ctx)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errDifferent), errors.Is(err, errShrank), errors.Is(err, errGrew):
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
	if n, err := c.src.ReadAt(buf, c.off); n < len(p) {
		return 0, err
	}
	if string(buf) != string(p) {
		return 0, errDifferent
	}
	c.off += int64(len(p))
	return len(p), nil
}

// write writes the side file, and makes sure that the server has all of it.
func (p *putting) write(ctx context.Context, s *session) error {
	if p.part == nil && p.limit == nil && p.file.size <= int64(p.client.writeChunk) {
		return p.writeAtOnce(ctx)
	}
	start, flags := int64(0), uint32(flagWrite|flagCreate|flagTruncate)
	if p.part != nil {
		var err error
		if start, err = p.resumeAt(ctx, s); err != nil {
			return err
		}
		if start > 0 {
			flags = flagWrite
		}
	}
	open, err := s.openLanes(ctx, p.client, p.side, flags, p.file.size-start)
	if err != nil {
		return p.cantOpen(err)
	}
	w := writing{crew: open, size: p.file.size, from: p.src, progress: p.meter.At, limit: p.limit, sent: start, acked: start}
	err = w.run(ctx)
	p.part.reached(w.acked)
	if err != nil {
		open.close(ctx)
		return err
	}
	return p.meter.While(func() error { return finishing{open.all(), p.side, p.file.size, nil}.run(ctx) })
}

// writeAtOnce writes a file that fits into a packet.
func (p *putting) writeAtOnce(ctx context.Context) error {
	c := p.client
	h, err := c.open(ctx, p.side, flagWrite|flagCreate|flagTruncate)
	if err != nil {
		return p.cantOpen(err)
	}
	return p.meter.While(func() error { return finishing{[]lane{{c, h}}, p.side, p.file.size, p.src}.run(ctx) })
}

// cantOpen explains why the side file can't be made.
func (p *putting) cantOpen(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, _ := remote.Split(p.file.final)
	return courier.Permanent(fmt.Errorf("the remote directory %s doesn't exist; have it made, or correct remote_path: %w", safename.Quote(dir), err))
}

func sizeIs(a attrs, want int64) error {
	switch got, err := a.fileSize(); {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("the server has %d bytes of %d, although it confirmed all of them", got, want)
	}
	return nil
}

// readBack compares what the server has with what was sent.
func (p *putting) readBack(ctx context.Context, s *session) error {
	a, err := s.stat(ctx, p.side)
	if err != nil {
		return err
	}
	same, err := p.sameContent(ctx, s, p.side, a)
	if err == nil && !same {
		err = fmt.Errorf("the server has other content than was sent, although it confirmed all of it: %w", errOtherContent)
	}
	return err
}

// discard removes the side file where that is still possible. Otherwise
// Cleanup will.
func (p *putting) discard(ctx context.Context, s *session) {
	ctx, cancel := detached(ctx)
	defer cancel()
	s.remove(ctx, p.side)
}
