package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// A renaming gives a remote file another name, once, whatever happens to the
// answers of the server.
type renaming struct {
	account  Account
	from, to string // remote paths
	size     int64  // of the file; negative if it isn't compared
	ifExists string // what to do if there is a file called to
	what     string // how messages call the file

	skipped bool   // there was a file called to, and ifExists is "skip"
	aside   string // remote path of the file that was there before; empty unless it was moved
}

// maxOutcomes is how often a renaming connects again to learn the outcome.
const maxOutcomes = 2

// run renames. If the answer to that is lost or unclear, it looks: nobody else
// renames the file, so if it is gone, it was renamed.
func (r *renaming) run(ctx context.Context, s Server) error {
	err := r.try(ctx, s, false)
	lost, again := err, false
	for n := 0; err != nil && s.Cause() != nil && ctx.Err() == nil && n < maxOutcomes; n++ {
		again = true
		err = s.Again(ctx, func(other Server) error {
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
func (r *renaming) removeAside(ctx context.Context, s Server) error {
	err := s.Remove(ctx, r.aside)
	if s.Refused(err) && !errors.Is(err, fs.ErrNotExist) {
		err = s.Remove(ctx, r.aside)
	}
	if s.Cause() != nil && ctx.Err() == nil {
		err = s.Again(ctx, func(again Server) error { return again.Remove(ctx, r.aside) })
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.account.Job.Log().Warn("the file that was there before can't be removed", "connection", r.account.ID, "file", r.aside, "reason", err.Error())
	}
	return nil
}

// try renames, after looking if that is already done.
func (r *renaming) try(ctx context.Context, s Server, look bool) error {
	if look {
		if renamed, err := r.renamed(ctx, s); renamed || err != nil {
			return err
		}
	}
	overwrite := r.ifExists == transfer.IfExistsOverwrite
	if !overwrite && s.Traits().Overwrites {
		// Between this look and the renaming another may still come first.
		if _, err := s.Lstat(ctx, r.to); err == nil {
			return r.exists(transfer.ErrExists(""))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	replace := overwrite && s.Traits().Replaces
	gone, err := s.Rename(ctx, r.from, r.to, replace)
	if err == nil && !gone {
		return r.verify(ctx, s) // perhaps the server has looked before it was done
	} else if err == nil || !s.Refused(err) {
		return err
	}
	if renamed, e := r.renamed(ctx, s); renamed || e != nil {
		return e
	}
	err = fmt.Errorf("renaming %s: %w", r.what, err)
	there, e := s.Lstat(ctx, r.to)
	switch {
	case e == nil && there.IsDir() && r.size >= 0:
		return courier.Permanent(errors.New("is a directory"))
	case replace || errors.Is(e, fs.ErrNotExist):
		return err
	case e != nil:
		return e
	case there.IsDir():
		return courier.Permanent(errors.New("is a directory"))
	case overwrite:
		return r.swap(ctx, s)
	}
	return r.exists(fmt.Errorf("it has come meanwhile: %w", transfer.ErrExists(r.to)))
}

// exists does what ifExists says about a file that is there; err is what it says
// unless it skips.
func (r *renaming) exists(err error) error {
	if r.ifExists == transfer.IfExistsSkip {
		r.skipped = true
		return nil
	}
	return err
}

// renamed reports whether the old name is gone, and if so, checks what has the
// new one. Whoever waits for the file may already have taken it away; that is
// no error.
func (r *renaming) renamed(ctx context.Context, s Server) (bool, error) {
	var found [2]Info
	var errs [2]error
	paths := [2]string{r.from, r.to}
	err := parallel.Do(ctx, len(paths), s.Traits().Requests, func(ctx context.Context, i int) error {
		found[i], errs[i] = s.Lstat(ctx, paths[i])
		if s.Refused(errs[i]) || errors.Is(errs[i], fs.ErrNotExist) {
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
		r.account.Job.Log().Debug("the renamed file can't be looked at; somebody may have taken it", "file", r.to, "reason", errs[1].Error())
		return true, nil
	case r.size < 0:
		return true, nil
	}
	return true, sizeIs(found[1], r.size)
}

// sizeIs returns an error unless the server tells the size want.
func sizeIs(i Info, want int64) error {
	switch got, err := i.FileSize(); {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("the server has %d bytes of %d, although it confirmed all of them", got, want)
	}
	return nil
}

// verify makes sure that a renaming that the server has confirmed took place.
func (r *renaming) verify(ctx context.Context, s Server) error {
	renamed, err := r.renamed(ctx, s)
	if err == nil && !renamed {
		err = fmt.Errorf("the server confirms that it has renamed the file, but it is still called %s", safename.Quote(r.from))
	}
	return err
}

// swap moves what has the new name aside, and the file there.
func (r *renaming) swap(ctx context.Context, s Server) error {
	r.aside = AsideName(r.account.Job, r.to)
	if _, err := s.Rename(ctx, r.to, r.aside, false); err != nil {
		if s.Refused(err) {
			r.aside = ""
		}
		return fmt.Errorf("the server can't rename onto an existing file, and moving that aside fails: %w", err)
	}
	_, err := s.Rename(ctx, r.from, r.to, false)
	if err == nil {
		return r.verify(ctx, s)
	}
	if !s.Refused(err) {
		return err
	}
	if renamed, e := r.renamed(ctx, s); renamed || e != nil {
		return e
	}
	err = fmt.Errorf("renaming %s: %w", r.what, err)
	if _, e := s.Rename(ctx, r.aside, r.to, false); e != nil {
		return fmt.Errorf("%w; the file that was there before is now called %s, and moving it back fails: %w", err, safename.Quote(r.aside), e)
	}
	r.aside = ""
	return err
}
