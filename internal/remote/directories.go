package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/steps/fileserver"
)

// Mkdir makes a directory, and those above it that are missing.
func Mkdir(ctx context.Context, a Account, dir string) error {
	if err := a.CheckPath("remote_path", dir); err != nil {
		return err
	}
	dir = TrimSlashes(dir)
	err := a.Use(ctx, func(s Server) error {
		return s.Fault("make directory", dir, makeDirectories(ctx, s, dir))
	})
	if err == nil {
		err = a.produced(dir)
	}
	return err
}

// makeDirectories makes dir and what is missing above it.
func makeDirectories(ctx context.Context, s Server, dir string) error {
	var missing []string // the lowest first
	for d := dir; ; {
		info, err := s.Stat(ctx, d)
		if err == nil {
			if !info.MayBeDir() {
				return courier.Permanent(errors.New(notDirectory(d, dir)))
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, d)
		above, _ := Split(d)
		if above = TrimSlashes(above); above == "." || above == "/" || above == d {
			break
		}
		d = above
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := makeDirectory(ctx, s, missing[i]); err != nil {
			return err
		}
	}
	return nil
}

func notDirectory(what, wanted string) string {
	if what == wanted {
		return "is there, but is not a directory"
	}
	return "has a file above it where a directory should be"
}

// makeDirectory makes one directory. Somebody else may do so at the same time.
func makeDirectory(ctx context.Context, s Server, dir string) error {
	err := s.Mkdir(ctx, dir)
	if err == nil || !s.Refused(err) {
		return err
	}
	if info, e := s.Stat(ctx, dir); e == nil && info.MayBeDir() {
		return nil
	} else if e != nil && !s.Refused(e) && !errors.Is(e, fs.ErrNotExist) {
		return e
	}
	return err
}

// ValidateMkdir logs in and checks that no file is in the way.
func ValidateMkdir(ctx context.Context, a Account, dir string) error {
	if err := a.CheckPath("remote_path", dir); err != nil {
		return err
	}
	return a.Validate(ctx, func(s Server) error {
		if a.Job.Unresolved("remote_path") {
			return nil
		}
		info, err := s.Stat(ctx, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && !info.MayBeDir():
			err = courier.Permanent(errors.New(notDirectory(dir, dir)))
		}
		return s.Fault("make directory", dir, err)
	})
}

// maxNesting is how deep directories that are removed may lie in each other.
const maxNesting = 100

// A rmdirNote says that an attempt is about to remove the directory, or was done
// with that.
type rmdirNote struct {
	Directory string `json:"directory"`
	Existed   bool   `json:"existed"`
	Done      bool   `json:"done"`
	Attempt   int    `json:"attempt"` // of the execution
}

// Rmdir removes a directory. If an earlier attempt may have done that, it is no
// error that there is none, and one that has come since stays.
func Rmdir(ctx context.Context, a Account, cfg fileserver.RmdirConfig) (fileserver.RmdirOutput, error) {
	out := fileserver.RmdirOutput{RemovedDirectory: TrimSlashes(cfg.RemotePath)}
	notes, err := a.lastingNotes(ctx, "rmdir")
	if err != nil {
		return fileserver.RmdirOutput{}, err
	}
	var n rmdirNote
	if _, err := notes.read(&n); err != nil {
		return fileserver.RmdirOutput{}, err
	}
	if n.Directory != out.RemovedDirectory {
		n = rmdirNote{Directory: out.RemovedDirectory}
	}
	if n.Done {
		remade := false
		if n.Attempt < a.Job.ExecutionAttempt() {
			remade, err = a.remade(out.RemovedDirectory)
		}
		if err != nil || !remade {
			out.Existed = n.Existed
			return out, err
		}
	}
	err = a.Use(ctx, func(s Server) error {
		err := a.checkRemovable(ctx, s, out.RemovedDirectory)
		if s.Missing(err) && (cfg.IgnoreMissing || n.Existed || stepcontext.Of(a.Job).NoteDir() == "" && a.Job.Repeated()) {
			return nil
		}
		if err == nil {
			n.Existed, n.Done, n.Attempt = true, false, a.Job.ExecutionAttempt()
			err = notes.write(n)
		}
		if err == nil {
			err = a.removeDirectory(ctx, s, out.RemovedDirectory, cfg.Recursive)
			if errors.Is(err, fs.ErrNotExist) {
				if _, e := s.Lstat(ctx, out.RemovedDirectory); e != nil && (s.Refused(e) || errors.Is(e, fs.ErrNotExist)) {
					err = nil
				}
			}
		}
		return s.Fault("remove directory", out.RemovedDirectory, err)
	})
	if err == nil {
		n.Done, n.Attempt = true, a.Job.ExecutionAttempt()
		err = notes.write(n)
	}
	if err != nil {
		return fileserver.RmdirOutput{}, err
	}
	out.Existed = n.Existed
	return out, nil
}

// checkRemovable reports why dir can't be removed: it is missing, or no directory.
func (a Account) checkRemovable(ctx context.Context, s Server, dir string) error {
	info, err := s.Lstat(ctx, dir)
	if err == nil && !info.MayBeDir() {
		err = courier.Permanent(errors.New("is not a directory; files are for " + a.Family + ".delete"))
	}
	return err
}

func (a Account) removeDirectory(ctx context.Context, s Server, dir string, recursive bool) error {
	if recursive {
		c := clearing{Server: s, job: a.Job}
		if err := c.clear(ctx, dir, 1); err != nil {
			return err
		}
	}
	err := s.Rmdir(ctx, dir)
	if err == nil || !s.Refused(err) || recursive {
		return err
	}
	// Servers have no word of their own for it.
	if holdsSomething(ctx, s, dir) {
		return courier.Permanent(fmt.Errorf("the directory is not empty; set recursive to remove it with its content: %w", err))
	}
	return err
}

// holdsSomething reports whether dir is known to have entries.
func holdsSomething(ctx context.Context, s Server, dir string) bool {
	found := false
	_, err := s.List(ctx, dir, func(e Entry) error {
		found = found || e.Name != "." && e.Name != ".."
		return nil
	})
	return found && err == nil
}

// A clearing removes what is in a directory. Links are removed, not followed.
type clearing struct {
	Server
	job     *courier.Context
	removed int
	held    int // bytes of names that are in memory
}

// clear empties dir, which is depth levels below the start: directories first, so
// that nothing is removed from a tree that has no end.
func (c *clearing) clear(ctx context.Context, dir string, depth int) error {
	if depth > maxNesting {
		return courier.Permanent(fmt.Errorf("%s: directories are nested more than %d levels deep", safename.Quote(dir), maxNesting))
	}
	before := c.held
	defer func() { c.held = before }()
	files, dirs, err := c.contents(ctx, dir)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := c.clearOne(ctx, Join(dir, d), depth); err != nil {
			return err
		}
	}
	return parallel.Do(ctx, len(files), c.Traits().Requests, func(ctx context.Context, i int) error {
		return c.removeOne(ctx, Join(dir, files[i]))
	})
}

// contents returns the names of the files and of the directories in dir: paths get
// longer with the depth. It refuses a directory of which not everything is
// understood.
func (c *clearing) contents(ctx context.Context, dir string) (files, dirs []string, err error) {
	unknown, err := c.List(ctx, dir, func(e Entry) error {
		switch {
		case e.Name == "." || e.Name == "..":
			return nil
		case e.Name == "" || strings.ContainsAny(e.Name, "/\x00") || c.Traits().OneLine && strings.ContainsFunc(e.Name, unicode.IsControl):
			return courier.Permanent(fmt.Errorf("%s lists the name %s, which leads elsewhere; nothing more is removed", safename.Quote(dir), safename.Quote(e.Name)))
		}
		if c.removed++; c.removed > MaxFiles {
			return courier.Permanent(fmt.Errorf("more than %d files and directories; remove parts of it first", MaxFiles))
		}
		if c.held += len(e.Name); c.held > MaxListingBytes {
			return courier.Permanent(fmt.Errorf("the names of what is to be removed have more than %d MiB; remove parts of it first", MaxListingBytes>>20))
		}
		if c.job.Progress(0, -1, dir); e.IsDir {
			dirs = append(dirs, e.Name)
		} else {
			files = append(files, e.Name)
		}
		return nil
	})
	if err == nil && unknown > 0 {
		err = courier.Permanent(fmt.Errorf("%s: its listing has lines in an unknown format, so its content is not known", safename.Quote(dir)))
	}
	return files, dirs, err
}

// clearOne removes what was listed as a directory. Some servers list links to
// directories so.
func (c *clearing) clearOne(ctx context.Context, dir string, depth int) error {
	info, err := c.Lstat(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", safename.Quote(dir), err)
	case !info.IsDir():
		return c.removeOne(ctx, dir)
	}
	if err := c.clear(ctx, dir, depth+1); err != nil {
		return err
	}
	err = c.Rmdir(ctx, dir)
	c.job.Progress(0, -1, dir)
	return c.unlessGone(ctx, dir, err)
}

func (c *clearing) removeOne(ctx context.Context, p string) error {
	err := removeGone(ctx, c, p)
	c.job.Progress(0, -1, p)
	if err != nil {
		return fmt.Errorf("%s: %w", safename.Quote(p), err)
	}
	return nil
}

// unlessGone returns err, of the removal of p, unless there is no p any more.
func (c *clearing) unlessGone(ctx context.Context, p string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := c.Lstat(ctx, p); errors.Is(e, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", safename.Quote(p), err)
	}
	return nil
}

// ValidateRmdir logs in and checks that the path is one of a directory.
func ValidateRmdir(ctx context.Context, a Account, cfg fileserver.RmdirConfig) error {
	return a.Validate(ctx, func(s Server) error {
		if a.Job.Unresolved("remote_path") {
			return nil
		}
		err := a.checkRemovable(ctx, s, TrimSlashes(cfg.RemotePath))
		if s.Missing(err) && cfg.IgnoreMissing {
			return nil
		}
		return s.Fault("remove directory", cfg.RemotePath, err)
	})
}
