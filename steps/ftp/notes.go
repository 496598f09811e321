package ftp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// A note is what a step writes down beside its attempts' directories, so that a
// later attempt can tell its own deeds from those of others. Without a
// workspace there are none.
type note struct {
	job  *courier.Context
	name string // below the workspace; empty if there is no place for it
}

// noteMark is in the names of notes.
const noteMark = ".courier-tmp"

// noteOn returns the note of this step about a subject.
func noteOn(job *courier.Context, subject string) note {
	dir := job.StepDir()
	if dir == "" {
		return note{job: job}
	}
	sum := sha256.Sum256([]byte(subject))
	return note{job, path.Join(dir, "ftp-"+hex.EncodeToString(sum[:8])+noteMark)}
}

// read decodes the note into v and reports whether there is one.
func (n note) read(v any) (bool, error) {
	if n.name == "" {
		return false, nil
	}
	root, rel, err := n.job.Root(n.name)
	if err != nil {
		return false, err
	}
	text, err := root.ReadFile(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(v)
	}
	if err != nil {
		return false, fmt.Errorf("note of the step, %s in the workspace: %w", n.name, err)
	}
	return true, nil
}

// write replaces the note. It is durable when write returns.
func (n note) write(v any) error {
	if n.name == "" {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := n.job.MkdirAll(path.Dir(n.name)); err != nil {
		return err
	}
	root, rel, err := n.job.Root(n.name)
	if err != nil {
		return err
	}
	fresh := rel + ".new"
	f, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(fresh, rel); err != nil {
		return err
	}
	for dir := filepath.Dir(rel); ; dir = filepath.Dir(dir) {
		if err := courier.SyncDir(root, dir); err != nil || dir == "." {
			return err
		}
	}
}

// A proof says of what a partial file is the beginning.
type proof struct {
	Server   string    `json:"server,omitempty"`
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// Boot is the run of the system in which the file was written: what was
	// written but not yet on the disk is lost with it. Empty proves nothing.
	Boot string `json:"boot,omitempty"`
	// Complete is set before the file gets its final name.
	Complete bool `json:"complete,omitempty"`
}

func (p proof) equal(other proof) bool {
	return p.Server == other.Server && p.Path == other.Path && p.Size == other.Size &&
		p.Modified.Equal(other.Modified) && !p.Modified.IsZero()
}

// boot identifies the run of the system; empty where it can't be told.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// partName is the name that a file has until it is complete where attempts go
// on with what others began. It is the same for all attempts of the step.
func partName(job *courier.Context, base string) string {
	return strings.TrimRight(job.SideName(base), "0123456789") + "part"
}
