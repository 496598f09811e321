package note

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/inside"
)

// Once is what a step notes down that must not be executed twice in an execution,
// also if the job is begun again: that it was begun, and then its output, which is
// an O.
type Once[O any] struct {
	Job inside.Context // of the step
}

// onceNote has no output as long as the attempt that wrote it has not completed.
type onceNote[O any] struct {
	Output *O `json:"output,omitempty"`
}

const onceName = "once"

// Earlier returns the output of an attempt that completed, or nil, and reports
// whether any was begun.
func (o Once[O]) Earlier() (out *O, begun bool, err error) {
	var n onceNote[O]
	begun, err = ReadIn(o.Job, o.Job.NoteDir(), onceName, &n)
	return n.Output, begun, err
}

// Begin notes down that the step is about to act. Where there is no place for
// that the error is permanent, and the step must not act.
func (o Once[O]) Begin() error {
	err := WriteIn(o.Job, o.Job.NoteDir(), onceName, onceNote[O]{})
	if errors.Is(err, ErrNoPlace) {
		return failure.Permanent(fmt.Errorf("once: %w", err))
	}
	return err
}

// Complete notes the output down, and keeps the files that belong to it.
func (o Once[O]) Complete(out O) error {
	if err := o.Job.HoldAll(); err != nil {
		return err
	}
	return WriteIn(o.Job, o.Job.NoteDir(), onceName, onceNote[O]{&out})
}

// Forget removes the note of a step that has not acted, which may be executed
// again.
func (o Once[O]) Forget() error { return RemoveIn(o.Job, o.Job.NoteDir(), onceName) }
