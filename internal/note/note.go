// Package note keeps what an attempt has to tell later ones, in the workspace and as
// long as it lasts. A note of a step is a JSON text under a name beside the attempts'
// directories, or where all attempts of the execution find it; it is on the disk when
// Write returns. What the execution itself keeps about files that outlast a new attempt
// of it is in files of lines of JSON below [Top].
package note

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/inside"
	"github.com/courierhq/courier/internal/localfile"
)

// suffix is in the names of notes, so that patterns do not find them.
const suffix = "-note.courier-tmp"

// ErrNoPlace is the error of a note where there is no workspace.
var ErrNoPlace = errors.New("without a workspace nothing can be saved for later attempts")

// Read reads the note called name into v. It reports false if there is none,
// or no workspace.
func Read(job inside.Context, name string, v any) (bool, error) {
	return ReadIn(job, job.StepDir(), name, v)
}

// ReadIn is Read for a note in the directory dir, such as NoteDir of the job.
func ReadIn(job inside.Context, dir, name string, v any) (bool, error) {
	root, rel, err := place(job, dir, name)
	if errors.Is(err, ErrNoPlace) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text, err := root.ReadFile(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(v)
	}
	if err != nil {
		return false, fmt.Errorf("note of an earlier attempt, %s in the workspace: %w", filepath.ToSlash(rel), err)
	}
	return true, nil
}

// Write replaces the note called name by v.
func Write(job inside.Context, name string, v any) error {
	return WriteIn(job, job.StepDir(), name, v)
}

// WriteIn is Write for a note in the directory dir.
func WriteIn(job inside.Context, dir, name string, v any) error {
	root, rel, err := place(job, dir, name)
	if err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = Replace(root, rel, rel+".new"+strconv.Itoa(job.Attempt()), text)
	}
	if err != nil {
		return fmt.Errorf("note for later attempts, %s in the workspace: %w", filepath.ToSlash(rel), err)
	}
	return nil
}

// Replace writes the file rel below root, with the directory above it, so that it
// has either its old content or the new one, and makes it durable. Side is what the
// file is called meanwhile.
func Replace(root *os.Root, rel, side string, text []byte) error {
	dir := filepath.Dir(rel)
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(side, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(side, rel); err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		if err := localfile.SyncDir(root, dir); err != nil || dir == "." || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// Remove removes the note called name. That there is none is no error.
func Remove(job inside.Context, name string) error {
	return RemoveIn(job, job.StepDir(), name)
}

// RemoveIn is Remove for a note in the directory dir.
func RemoveIn(job inside.Context, dir, name string) error {
	root, rel, err := place(job, dir, name)
	if errors.Is(err, ErrNoPlace) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place is where the note called name is.
func place(job inside.Context, dir, name string) (*os.Root, string, error) {
	if dir == "" {
		return nil, "", ErrNoPlace
	}
	return job.Root(dir + "/" + name + suffix)
}

// Each calls f with the text of each note in the directory dir whose name begins
// with prefix.
func Each(job inside.Context, dir, prefix string, f func(text []byte) error) error {
	if dir == "" {
		return nil
	}
	root, rel, err := job.Root(dir)
	if err != nil {
		return err
	}
	d, err := root.Open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	errs := []error{err}
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) {
			continue
		}
		text, err := root.ReadFile(filepath.Join(rel, name))
		if err == nil {
			err = f(text)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
