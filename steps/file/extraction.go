package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
)

// An unzipNote is the first line of the journal. It says that everything is
// unpacked, durable and about to be published.
type unzipNote struct {
	Archive   string         `json:"archive"`          // as configured
	Output    string         `json:"output,omitempty"` // as configured
	Directory string         `json:"directory"`
	Side      string         `json:"side"` // where it is until it is published
	Inode     uint64         `json:"inode,omitempty"`
	Attempt   int            `json:"attempt"` // of the execution
	Files     []archive.File `json:"files"`
	Dirs      []string       `json:"dirs,omitempty"` // those above come first
	// Stale lists the files that an earlier attempt of the execution has
	// published and this archive does not contain.
	Stale []archive.File `json:"stale,omitempty"`
	Own   bool           `json:"own,omitempty"` // the directory is that attempt's
}

// A publishedMark is the second line of the journal.
type publishedMark struct {
	Published bool `json:"published"`
}

// An extraction unpacks one archive of any format.
type extraction struct {
	verb     string // names the journal
	job      *courier.Context
	limits   Limits
	before   func(effect string) // may be nil
	archive  string              // as configured
	output   string              // as configured
	ifExists IfExists
	// open reads from the archive f what is known before unpacking.
	open func(ctx context.Context, name string, f *os.File) (archive.Archive, error)

	journal   *journal
	dst, side place
	note      unzipNote
	former    *unzipNote // of an earlier attempt of the execution, whose directory is there
	published bool
	there     map[string]bool // whether the target has the directory; what roomAlong knows
}

// run is Execute of the step.
func (x *extraction) run(ctx context.Context) (out UnzipOutput, err error) {
	if x.journal, err = openJournal(ctx, x.job, x.verb); err != nil {
		return out, err
	}
	defer x.journal.Close()
	if err := x.read(ctx); err != nil {
		return out, err
	}
	ready, err := x.recognize()
	if err != nil {
		return out, err
	}
	if !ready {
		if err := x.extract(ctx); err != nil {
			return out, err
		}
	}
	if !x.published {
		if err := x.publish(); err != nil {
			return out, err
		}
	}
	if err := errors.Join(x.removeStale(), x.removeSide()); err != nil {
		return out, err
	}
	return x.result()
}

// effect lets tests stop the process here.
func (x *extraction) effect(name string) {
	if x.before != nil {
		x.before(name)
	}
}

// read reads the progress of earlier attempts from the journal, and finds the
// places.
func (x *extraction) read(ctx context.Context) (err error) {
	if len(x.journal.lines) > 0 {
		if err := json.Unmarshal(x.journal.lines[0], &x.note); err != nil {
			return err
		}
	}
	if len(x.journal.lines) == 0 || x.note.Archive != x.archive || x.note.Output != x.output {
		return x.locate()
	}
	if x.note.Own {
		x.ifExists = Overwrite
	}
	for _, line := range x.journal.lines[1:] {
		var mark publishedMark
		if err := json.Unmarshal(line, &mark); err != nil {
			return err
		}
		x.published = x.published || mark.Published
	}
	if x.dst, err = at(x.job, x.note.Directory); err != nil {
		return err
	}
	if x.side, err = at(x.job, x.note.Side); err == nil && x.note.Attempt < x.job.ExecutionAttempt() {
		err = x.renew(ctx)
	}
	return err
}

// renew starts again after an earlier attempt of the execution. The files that
// it has published are replaced. They stay if there is nothing left to replace
// them with.
func (x *extraction) renew(ctx context.Context) error {
	dst, err := x.dst.look()
	if err != nil {
		return err
	}
	ours := dst != nil && dst.IsDir() && x.isPublished(dst)
	if dst != nil && dst.IsDir() && !ours && x.published {
		if ours, err = x.holdsOnlyOurs(ctx); err != nil {
			return err
		}
	}
	if archive, err := at(x.job, x.archive); err != nil {
		return err
	} else if there, err := archive.look(); err != nil {
		return err
	} else if there == nil && (ours || x.published) {
		// A later step may have taken the files away, unless it was the workspace
		// that was emptied.
		kept, err := stepcontext.Of(x.job).Held(x.note.Directory)
		if kept = kept || ours || filepath.IsAbs(x.dst.name); err != nil || kept {
			x.published = true
			return err
		}
	}
	former := x.note
	x.published = false
	if err := x.locate(); err != nil || !ours || x.dst.name != former.Directory {
		return err
	}
	x.former, x.ifExists = &former, Overwrite
	return nil
}

// locate finds the places for a first attempt: the destination directory, and
// the directory into which this attempt unpacks. The latter is beside the
// destination, or inside it if the destination itself is an allowed directory.
func (x *extraction) locate() (err error) {
	x.note = unzipNote{}
	name := x.output
	if name == "" {
		name = path.Join(x.job.Files().Dir(), "unzipped")
	}
	if x.dst, err = at(x.job, name); err != nil {
		return err
	}
	dir, base := sideOf(x.dst)
	x.side, err = at(x.job, filepath.Join(dir, stepcontext.Of(x.job).SideName(base)))
	return err
}

// sideOf returns the directory that holds the side directories of dst, and the
// common beginning of their names.
func sideOf(dst place) (dir, base string) {
	if dst.rel == "." {
		return dst.name, "unzipped"
	}
	return filepath.Dir(dst.name), dst.base()
}

// recognize determines whether the archive is already unpacked, and whether an
// earlier attempt published it but could not record that.
func (x *extraction) recognize() (ready bool, err error) {
	if x.note.Directory == "" {
		return false, nil
	}
	if x.published {
		return true, nil
	}
	side, err := x.side.look()
	if err != nil {
		return false, err
	}
	if side != nil {
		return true, nil
	}
	dst, err := x.dst.look()
	if err != nil {
		return false, err
	}
	if dst != nil && x.isPublished(dst) {
		x.published = true
		return true, make(dirSet).sync(x.dst.root, x.dst.dir())
	}
	// Somebody removed it. There is nothing to go on with.
	return false, x.locate()
}

// isPublished reports whether dst describes the directory that was unpacked.
func (x *extraction) isPublished(dst fs.FileInfo) bool {
	if x.note.Inode != 0 {
		return localfile.Inode(dst) == x.note.Inode
	}
	for _, f := range x.note.Files {
		p, err := x.dst.in(x.job, f.Name)
		if err != nil {
			return false
		}
		if info, err := p.look(); err != nil || info == nil || info.Size() != f.Size {
			return false
		}
	}
	return true
}

// holdsOnlyOurs reports whether the directory, which existed before and was
// empty, holds only published files.
func (x *extraction) holdsOnlyOurs(ctx context.Context) (bool, error) {
	known := make(map[string]bool)
	for _, f := range x.note.Files {
		known[f.Name] = true
	}
	for _, dir := range x.note.Dirs {
		known[dir] = true
	}
	only := true
	err := walk(ctx, x.job, x.dst, -1, func(below string, _ fs.FileMode) error {
		only = only && known[below]
		return nil
	})
	return only, err
}

// removeStale removes the files that an earlier attempt of the execution has
// published and this attempt has not.
func (x *extraction) removeStale() error {
	for _, f := range x.note.Stale {
		p, err := x.dst.in(x.job, f.Name)
		if err != nil {
			return err
		}
		if info, err := p.look(); err != nil {
			return err
		} else if info == nil || !info.Mode().IsRegular() || info.Size() != f.Size {
			continue
		}
		if err := p.root.Remove(p.rel); err != nil {
			return localfile.Error(p.name, err)
		}
	}
	return nil
}

// result reports the files that exist and returns the output. Other programs
// may have taken some files already.
func (x *extraction) result() (UnzipOutput, error) {
	out := UnzipOutput{ExtractedDirectory: x.dst.name, ExtractedFiles: []string{}, FileCount: len(x.note.Files)}
	for _, f := range x.note.Files {
		p, err := x.dst.in(x.job, f.Name)
		if err != nil {
			return out, err
		}
		if info, err := p.look(); err == nil && info != nil && info.Size() == f.Size {
			if err := x.job.Files().Wrote(p.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return out, localfile.Error(p.name, err)
			}
		}
		out.ExtractedFiles = append(out.ExtractedFiles, p.name)
		out.Size += f.Size
	}
	return out, nil
}

// validate checks the paths.
func (x *extraction) validate() error {
	if err := checkPath(x.job, "archive_path", x.archive, false); err != nil {
		return err
	}
	if x.output == "" {
		return nil
	}
	return checkTarget(x.job, "output_directory", x.output)
}

// cleanup is Cleanup of the step.
func (x *extraction) cleanup(ctx context.Context) (err error) {
	if x.journal, err = openJournal(ctx, x.job, x.verb); err != nil {
		return err
	}
	defer x.journal.Close()
	if err := x.read(ctx); err != nil {
		return err
	}
	keep := ""
	if x.note.Directory != "" && !x.published && !x.job.Cancelled() {
		keep = x.side.base()
	}
	return x.sweep(keep)
}

// sweep removes the side directories of this step's attempts, except keep.
func (x *extraction) sweep(keep string) error {
	if err := removeEarlier(x.job, keep); err != nil {
		return err
	}
	own := stepcontext.Of(x.job)
	dir, base := sideOf(x.dst)
	return removeMarked(x.job, dir, func(name string) bool { return name != keep && own.IsSideName(base, name) })
}

// removeEarlier removes unfinished files from the directories of earlier
// attempts, except those called keep. Finished files stay.
func removeEarlier(job *courier.Context, keep string) error {
	if job.Files().StepDir() == "" {
		return nil
	}
	for n := 1; n < job.Attempt(); n++ {
		dir := path.Join(job.Files().StepDir(), strconv.Itoa(n))
		err := removeMarked(job, dir, func(name string) bool { return name != keep && strings.Contains(name, sideMark) })
		if err != nil {
			return err
		}
	}
	return nil
}

// removeMarked removes the files and directories in dir, which need not exist,
// whose names are marked.
func removeMarked(job *courier.Context, dir string, marked func(name string) bool) error {
	p, err := at(job, dir)
	if err != nil {
		return err
	}
	d, err := p.openDir()
	if localfile.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return localfile.Error(p.name, err)
	}
	for _, name := range names {
		if !marked(name) {
			continue
		}
		if err := p.root.RemoveAll(filepath.Join(p.rel, name)); err != nil {
			return localfile.Error(filepath.Join(p.name, name), err)
		}
	}
	return nil
}
