package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
)

// checkPath reports a remote path that can't be sent.
func checkPath(field, p string) error { return failure.Permanent(ftpclient.CheckArgument(field, p)) }

// Mkdir is the step "ftp.mkdir". It makes a directory, and those above it.
type Mkdir struct {
	Connections Connections // must not be nil
}

// MkdirConfig is the configuration of [Mkdir].
type MkdirConfig struct {
	ConnectionID string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath   string `json:"remote_path" courier:"required,path" doc:"the directory, taken from the login directory unless it begins with a slash; that it exists is no error"`
}

// MkdirOutput is the output of [Mkdir].
type MkdirOutput struct {
	CreatedDirectory string `json:"created_directory" doc:"the directory, whether it was there before or not"`
}

var (
	_ courier.Step[MkdirConfig, MkdirOutput] = Mkdir{}
	_ courier.Validator[MkdirConfig]         = Mkdir{}
)

// Execute makes the directory.
func (m Mkdir) Execute(ctx context.Context, job *courier.Context, cfg MkdirConfig) (MkdirOutput, error) {
	out := MkdirOutput{CreatedDirectory: cfg.RemotePath}
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return out, err
	}
	err := use(ctx, job, m.Connections, cfg.ConnectionID, func(s *session) error {
		return s.makeAll(ctx, cfg.RemotePath)
	})
	if err == nil {
		err = remote.Produced(job, "ftp", cfg.ConnectionID, cfg.RemotePath)
	}
	return out, err
}

// makeAll makes a directory, and those above it that don't exist.
func (s *session) makeAll(ctx context.Context, dir string) error {
	dir = path.Clean(dir)
	if dir == "." || dir == "/" {
		return nil
	}
	n, err := s.Stat(ctx, dir)
	switch {
	case err == nil && n.IsDir:
		return nil
	case err == nil:
		return s.fault("make directory", dir, courier.Permanent(errors.New("is a file")))
	case !errors.Is(err, fs.ErrNotExist):
		return s.fault("make directory", dir, err)
	}
	if err := s.makeAll(ctx, path.Dir(dir)); err != nil {
		return err
	}
	return s.fault("make directory", dir, s.makeOne(ctx, dir))
}

// makeOne makes a directory. That it is there already is no error.
func (s *session) makeOne(ctx context.Context, dir string) error {
	err := s.Mkdir(ctx, dir)
	if ftpclient.IsReply(err) { // another may have been first
		if n, e := s.Stat(ctx, dir); e == nil && n.IsDir {
			return nil
		} else if e != nil && !ftpclient.IsReply(e) {
			err = e
		}
	}
	return err
}

// Validate logs in.
func (m Mkdir) Validate(ctx context.Context, job *courier.Context, cfg MkdirConfig) error {
	if err := checkPath("remote_path", cfg.RemotePath); err != nil {
		return err
	}
	return test(ctx, job, m.Connections, cfg.ConnectionID, nil)
}

// Rmdir is the step "ftp.rmdir". It removes a directory.
type Rmdir struct {
	Connections Connections // must not be nil
}

// RmdirConfig is the configuration of [Rmdir].
type RmdirConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the directory, taken from the login directory unless it begins with a slash"`
	Recursive     bool   `json:"recursive,omitempty" doc:"remove everything in it too; without this it must be empty"`
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

func (cfg RmdirConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), checkTarget("remote_path", cfg.RemotePath))
}

// checkTarget refuses to remove what can only be meant by mistake.
func checkTarget(field, p string) error {
	if clean := path.Clean(p); clean == "." || clean == "/" || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasSuffix(clean, "/..") {
		return fmt.Errorf("%s: is the login directory, the root directory or one above; name what is in it", field)
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

// Execute removes the directory. If an earlier attempt may have done that, it
// is no error that there is none, and one that has come since stays.
func (r Rmdir) Execute(ctx context.Context, job *courier.Context, cfg RmdirConfig) (RmdirOutput, error) {
	out := RmdirOutput{RemovedDirectory: cfg.RemotePath}
	if err := cfg.check(); err != nil {
		return out, err
	}
	ledger, note := lastingNote(job, "removed directory"), rmdirNote{}
	if _, err := ledger.read(&note); err != nil {
		return out, err
	}
	if note.Directory != cfg.RemotePath {
		note = rmdirNote{Directory: cfg.RemotePath}
	}
	if note.Done {
		remade := false
		if note.Attempt < job.ExecutionAttempt() {
			var err error
			if remade, err = remote.Remade(job, "ftp", cfg.ConnectionID, cfg.RemotePath); err != nil {
				return out, err
			}
		}
		if !remade {
			out.Existed = note.Existed
			return out, nil
		}
	}
	err := use(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		n, err := s.Stat(ctx, cfg.RemotePath)
		switch {
		case ftpclient.IsMissing(err) && (cfg.IgnoreMissing || note.Existed || job.NoteDir() == "" && job.Repeated()):
			return nil
		case err == nil && !n.IsDir:
			err = courier.Permanent(errors.New("is not a directory"))
		}
		if err == nil {
			note.Existed, note.Done, note.Attempt = true, false, job.ExecutionAttempt()
			err = ledger.write(note)
		}
		if err == nil {
			r := &removal{job: job, recursive: cfg.Recursive}
			err = s.removeTree(ctx, r, strings.TrimRight(cfg.RemotePath, "/"), 0)
		}
		return s.fault("remove directory", cfg.RemotePath, err)
	})
	if err != nil {
		return out, err
	}
	out.Existed = note.Existed
	note.Done, note.Attempt = true, job.ExecutionAttempt()
	return out, ledger.write(note)
}

// A removal is one of a directory.
type removal struct {
	job       *courier.Context
	recursive bool
	found     int // files and directories so far
	held      int // bytes of names that are in memory
}

// holds counts an entry.
func (r *removal) holds(e ftpclient.Entry) error {
	if r.found++; r.found > remote.MaxFiles {
		return courier.Permanent(fmt.Errorf("it has more than %d files and directories; remove parts of it first", remote.MaxFiles))
	}
	if r.held += len(e.Name); r.held > remote.MaxListingBytes {
		return courier.Permanent(fmt.Errorf("the names of what is in it have more than %d MiB; remove parts of it first", remote.MaxListingBytes>>20))
	}
	return nil
}

// removeTree removes a directory, and what is in it if recursive is set. Links
// are removed, not followed.
func (s *session) removeTree(ctx context.Context, r *removal, dir string, depth int) error {
	if depth > remote.MaxDepth {
		return courier.Permanent(errors.New("it has too many directories in directories"))
	}
	if r.recursive {
		var found []ftpclient.Entry
		before := r.held
		defer func() { r.held = before }()
		unparsed, err := s.List(ctx, dir, true, func(e ftpclient.Entry) error {
			if e.Name == "." || e.Name == ".." {
				return nil
			}
			found = append(found, e)
			return r.holds(e)
		})
		if err != nil {
			return err
		}
		if err := checkRemovable(found, unparsed); err != nil {
			return err
		}
		for _, e := range found {
			r.job.Progress(0, -1, dir)
			p := remote.Join(dir, e.Name)
			if e.IsDir {
				err = s.removeTree(ctx, r, p, depth+1)
			} else {
				err = s.Remove(ctx, p)
			}
			if err != nil {
				return s.fault("remove", p, err)
			}
		}
	}
	return s.Rmdir(ctx, dir)
}

// checkRemovable refuses to remove anything where not everything is understood.
func checkRemovable(found []ftpclient.Entry, unparsed int) error {
	if unparsed > 0 {
		return courier.Permanent(errors.New("its listing has lines in no form that is known, so what is in it can't be told"))
	}
	for _, e := range found {
		if e.Name == "" || strings.Contains(e.Name, "/") || ftpclient.CheckArgument("", e.Name) != nil {
			return courier.Permanent(errors.New("it has an entry whose name can't be that of a file, so removing it could remove another"))
		}
	}
	return nil
}

// Validate logs in.
func (r Rmdir) Validate(ctx context.Context, job *courier.Context, cfg RmdirConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, r.Connections, cfg.ConnectionID, nil)
}
