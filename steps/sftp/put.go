package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// A putting is the upload of one file.
type putting struct {
	connections Connections
	job         *courier.Context
	cfg         UploadConfig
	file        *localFile
	client      *sftpclient.Client // over which to move it; more may join
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
	if p.cfg.IfExists == transfer.IfExistsOverwrite && !p.cfg.SkipIfSame && s.CanReplace() && p.file.size <= sftpclient.DefaultChunk {
		return false, nil
	}
	a, err := s.Stat(ctx, p.file.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission) && p.cfg.IfExists == transfer.IfExistsOverwrite:
		return false, nil // perhaps files may only be written here
	case err != nil:
		return false, err
	case a.IsDir():
		return false, courier.Permanent(errors.New("is a directory"))
	case p.cfg.SkipIfSame && a.IsFile() && a.Flags&sftpclient.AttrSize != 0 && a.Size == uint64(local.Size()) &&
		!a.Modified().IsZero() && a.Modified().Unix() == local.ModTime().Unix():
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

// sameContent reports whether a remote file has the content of the local one.
func (p *putting) sameContent(ctx context.Context, s *session, remote string, a sftpclient.Attrs) (bool, error) {
	size := p.file.size
	if n, err := a.FileSize(); err != nil || n != size || !a.IsFile() {
		return false, nil
	}
	return s.SameContent(ctx, remote, p.src, size, p.meter.Compared)
}

// write writes the side file, and makes sure that the server has all of it.
func (p *putting) write(ctx context.Context, s *session) error {
	if p.part == nil && p.limit == nil && p.file.size <= int64(p.client.WriteChunk) {
		return p.writeAtOnce(ctx)
	}
	start, flags := int64(0), uint32(sftpclient.FlagWrite|sftpclient.FlagCreate|sftpclient.FlagTruncate)
	if p.part != nil {
		var err error
		if start, err = p.resumeAt(ctx, s); err != nil {
			return err
		}
		if start > 0 {
			flags = sftpclient.FlagWrite
		}
	}
	open, err := s.OpenWorkers(ctx, p.client, p.side, flags, p.file.size-start)
	if err != nil {
		return p.cantOpen(err)
	}
	w := sftpclient.Writing{Workers: open, Size: p.file.size, From: p.src, Progress: p.meter.At, Limit: p.limit, Sent: start, Acked: start}
	err = w.Run(ctx)
	p.part.reached(w.Acked)
	if err != nil {
		open.Close(ctx)
		return err
	}
	return p.meter.While(func() error { return sftpclient.Finish(ctx, open.All(), p.side, p.file.size, nil) })
}

// writeAtOnce writes a file that fits into a packet.
func (p *putting) writeAtOnce(ctx context.Context) error {
	c := p.client
	h, err := c.Open(ctx, p.side, sftpclient.FlagWrite|sftpclient.FlagCreate|sftpclient.FlagTruncate)
	if err != nil {
		return p.cantOpen(err)
	}
	return p.meter.While(func() error {
		return sftpclient.Finish(ctx, []sftpclient.File{{Client: c, Handle: h}}, p.side, p.file.size, p.src)
	})
}

// cantOpen explains why the side file can't be made.
func (p *putting) cantOpen(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, _ := remote.Split(p.file.final)
	return courier.Permanent(fmt.Errorf("the remote directory %s doesn't exist; have it made, or correct remote_path: %w", safename.Quote(dir), err))
}

// readBack compares what the server has with what was sent.
func (p *putting) readBack(ctx context.Context, s *session) error {
	a, err := s.Stat(ctx, p.side)
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
	ctx, cancel := sftpclient.Detached(ctx)
	defer cancel()
	s.Remove(ctx, p.side)
}
