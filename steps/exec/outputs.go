package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/note"
)

// sideMark is part of the names of unfinished files.
const sideMark = ".courier-tmp"

// outputFiles returns the paths of the files that an entry of output_files means, sorted. The
// result is empty only if the entry is a pattern without matches. Text from values is literal. A
// pattern that is the exact name of a file is literal too. Patterns follow no links.
func (r *run) outputFiles(ctx context.Context, given courier.Pattern) ([]string, error) {
	if !glob.Looks(given, nil) || r.exists(given.String()) {
		p, err := r.job.Files().Path(given.String())
		return []string{p}, err
	}
	if err := globmatch.Check(given); err != nil {
		return nil, err
	}
	base, rest := glob.Split(given)
	root, rel, err := r.job.Files().Root(base)
	if err != nil {
		return nil, err
	}
	most := r.opt.MaxFiles
	if most <= 0 {
		most = defaultMaxFiles
	}
	var found []string
	err = glob.Walk(ctx, r.job, glob.Dir{Root: root, Rel: rel, Name: base, Fault: func(below string, err error) error {
		return localfile.Error(path.Join(base, below), err)
	}}, glob.Depth(rest), func(below string, typ fs.FileMode) error {
		if !typ.IsRegular() || !globmatch.Match(rest, below) || strings.Contains(below, sideMark) {
			return nil
		}
		name, err := r.job.Files().Path(path.Join(base, below))
		switch {
		case err != nil:
			return err
		case r.isOwn(name):
			return nil
		case !utf8.ValidString(name):
			return errf("file name %q is not valid UTF-8, so no value can hold it; rename the file or narrow the pattern", name)
		case len(found) == most:
			return errf("%q: the pattern finds more than %d files; narrow it, or raise MaxFiles in exec.Options", given.String(), most)
		}
		found = append(found, name)
		return nil
	})
	if localfile.Missing(err) {
		err = nil
	}
	slices.Sort(found)
	return found, err
}

// exists reports whether a file with the name exists.
func (r *run) exists(name string) bool {
	root, rel, err := r.job.Files().Root(name)
	if err == nil {
		_, err = root.Lstat(rel)
	}
	return err == nil
}

// isOwn reports whether a path belongs to the step's own notes and directories.
func (r *run) isOwn(name string) bool {
	for _, dir := range []string{r.job.Files().StepDir(), note.Top} {
		if rest, ok := strings.CutPrefix(filepath.ToSlash(name), dir); ok && r.job.Files().StepDir() != "" && strings.HasPrefix(rest, "/") {
			return true
		}
	}
	return false
}

// collect sets the outputs of the completed program.
func (r *run) collect(ctx context.Context, out *RunOutput, stdout, stderr *capture) (err error) {
	if out.StdoutFile, err = stdout.commit(); err != nil {
		return fmt.Errorf("stdout_path: %w", err)
	}
	if out.StderrFile, err = stderr.commit(); err != nil {
		return fmt.Errorf("stderr_path: %w", err)
	}
	out.Stdout, out.StdoutTruncated = stdout.text()
	out.Stderr, out.StderrTruncated = stderr.text()
	out.OutputFiles = []string{}
	for _, given := range r.cfg.OutputFiles {
		files, err := r.outputFiles(ctx, given)
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("the program has written no file that matches %q: %w", given.String(), fs.ErrNotExist)
		}
		if err != nil {
			return fmt.Errorf("output_files: %w", err)
		}
		for _, p := range files {
			if !slices.Contains(out.OutputFiles, p) {
				out.OutputFiles = append(out.OutputFiles, p)
			}
		}
	}
	return r.report(out)
}

// report reports the files that the program has written.
func (r *run) report(out *RunOutput) error {
	for _, name := range out.OutputFiles {
		if err := r.job.Files().Wrote(name); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = fmt.Errorf("the program has not written it: %w", err)
			}
			return fmt.Errorf("output_files: %w", err)
		}
	}
	return nil
}

// failedOutput returns the outputs of a failed run: its exit code, the ends of standard output
// and standard error without secrets, and the output files that exist. The files are not
// reported, so a resume does not need them.
func (r *run) failedOutput(ctx context.Context, cmd *exec.Cmd, stdout, stderr *capture) RunOutput {
	out := RunOutput{ExitCode: -1, OutputFiles: []string{}}
	if cmd.ProcessState != nil {
		out.ExitCode = cmd.ProcessState.ExitCode()
	}
	out.Stdout, out.StdoutTruncated = r.endOf(stdout)
	out.Stderr, out.StderrTruncated = r.endOf(stderr)
	for _, given := range r.cfg.OutputFiles {
		files, err := r.outputFiles(ctx, given)
		if err != nil {
			continue // the failure of the program counts
		}
		for _, p := range files {
			if r.exists(p) && !slices.Contains(out.OutputFiles, p) {
				out.OutputFiles = append(out.OutputFiles, p)
			}
		}
	}
	return out
}

// endOf returns the end of a program's output, and reports whether it is truncated.
func (r *run) endOf(c *capture) (string, bool) {
	c.mu.Lock()
	n := c.n
	c.mu.Unlock()
	return r.clean(c.tail()), n > tailSize
}
