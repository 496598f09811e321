package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
)

// maxReconnects is how often publish connects again to learn the outcome.
const maxReconnects = 2

// publish gives the side file its final name. If the answer to that is lost or
// unclear, it looks: only this step ever uses the name of the side file, so if
// there is none any more, it was renamed.
func (p *putting) publish(ctx context.Context, s *session) error {
	err := p.tryPublish(ctx, s, false)
	lost, again := err, false
	for n := 0; err != nil && s.cause() != nil && ctx.Err() == nil && n < maxReconnects; n++ {
		again = true
		if err = s.again(ctx); err == nil {
			err = p.tryPublish(ctx, s, true)
		}
	}
	if err != nil && again {
		err = fmt.Errorf("%w; connecting again to see the outcome: %w", lost, err)
	}
	if err == nil && p.aside != "" {
		err = p.removeAside(ctx, s)
	}
	return err
}

// removeAside removes the file that was there before. If the server refuses,
// the upload is complete nevertheless.
func (p *putting) removeAside(ctx context.Context, s *session) error {
	err := s.remove(ctx, p.aside)
	if isReply(err) {
		err = s.remove(ctx, p.aside)
	}
	if s.cause() != nil && ctx.Err() == nil {
		if err = s.again(ctx); err == nil {
			err = s.remove(ctx, p.aside)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.job.Log().Warn("the file that was there before can't be removed", "connection", s.id, "file", p.aside, "reason", err.Error())
	}
	return nil
}

// tryPublish renames, after looking if that is already done. A server that
// refuses because the final name is taken gets it out of the way first.
func (p *putting) tryPublish(ctx context.Context, s *session, look bool) error {
	if look {
		if renamed, err := p.renamed(ctx, s); renamed || err != nil {
			return err
		}
	}
	overwrite := p.cfg.Idempotency == idempotencyOverwrite || p.cfg.Idempotency == idempotencyResume
	if !overwrite {
		// Between this look and the renaming another may still come first.
		if _, err := s.stat(ctx, p.file.final); err == nil {
			return errExists
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := s.rename(ctx, p.side, p.file.final)
	if err == nil {
		return p.verify(ctx, s)
	}
	if !isReply(err) {
		return err
	}
	if renamed, e := p.renamed(ctx, s); renamed || e != nil {
		return e
	}
	n, e := s.stat(ctx, p.file.final)
	if e != nil && !isReply(e) {
		return e
	}
	if e != nil || n.isDir || !overwrite {
		return fmt.Errorf("renaming the complete file: %w", err)
	}
	return p.swap(ctx, s)
}

// renamed reports whether the side file has got its final name.
func (p *putting) renamed(ctx context.Context, s *session) (bool, error) {
	if _, err := s.stat(ctx, p.side); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	n, err := s.stat(ctx, p.file.final)
	switch {
	case isReply(err):
		p.job.Log().Debug("the uploaded file can't be looked at; somebody may have taken it", "file", p.file.final, "reason", err.Error())
		return true, nil
	case err != nil:
		return false, err
	case n.size != p.file.size:
		return true, fmt.Errorf("the server has %d bytes of %d under the final name, although it confirmed all of them", n.size, p.file.size)
	}
	return true, nil
}

// verify makes sure that a renaming that the server has confirmed took place.
func (p *putting) verify(ctx context.Context, s *session) error {
	renamed, err := p.renamed(ctx, s)
	if err == nil && !renamed {
		err = errors.New("the server confirms that it has renamed the file, but it still has its temporary name")
	}
	return err
}

// swap moves what has the final name aside, and the side file there.
func (p *putting) swap(ctx context.Context, s *session) error {
	p.aside = remote.AsideName(p.job, p.file.final)
	if err := s.rename(ctx, p.file.final, p.aside); err != nil {
		if isReply(err) {
			p.aside = ""
		}
		return fmt.Errorf("the server can't rename onto an existing file, and moving that aside fails: %w", err)
	}
	err := s.rename(ctx, p.side, p.file.final)
	if err == nil {
		return p.verify(ctx, s)
	}
	if !isReply(err) {
		return err
	}
	if renamed, e := p.renamed(ctx, s); renamed || e != nil {
		return e
	}
	err = fmt.Errorf("renaming the complete file: %w", err)
	if e := s.rename(ctx, p.aside, p.file.final); e != nil {
		return fmt.Errorf("%w; the file that was there before is now called %s, and moving it back fails: %w", err, safename.Quote(p.aside), e)
	}
	p.aside = ""
	return err
}

// removeLeftovers removes the side files of the attempts up to last, with parts
// also what is kept for the next attempt. Their names are known, so this works
// where listing is not allowed.
func (s *session) removeLeftovers(ctx context.Context, job *courier.Context, files []localFile, last int, parts bool) error {
	for _, f := range files {
		job.Progress(0, -1, f.final)
		if err := s.restore(ctx, job, f.final, last); err != nil {
			return s.fault("clean up", f.final, err)
		}
		dir, name := remote.Split(f.final)
		names := remote.SideNames(job, name, last)
		if parts {
			names = append(names, partName(job, name))
		}
		for _, side := range names {
			if err := s.removeSide(ctx, job, remote.Join(dir, side)); err != nil {
				return s.fault("clean up", f.final, err)
			}
		}
	}
	return nil
}

// removeSide removes a side file. That the server refuses is no error, but
// worth a warning if the file is there.
func (s *session) removeSide(ctx context.Context, job *courier.Context, p string) error {
	err := s.remove(ctx, p)
	if !isReply(err) {
		return err
	}
	_, e := s.stat(ctx, p)
	if e == nil {
		job.Log().Warn("what an earlier attempt left behind can't be removed", "connection", s.id, "file", p, "reason", err.Error())
	}
	if isReply(e) {
		return nil
	}
	return e
}

// restore moves back what an attempt moved aside, unless its successor is in
// place.
func (s *session) restore(ctx context.Context, job *courier.Context, final string, last int) error {
	dir, name := remote.Split(final)
	for _, old := range remote.SideNames(job, name+remote.AsideSuffix, last) {
		old = remote.Join(dir, old)
		_, err := s.stat(ctx, old)
		if err == nil {
			if _, e := s.stat(ctx, final); errors.Is(e, fs.ErrNotExist) {
				err = s.rename(ctx, old, final)
			} else if e == nil {
				err = s.remove(ctx, old)
			} else {
				err = e
			}
		}
		if err != nil && !isReply(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
