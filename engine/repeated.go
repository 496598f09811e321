package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
)

// repeated reports whether a step that is about to execute was started before in
// its iteration. In a loop that was started again attempts count on from the
// first pass, so the number alone does not tell: the first pass may not have come
// as far.
func (r *run) repeated(step, n int, cleanup bool) bool {
	if !cleanup || r.handed || r.marks.Base == 0 || n != r.marks.Base+1 {
		return cleanup
	}
	if r.former == nil {
		r.former = make(map[string]bool)
		ctx, cancel := context.WithTimeout(r.lease, maxReading)
		defer cancel()
		err := r.e.eachStep(ctx, &r.x, func(s *courier.StepExecution) {
			if s.Attempt <= r.marks.Base {
				r.former[stepPlace(s.Step, s.Iteration)] = true
			}
		})
		if err != nil {
			r.log.Error("read the steps of a loop that was started again; its steps are told that they are repeated", "error", err)
			r.former = nil
			return true
		}
	}
	return r.former[stepPlace(step, r.walk.Iteration())]
}

// stepPlace is a step in its iteration.
func stepPlace(step int, iteration []int) string {
	return fmt.Sprint(step, iteration)
}
