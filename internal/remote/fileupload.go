package remote

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// A fileUpload is the upload of one file.
type fileUpload struct {
	*uploading
	file *LocalFile

	src   *os.File
	meter *Meter
	side  string      // remote path until the file is complete
	part  *uploadPart // of resume; nil without
}

func (p *fileUpload) run(ctx context.Context, s Server) error {
	src, err := p.cfg.sources().Open(p.Job, p.file.Local)
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	defer src.Close()
	before, err := src.Stat()
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	p.src, p.file.Size, p.file.Was = src, before.Size(), Identify(before)
	ctx, guard := s.Traits().Limits.Slowed(p.cfg.BandwidthLimit).Guard(ctx)
	defer guard.End()
	p.meter = &Meter{Job: p.Job, Item: p.file.Final, Total: p.file.Size, Guard: guard}
	dir, name := Split(p.file.Final)
	p.side = Join(dir, stepcontext.Of(p.Job).SideName(name))
	if done, err := p.consult(ctx, s, before); done || err != nil {
		return s.Fault("upload", p.file.Final, err)
	}
	if p.cfg.Resume && p.Job.Files().StepDir() != "" {
		if p.part, err = p.openPart(ctx, s); err != nil {
			return s.Fault("upload", p.file.Final, err)
		}
		p.side = p.part.note.Part
	}
	err = p.complete(ctx, s, before)
	if p.part != nil && err != nil && isWorthKeeping(err) {
		err = errors.Join(err, p.part.keep())
	} else if err == nil && p.part != nil && !p.file.Skipped {
		p.cursor.set(p.part.at(), true)
	} else if err != nil || p.file.Skipped {
		err = errors.Join(err, p.part.forget())
		p.discard(ctx, s)
	}
	if err != nil {
		return s.Fault("upload", p.file.Final, err)
	}
	p.meter.Finish()
	return nil
}

// complete writes the side file, checks it, and gives it its final name.
func (p *fileUpload) complete(ctx context.Context, s Server, before fs.FileInfo) error {
	p.meter.Stage("transfer")
	err := p.write(ctx, s)
	if err == nil {
		err = Unchanged(p.src, before)
	}
	if err == nil && p.cfg.Checksum == ChecksumReadBack {
		p.meter.Stage("verify")
		err = p.readBack(ctx, s)
	}
	if err == nil {
		err = p.preserve(ctx, s, before)
	}
	if err != nil {
		return err
	}
	p.meter.Stage("rename")
	r := renaming{account: p.Account, from: p.side, to: p.file.Final, size: p.file.Size, ifExists: p.cfg.IfExists, what: "the complete file"}
	err = r.run(ctx, s)
	p.file.Skipped = r.skipped
	return err
}

// smallest is up to how many bytes a file that replaces another is sent without a
// look at that: what can't be replaced shows when it is renamed.
const smallest = 32 << 10

// consult looks at what has the final name, and decides whether there is
// nothing to do.
func (p *fileUpload) consult(ctx context.Context, s Server, local fs.FileInfo) (done bool, err error) {
	overwrite := p.cfg.IfExists == transfer.IfExistsOverwrite
	if overwrite && !p.cfg.SkipIfSame && s.Traits().Replaces && p.file.Size <= smallest {
		return false, nil
	}
	there, err := s.Stat(ctx, p.file.Final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission) && overwrite:
		return false, nil // perhaps files may only be written here
	case err != nil:
		return false, err
	case there.IsDir():
		return false, courier.Permanent(errors.New("is a directory"))
	case p.cfg.SkipIfSame && there.MayBeFile() && there.Size == local.Size() &&
		!there.Modified.IsZero() && there.Modified.Unix() == local.ModTime().Unix():
		return true, nil
	case overwrite:
		return false, nil
	}
	if p.Job.Repeated() {
		// An earlier start may have finished without anybody getting to know.
		// Nothing but the content tells.
		if same, err := p.sameContent(ctx, s, p.file.Final, there); same || err != nil {
			return same, err
		}
	}
	if p.cfg.IfExists == transfer.IfExistsSkip {
		p.file.Skipped = true
		return true, nil
	}
	return false, transfer.ErrExists("")
}

// sameContent reports whether a remote file has the content of the local one.
func (p *fileUpload) sameContent(ctx context.Context, s Server, path string, there Info) (bool, error) {
	if !there.MayBeFile() || there.Size >= 0 && there.Size != p.file.Size {
		return false, nil
	}
	return s.Same(ctx, path, p.src, p.file.Size, p.meter.Compared)
}

// write writes the side file, and makes sure that the server has all of it. It begins
// anew, once, if the server refuses to go on with what an earlier attempt left, or if that
// leads to something else, because the server was still writing it.
func (p *fileUpload) write(ctx context.Context, s Server) error {
	w := Storing{Path: p.side, Content: p.src, Size: p.file.Size, Limit: p.limit, Meter: p.meter}
	if p.part == nil {
		_, err := s.Store(ctx, w)
		return err
	}
	var err error
	if w.From, err = s.ResumeAt(ctx, w, p.part.note.Acked); err != nil {
		return err
	}
	acked, err := p.store(ctx, s, w)
	if w.From > 0 && (errors.Is(err, ErrOtherContent) || errors.Is(err, ErrNoResume)) {
		p.Job.Log().Warn("an interrupted upload can't be resumed; all of the file is uploaded again", "connection", p.ID, "file", p.file.Final, "uploaded", w.From, "reason", err.Error())
		if err := removeGone(ctx, s, p.side); err != nil {
			return err
		}
		if err := p.part.again(); err != nil {
			return err
		}
		w.Path, w.From, p.side = p.part.note.Part, 0, p.part.note.Part
		acked, err = p.store(ctx, s, w)
	}
	p.part.reached(acked)
	return err
}

// store stores a part, and saves in the cursor how much of it the server has confirmed, if
// it confirms anything before the end.
func (p *fileUpload) store(ctx context.Context, s Server, w Storing) (acked int64, err error) {
	at, confirms := p.part.at(), s.Traits().ComparesEnd
	p.meter.From(w.From)
	end := p.cursor.follow(w.Size, func() (cursorPart, error) {
		now := at
		if confirms {
			now.Done = p.meter.moved.Load()
		}
		return now, nil
	})
	acked, err = s.Store(ctx, w)
	end(err)
	return acked, err
}

// readBack compares what the server has with what was sent.
func (p *fileUpload) readBack(ctx context.Context, s Server) error {
	there, err := s.Stat(ctx, p.side)
	if err != nil {
		return err
	}
	same, err := p.sameContent(ctx, s, p.side, there)
	if err == nil && !same {
		err = fmt.Errorf("the server has other content than was sent, although it confirmed all of it: %w", ErrOtherContent)
	}
	return err
}

// preserve gives the side file the time and the mode of the local one. A server
// that refuses has its way.
func (p *fileUpload) preserve(ctx context.Context, s Server, local fs.FileInfo) error {
	if !Times(p.cfg.Preserve) && !Modes(p.cfg.Preserve) {
		return nil
	}
	err := s.Preserve(ctx, p.side, local, Times(p.cfg.Preserve), Modes(p.cfg.Preserve))
	if err != nil && s.Refused(err) {
		p.Job.Log().Warn("the server doesn't set times or modes of a file", "connection", p.ID, "file", p.file.Final, "reason", err.Error())
		return nil
	}
	return err
}

// tidyTimeout is how long removing a side file may take after the end of a step.
const tidyTimeout = 5 * time.Second

// discard removes the side file where that is still possible. Otherwise the clean-up
// will.
func (p *fileUpload) discard(ctx context.Context, s Server) {
	if s.Cause() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	s.Remove(ctx, p.side)
}

// An uploadPart is what an interrupted upload of one file has left on the
// server, for a later attempt to go on with.
type uploadPart struct {
	job   *courier.Context
	notes *notebook
	note  uploadPartNote
}

// name names the part after the source.
func (u *uploadPart) name() {
	dir, name := Split(u.note.Final)
	id := fmt.Appendf(nil, "%d %d", u.note.Was.Size, u.note.Was.Modified)
	if u.note.Again > 0 {
		id = fmt.Appendf(id, " %d", u.note.Again)
	}
	part := strings.TrimSuffix(partName(u.job, name), partSuffix)
	u.note.Part = Join(dir, fmt.Sprintf("%s.%07x%s", part, crc32.ChecksumIEEE(id)>>4, partSuffix))
}

// again begins another part, of which no cursor that was saved before says anything.
func (u *uploadPart) again() error {
	u.note.Again, u.note.Acked = u.note.Again+1, 0
	u.name()
	return u.notes.write(u.note)
}

// at is what a cursor has of the part, but for how much the server has confirmed.
func (u *uploadPart) at() cursorPart {
	n := u.note
	return cursorPart{Server: n.Server, Remote: n.Final, Part: n.Part, Size: n.Was.Size, Modified: n.Was.Modified}
}

// An uploadPartNote is noted down before the part is made.
type uploadPartNote struct {
	Server string        `json:"server"` // "host:port"
	Final  string        `json:"final"`
	Part   string        `json:"part"` // remote path
	Was    LocalIdentity `json:"was"`  // of the source; zero if the part is of no use
	Acked  int64         `json:"acked"`
	Again  int           `json:"again,omitempty"` // how often it was thrown away; each one has another name
}

const partNotes = "part-"

// openPart reads what is noted down of the file. A part of another source is
// removed.
func (p *fileUpload) openPart(ctx context.Context, s Server) (*uploadPart, error) {
	notes, err := p.notes(ctx, fmt.Sprintf("%s%08x", partNotes, crc32.ChecksumIEEE([]byte(p.file.Final))))
	if err != nil {
		return nil, err
	}
	u := &uploadPart{job: p.Job, notes: notes}
	found, err := notes.read(&u.note)
	if err != nil {
		return nil, err
	}
	if found && u.note.Server == s.Traits().Addr && u.note.Final == p.file.Final && u.note.Was == p.file.Was {
		if done, ok := p.cursor.done(u.at()); ok {
			u.note.Acked = max(u.note.Acked, done)
		}
		return u, nil
	}
	if found && u.note.Part != "" {
		if err := s.Remove(ctx, u.note.Part); err != nil && !s.Refused(err) {
			return nil, err
		}
	}
	u.note = uploadPartNote{Server: s.Traits().Addr, Final: p.file.Final, Was: p.file.Was}
	u.name()
	if done, ok := p.cursor.done(u.at()); ok && !found { // of a worker with another workspace
		u.note.Acked = done
		return u, notes.write(u.note)
	}
	if err := s.Remove(ctx, u.note.Part); err != nil && !s.Refused(err) {
		return nil, err
	}
	return u, notes.write(u.note)
}

// reached says how much of the file the server has confirmed.
func (u *uploadPart) reached(acked int64) {
	if u != nil {
		u.note.Acked = acked
	}
}

// keep notes down how far the part has got.
func (u *uploadPart) keep() error { return u.notes.write(u.note) }

// forget notes down that the part is of no use.
func (u *uploadPart) forget() error {
	if u == nil {
		return nil
	}
	u.note.Was = LocalIdentity{Size: -1, Modified: -1}
	return u.notes.write(u.note)
}

// isWorthKeeping reports whether what is on the server may be gone on with
// after err.
func isWorthKeeping(err error) bool {
	return !courier.IsPermanent(err) && !errors.Is(err, connerr.ErrChanged) && !errors.Is(err, ErrOtherContent)
}
