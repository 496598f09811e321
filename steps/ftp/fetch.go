package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// fetch downloads one file and completes its description.
func (t *downloading) fetch(ctx context.Context, s *session, f *remoteFile) error {
	job, cfg := t.job, t.cfg
	fault := func(err error) error { return s.fault("download", f.Remote, err) }
	n, err := s.Stat(ctx, f.Remote)
	switch {
	case err != nil:
		return fault(err)
	case n.IsDir:
		return fault(courier.Permanent(errors.New("is not a file")))
	case n.Size < 0:
		return fault(courier.Permanent(errors.New("the server doesn't tell its size, so whether all of it has come could not be told")))
	case cfg.ExpectedSize != nil && *cfg.ExpectedSize != n.Size:
		return fault(fmt.Errorf("has %d bytes instead of the %d that expected_size says", n.Size, *cfg.ExpectedSize))
	}
	f.Size, f.Modified = n.Size, n.Modified
	if f.Local, err = job.Path(f.local); err != nil {
		return err
	}
	now := proof{Server: s.addr, Path: f.Remote, Size: n.Size, Modified: n.Modified, Boot: remote.Boot()}
	if done, err := t.there(ctx, f, now); done || err != nil {
		return err
	}
	ctx, guard := s.limits.Capped(cfg.MaxBytes).Slowed(cfg.BandwidthLimit).Guard(ctx)
	defer guard.End()
	if err := guard.Allows(n.Size); err != nil {
		return fault(err)
	}
	w, offset, err := cfg.begin(job, f, now)
	if err != nil {
		return fmt.Errorf("local file %q: %w", f.local, err)
	}
	defer w.Close()
	if err := remote.Fits(job, f.local, guard, n.Size, offset); err != nil {
		return fault(err)
	}
	m := &remote.Meter{Job: job, Item: f.Remote, Total: n.Size, Guard: guard}
	if err := t.copyTo(ctx, s, f.Remote, n, w, offset, m); err != nil {
		return fault(err)
	}
	if remote.Times(cfg.Preserve) {
		setTime(job, f.local, w, f.Modified)
	}
	if cfg.remembers(n.Size) {
		now.Complete = true
		if err := cfg.noteOn(job, f).write(now); err != nil {
			return err
		}
	}
	err = m.While(func() (err error) {
		f.Skipped, err = t.target(f).Commit(ctx, w)
		return err
	})
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	m.Finish()
	if !f.Skipped {
		return nil
	}
	if part, ok := w.(*partFile); ok {
		part.discard()
	}
	now.Complete = false
	return cfg.noteOn(job, f).write(now)
}

// target is where the file goes.
func (t *downloading) target(f *remoteFile) remote.Target {
	return remote.Target{Job: t.job, Family: "ftp", Local: f.local, IfExists: t.cfg.IfExists}
}

// remembers reports whether a file that is there may count as downloaded, so
// that it matters who has written it.
func (cfg DownloadConfig) remembers(size int64) bool {
	return cfg.IfExists != transfer.IfExistsOverwrite || cfg.SkipIfSame || cfg.keeps(size)
}

// there reports whether the local file need not be downloaded. That an earlier
// attempt of this step has written it doesn't count as having been there.
func (t *downloading) there(ctx context.Context, f *remoteFile, now proof) (bool, error) {
	job, cfg := t.job, t.cfg
	if !cfg.remembers(now.Size) {
		return false, nil
	}
	info, err := job.Stat(f.local)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("local file: %w", err)
	}
	var then proof
	if job.Repeated() {
		known, err := cfg.noteOn(job, f).read(&then)
		if err != nil {
			return false, err
		}
		if known && then.Complete && then.equal(now) && info.Mode().IsRegular() && info.Size() == now.Size {
			return true, job.Wrote(f.local)
		}
	}
	if cfg.SkipIfSame && info.Mode().IsRegular() && info.Size() == now.Size && !now.Modified.IsZero() && info.ModTime().Equal(now.Modified) {
		return true, job.Wrote(f.local)
	}
	f.Skipped, err = t.target(f).Skips(ctx)
	return f.Skipped, err
}

// copyTo writes the content of a remote file from offset on to w. It fails if
// the file isn't, after that, the one that was seen before.
func (t *downloading) copyTo(ctx context.Context, s *session, file string, before ftpclient.Info, w destination, offset int64, m *remote.Meter) error {
	err := t.retrieve(ctx, s, file, before.Size, w, offset, m)
	part, _ := w.(*partFile)
	if _, refused := errors.AsType[*ftpclient.RestartError](err); refused {
		if err = part.restart(); err == nil {
			err = t.retrieve(ctx, s, file, before.Size, w, 0, m)
		}
	}
	if err != nil {
		if part != nil && errors.Is(err, connerr.ErrChanged) {
			part.discard()
		}
		return err
	}
	if err := t.verify(ctx, s, file, w, m); err != nil {
		if part != nil && !connerr.IsLost(err) && ctx.Err() == nil {
			part.discard()
		}
		return err
	}
	after, err := s.Stat(ctx, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // some servers hand out a file only once; what was read is complete
	case err != nil:
		return err
	case !before.SameFile(after):
		if part != nil {
			part.discard()
		}
		return connerr.ErrChanged
	}
	return nil
}

// verify checks the content that has arrived, where that is wanted.
func (t *downloading) verify(ctx context.Context, s *session, file string, w destination, m *remote.Meter) error {
	switch t.cfg.Checksum {
	case remote.ChecksumReadBack:
		same, err := s.compare(ctx, file, w, m)
		if err == nil && !same {
			err = errors.New("the content differs when it is read again")
		}
		return err
	case remote.ChecksumSidecar:
		sidecar := file + remote.SidecarSuffix
		text, err := s.readSmall(ctx, sidecar)
		if err != nil {
			return fmt.Errorf("checksum in %s: %w", safename.Quote(sidecar), err)
		}
		return remote.CheckSidecar(ctx, sidecar, text, w, m.Total, m.Beat)
	}
	return nil
}

// readSmall returns the content of a small remote file.
func (s *session) readSmall(ctx context.Context, file string) (string, error) {
	n, err := s.Stat(ctx, file)
	if err != nil {
		return "", err
	}
	if n.IsDir || n.Size > remote.MaxSidecar {
		return "", remote.ErrNoSidecar
	}
	var text strings.Builder
	err = s.Retrieve(ctx, file, 0, func(content io.Reader) error {
		got, err := io.Copy(&text, io.LimitReader(content, remote.MaxSidecar+1))
		if err == nil && got > remote.MaxSidecar {
			err = remote.ErrNoSidecar
		}
		return err
	})
	return text.String(), err
}

// retrieve writes what lies between offset and size to w.
func (t *downloading) retrieve(ctx context.Context, s *session, file string, size int64, w io.Writer, offset int64, m *remote.Meter) error {
	m.At(offset)
	if offset == size && offset > 0 {
		return nil
	}
	var got int64
	err := s.Retrieve(ctx, file, offset, func(content io.Reader) error {
		var err error
		limited := &io.LimitedReader{R: t.limit.Reader(ctx, content), N: min(size-offset, math.MaxInt64-1) + 1}
		got, err = transfer.Copy(ctx, w, limited, func(done int64) { m.At(offset + done) })
		if err == nil && got > size-offset {
			err = fmt.Errorf("the server sends more than the %d bytes that it says the file has: %w", size, connerr.ErrChanged)
		}
		return err
	})
	if err == nil && got != size-offset {
		err = fmt.Errorf("the server has sent %d bytes of %d, and confirms that this is all", offset+got, size)
	}
	return err
}
