package flow

import (
	"cmp"
	"fmt"
	"math"
)

// defaultIterations is the most iterations of a loop, times those of the loops
// around it.
const defaultIterations = 1_000_000

// Limit sets how many iterations a loop may have, multiplied by those of the loops
// around it, if its marker has no max_iterations; 0 means a million. A loop that
// would have more is not entered: the error is an *[EvalError].
func (w *Walk) Limit(iterations int) { w.limit = iterations }

// around is how many iterations the open loops have together.
func (w *Walk) around() int {
	if len(w.loops) == 0 {
		return 1
	}
	return w.loops[len(w.loops)-1].total
}

// open enters a loop.
func (w *Walk) open(b *block, items []any, index int) {
	total := w.around()
	if total > math.MaxInt/len(items) {
		total = math.MaxInt
	} else {
		total *= len(items)
	}
	w.loops = append(w.loops, frame{block: b, items: items, index: index, total: total})
}

// checkIterations returns an error if a loop would have too many iterations.
func (w *Walk) checkIterations(b *block, items int) error {
	limit := cmp.Or(b.iterations, w.limit, defaultIterations)
	around := w.around()
	switch {
	case items <= limit/around:
		return nil
	case len(w.loops) > 0:
		return w.tooMany(b, fmt.Sprintf("has %d items, and the loops around it have %d iterations", items, around), limit)
	}
	return w.tooMany(b, fmt.Sprintf("has %d items", items), limit)
}

func (w *Walk) tooMany(b *block, what string, limit int) error {
	err := fmt.Errorf("%s; a loop may have at most %d iterations, multiplied by those of the loops around it: if more are intended, set max_iterations on the flow.foreach, or MaxIterations in the options of the engine; the loop was not executed", what, limit)
	return &EvalError{Step: b.open, Field: fieldSource, Err: err, typ: TypeForEach}
}
