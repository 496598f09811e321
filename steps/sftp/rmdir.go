package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
)

// Rmdir is the step "sftp.rmdir". It removes an empty directory or, if
// recursive is set, one with all that is in it. Links are removed, and never
// followed.
//
// A retry doesn't remove a directory that has come to exist since an earlier
// attempt was done with the removal.
type Rmdir struct {
	Connections Connections // must not be nil
}

// RmdirConfig is the configuration of [Rmdir].
type RmdirConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the directory to remove; taken from the login directory unless it begins with a slash"`
	Recursive     bool   `json:"recursive,omitempty" doc:"remove all that is in it too; otherwise it must be empty"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"that there is no such directory is no error"`
}

// RmdirOutput is the output of [Rmdir].
type RmdirOutput struct {
	RemovedDirectory string `json:"removed_directory" doc:"remote path of the directory that is gone"`
	Existed          bool   `json:"existed" doc:"whether there was such a directory"`
}

var (
	_ courier.Step[RmdirConfig, RmdirOutput] = Rmdir{}
	_ courier.Validator[RmdirConfig]         = Rmdir{}
)

// What a directory to be removed may hold.
const (
	maxRemovals = 100_000
	maxDepth    = 100
)

func (cfg RmdirConfig) check() error {
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return err
	}
	if dir := trimSlashes(cfg.RemotePath); dir == "/" || slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool { return part == "." || part == ".." }) {
		return courier.Permanent(fmt.Errorf("remote_path: %s is not removed; name one directory, with neither \".\" nor \"..\" in its path", safename.Quote(cfg.RemotePath)))
	}
	return nil
}

// A rmdirNote says that an attempt is about to remove the directory, or was done
// with that.
type rmdirNote struct {
	Directory string `json:"directory"`
	Existed   bool   `json:"existed"`
	Done      bool   `json:"done"`
	Attempt   int    `json:"attempt"` // of the execution
}

// Execute removes the directory.
func (r Rmdir) Execute(ctx context.Context, job *courier.Context, cfg RmdirConfig) (RmdirOutput, error) {
	if err := cfg.check(); err != nil {
		return RmdirOutput{}, err
	}
	out := RmdirOutput{RemovedDirectory: trimSlashes(cfg.RemotePath)}
	notes, err := openLasting(ctx, job, "rmdir")
	if err != nil {
		return RmdirOutput{}, err
	}
	var note rmdirNote
	if _, err := notes.read(&note); err != nil {
		return RmdirOutput{}, err
	}
	if note.Directory != out.RemovedDirectory {
		note = rmdirNote{Directory: out.RemovedDirectory}
	}
	if note.Done {
		remade := false
		if note.Attempt < job.ExecutionAttempt() {
			remade, err = remote.Remade(job, "sftp", cfg.ConnectionID, out.RemovedDirectory)
		}
		if err != nil || !remade {
			out.Existed = note.Existed
			return out, err
		}
	}
	err = use(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		err := s.checkRemovable(ctx, out.RemovedDirectory)
		if errors.Is(err, fs.ErrNotExist) && (cfg.IgnoreMissing || note.Existed) {
			return nil
		}
		if err == nil {
			note.Existed, note.Done, note.Attempt = true, false, job.ExecutionAttempt()
			err = notes.write(note)
		}
		if err == nil {
			err = remote.IgnoreMissing(s.removeDirectory(ctx, job, out.RemovedDirectory, cfg.Recursive))
		}
		return s.fault("remove directory", out.RemovedDirectory, err)
	})
	if err == nil {
		note.Done, note.Attempt = true, job.ExecutionAttempt()
		err = notes.write(note)
	}
	if err != nil {
		return RmdirOutput{}, err
	}
	out.Existed = note.Existed
	return out, nil
}

// checkRemovable reports why dir can't be removed: it is missing, or no directory.
func (s *session) checkRemovable(ctx context.Context, dir string) error {
	a, err := s.Lstat(ctx, dir)
	if err == nil && !a.IsDir() && a.Mode&sftpclient.ModeType != 0 {
		err = courier.Permanent(errors.New("is not a directory; files are for sftp.delete"))
	}
	return err
}

// removeDirectory removes dir.
func (s *session) removeDirectory(ctx context.Context, job *courier.Context, dir string, recursive bool) error {
	if recursive {
		c := clearing{session: s, job: job}
		if err := c.clear(ctx, dir, 1); err != nil {
			return err
		}
	}
	err := s.Rmdir(ctx, dir)
	if !sftpclient.IsStatus(err) || errors.Is(err, fs.ErrNotExist) || recursive {
		return err
	}
	// Servers have no word of their own for it.
	if s.holdsSomething(ctx, dir) {
		return courier.Permanent(fmt.Errorf("the directory is not empty; set recursive to remove all that is in it: %w", err))
	}
	return err
}

// holdsSomething reports whether dir is known to have entries.
func (s *session) holdsSomething(ctx context.Context, dir string) bool {
	found := false
	err := s.each(ctx, dir, func(e sftpclient.Entry) error {
		if e.Name != "." && e.Name != ".." {
			found = true
			return errFound
		}
		return nil
	}, func() {})
	return found && (err == nil || errors.Is(err, errFound))
}

var errFound = errors.New("found")

// A clearing removes what is in a directory.
type clearing struct {
	*session
	job     *courier.Context
	removed int
	held    int // bytes of names that are in memory
}

// clear empties dir, which is depth levels below the start.
func (c *clearing) clear(ctx context.Context, dir string, depth int) error {
	if depth > maxDepth {
		return courier.Permanent(fmt.Errorf("%s: directories are nested more than %d levels deep", safename.Quote(dir), maxDepth))
	}
	var files, dirs []string // names, since paths get longer with the depth
	before := c.held
	defer func() { c.held = before }()
	err := c.each(ctx, dir, func(e sftpclient.Entry) error {
		switch {
		case e.Name == "." || e.Name == "..":
			return nil
		case e.Name == "" || strings.ContainsAny(e.Name, "/\x00"):
			return courier.Permanent(fmt.Errorf("%s lists the name %s, which leads elsewhere; nothing more is removed", safename.Quote(dir), safename.Quote(e.Name)))
		}
		if c.removed++; c.removed > maxRemovals {
			return courier.Permanent(fmt.Errorf("more than %d files and directories; remove parts of it first", maxRemovals))
		}
		if c.held += len(e.Name); c.held > remote.MaxListingBytes {
			return courier.Permanent(fmt.Errorf("the names of what is to be removed have more than %d MiB; remove parts of it first", remote.MaxListingBytes>>20))
		}
		if e.Attrs.IsDir() {
			dirs = append(dirs, e.Name)
		} else {
			files = append(files, e.Name)
		}
		return nil
	}, func() { c.job.Progress(0, -1, dir) })
	if err != nil {
		return err
	}
	err = parallel.Do(ctx, len(files), manyRequests, func(ctx context.Context, i int) error {
		return c.removeOne(ctx, remote.Join(dir, files[i]))
	})
	files = nil
	for _, d := range dirs {
		if err == nil {
			err = c.clearOne(ctx, remote.Join(dir, d), depth)
		}
	}
	return err
}

// clearOne removes what was listed as a directory. Some servers list links to
// directories so.
func (c *clearing) clearOne(ctx context.Context, dir string, depth int) error {
	a, err := c.Lstat(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", safename.Quote(dir), err)
	case !a.IsDir():
		return c.removeOne(ctx, dir)
	}
	if err := c.clear(ctx, dir, depth+1); err != nil {
		return err
	}
	err = c.Rmdir(ctx, dir)
	c.job.Progress(0, -1, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", safename.Quote(dir), err)
	}
	return nil
}

func (c *clearing) removeOne(ctx context.Context, p string) error {
	err := c.Remove(ctx, p)
	c.job.Progress(0, -1, p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", safename.Quote(p), err)
	}
	return nil
}

// Validate logs in and checks that the path is one of a directory.
func (r Rmdir) Validate(ctx context.Context, job *courier.Context, cfg RmdirConfig) error {
	if !job.Unresolved("remote_path") {
		if err := cfg.check(); err != nil {
			return err
		}
	}
	return test(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") {
			return nil
		}
		err := s.checkRemovable(ctx, trimSlashes(cfg.RemotePath))
		if errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing {
			return nil
		}
		return s.fault("remove directory", cfg.RemotePath, err)
	})
}
