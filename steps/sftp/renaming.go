package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// A renaming gives a remote file another name, once, whatever happens to the
// answers of the server.
type renaming struct {
	connections Connections
	job         *courier.Context
	id          string             // of the connection
	via         *sftpclient.Client // of the session, over which to rename; nil means the first
	from, to    string             // remote paths
	size        int64              // of the file; negative if it isn't compared
	ifExists    string             // what to do if there is a file called to
	what        string             // how messages call the file

	skipped bool   // there was a file called to, and ifExists is "skip"
	aside   string // remote path of the file that was there before; empty unless it was moved
}

// maxReconnects is how often a renaming connects again to learn the outcome.
const maxReconnects = 2

// run renames. If the answer to that is lost or unclear, it looks: nobody else
// renames the file, so if it is gone, it was renamed.
func (r *renaming) run(ctx context.Context, s *session) error {
	err := r.try(ctx, s, false)
	lost, again := err, false
	for n := 0; err != nil && s.Cause() != nil && ctx.Err() == nil && n < maxReconnects; n++ {
		again = true
		err = use(ctx, r.job, r.connections, r.id, func(other *session) error {
			s = other
			return r.try(ctx, s, true)
		})
	}
	if err != nil && again {
		err = fmt.Errorf("%w; connecting again to see the outcome: %w", lost, err)
	}
	if err == nil && r.aside != "" {
		err = r.removeAside(ctx, s)
	}
	return err
}

// removeAside removes the file that was there before. If the server refuses,
// the work is done nevertheless.
func (r *renaming) removeAside(ctx context.Context, s *session) error {
	err := s.Remove(ctx, r.aside)
	if sftpclient.IsStatus(err) && !errors.Is(err, fs.ErrNotExist) {
		err = s.Remove(ctx, r.aside)
	}
	if s.Cause() != nil && ctx.Err() == nil {
		err = use(ctx, r.job, r.connections, r.id, func(again *session) error { return again.Remove(ctx, r.aside) })
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.job.Log().Warn("the file that was there before can't be removed", "connection", r.id, "file", r.aside, "reason", err.Error())
	}
	return nil
}

// try renames, after looking if that is already done.
func (r *renaming) try(ctx context.Context, s *session, look bool) error {
	if look {
		if renamed, err := r.renamed(ctx, s); renamed || err != nil {
			return err
		}
	}
	overwrite := r.ifExists == transfer.IfExistsOverwrite
	replace := overwrite && s.CanReplace()
	c := s.Client
	if r.via != nil && !look {
		c = r.via
	}
	gone, err := c.RenameAndStat(ctx, r.from, r.to, replace)
	if err == nil && !gone {
		return r.verify(ctx, s) // perhaps the server has looked before it was done
	} else if err == nil {
		return nil
	}
	if !sftpclient.IsStatus(err) {
		return err
	}
	if renamed, e := r.renamed(ctx, s); renamed || e != nil {
		return e
	}
	err = fmt.Errorf("renaming %s: %w", r.what, err)
	a, e := s.Lstat(ctx, r.to)
	switch {
	case e == nil && a.IsDir() && r.size >= 0:
		return courier.Permanent(errors.New("is a directory"))
	case replace || errors.Is(e, fs.ErrNotExist):
		return err
	case e != nil:
		return e
	case a.IsDir():
		return courier.Permanent(errors.New("is a directory"))
	case overwrite:
		return r.swap(ctx, s)
	case r.ifExists == transfer.IfExistsSkip:
		r.skipped = true
		return nil
	}
	return fmt.Errorf("it has come meanwhile: %w", transfer.ErrExists(r.to))
}

// renamed reports whether the old name is gone, and if so, checks what has the
// new one. Whoever waits for the file may already have taken it away; that is
// no error.
func (r *renaming) renamed(ctx context.Context, s *session) (bool, error) {
	var found [2]sftpclient.Attrs
	var errs [2]error
	paths := [2]string{r.from, r.to}
	err := parallel.Do(ctx, len(paths), len(paths), func(ctx context.Context, i int) error {
		found[i], errs[i] = s.Lstat(ctx, paths[i])
		if sftpclient.IsStatus(errs[i]) {
			return nil
		}
		return errs[i]
	})
	switch {
	case err != nil:
		return false, err
	case errs[0] == nil:
		return false, nil
	case !errors.Is(errs[0], fs.ErrNotExist):
		return false, errs[0]
	case errs[1] != nil:
		r.job.Log().Debug("the renamed file can't be looked at; somebody may have taken it", "file", r.to, "reason", errs[1].Error())
		return true, nil
	case r.size < 0:
		return true, nil
	}
	return true, sftpclient.SizeIs(found[1], r.size)
}

// verify makes sure that a renaming that the server has confirmed took place.
// If so, what has the new name is what had the old one.
func (r *renaming) verify(ctx context.Context, s *session) error {
	_, err := s.Lstat(ctx, r.from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return fmt.Errorf("the server confirms that it has renamed the file, but it is still called %s", safename.Quote(r.from))
	}
	return err
}

// swap moves what has the new name aside, and the file there.
func (r *renaming) swap(ctx context.Context, s *session) error {
	r.aside = remote.AsideName(r.job, r.to)
	if err := s.Rename(ctx, r.to, r.aside); err != nil {
		if sftpclient.IsStatus(err) {
			r.aside = ""
		}
		return fmt.Errorf("the server can't rename onto an existing file, and moving that aside fails: %w", err)
	}
	err := s.Rename(ctx, r.from, r.to)
	if err == nil {
		return r.verify(ctx, s)
	}
	if !sftpclient.IsStatus(err) {
		return err
	}
	if renamed, e := r.renamed(ctx, s); renamed || e != nil {
		return e
	}
	err = fmt.Errorf("renaming %s: %w", r.what, err)
	if e := s.Rename(ctx, r.aside, r.to); e != nil {
		return fmt.Errorf("%w; the file that was there before is now called %s, and moving it back fails: %w", err, safename.Quote(r.aside), e)
	}
	r.aside = ""
	return err
}
