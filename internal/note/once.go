package note

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier"
)

// Once is what a step notes down that must not be executed twice: that it was
// begun, and then its output, which is an O.
type Once[O any] struct {
	Job *courier.Context
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
	begun, err = Read(o.Job, onceName, &n)
	return n.Output, begun, err
}

// Begin notes down that the step is about to act. Where there is no place for
// that the error is permanent, and the step must not act.
func (o Once[O]) Begin() error {
	err := Write(o.Job, onceName, onceNote[O]{})
	if errors.Is(err, ErrNoPlace) {
		return courier.Permanent(fmt.Errorf("once: %w", err))
	}
	return err
}

// Complete notes the output down.
func (o Once[O]) Complete(out O) error { return Write(o.Job, onceName, onceNote[O]{&out}) }

// Forget removes the note of a step that has not acted, which may be executed
// again.
func (o Once[O]) Forget() error { return Remove(o.Job, onceName) }
