package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// maxReconnects is how often a renaming connects again to learn the outcome.
const maxReconnects = 2

// A moving gives a remote file another name. If the answer to that is lost or
// unclear, it looks: nobody else uses the name from, so if there is no such file
// any more, it was renamed.
type moving struct {
	job      *courier.Context
	from, to string
	size     int64  // of the file
	ifExists string // what to do if there is a file called to
	what     string // for errors, such as "the complete file"

	skipped bool   // there was a file called to, and ifExists is "skip"
	aside   string // remote path of the file that was there before; empty unless it was moved
}

// publish gives the side file its final name.
func (p *putting) publish(ctx context.Context, s *session) error {
	m := moving{job: p.job, from: p.side, to: p.file.final, size: p.file.size, ifExists: p.cfg.IfExists, what: "the complete file"}
	err := m.run(ctx, s)
	p.file.skipped = m.skipped
	return err
}

func (m *moving) run(ctx context.Context, s *session) error {
	err := m.try(ctx, s, false)
	lost, again := err, false
	for n := 0; err != nil && s.Cause() != nil && ctx.Err() == nil && n < maxReconnects; n++ {
		again = true
		if err = s.Reconnect(ctx); err == nil {
			err = m.try(ctx, s, true)
		}
	}
	if err != nil && again {
		err = fmt.Errorf("%w; connecting again to see the outcome: %w", lost, err)
	}
	if err == nil && m.aside != "" {
		err = m.removeAside(ctx, s)
	}
	return err
}

// removeAside removes the file that was there before. If the server refuses,
// the upload is complete nevertheless.
func (m *moving) removeAside(ctx context.Context, s *session) error {
	err := s.Remove(ctx, m.aside)
	if ftpclient.IsReply(err) {
		err = s.Remove(ctx, m.aside)
	}
	if s.Cause() != nil && ctx.Err() == nil {
		if err = s.Reconnect(ctx); err == nil {
			err = s.Remove(ctx, m.aside)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.job.Log().Warn("the file that was there before can't be removed", "connection", s.id, "file", m.aside, "reason", err.Error())
	}
	return nil
}

// try renames, after looking if that is already done. A server that
// refuses because the final name is taken gets it out of the way first.
func (m *moving) try(ctx context.Context, s *session, look bool) error {
	if look {
		if renamed, err := m.renamed(ctx, s); renamed || err != nil {
			return err
		}
	}
	if m.ifExists != transfer.IfExistsOverwrite {
		// Between this look and the renaming another may still come first.
		if _, err := s.Stat(ctx, m.to); err == nil && m.ifExists == transfer.IfExistsSkip {
			m.skipped = true
			return nil
		} else if err == nil {
			return transfer.ErrExists("")
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := s.Rename(ctx, m.from, m.to)
	if err == nil {
		return m.verify(ctx, s)
	}
	if !ftpclient.IsReply(err) {
		return err
	}
	if renamed, e := m.renamed(ctx, s); renamed || e != nil {
		return e
	}
	n, e := s.Stat(ctx, m.to)
	if e != nil && !ftpclient.IsReply(e) {
		return e
	}
	if e != nil || n.IsDir || m.ifExists != transfer.IfExistsOverwrite {
		return fmt.Errorf("renaming %s: %w", m.what, err)
	}
	return m.swap(ctx, s)
}

// renamed reports whether the file has got its new name.
func (m *moving) renamed(ctx context.Context, s *session) (bool, error) {
	if _, err := s.Stat(ctx, m.from); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	n, err := s.Stat(ctx, m.to)
	switch {
	case ftpclient.IsReply(err):
		m.job.Log().Debug("the file that was renamed can't be looked at; somebody may have taken it", "file", m.to, "reason", err.Error())
		return true, nil
	case err != nil:
		return false, err
	case n.Size != m.size:
		return true, fmt.Errorf("the server has %d bytes of %d under the final name, although it confirmed all of them", n.Size, m.size)
	}
	return true, nil
}

// verify makes sure that a renaming that the server has confirmed took place.
func (m *moving) verify(ctx context.Context, s *session) error {
	renamed, err := m.renamed(ctx, s)
	if err == nil && !renamed {
		err = errors.New("the server confirms that it has renamed the file, but it still has its temporary name")
	}
	return err
}

// swap moves what has the new name aside, and the file there.
func (m *moving) swap(ctx context.Context, s *session) error {
	m.aside = remote.AsideName(m.job, m.to)
	if err := s.Rename(ctx, m.to, m.aside); err != nil {
		if ftpclient.IsReply(err) {
			m.aside = ""
		}
		return fmt.Errorf("the server can't rename onto an existing file, and moving that aside fails: %w", err)
	}
	err := s.Rename(ctx, m.from, m.to)
	if err == nil {
		return m.verify(ctx, s)
	}
	if !ftpclient.IsReply(err) {
		return err
	}
	if renamed, e := m.renamed(ctx, s); renamed || e != nil {
		return e
	}
	err = fmt.Errorf("renaming %s: %w", m.what, err)
	if e := s.Rename(ctx, m.aside, m.to); e != nil {
		return fmt.Errorf("%w; the file that was there before is now called %s, and moving it back fails: %w", err, safename.Quote(m.aside), e)
	}
	m.aside = ""
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
	err := s.Remove(ctx, p)
	if !ftpclient.IsReply(err) {
		return err
	}
	_, e := s.Stat(ctx, p)
	if e == nil {
		job.Log().Warn("what an earlier attempt left behind can't be removed", "connection", s.id, "file", p, "reason", err.Error())
	}
	if ftpclient.IsReply(e) {
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
		_, err := s.Stat(ctx, old)
		if err == nil {
			if _, e := s.Stat(ctx, final); errors.Is(e, fs.ErrNotExist) {
				err = s.Rename(ctx, old, final)
			} else if e == nil {
				err = s.Remove(ctx, old)
			} else {
				err = e
			}
		}
		if err != nil && !ftpclient.IsReply(err) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
