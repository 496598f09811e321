package ftp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
)

// A slip is a note about one subject that a step leaves for its later attempts,
// so that they can tell their own deeds from those of others. Without a
// workspace there are none.
type slip struct {
	job       *courier.Context
	dir, name string
}

// noteOn returns the note of this step about a subject.
func noteOn(job *courier.Context, subject string) slip {
	sum := sha256.Sum256([]byte(subject))
	return slip{job, job.StepDir(), "ftp-" + hex.EncodeToString(sum[:8])}
}

// lastingNote returns the note of this step about a subject that later attempts
// of the execution see too.
func lastingNote(job *courier.Context, subject string) slip {
	n := noteOn(job, subject)
	n.dir = job.NoteDir()
	return n
}

// read decodes the note into v and reports whether there is one.
func (n slip) read(v any) (bool, error) { return note.ReadIn(n.job, n.dir, n.name, v) }

// write replaces the note. It is durable when write returns.
func (n slip) write(v any) error {
	if err := note.WriteIn(n.job, n.dir, n.name, v); !errors.Is(err, note.ErrNoPlace) {
		return err
	}
	return nil
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

// partName is the name that a file has until it is complete where attempts go
// on with what others began. It is the same for all attempts of the step.
func partName(job *courier.Context, base string) string {
	return strings.TrimRight(job.SideName(base), "0123456789") + "part"
}
