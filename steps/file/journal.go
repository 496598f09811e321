package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A journal records the effects of a step that cannot be repeated, so that a
// later attempt of the same step can distinguish them from changes by others.
// It is a file of JSON lines that lasts over all attempts of the execution.
// Without a workspace it is kept in memory, as long as the context lives.
type journal struct {
	root  *os.Root
	rel   string // of the file below root
	file  *os.File
	lines []json.RawMessage // as they were when the journal was opened
	kept  *keptJournal      // in place of the file
}

type keptJournal struct{ lines []json.RawMessage }

func (*keptJournal) Close() error { return nil }

// openJournal opens the journal of the step, or an empty one if it does not
// exist. The caller closes it.
func openJournal(ctx context.Context, job *courier.Context, verb string) (*journal, error) {
	dir := stepcontext.Of(job).NoteDir()
	if dir == "" {
		key := fmt.Sprintf("file.%s-%s-%s", verb, job.StepName(), courier.FormatIteration(job.Iteration()))
		kept, err := courier.Keep(ctx, job, key, func(context.Context) (*keptJournal, error) { return &keptJournal{}, nil })
		if err != nil {
			return nil, err
		}
		return &journal{kept: kept, lines: kept.lines}, nil
	}
	root, rel, err := job.Files().Root(dir)
	if err != nil {
		return nil, err
	}
	j := &journal{root: root, rel: filepath.Join(rel, verb+"-journal"+sideMark)}
	b, err := root.ReadFile(j.rel)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil {
		j.lines, err = parseJournal(b)
	}
	if err == nil && len(j.lines) > 0 {
		err = j.replace(j.lines)
	}
	if err != nil {
		return nil, fmt.Errorf("journal of the step, %s in the workspace: %w", filepath.ToSlash(j.rel), err)
	}
	return j, nil
}

// parseJournal returns the lines. It ignores a truncated last line: its effect
// did not take place.
func parseJournal(b []byte) (lines []json.RawMessage, err error) {
	for line := range bytes.Lines(b[:bytes.LastIndexByte(b, '\n')+1]) {
		if !json.Valid(line) {
			return nil, fmt.Errorf("line %d is damaged, so the step can't tell what it has done already; look at the files, then remove the journal", len(lines)+1)
		}
		lines = append(lines, bytes.TrimSuffix(line, []byte("\n")))
	}
	return lines, nil
}

// start overwrites the journal with the given lines. They are on the disk when
// start returns.
func (j *journal) start(all ...any) error {
	var lines []json.RawMessage
	for _, v := range all {
		line, err := json.Marshal(v)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	if j.kept != nil {
		j.kept.lines = lines
		return nil
	}
	return j.replace(lines)
}

// replace puts a new file in the place of the journal's file. An earlier
// attempt that was given up but still runs continues to write to the old file.
func (j *journal) replace(lines []json.RawMessage) error {
	dir := filepath.Dir(j.rel)
	if err := j.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := j.Close(); err != nil {
		return err
	}
	f, err := j.root.OpenFile(j.rel+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, line := range lines {
		b.Write(line)
		b.WriteByte('\n')
	}
	if _, err = f.Write(b.Bytes()); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := j.root.Rename(j.rel+".new", j.rel); err != nil {
		return err
	}
	if err := make(dirSet).sync(j.root, dir); err != nil {
		return err
	}
	j.file, err = j.root.OpenFile(j.rel, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

// add appends a line. It survives the end of the process at once, and a crash
// of the machine if durable is set.
func (j *journal) add(v any, durable bool) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if j.kept != nil {
		j.kept.lines = append(j.kept.lines, line)
		return nil
	}
	if j.file == nil {
		return j.start(v)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if durable {
		return j.file.Sync()
	}
	return nil
}

// Close closes the journal's file. The journal stays.
func (j *journal) Close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}

// A dirSet holds the directories that a step has made durable already.
type dirSet map[string]bool

// sync makes the directory dir below root and its parent directories durable,
// since they may be new.
func (s dirSet) sync(root *os.Root, dir string) error {
	for {
		key := filepath.Join(root.Name(), dir)
		if s[key] {
			return nil
		}
		if err := localfile.SyncDir(root, dir); err != nil {
			return err
		}
		s[key] = true
		if dir == "." || dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// syncDirsOf makes the entries in the directories of places durable.
func syncDirsOf(places []place) error {
	synced := make(dirSet)
	for _, p := range places {
		if err := synced.sync(p.root, p.dir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isNotes reports whether name, in the form of [courier.Files.Path], is the
// directory for the notes of this step, or, for later attempts, of any step, or
// lies in it.
func isNotes(job *courier.Context, name string) bool {
	own := job.Files().StepDir()
	return own != "" && (place{name: own}.holds(name) || place{name: note.Top}.holds(name))
}
