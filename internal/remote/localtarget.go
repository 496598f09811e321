package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// A Target is the local file that a download writes. Attempts of one step note
// down which files they have put there, so that a later attempt doesn't take
// them for files of others. Without a workspace the notes last as long as the
// context.
type Target struct {
	Job      *courier.Context
	Family   string // of the step type, such as "sftp"; part of the notes' names
	Local    string // path as the Context takes it
	IfExists string
}

// A targetNote lists the files that attempts of the step have put at a target,
// or were about to.
type targetNote struct {
	Local string          `json:"local"`
	Files []LocalIdentity `json:"files"`
}

// Skips reports whether the target is to be left as it is: if_exists is "skip",
// and a file is there that no attempt of this step has written. Where if_exists
// is "fail", such a file is an error.
func (t Target) Skips(ctx context.Context) (bool, error) {
	if t.IfExists == transfer.IfExistsOverwrite {
		return false, nil
	}
	skips, _, err := t.look(ctx)
	return skips, err
}

// look is Skips. It also returns the identity of the file at the target, if an
// attempt of this step has written it.
func (t Target) look(ctx context.Context) (skips bool, own []LocalIdentity, err error) {
	root, rel, err := t.Job.Files().Root(t.Local)
	if err != nil {
		return false, nil, err
	}
	info, err := root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	} else if err != nil {
		return false, nil, fmt.Errorf("local file %s: %w", safename.Quote(t.Local), err)
	}
	var n targetNote
	notes, err := t.notes(ctx)
	if err == nil {
		_, err = notes.read(&n)
	}
	if err != nil {
		return false, nil, err
	}
	switch now := Identify(info); {
	case n.Local == t.Local && slices.Contains(n.Files, now):
		return false, []LocalIdentity{now}, nil
	case t.IfExists == transfer.IfExistsSkip:
		return true, nil, nil
	}
	return false, nil, fmt.Errorf("local file: %w", transfer.ErrExists(t.Local))
}

// Commit publishes w at the target. If a file of others has come there since
// Skips has looked, it does what if_exists says about that, and reports whether
// w was skipped; w is not closed then.
func (t Target) Commit(ctx context.Context, w interface {
	Stat() (fs.FileInfo, error)
	Commit() error
}) (skipped bool, err error) {

	if t.IfExists == transfer.IfExistsOverwrite {
		return false, w.Commit()
	}
	skipped, own, err := t.look(ctx)
	if skipped || err != nil {
		return skipped, err
	}
	info, err := w.Stat()
	if err != nil {
		return false, err
	}
	notes, err := t.notes(ctx)
	if err == nil {
		err = notes.write(targetNote{t.Local, append(own, Identify(info))})
	}
	if err != nil {
		return false, err
	}
	return false, w.Commit()
}

// notes opens the notes about the target.
func (t Target) notes(ctx context.Context) (*notebook, error) {
	sum := sha256.Sum256([]byte(t.Local))
	return openNotes(ctx, t.Job, stepcontext.Of(t.Job).NoteDir(), t.Family+"-target-"+hex.EncodeToString(sum[:8]))
}
