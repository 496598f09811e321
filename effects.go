package courier

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/note"
)

// Move renames the regular file from to the name to, replacing an existing file, and reports
// both. It creates the directories above to. From one allowed directory to another, and between
// file systems, it copies the file with its permissions and modification time, and removes the
// source when the copy is durable. It reports progress while it copies. If ctx ends, it returns
// the cause.
//
// Move is safe to repeat, in a further attempt of the step and in a new attempt of the job: it
// records what it is about to do. If an earlier attempt has moved the file, Move reports that
// and returns nil. A new file that has since appeared under the name from stays there, unless
// the job itself has made it. If the file came from outside the workspace, a new attempt of the
// job keeps it at its new name. If from does not exist and was not moved, the error matches
// [fs.ErrNotExist].
//
// In Cleanup and Rollback, Move records nothing. The next attempt moves a file again that was
// moved back there.
func (files Files) Move(ctx context.Context, from, to string) error {
	c := files.job
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.refuse("rename", to); err != nil {
		return err
	}
	src, err := files.Path(from)
	if err != nil {
		return err
	}
	dst, err := files.Path(to)
	if err != nil {
		return err
	}
	if src == dst {
		return Permanent(fmt.Errorf("move %q: it has that name already", errtext.Shorten(from, 200)))
	}
	if c.hasMade(src) { // each attempt makes it again
		return files.Replace(ctx, to, from)
	}
	m := &move{Files: files, from: from, to: to, src: src, dst: dst}
	if m.effect, err = openEffect[movedFile](c, "move", src); err != nil {
		return err
	}
	if m.info, err = c.look(from); err != nil {
		return err
	}
	if m.there, err = c.look(to); err != nil {
		return err
	}
	done, err := m.recognize()
	if err == nil && !done {
		err = m.run(ctx)
	}
	if missing, ok := errors.AsType[*fs.PathError](err); ok && m.info == nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move %q to %q: %w", errtext.Shorten(from, 200), errtext.Shorten(to, 200), missing.Err)
	}
	return err
}

// Replace renames the file by to name, replacing an existing file, and reports it. By is a
// file that this attempt has made without [Files.Create], such as the output of a program, for
// example in [Files.Dir]. Its content is durable before it gets the name, so that nobody ever
// sees an incomplete file under that name. Replace creates the directories above name, and
// copies as [Files.Move] does.
//
// Unlike Move it records nothing: a further attempt must make the file again.
func (files Files) Replace(ctx context.Context, name, by string) error {
	c := files.job
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dst, err := files.Path(name)
	if err != nil {
		return err
	}
	src, err := files.Path(by)
	if err != nil {
		return err
	}
	info, err := c.lstat(by)
	if err == nil {
		err = regular(by, info)
	}
	if err == nil {
		err = c.sync(by)
	}
	if err == nil {
		err = c.inside().SetAside(name, by)
	}
	if err != nil {
		return err
	}
	renamed, err := files.rename(by, name)
	if err == nil && !renamed {
		err = files.copy(ctx, by, name, info, nil)
	}
	if err != nil {
		return err
	}
	if c.hasReported(src) {
		if err := c.inside().Removed(by); err != nil {
			return err
		}
	}
	if err := files.Wrote(name); err != nil {
		return err
	}
	return c.madeFile(dst)
}

// Remove removes the file or empty directory called name and reports that. A file that does not
// exist is not an error, so Remove can also report a file that another program has removed for
// the step.
//
// Remove is safe to repeat, in a further attempt of the step and in a new attempt of the job.
// Outside the workspace, a new file that has since taken the place of one that an earlier
// attempt removed stays, unless the job itself has made it. If name is outside the workspace, a
// new attempt of the job keeps all files of the workspace, since they may have been made from
// the removed file. In Cleanup and Rollback, Remove removes any file that is there.
func (files Files) Remove(name string) error {
	c := files.job
	if err := c.before("remove", name); err != nil {
		return err
	}
	p, err := files.Path(name)
	if err != nil {
		return err
	}
	info, err := c.look(name)
	if err != nil {
		return err
	}
	if info == nil || info.IsDir() || c.hasMade(p) || c.isCleaning() {
		return files.unlink(name)
	}
	if stays, err := files.noteRemoval(name, p, info); err != nil {
		return err
	} else if stays {
		c.Log().Warn("a file has come since an earlier attempt has removed the one of its name; it stays", "path", p)
		return c.inside().Removed(name)
	}
	if err := c.inside().HoldDeleted(name); err != nil {
		return err
	}
	if err := files.unlink(name); err != nil {
		return err
	}
	return c.syncDirOf(name)
}

// unlink removes a file or an empty directory and reports that.
func (files Files) unlink(name string) error {
	root, rel, err := files.job.rootOf(name)
	if err != nil {
		return err
	}
	if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return placed(root, err)
	}
	return files.job.inside().Removed(name)
}

// A removedFile is what Remove notes down about a file outside of the workspace.
type removedFile struct {
	Was     localfile.Identity `json:"was"`           // of the file
	Made    localfile.Identity `json:"made,omitzero"` // of the one that the attempt has then made under its name
	Attempt int                `json:"attempt"`       // of the execution
}

// noteRemoval notes down that the file at the path p, which info describes, is about to be
// removed, or reports that it stays.
func (files Files) noteRemoval(name, p string, info fs.FileInfo) (stays bool, err error) {
	c := files.job
	if moved, err := c.movedBefore(p, info); moved || err != nil {
		return moved, err
	}
	if !filepath.IsAbs(p) {
		return false, nil // only steps of the job put files there
	}
	e, err := openEffect[removedFile](c, "remove", p)
	if err != nil {
		return false, err
	}
	if e.found && !e.note.Was.Is(info) && !e.note.Made.Is(info) {
		if e.note.Attempt == c.ExecutionAttempt() {
			return true, nil
		}
		if remade, err := c.inside().Remade(name); err != nil || !remade {
			return true, err
		}
	}
	e.note = removedFile{Was: localfile.Identify(info), Attempt: c.ExecutionAttempt()}
	c.mu.Lock()
	if c.removals == nil {
		c.removals = make(map[string]*effect[removedFile])
	}
	c.removals[p] = e
	c.mu.Unlock()
	return false, e.write()
}

// A movedFile is what Move notes down about a file.
type movedFile struct {
	To      string             `json:"to"`             // in the form of Files.Path
	Was     localfile.Identity `json:"was"`            // of the file
	Copy    localfile.Identity `json:"copy,omitzero"`  // of the copy that becomes To
	Side    string             `json:"side,omitempty"` // where the copy is until then
	Attempt int                `json:"attempt"`        // of the execution
	Done    bool               `json:"done,omitempty"`
}

// is reports whether the file described by info, which may be nil, is the one that was moved.
func (m *movedFile) is(info fs.FileInfo) bool { return m.Was.Is(info) || m.Copy.Is(info) }

// A move is a call of Move.
type move struct {
	Files
	from, to    string
	src, dst    string // from and to in the form of Files.Path
	info, there fs.FileInfo
	*effect[movedFile]
}

// recognize finds out what earlier attempts have done. It reports whether the file was moved.
func (m *move) recognize() (done bool, err error) {
	was := &m.note
	if !m.found {
		if m.info == nil {
			_, err = m.job.lstat(m.from)
		}
		return false, err
	}
	if m.info != nil && !was.Was.Is(m.info) {
		again := !filepath.IsAbs(m.src)
		if !again && was.Attempt < m.job.ExecutionAttempt() {
			if again, err = m.job.inside().Remade(m.from); err != nil {
				return false, err
			}
		}
		if again {
			return false, nil
		}
	}
	if was.To != m.dst { // such as one in the directory of an earlier attempt
		old, err := m.job.look(was.To)
		if err != nil {
			return false, err
		}
		if was.is(old) {
			if was.Was.Is(m.info) { // it was copied
				err = errors.Join(m.job.syncDirOf(was.To), m.job.removeMoved(m.from))
			}
			m.from, m.info = was.To, old
			return false, err
		}
	}
	switch {
	case was.is(m.there) && was.To == m.dst:
		return true, m.arrived()
	case was.Done && !was.Was.Is(m.info):
		return true, m.report()
	case m.info == nil:
		return false, Permanent(fmt.Errorf("%q is gone, and what is at %q, if anything, is not that file; it may have been taken from either place meanwhile", m.src, was.To))
	case was.Was.Is(m.info) && was.Copy != localfile.Identity{} && filepath.IsAbs(was.To):
		side, err := m.job.look(was.Side)
		if err == nil && side == nil {
			err = Permanent(fmt.Errorf("%q was copied to %q, but the copy is not there; it may have been taken from there already. If it has arrived, remove the source; if not, change the source's time; then resume", m.src, was.To))
		}
		return false, err
	}
	return false, nil
}

// run moves the file.
func (m *move) run(ctx context.Context) error {
	c := m.job
	if err := regular(m.from, m.info); err != nil {
		return err
	}
	m.note = movedFile{To: m.dst, Was: localfile.Identify(m.info), Attempt: c.ExecutionAttempt()}
	if err := m.write(); err != nil {
		return err
	}
	if err := c.inside().HoldMoved(m.from, m.to); err != nil {
		return err
	}
	if own := m.StepDir(); own != "" && strings.HasPrefix(m.dst, own+"/") {
		if err := addNotes(c.inside(), note.Moved, true, []string{m.dst}); err != nil {
			return err
		}
	}
	renamed, err := m.rename(m.from, m.to)
	if err == nil && !renamed {
		err = m.copy(ctx, m.from, m.to, m.info, m.effect)
	}
	if err != nil {
		return err
	}
	m.info = nil
	return m.arrived()
}

// arrived completes the move of a file that has its new name.
func (m *move) arrived() error {
	if err := errors.Join(m.job.syncDirOf(m.from), m.job.syncDirOf(m.to)); err != nil {
		return err
	}
	if m.note.Was.Is(m.info) { // it was copied
		if err := m.job.removeMoved(m.from); err != nil {
			return err
		}
	}
	m.note.Done = true
	if err := m.write(); err != nil {
		return err
	}
	return m.report()
}

// report reports a move. Whoever the file was moved for may have taken it already.
func (m *move) report() error {
	c := m.job
	c.mu.Lock()
	if c.moved == nil {
		c.moved = make(map[string]bool)
	}
	c.moved[m.dst] = true
	c.mu.Unlock()
	if c.isCleaning() {
		if err := c.forgetMoves(m.dst); err != nil {
			return err
		}
	}
	if m.info != nil && !m.note.Was.Is(m.info) {
		c.Log().Warn("a file has come since an earlier attempt has moved the one of its name; it stays", "path", m.src)
	}
	if err := c.inside().Removed(m.src); err != nil {
		return err
	}
	there, err := c.look(m.to)
	if err == nil && m.note.is(there) {
		err = m.Wrote(m.to)
	}
	return err
}

// rename renames a file and makes that durable. It reports false, and has done nothing, if the
// two names are confined to different directories, or lie in different file systems.
func (files Files) rename(from, to string) (bool, error) {
	c := files.job
	source, rel, err := c.rootOf(from)
	if err != nil {
		return false, err
	}
	root, target, err := c.targetOf(to)
	if err != nil || root != source {
		return false, err
	}
	if err := c.before("rename", to); err != nil {
		return false, err
	}
	made, err := c.mkdirAll(root, filepath.Dir(target))
	if err != nil {
		return false, err
	}
	if err := root.Rename(rel, target); localfile.IsOtherDevice(err) {
		return false, nil
	} else if err != nil {
		return false, placed(root, err)
	}
	return true, errors.Join(syncAbove(root, target, made), localfile.SyncDir(root, filepath.Dir(rel)))
}

// copyBlock is how many bytes are copied between two reports of progress.
const copyBlock = 1 << 20

// copy copies a file, which info describes, and removes it when the copy is durable under its
// name. If e is not nil, it has the note about that.
func (files Files) copy(ctx context.Context, from, to string, info fs.FileInfo, e *effect[movedFile]) (err error) {
	r, err := files.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := files.Create(to)
	if err != nil {
		return err
	}
	published := false
	defer func() {
		if !published {
			err = errors.Join(err, files.withdraw(to, e), w.Close())
		}
	}()
	if err := files.fill(ctx, w, r, from, info); err != nil {
		return err
	}
	if e != nil {
		if err := files.noteCopy(w, e); err != nil {
			return err
		}
	}
	if err := w.Commit(); err != nil {
		return err
	}
	published = true
	if now, err := files.job.look(from); err != nil || !localfile.Identify(info).Is(now) {
		return err
	}
	return files.job.removeMoved(from)
}

// removeMoved removes a file of which there is a durable copy.
func (c *Context) removeMoved(name string) error {
	if err := c.before("remove", name); err != nil {
		return err
	}
	root, rel, err := c.rootOf(name)
	if err != nil {
		return err
	}
	if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return placed(root, err)
	}
	return localfile.SyncDir(root, filepath.Dir(rel))
}

// withdraw takes back the note that a copy is about to be published, unless it was. Otherwise
// that its side file is gone would mean that it was published.
func (files Files) withdraw(to string, e *effect[movedFile]) error {
	if e == nil || e.note.Side == "" {
		return nil
	}
	if there, err := files.job.look(to); err != nil || e.note.Copy.Is(there) {
		return err
	}
	e.note.Copy, e.note.Side = localfile.Identity{}, ""
	return e.write()
}

// fill copies the content, the permissions and the time of modification of r to w.
func (files Files) fill(ctx context.Context, w *PendingFile, r *os.File, name string, info fs.FileInfo) error {
	var done int64
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.CopyN(w, r, copyBlock)
		done += n
		files.job.Progress(done, max(done, info.Size()), name)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	after, err := r.Stat()
	if err != nil {
		return err
	}
	if done != info.Size() || !localfile.Identify(info).Is(after) {
		return fmt.Errorf("%q changed while it was being copied; it was not moved", errtext.Shorten(name, 200))
	}
	if err := w.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	return placed(w.root, w.root.Chtimes(w.side, time.Time{}, info.ModTime()))
}

// noteCopy notes down what the copy is that is about to be published, when it is durable.
func (files Files) noteCopy(w *PendingFile, e *effect[movedFile]) error {
	info, err := w.Stat()
	if err == nil {
		err = w.Sync()
	}
	if err == nil {
		err = localfile.SyncDir(w.root, filepath.Dir(w.rel))
	}
	if err != nil {
		return err
	}
	e.note.Copy = localfile.Identify(info)
	if e.note.Side, err = files.Path(w.sideName()); err != nil {
		return err
	}
	return e.write()
}

// An effect is something that is done to a file and can't be had twice. Its note outlasts a
// new attempt of the execution. Without a workspace there are no notes.
type effect[T any] struct {
	of    *Context
	name  string // of the note; empty if there is none
	note  T
	found bool // an earlier attempt has written the note
}

// openEffect returns the effect of a kind that the step has on a path. If it has several of a
// kind on one path, they are told from each other by their order.
func openEffect[T any](c *Context, kind, path string) (*effect[T], error) {
	if c.isCleaning() {
		return &effect[T]{of: c}, nil
	}
	c.mu.Lock()
	if c.effects == nil {
		c.effects = make(map[string]int)
	}
	c.effects[kind+" "+path]++
	n := c.effects[kind+" "+path]
	c.mu.Unlock()
	e := &effect[T]{of: c, name: effectName(kind, path, n)}
	var err error
	e.found, err = note.ReadIn(silent{c.inside()}, c.inside().NoteDir(), e.name, &e.note)
	return e, err
}

func effectName(kind, path string, n int) string {
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%s-%x-%d", kind, sum[:12], n)
}

// forgetMoves removes the notes about moves from the path p.
func (c *Context) forgetMoves(p string) error {
	dir := c.inside().NoteDir()
	for n := 1; ; n++ {
		var m movedFile
		if found, err := note.ReadIn(silent{c.inside()}, dir, effectName("move", p, n), &m); !found || err != nil {
			return err
		}
		if err := note.RemoveIn(silent{c.inside()}, dir, effectName("move", p, n)); err != nil {
			return err
		}
	}
}

// write writes the note. It is durable when write returns.
func (e *effect[T]) write() error {
	if e.name == "" {
		return nil
	}
	err := note.WriteIn(silent{e.of.inside()}, e.of.inside().NoteDir(), e.name, e.note)
	if errors.Is(err, note.ErrNoPlace) {
		return nil
	}
	return err
}

// silent is the inside of a Context that does not announce the use of a directory.
type silent struct{ internals }

// Root returns the root that confines name.
func (c silent) Root(name string) (*os.Root, string, error) { return c.rootOf(name) }

// movedBefore reports whether an earlier attempt of the step has moved to the path p the file
// that is there, and this attempt has not come to that.
func (c *Context) movedBefore(p string, info fs.FileInfo) (bool, error) {
	c.mu.Lock()
	here, read := c.moved[p], c.arrivals != nil
	c.mu.Unlock()
	if here {
		return false, nil
	}
	if !read {
		found := make(map[string][]movedFile)
		err := note.Each(silent{c.inside()}, c.inside().NoteDir(), "move-", func(text []byte) error {
			var m movedFile
			err := json.Unmarshal(text, &m)
			found[m.To] = append(found[m.To], m)
			return err
		})
		if err != nil {
			return false, err
		}
		c.mu.Lock()
		c.arrivals = found
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.arrivals[p], func(m movedFile) bool { return m.is(info) }), nil
}

// madeFile takes note that this attempt has made the file at the path p by Create or Replace, so
// that a further attempt makes it again. If this attempt has removed another one of its name,
// its note gets to say which one is its own.
func (c *Context) madeFile(p string) error {
	c.mu.Lock()
	r := c.fileAt[p]
	r.made = true
	c.fileAt[p] = r
	e := c.removals[p]
	c.mu.Unlock()
	if e == nil {
		return nil
	}
	info, err := c.lstat(p)
	if err != nil {
		return err
	}
	e.note.Made = localfile.Identify(info)
	return e.write()
}

// hasMade reports whether the last report on the path p is of a file that this attempt has made
// by Create or Replace.
func (c *Context) hasMade(p string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fileAt[p].made
}

// hasReported reports whether the step has reported to have written the file at the path p.
func (c *Context) hasReported(p string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.fileAt[p]
	return ok && !c.files[r.index].Removed
}

func (c *Context) isCleaning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cleaning
}

func (c *Context) setCleaning(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleaning = on
}

// look describes the file called name; nil if there is none.
func (c *Context) look(name string) (fs.FileInfo, error) {
	info, err := c.lstat(name)
	if localfile.Missing(err) {
		return nil, nil
	}
	return info, err
}

// regular refuses what is no regular file.
func regular(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return Permanent(fmt.Errorf("path %q: is %s, not a regular file", errtext.Shorten(name, 200), kindOf(info.Mode())))
	}
	return nil
}

// sync makes the content of the file called name durable.
func (c *Context) sync(name string) error {
	if err := c.before("sync", name); err != nil {
		return err
	}
	root, rel, err := c.rootOf(name)
	if err != nil {
		return err
	}
	flag := os.O_RDONLY | localfile.Nonblock
	if runtime.GOOS == "windows" {
		flag = os.O_RDWR
	}
	f, err := root.OpenFile(rel, flag, 0)
	if err != nil {
		return placed(root, err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDirOf makes durable that a file has the name name, or has it no more.
func (c *Context) syncDirOf(name string) error {
	root, rel, err := c.rootOf(name)
	if err != nil {
		return err
	}
	return ignoreNotExist(localfile.SyncDir(root, filepath.Dir(rel)))
}
