package remote

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// WorthKeeping is the size from which on an unfinished file is kept for another
// attempt unless a step says otherwise.
const WorthKeeping = 1 << 20

// Boot identifies the run of the system: what was written and not yet on the
// disk is lost with it. Empty where it can't be told.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Fits reports whether a remote file of size bytes, of which have are there
// already, may become the local file called name.
func Fits(job *courier.Context, name string, guard *transfer.Guard, size, have int64) error {
	root, rel, err := job.Files().Root(name)
	if err != nil {
		return err
	}
	return guard.Fits(size, have, root, filepath.Dir(rel))
}

// The names of what resume keeps: the part of a file that is there, and
// what is known of the source.
const (
	partSuffix = ".part"
	noteSuffix = ".note"
)

// partName is the name of the part of a file called base that attempts of this
// step hand on to each other.
func partName(job *courier.Context, base string) string {
	side := stepcontext.Of(job).SideName(base)
	return side[:strings.LastIndexByte(side, '-')] + partSuffix
}

// A Destination is a local file under construction.
type Destination interface {
	io.Writer
	io.ReaderAt
	// Stat describes the file as it is under construction.
	Stat() (fs.FileInfo, error)
	// Chmod sets its mode.
	Chmod(mode fs.FileMode) error
	// Commit makes the content durable, and gives the file its final name.
	Commit() error
	// Close discards the file, or keeps it for the next attempt, unless it was
	// committed.
	Close() error
}

var (
	_ Destination = (*courier.PendingFile)(nil)
	_ Destination = (*partial)(nil)
)

// A partial is a local file under construction that a later attempt can go on
// with. Beside it is a note about the source to which it belongs.
type partial struct {
	*os.File
	job   *courier.Context
	root  *os.Root
	name  string // final, as the Context takes it
	rel   string // final, below root
	part  string // present, below root
	start int64  // bytes that an earlier attempt has left
	done  bool

	mu    sync.Mutex
	about partNote
}

// A partNote says what a part is a part of.
type partNote struct {
	Server string   `json:"server"`
	Remote string   `json:"remote"`
	Was    Identity `json:"was"`
	Boot   string   `json:"boot"`  // the run of the system in which the part was written
	Begun  string   `json:"begun"` // which one of several that were begun, after the former was thrown away
}

// at is what a cursor has of the part.
func (n partNote) at() cursorPart {
	p := cursorPart{Server: n.Server, Remote: n.Remote, Part: n.Begun, Size: n.Was.Size}
	if !n.Was.Modified.IsZero() {
		p.Modified = n.Was.Modified.UnixNano()
	}
	return p
}

// safe returns how much of the part that got describes may be gone on with as a part of
// what n describes: -1 for all that is there. Within one run of the system that is all.
// Otherwise it is what the cursor says was on the disk. With proof, sizes and times must
// prove it alone.
func (n partNote) safe(got partNote, c *cursor, proof bool) (int64, bool) {
	boot := got.Boot
	got.Boot, n.Begun = n.Boot, got.Begun
	a, err := json.Marshal(n)
	b, err2 := json.Marshal(got)
	timed := !n.Was.Modified.IsZero()
	if err != nil || err2 != nil || !bytes.Equal(a, b) || proof && !timed {
		return 0, false
	}
	if boot == n.Boot && (!proof || boot != "") {
		return -1, true
	}
	done, ok := c.done(n.at())
	return done, ok && timed
}

// openPartial goes on with what an earlier attempt has left of the file called
// name, if that belongs to the source that n describes, or begins anew; see
// partNote.safe.
func openPartial(job *courier.Context, name string, n partNote, c *cursor, proof bool) (*partial, error) {
	if err := job.Files().MkdirAll(path.Dir(filepath.ToSlash(name))); err != nil {
		return nil, err
	}
	root, rel, err := job.Files().Root(name)
	if err != nil {
		return nil, err
	}
	dir, base := filepath.Split(rel)
	p := &partial{job: job, root: root, name: name, rel: rel, part: dir + partName(job, base)}
	if err := p.adopt(name); err != nil {
		return nil, err
	}
	var got partNote
	if text, err := root.ReadFile(p.note()); err == nil {
		_ = json.Unmarshal(text, &got) // what can't be read describes no part
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	safe, ok := n.safe(got, c, proof)
	if p.about = n; ok {
		p.about.Begun = got.Begun
	} else {
		if err := p.remove(); err != nil {
			return nil, err
		}
		if err := p.begin(); err != nil {
			return nil, err
		}
	}
	if p.File, err = root.OpenFile(p.part, os.O_RDWR|os.O_CREATE, p.mode()); err != nil {
		return nil, err
	}
	info, err := p.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > n.Was.Size || info.Size() < safe) {
		err = p.Truncate(0) // whatever it is
	} else if err == nil {
		p.start = info.Size()
	}
	if ok && safe >= 0 && err == nil { // the rest may not have come to the disk
		p.start = min(p.start, safe)
		if err = errors.Join(p.Truncate(p.start), p.Sync()); err == nil {
			err = p.write()
		}
	}
	if err == nil {
		_, err = p.Seek(p.start, io.SeekStart)
	}
	if err != nil {
		p.File.Close()
		return nil, err
	}
	return p, nil
}

// begin notes down that another part begins.
func (p *partial) begin() error {
	p.mu.Lock()
	p.about.Begun = rand.Text()[:8]
	p.mu.Unlock()
	return p.write()
}

// write notes down what the part is a part of.
func (p *partial) write() error {
	text, err := json.Marshal(p.about)
	if err != nil {
		return err
	}
	return note.Replace(p.root, p.note(), p.note()+".new", text)
}

// synced makes durable what is written, and returns how much that is.
func (p *partial) synced() (cursorPart, error) {
	at := p.at()
	info, err := p.Stat()
	if err != nil {
		return at, err
	}
	at.Done = info.Size()
	return at, p.Sync()
}

// at is what a cursor has of the part.
func (p *partial) at() cursorPart {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.about.at()
}

// mode keeps what lies in the workspace from other users of the machine.
func (p *partial) mode() fs.FileMode {
	if at, err := p.job.Files().Path(p.name); err == nil && p.job.Files().StepDir() != "" && !filepath.IsAbs(at) {
		return 0o600
	}
	return 0o666
}

func (p *partial) note() string { return strings.TrimSuffix(p.part, partSuffix) + noteSuffix }

// adopt looks for the part in the directories of earlier attempts, if this one
// has a directory of its own.
func (p *partial) adopt(name string) error {
	dir := p.job.Files().Dir()
	below, ok := strings.CutPrefix(filepath.ToSlash(name), dir+"/")
	if dir == "." || !ok {
		return nil
	}
	if _, err := p.root.Lstat(p.part); err == nil {
		return nil
	}
	for n := p.job.Attempt() - 1; n >= 1; n-- {
		old := &partial{}
		old.part = filepath.Join(filepath.FromSlash(path.Dir(dir)), strconv.Itoa(n), filepath.FromSlash(path.Dir(below)), filepath.Base(p.part))
		if _, err := p.root.Lstat(old.part); err != nil {
			continue
		}
		if err := p.root.Rename(old.note(), p.note()); err != nil {
			return IgnoreMissing(err)
		}
		return p.root.Rename(old.part, p.part)
	}
	return nil
}

// remove removes the part and its note.
func (p *partial) remove() error {
	return errors.Join(IgnoreMissing(p.root.Remove(p.part)), IgnoreMissing(p.root.Remove(p.note())))
}

// restart begins anew, with a part that no cursor knows.
func (p *partial) restart() error {
	p.start = 0
	if err := errors.Join(p.Truncate(0), p.begin()); err != nil {
		return err
	}
	_, err := p.Seek(0, io.SeekStart)
	return err
}

// Commit makes the content durable, renames the file to its final name, and
// reports it.
func (p *partial) Commit() error {
	p.done = true
	if err := errors.Join(p.Sync(), p.File.Close()); err != nil {
		return err
	}
	if err := stepcontext.Of(p.job).SetAside(p.name, path.Join(path.Dir(filepath.ToSlash(p.name)), filepath.Base(p.part))); err != nil {
		return err
	}
	if err := p.root.Rename(p.part, p.rel); err != nil {
		return err
	}
	if err := IgnoreMissing(p.root.Remove(p.note())); err != nil {
		return err
	}
	if err := SyncAbove(p.root, p.rel); err != nil {
		return err
	}
	return p.job.Files().Wrote(p.name)
}

// Close keeps the part for the next attempt, unless it was committed or is empty.
func (p *partial) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	info, err := p.Stat()
	err = errors.Join(err, p.File.Close())
	if err == nil && info.Size() == 0 {
		err = p.remove()
	}
	return err
}

// removeParts removes what resume has kept of the local file called
// name.
func removeParts(job *courier.Context, name string) error {
	root, rel, err := job.Files().Root(name)
	if err != nil {
		return err
	}
	dir, base := filepath.Split(rel)
	p := &partial{root: root, part: dir + partName(job, base)}
	return p.remove()
}

// removeAllParts removes what resume has kept in the directories.
func removeAllParts(job *courier.Context, dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, EachBelow(job, dir, func(root *os.Root, rel string) error {
			name := filepath.Base(rel)
			base, _, ok := strings.Cut(name, SideMark)
			if part := partName(job, base); ok && (name == part || name == strings.TrimSuffix(part, partSuffix)+noteSuffix) {
				return IgnoreMissing(root.Remove(rel))
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}
