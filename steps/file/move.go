package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// Move is the step type file.move, also called file.rename. The zero Move has
// the default limits.
//
// Below one of the allowed directories a move is a rename. From one to
// another, and between file systems, it copies like [Copy] and removes the
// source when the copy is durable under its final name. Directories and links
// are not moved.
//
// The list of files to move is made once, and written to the journal before anything is moved. A
// retry continues with that list. It recognizes the files already moved even if somebody has
// taken the file from the destination, or has put a new file in the place of the source.
type Move struct {
	Limits Limits // of which Move uses MaxMatches and KeepFree

	// Files.Move does not take the place of the code below. It moves a single file, and has
	// no plan for all files of a pattern, no if_exists, no mode and no KeepFree.

	before func(effect string) // for tests: called before each effect
}

// MoveConfig is the configuration of file.move.
type MoveConfig struct {
	SourcePath      courier.Pattern `json:"source_path" courier:"required" doc:"the file, or a pattern"`
	DestinationPath string          `json:"destination_path" courier:"required,path" doc:"new path; an existing directory, or a path that ends in /, keeps the source's name"`
	IfExists        IfExists        `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	Mode            *Permissions    `json:"mode,omitempty" doc:"permissions as octal digits; those of the source by default"`
	Glob            *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
	IgnoreMissing   bool            `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
}

// MoveOutput is the output of file.move.
type MoveOutput struct {
	MovedFile    string   `json:"moved_file,omitempty" doc:"new path of the file, the first if there are several"`
	MovedFiles   []string `json:"moved_files" file:"destination_path" doc:"new paths of all files in the order of their old ones, skipped files included"`
	Size         int64    `json:"size" doc:"of what was moved, in bytes"`
	SkippedFiles []string `json:"skipped_files" doc:"destinations that existed and were left as they are"`
	Skipped      bool     `json:"skipped" doc:"whether all destinations existed"`
	Reason       string   `json:"reason,omitempty" doc:"file_exists when skipped is true"`
}

// Execute moves.
func (m Move) Execute(ctx context.Context, job *courier.Context, cfg MoveConfig) (MoveOutput, error) {
	out := MoveOutput{MovedFiles: []string{}, SkippedFiles: []string{}}
	moves, err := m.resume(ctx, job, cfg)
	if err != nil {
		return out, err
	}
	defer moves.journal.Close()
	for i := range moves.items {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		job.Progress(0, -1, cfg.SourcePath.String()) // a rename is no progress, but it is no stall either
		it := &moves.items[i]
		before := it.state
		if err := moves.one(ctx, it); err != nil {
			return out, err
		}
		if it.state == gone {
			continue
		}
		if it.state == published {
			out.Size += it.was.Size
			if before == waiting { // what was copied is reported already and counts once
				job.Progress(it.was.Size, it.was.Size, it.src.name)
			}
		}
		out.MovedFiles = append(out.MovedFiles, it.dst.name)
		if it.state == skipped {
			out.SkippedFiles = append(out.SkippedFiles, it.dst.name)
		}
	}
	moves.effect("sync")
	if err := syncDirsOf(moves.dirs); err != nil {
		return out, err
	}
	if n := len(out.MovedFiles); n > 0 {
		out.MovedFile = out.MovedFiles[0]
		if len(out.SkippedFiles) == n {
			out.Skipped, out.Reason = true, transfer.ReasonExists
		}
	}
	return out, nil
}

func (cfg MoveConfig) request() request {
	return request{glob.Whole(cfg.SourcePath, cfg.Glob), cfg.DestinationPath, cfg.Glob, cfg.IgnoreMissing}
}

// Validate checks the paths.
func (m Move) Validate(ctx context.Context, job *courier.Context, cfg MoveConfig) error {
	return cfg.request().validate(job)
}

// The states of a file in the plan.
const (
	waiting   = ""
	published = "published" // it is at the destination; the source may be there still
	skipped   = "skipped"   // the destination was taken
	gone      = "gone"      // it was not there any more
)

// A move is one file of the plan.
type move struct {
	index    int
	src, dst place
	state    string
	was      localfile.Identity // of the source
	copied   localfile.Identity // of the copy that becomes the destination
	side     place              // of that copy, until it does
	own      localfile.Identity // what an earlier attempt of the execution has put at dst
}

// A mover moves the files of one step.
type mover struct {
	Move
	job     *courier.Context
	cfg     MoveConfig
	journal *journal
	pattern bool
	items   []move
	dirs    []place // in whose directories names have changed
}

// effect lets tests stop the process here.
func (m *mover) effect(name string) {
	if m.before != nil {
		m.before(name)
	}
}

// one moves one file, as far as earlier attempts have not done so.
func (m *mover) one(ctx context.Context, it *move) error {
	src, err := it.src.look()
	if err != nil {
		return err
	}
	dst, err := it.dst.look()
	if err != nil {
		return err
	}
	if err := m.recognize(it, src, dst); err != nil {
		return err
	}
	switch {
	case it.state == skipped:
		return nil
	case it.state == published:
		return m.complete(it, src)
	case src == nil && (m.pattern || m.cfg.IgnoreMissing):
		m.job.Log().Warn("a file that was to be moved is gone", "path", it.src.name)
		it.state = gone
		return m.mark(it, false)
	case src == nil:
		return courier.Permanent(fmt.Errorf("%q is gone, and what is at %q, if anything, is not that file; it may have been taken from either place meanwhile", it.src.name, it.dst.name))
	}
	if !src.Mode().IsRegular() {
		return courier.Permanent(fmt.Errorf("%q is %s; file.move moves regular files only", it.src.name, localfile.Kind(src.Mode())))
	}
	if there, err := it.dst.replaceable(); err != nil {
		return err
	} else if there != nil && !it.own.Is(there) {
		switch m.cfg.IfExists {
		case Skip:
			it.state = skipped
			return m.mark(it, false)
		case Fail:
			return transfer.ErrExists(it.dst.name)
		}
	}
	if err := (pair{match{place: it.src}, it.dst}).itself(); err != nil {
		return err
	}
	if !it.was.Is(src) {
		// It was replaced or changed since it was planned.
		it.was, it.copied, it.side = localfile.Identify(src), localfile.Identity{}, place{}
		if err := m.mark(it, true); err != nil {
			return err
		}
	}
	if err := stepcontext.Of(m.job).HoldMoved(it.src.name, it.dst.name); err != nil {
		return err
	}
	if it.src.root == it.dst.root {
		if done, err := m.rename(it); done || err != nil {
			return err
		}
	}
	return m.copy(ctx, it)
}

// recognize determines what earlier attempts did but could not write down, or wrote down but did
// not make durable before the machine crashed.
func (m *mover) recognize(it *move, src, dst fs.FileInfo) error {
	if it.state == waiting && (it.was.Is(dst) || it.copied.Is(dst)) {
		it.state = published
		if err := make(dirSet).sync(it.dst.root, it.dst.dir()); err != nil {
			return err
		}
	}
	if it.state == published && it.side.root == nil && it.was.Is(src) {
		it.state = waiting // the rename was lost
	}
	if it.state != waiting || it.side.root == nil {
		return nil
	}
	left, err := it.sideLeft()
	switch {
	case err != nil:
		return err
	case left:
		return m.withdraw(it)
	case src == nil:
		it.state = published
	case it.was.Is(src):
		return courier.Permanent(fmt.Errorf("%q was copied to %q, but the copy is not there; it may have been taken from there already. If it has arrived, remove the source; if not, change the source's time; then resume", it.src.name, it.dst.name))
	}
	return nil
}

// look describes the file at p; it returns nil if there is none.
func (p place) look() (fs.FileInfo, error) {
	info, err := p.stat()
	if localfile.Missing(err) {
		return nil, nil
	}
	return info, err
}

// rename moves a file within its file system. It reports false if the destination is in another
// file system.
func (m *mover) rename(it *move) (bool, error) {
	if m.cfg.Mode != nil {
		f, _, err := it.src.source(m.job)
		if err != nil {
			return false, err
		}
		err = f.Chmod(fs.FileMode(*m.cfg.Mode))
		if err = errors.Join(err, f.Close()); err != nil {
			return false, localfile.Error(it.src.name, err)
		}
	}
	if err := m.job.Files().MkdirAll(filepath.Dir(it.dst.name)); err != nil {
		return false, localfile.Error(it.dst.name, err)
	}
	m.effect("rename")
	err := it.src.root.Rename(it.src.rel, it.dst.rel)
	if localfile.IsOtherDevice(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("move %q to %q: %w", it.src.name, it.dst.name, localfile.Error(it.dst.name, err))
	}
	m.effect("mark renamed")
	it.state = published
	if err := m.mark(it, false); err != nil {
		return false, err
	}
	m.dirs = append(m.dirs, it.dst, it.src)
	return true, m.complete(it, nil)
}

// copy moves a file to another file system: it makes the copy first, then removes the source.
func (m *mover) copy(ctx context.Context, it *move) error {
	m.effect("copy")
	w, from, err := pair{match{place: it.src}, it.dst}.stage(ctx, m.job, m.cfg.Mode, m.Limits)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := m.arrive(it, w, from); err != nil {
		return err
	}
	m.effect("mark published")
	it.state = published
	if err := m.mark(it, false); err != nil {
		return err
	}
	src, err := it.src.look()
	if err != nil {
		return err
	}
	return m.complete(it, src)
}

// arrive publishes a copy, after it has noted the identity of the copy. From then on, a missing
// side file means that the copy was published. So the side file must survive a crash of the
// machine, and the note must be removed before the side file.
func (m *mover) arrive(it *move, w *courier.PendingFile, from fs.FileInfo) error {
	info, err := w.Stat()
	if err == nil {
		err = w.Sync()
	}
	if err == nil {
		err = make(dirSet).sync(it.dst.root, it.dst.dir())
	}
	if err != nil {
		return localfile.Error(it.dst.name, err)
	}
	it.was, it.copied = localfile.Identify(from), localfile.Identify(info)
	if it.side, err = it.dst.beside(m.job, stepcontext.Of(m.job).SideName(it.dst.base())); err != nil {
		return err
	}
	m.effect("mark copied")
	if err := m.mark(it, true); err != nil {
		return err
	}
	m.effect("publish")
	if err := w.Commit(); err != nil {
		err = fmt.Errorf("move %q to %q: %w", it.src.name, it.dst.name, localfile.Error(it.dst.name, err))
		if dst, lookErr := it.dst.look(); lookErr != nil || it.copied.Is(dst) {
			return err
		}
		return errors.Join(err, m.withdraw(it))
	}
	return nil
}

// complete removes the source of a moved file, if src describes that very file and not a newer
// one, and reports both.
func (m *mover) complete(it *move, src fs.FileInfo) error {
	if it.was.Is(src) {
		m.effect("remove")
		if err := it.src.root.Remove(it.src.rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%q has been copied to %q, but can't be removed: %w", it.src.name, it.dst.name, localfile.Error(it.src.name, err))
		}
		m.effect("removed")
		m.dirs = append(m.dirs, it.src)
	}
	if err := stepcontext.Of(m.job).Removed(it.src.name); err != nil {
		return err
	}
	// Whoever the file was moved for may have taken it already.
	dst, err := it.dst.look()
	if err == nil && (it.was.Is(dst) || it.copied.Is(dst)) {
		err = m.job.Files().Wrote(it.dst.name)
	}
	return err
}
