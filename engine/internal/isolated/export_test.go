package isolated

import "time"

// SetGoneAfter sets how long a child may take to answer, and returns what undoes that.
func SetGoneAfter(d time.Duration) (undo func()) {
	was := goneAfter
	goneAfter = d
	return func() { goneAfter = was }
}

// Marker is the first argument of a child.
const Marker = marker
